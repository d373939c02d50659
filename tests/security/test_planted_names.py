"""No file gets anything imported or called: each kind of file, each place in it that may name code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from planted import CALLED

import imitate
from imitate.cli import main
from imitate.compare.plan.suite import Suite
from imitate.datasets import DemoInfo, DemoWriter, Trajectory
from imitate.envs.make import make_env, resolve_env_id
from imitate.experts import load_expert
from imitate.toml import as_toml
from imitate.training.experiment import Experiment

EXPERTS = ("planted:make_expert", "builtins:breakpoint", "os:getcwd")
LEARNERS = ("planted:Learner", "builtins:object")
ENVS = ("planted:Planted-v0", "builtins:Planted-v0", "os:abort")
COMPARISON = {"env_id": "CartPole-v1", "algorithms": ["dagger"], "expert": "CartPole-v1", "budget": 500}


@pytest.fixture(autouse=True)
def nothing_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.breakpoint", lambda: CALLED.append("breakpoint"))
    monkeypatch.setattr("os.getcwd", lambda here=str(tmp_path): here)
    CALLED.clear()
    yield
    assert CALLED == []


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> None:
    assert main(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "a file may not choose what is imported or called: if you trust it, say " in said


def toml(data: Mapping[str, Any]) -> tuple[str, ...]:
    Path("planted.toml").write_text(as_toml(data), "utf-8")
    return "compare", "planted.toml", "--out", "out"


def folder(data: Mapping[str, Any]) -> tuple[str, ...]:
    Path("out").mkdir()
    Path("out/comparison.json").write_text(json.dumps({"env_kwargs": {}} | data), "utf-8")
    return "compare", "--out", "out"


def suite(data: Mapping[str, Any]) -> tuple[str, ...]:
    Path("out").mkdir()
    Path("out/suite.json").write_text(
        json.dumps({"name": "s", "parts": {"CartPole-v1": data}}), encoding="utf-8"
    )
    return "compare", "--out", "out"


def suite_file(data: Mapping[str, Any]) -> tuple[str, ...]:
    each = {"env_id": data["env_id"], "experts": [data["expert"]]}
    return toml({"algorithms": data["algorithms"], "budget": 500, "environments": [each]})


COMPARISONS = (toml, folder, suite, suite_file)


@pytest.mark.parametrize("door", COMPARISONS)
@pytest.mark.parametrize(
    "planted",
    [
        *({"expert": name} for name in EXPERTS),
        *({"algorithms": [name]} for name in LEARNERS),
        *({"env_id": name} for name in ENVS),
    ],
    ids=lambda planted: str(*planted.values()),
)
def test_a_comparison(
    door: Callable[[Mapping[str, Any]], tuple[str, ...]],
    planted: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused(capsys, *door(COMPARISON | planted))


def run_folder(**planted: Any) -> None:
    """A run as `imitate train` leaves it, with other values in its config.json."""
    run = {"algorithm": "dagger", "env_id": "CartPole-v1", "hyperparameters": {}, "expert": "CartPole-v1"}
    Path("run").mkdir()
    Path("run/config.json").write_text(json.dumps(run | planted), "utf-8")


@pytest.mark.parametrize("command", ["--config run/config.json --out o", "--resume run"])
@pytest.mark.parametrize(
    "planted",
    [
        *({"expert": name} for name in EXPERTS),
        *({"other_experts": [name]} for name in EXPERTS[:1]),
        *({"algorithm": name} for name in LEARNERS),
        *({"env_id": name} for name in ENVS),
    ],
    ids=lambda planted: str(*planted.values()),
)
def test_a_run(command: str, planted: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(**planted)
    refused(capsys, "train", *command.split())


@pytest.mark.parametrize("env_id", ENVS)
def test_a_run_as_an_expert_and_as_what_is_measured(env_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    policy = Experiment.create("ppo", "CartPole-v1", budget=64, num_envs=1, hyperparameters={"num_steps": 32})
    imitate.execute(policy, "run")
    config = json.loads(Path("run/config.json").read_text("utf-8"))
    Path("run/config.json").write_text(json.dumps(config | {"env_id": env_id}), "utf-8")
    refused(capsys, "evaluate", "run", "--episodes", "1")
    assert not load_expert("run").runnable


@pytest.mark.parametrize("env_id", ENVS)
def test_demonstrations(env_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    spaces = gym.spaces.Box(-1, 1, (4,), np.float32), gym.spaces.Discrete(2)
    with DemoWriter("demos.h5", DemoInfo("CartPole-v1", *spaces, expert="planted:make_expert")) as writer:
        writer.append(Trajectory(np.zeros((3, 4), np.float32), np.zeros(2, int), np.ones(2), True, False))
    with h5py.File("demos.h5", "r+") as file:
        file.attrs["env_id"] = env_id
        file.attrs["env_kwargs"] = json.dumps({"entry_point": "planted:make_expert"})
        file.attrs["command"] = "planted:make_expert"
    assert main(["data", "info", "demos.h5"]) == 0
    refused(capsys, "data", "replay", "demos.h5")
    refused(capsys, "data", "video", "demos.h5", "--out", "film.mp4")
    assert main(["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--out", "o"]) == 2


def test_keywords_import_no_environment_of_the_old_gym(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Shimmy registers these ids, whose keyword is given to `gym.make` of the old gym."""
    made = gym.envs.registration.EnvSpec(
        "GymV26Environment-v0", entry_point=lambda env_id: CALLED.append(env_id)
    )
    monkeypatch.setitem(gym.registry, made.id, made)
    run_folder(algorithm="ppo", expert=None, env_id=made.id, env_kwargs={"env_id": "planted:Planted-v0"})
    assert main(["train", "--config", "run/config.json", "--out", "o"]) == 2
    assert "imports the module that its keywords name" in capsys.readouterr().err


def test_settings_are_values(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"hyperparameters": {"dagger": {"activation": "planted:make_expert"}}}
    keywords = {"env_kwargs": {"entry_point": "planted:make_expert"}}
    for planted in (settings, keywords):
        assert main(toml(COMPARISON | planted)) == 2
        assert "Traceback" not in capsys.readouterr().err


def test_trust_is_in_the_whole_name(tmp_path: Path) -> None:
    """The user typed one name of a module; a file may not choose another. The module is of this test alone, since what
    a process trusts it trusts to its end."""
    (tmp_path / "typed_here.py").write_text(
        "from planted import CALLED\n"
        "def make_expert():\n"
        "    CALLED.append('typed_here')\n"
        "    return lambda obs: (obs[:, 2] > 0).astype(int)\n"
    )
    imitate.trust("typed_here:another")
    with pytest.raises(imitate.InputError, match="--expert typed_here:make_expert"):
        load_expert("typed_here:make_expert", env_id="CartPole-v1")
    imitate.trust("typed_here:make_expert")
    load_expert("typed_here:make_expert", env_id="CartPole-v1")
    assert CALLED == ["typed_here"]
    CALLED.clear()


def test_an_environment_that_is_registered_needs_no_import() -> None:
    """So `import my_envs` is enough in Python. Naming another module beside it gets nothing imported."""
    gym.register("Planted-v1", "gymnasium.envs.classic_control:CartPoleEnv")
    assert resolve_env_id("planted:Planted-v1") == "planted:Planted-v1"
    make_env("planted:Planted-v1").close()
    before = set(sys.modules)
    with pytest.raises(imitate.InputError, match="may not choose"):
        resolve_env_id("this:Planted-v1")
    assert set(sys.modules) == before
    assert Suite.from_toml("s", {"algorithms": ["ppo"], "environments": [{"env_id": "planted:Planted-v1"}]})
