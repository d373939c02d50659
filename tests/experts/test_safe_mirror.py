"""`imitate expert convert`: folders of safetensors and JSON that do what the zips do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from numpy.testing import assert_array_equal
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from zoo_entries import CARTPOLE, zoo_entry

from imitate.cli import main
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import random_observations
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.convert import convert
from imitate.experts.expert import Expert
from imitate.experts.sources import zoo_entries

PENDULUM = "Pendulum-v1"


def small() -> dict[str, Any]:
    return {"policy_kwargs": {"net_arch": [16]}, "device": "cpu", "seed": 0}


@pytest.fixture(scope="module")
def made_zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Agents with V, twin critics under VecNormalize, and quantiles; and a file that is no agent."""
    folder = tmp_path_factory.mktemp("zoo")
    zoo_entry(folder / "ppo", sb3.PPO("MlpPolicy", CARTPOLE, **small()), f"{CARTPOLE}_1", CARTPOLE)
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(PENDULUM)]))
    venv.reset()
    venv.obs_rms.mean[:], venv.ret_rms.var = [0.5, -0.5, 2.0], np.float64(9.0)
    model = sb3.SAC("MlpPolicy", venv, buffer_size=1, gamma=0.9, **small())
    path = zoo_entry(folder / "sac", model, f"{PENDULUM}_1", PENDULUM, "  - - normalize\n    - true\n")
    venv.save(str(path.parent / PENDULUM / "vecnormalize.pkl"))
    quantiles = sb3_contrib.QRDQN("MlpPolicy", CARTPOLE, buffer_size=1, **small())
    zoo_entry(folder / "qrdqn", quantiles, f"{CARTPOLE}_1", CARTPOLE)
    (folder / "a2c" / f"{CARTPOLE}_1").mkdir(parents=True)
    (folder / "a2c" / f"{CARTPOLE}_1" / f"{CARTPOLE}.zip").write_bytes(b"damaged")
    (folder / "LICENSE").write_text("of the zoo")
    return folder


def same(a: Expert, b: Expert) -> None:
    """Both do the same for 1,000 observations, at once and one by one."""
    for name in ("env_id", "env_kwargs", "algorithm", "gamma", "published_return", "normalisation_sha256",
                 "observation_space", "action_space", "runnable"):  # fmt: skip
        assert getattr(a, name) == getattr(b, name), name
    obs = random_observations(a.observation_space, 1_000, np.random.default_rng(1))
    actions = a.act(obs)
    assert len(np.unique(actions)) > 1
    assert_array_equal(b.act(obs), actions)
    assert_array_equal([b.act(one) for one in obs[:20]], [a.act(one) for one in obs[:20]])
    rows = torch.from_numpy(obs)
    assert (a.oracle is None, a.has_value) == (b.oracle is None, b.has_value)
    if a.oracle is not None and b.oracle is not None:
        assert (a.oracle.reward_scale, a.oracle.greedy) == (b.oracle.reward_scale, b.oracle.greedy)
        values = [each.heads(rows, torch.from_numpy(actions)).detach() for each in (a.oracle, b.oracle)]
        assert torch.equal(*values)
    if a.has_value:
        assert torch.equal(a.value(rows), b.value(rows))


def test_the_mirror_of_a_zoo(
    made_zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror = tmp_path / "mirror"
    command = ["expert", "convert", "--all", str(made_zoo), str(mirror)]
    assert main(command) == 2
    said, summary = capsys.readouterr()
    assert "a2c/CartPole-v1_1: " in said
    assert "is not a readable SB3 archive" in said
    assert "3 agents" in summary
    assert "1 can't be converted" in summary
    names = {path.name for path in mirror.rglob("*") if path.is_file()}
    assert names == {"expert.json", "policy.safetensors", "LICENSE"}
    before = {path: path.stat().st_mtime_ns for path in mirror.rglob("*.*")}
    assert main(command) == 2  # goes on where it was
    assert {path: path.stat().st_mtime_ns for path in mirror.rglob("*.*")} == before

    monkeypatch.setenv("IMITATE_ZOO_DIR", str(mirror))
    assert zoo_entries() == ["ppo/CartPole-v1", "qrdqn/CartPole-v1", "sac/Pendulum-v1"]
    converted = {name: load_expert(f"zoo:{name}") for name in zoo_entries()}
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(made_zoo))
    for name, expert in converted.items():
        same(load_expert(f"zoo:{name}"), expert)
        same(load_expert(f"zoo:{name}"), load_expert(mirror / f"{name}_1"))


def test_the_real_zoo(zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old archives: PPO under VecNormalize, TQC's critics, and an environment of another version."""
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(zoo))
    for name in ("ppo/BipedalWalker-v3", "tqc/MountainCarContinuous-v0", "dqn/LunarLander-v2"):
        convert(f"zoo:{name}", tmp_path / name)
        same(load_expert(f"zoo:{name}"), load_expert(tmp_path / name))


def test_one_zip(
    made_zoo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(made_zoo))
    zip_ = made_zoo / "ppo" / f"{CARTPOLE}_1" / f"{CARTPOLE}.zip"
    own = tmp_path / "own.zip"
    own.write_bytes(zip_.read_bytes())
    assert main(["expert", "convert", str(own), str(tmp_path / "a")]) == 2
    assert "name it with --env" in capsys.readouterr().err
    assert main(["expert", "convert", str(own), str(tmp_path / "a"), "--env", PENDULUM]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{own} is not for {PENDULUM}: it observes Box" in said
    (tmp_path / "config.yml").write_text("normalize: true\n")  # and no vecnormalize.pkl
    assert main(["expert", "convert", str(own), str(tmp_path / "a"), "--env", CARTPOLE]) == 0
    assert f"{own} was trained on normalised observations, but has no vecnormalize.pkl" in caplog.text
    same(load_expert(own, env_id=CARTPOLE), load_expert(tmp_path / "a"))
    origin = json.loads((tmp_path / "a" / "expert.json").read_text("utf-8"))["origin"]
    assert origin["sha256"] == load_expert(own, env_id=CARTPOLE).sha256
    for source, said in (
        (f"zoo:sac/{PENDULUM}", "exists already: choose another"),
        (CARTPOLE, "is no SB3 zip"),
    ):
        assert main(["expert", "convert", source, str(tmp_path / "a")]) == 2
        assert said in capsys.readouterr().err


def test_the_name_of_a_zip_is_only_a_guess(
    made_zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = (made_zoo / "ppo" / f"{CARTPOLE}_1" / f"{CARTPOLE}.zip").read_bytes()
    own, named, out = tmp_path / f"my-best-{CARTPOLE}.zip", tmp_path / f"ppo_{CARTPOLE}.zip", tmp_path / "a"
    own.write_bytes(agent)
    named.write_bytes(agent)
    assert main(["expert", "convert", str(own), str(out)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert f"{own} is named after my-best-{CARTPOLE}, which is not installed here: name its env" in said
    assert main(["expert", "convert", str(own), str(out), "--env", PENDULUM]) == 2
    assert f"{own} is not for {PENDULUM}: it observes Box" in capsys.readouterr().err
    assert not out.exists()
    assert main(["expert", "convert", str(own), str(out), "--env", CARTPOLE]) == 0
    same(load_expert(own, env_id=CARTPOLE), load_expert(out))
    assert main(["expert", "convert", str(named), str(tmp_path / "b")]) == 0
    assert load_expert(tmp_path / "b").env_id == CARTPOLE


def test_statistics_that_lie_elsewhere_or_are_left_out(
    made_zoo: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = next((made_zoo / "sac").rglob("*.zip"))
    (statistics,) = (made_zoo / "sac").rglob("vecnormalize.pkl")
    own = tmp_path / "own.zip"
    own.write_bytes(agent.read_bytes())
    for given in (str(statistics), "none"):
        out = tmp_path / Path(given).stem
        arguments = ["expert", "convert", str(own), str(out), "--env", PENDULUM, "--vecnormalize", given]
        assert main(arguments) == 0
        same(load_expert(own, env_id=PENDULUM, vecnormalize=given), load_expert(out))
    assert load_expert(tmp_path / "vecnormalize").normalisation is not None
    assert load_expert(tmp_path / "none").normalisation is None
    assert "vecnormalize" not in caplog.text  # nothing to warn of
    assert main(["expert", "convert", "--all", str(made_zoo), str(out), "--vecnormalize", "none"]) == 2


def test_a_mirror_is_not_converted_again(
    made_zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(made_zoo))
    with pytest.raises(InputError, match="is for CartPole-v1, not for Pendulum-v1: leave --env out"):
        convert(f"zoo:ppo/{CARTPOLE}", tmp_path / "c", env_id=PENDULUM)
    convert(f"zoo:ppo/{CARTPOLE}", tmp_path / "ppo" / f"{CARTPOLE}_1")
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path))
    with pytest.raises(InputError, match="safetensors and JSON already"):
        convert(f"zoo:ppo/{CARTPOLE}", tmp_path / "b")
    assert main(["expert", "convert", "--all", str(tmp_path), str(tmp_path / "c")]) == 2
    assert not (tmp_path / "c").exists()


def test_a_damaged_origin_is_one_line(
    made_zoo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(made_zoo))
    convert(f"zoo:ppo/{CARTPOLE}", tmp_path / "a")
    path = tmp_path / "a" / "expert.json"
    whole: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for origin in (
        {"source": 3, "sha256": ""},
        {"source": "", "sha256": "", "results": {"mean_reward": "x"}},
        [],
    ):
        path.write_text(json.dumps(whole | {"origin": origin}))
        with pytest.raises(InputError, match="can't be read"):
            load_expert(tmp_path / "a")
    for config in ({"env_wrapper": [[{}]], "normalize": 3}, {"env_wrapper": {"a": 1}, "frame_stack": []}):
        path.write_text(json.dumps(whole | {"origin": {"source": "", "sha256": "", "config": config}}))
        load_expert(tmp_path / "a")


class Goals(gym.Env[Any, Any]):
    """Three steps of random observations, whose parts are not in the order of the alphabet."""

    observation_space = spaces.Dict([("state", spaces.Box(-1, 1, (2,))), ("goal", spaces.Box(-1, 1, (3,)))])

    def __init__(self, reach: float = 1.0) -> None:
        self.action_space = spaces.Box(-reach, reach, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), float(abs(action[0])), self.steps == 3, False, {}


gym.register("Goals-v0", Goals)
gym.register("NearGoals-v0", Goals, kwargs={"reach": 0.1})


@pytest.fixture
def goals(tmp_path: Path) -> sb3.PPO:
    """An agent that always does its largest action, saved as goals.zip."""
    model = sb3.PPO("MultiInputPolicy", DummyVecEnv([Goals]), n_steps=8, batch_size=8, device="cpu", seed=0)
    torch.nn.init.constant_(model.policy.action_net.bias, 3.0)
    model.save(tmp_path / "goals.zip")
    return model


def test_the_parts_of_a_dict_keep_their_order(goals: sb3.PPO, tmp_path: Path) -> None:
    torch.nn.init.zeros_(goals.policy.action_net.bias)
    torch.nn.init.normal_(goals.policy.action_net.weight)
    goals.save(tmp_path / "goals.zip")
    convert(str(tmp_path / "goals.zip"), tmp_path / "folder", env_id="Goals-v0")
    rng = np.random.default_rng(0)
    obs = {"state": rng.random((5, 2), np.float32), "goal": rng.random((5, 3), np.float32)}
    wanted = goals.predict(obs, deterministic=True)[0]
    np.testing.assert_allclose(load_expert(tmp_path / "folder").act(obs), wanted, atol=1e-6)
    description = json.loads((tmp_path / "folder" / "expert.json").read_text("utf-8"))
    (tmp_path / "folder" / "expert.json").write_text(json.dumps(description | {"keys": ["goal"]}), "utf-8")
    with pytest.raises(InputError, match=r"has the keys \['goal'\]"):
        load_expert(tmp_path / "folder")


@pytest.mark.usefixtures("goals")
def test_an_agent_of_wider_bounds_is_clipped(tmp_path: Path) -> None:
    expert = load_expert(tmp_path / "goals.zip", env_id="NearGoals-v0")
    assert evaluate(expert, "NearGoals-v0", episodes=2).returns.tolist() == pytest.approx([0.3, 0.3])
