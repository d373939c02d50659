"""`imitate export --to hub`: the folder, its card, pushing it, and reading it back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
from hub_server import READER, WRITER, Hub, serving
from huggingface_hub import ModelCard

from imitate import hub as the_hub
from imitate.cli import main
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.load import expert_files
from imitate.export.hub_folder import hub_folder
from imitate.files import write_json
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.experiment import Experiment

CARTPOLE = "CartPole-v1"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_TOKEN", WRITER)
        yield hub


def run_of(folder: Path, env_id: str = CARTPOLE, seed: int = 0, **settings: Any) -> Path:
    """A run that has just ended, of a policy that learned nothing."""
    env = make_env(env_id)
    with seeded(seed):
        policy = ActorPolicy(
            env.observation_space, env.action_space, normalize_obs=settings.pop("normalize", False)
        )
    save_policy(folder / "policy", policy)
    Experiment("dagger", env_id, {}, expert="random", **settings).write(folder / "config.json")
    write_json(folder / "finished.json", {"env_steps": 3_000, "demo_steps": 0, "expert_queries": 3_000})
    return folder


def export(run: Path, *options: str) -> int:
    return main(["export", str(run), "--to", "hub", "--episodes", "4", *options])


def test_an_environment_that_is_not_the_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(tmp_path / "run")
    assert export(run, "--out", str(tmp_path / "out"), "--env", "Pendulum-v1") == 2
    assert "run is a run on CartPole-v1, not on Pendulum-v1: leave --env out" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_is_refused_before_episodes_are_played(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run")
    with pytest.raises(InputError, match="exists: choose another folder"):
        hub_folder(run, tmp_path, episodes=1)


def test_the_folder_and_its_card(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", normalize=True)
    assert export(run, "--out", str(tmp_path / "out"), "--license", "mit") == 0
    files = {
        file.relative_to(tmp_path / "out").as_posix()
        for file in (tmp_path / "out").rglob("*")
        if file.is_file()
    }
    assert files == {
        *("README.md", "config.json", "finished.json", "evaluation.json", "replay.mp4"),
        *("policy/policy.json", "policy/policy.safetensors", "ppo-CartPole-v1.zip", "vecnormalize.pkl"),
    }
    card = ModelCard.load(tmp_path / "out" / "README.md")
    measured = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))
    (result,) = card.data.eval_results
    assert result.metric_value == f"{measured['mean']:.2f} +/- {measured['std']:.2f}"
    assert result.dataset_type == CARTPOLE
    assert result.metric_args == {"episodes": 4, "seed": TEST_SEED, "ci95": measured["ci95"]}
    # None was recorded.
    assert "demo steps" not in card.text
    assert (card.data.license, card.data.model_name) == ("mit", "dagger")
    for said in (
        f"**Mean return {measured['mean']:.2f}**, 95 % interval {measured['ci95'][0]:.2f} to {measured['ci95'][1]:.2f}",
        "replay.mp4", "imitate train --config config.json", "3,000 env steps", "| torch |", "`PPO.load`",
        "Both hold pickles",
    ):  # fmt: skip
        assert said in card.text, said

    obs = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    wanted = load_policy(run).act(obs)
    np.testing.assert_array_equal(load_policy(tmp_path / "out").act(obs), wanted)
    np.testing.assert_array_equal(load_expert(tmp_path / "out").act(obs), wanted)
    assert (
        sb3.PPO.load(tmp_path / "out" / "ppo-CartPole-v1.zip", device="cpu").action_space
        == make_env(CARTPOLE).action_space
    )
    assert main(["evaluate", str(tmp_path / "out"), "--episodes", "4"]) == 0


def test_it_is_read_back_at_each_commit(hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pushed = []
    for seed in (0, 1):
        run = run_of(tmp_path / f"run{seed}", seed=seed)
        assert export(run, "--push", "org/pole", "--private", "--no-film") == 0
        folder, spec = capsys.readouterr().out.split()
        assert folder == str(run / "hub")
        pushed.append(spec)
    assert len(set(pushed)) == 2
    assert hub.private == {"models/org/pole"}
    obs = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    for seed, spec in enumerate(pushed):
        policy, expert = load_policy(spec), load_expert(spec)
        wanted = load_policy(tmp_path / f"run{seed}").act(obs)
        np.testing.assert_array_equal(policy.act(obs), wanted)
        np.testing.assert_array_equal(expert.act(obs), wanted)
        assert (expert.env_id, expert.algorithm, expert.runnable) == (CARTPOLE, "dagger", True)
        assert spec == f"hub:org/pole@{expert.revision}"
        assert {"config.json", "policy/policy.json", "policy/policy.safetensors"} == expert_files(spec).keys()
        measured = json.loads((tmp_path / f"run{seed}" / "hub" / "evaluation.json").read_text("utf-8"))
        assert expert.published_return == pytest.approx(measured["mean"], abs=0.01)
    np.testing.assert_array_equal(
        load_policy("hub:org/pole").act(obs), load_policy(tmp_path / "run1").act(obs)
    )
    assert main(["export", pushed[0], "--to", "safetensors", "--out", str(tmp_path / "again")]) == 0
    assert main(["evaluate", pushed[0], "--episodes", "2"]) == 0
    assert main(["export", pushed[0]]) == 2
    assert "say with --out" in capsys.readouterr().err


def test_an_experts_folder_is_read_back_too(hub: Hub, model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "a.zip")
    assert main(["expert", "convert", str(tmp_path / "a.zip"), str(tmp_path / "a"), "--env", CARTPOLE]) == 0
    sha = hub.put("models/org/a", {file.name: file.read_bytes() for file in (tmp_path / "a").iterdir()})
    expert = load_expert("hub:org/a")
    assert (expert.algorithm, expert.revision, expert.runnable) == ("A2C", sha, True)
    with pytest.raises(InputError, match="no policy of imitate"):
        load_policy("hub:org/a")


@pytest.mark.parametrize(
    ("token", "refuses", "said"),
    [
        ("", "", "no token for the hub"),
        ("hf_unknown", "", r"does not accept the token \(401\)"),
        (READER, "", r"may not write there \(403\)"),
        (WRITER, "/commit/", "503"),
        (WRITER, "off", "can't be reached"),
    ],
)
def test_a_failed_push_loses_nothing(
    token: str, refuses: str, said: str, hub: Hub, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    old = hub.put("models/org/pole", {"README.md": b"as it was"})
    monkeypatch.setenv("HF_TOKEN", token)
    hub.refuses = refuses
    if refuses == "off":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    run = run_of(tmp_path / "run")
    assert export(run, "--push", "org/pole", "--no-film") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("imitate: org/pole was not pushed: ")
    assert [*hub.commits["models/org/pole"]] == [old]
    assert re.search(said, error)
    if token:
        assert f"`hf upload org/pole {run / 'hub'}` sends it later" in error
        load_policy(run / "hub")
    else:
        assert not (run / "hub").exists()


def test_only_names_of_files_are_published(tmp_path: Path) -> None:
    demos, other = str(tmp_path / "secret" / "demos.h5"), str(tmp_path / "secret" / "teacher.zip")
    run = run_of(
        tmp_path / "run", "ContinuousIdentity-v0", demos=demos, other_experts=(other, "zoo:sac/X-v0")
    )
    assert export(run) == 0
    for file in ("config.json", "README.md"):
        assert "secret" not in (run / "hub" / file).read_text("utf-8")
    config = json.loads((run / "hub" / "config.json").read_text("utf-8"))
    assert (config["demos"], config["other_experts"]) == ("demos.h5", ["teacher.zip", "zoo:sac/X-v0"])
    assert config["versions"]
    card = (run / "hub" / "README.md").read_text("utf-8")
    assert "`PPO.load`. It holds pickles" in card
    assert "from `random` and `teacher.zip` and `zoo:sac/X-v0` and `demos.h5`" in card
    assert "so put yours beside it" in card


@pytest.mark.parametrize("expert", ["{folder}/teacher", "zoo:sac/X-v1.5"])
def test_the_card_says_what_belongs_beside_it(expert: str, tmp_path: Path) -> None:
    """A folder of one's own has a name without a suffix, and a spec may have a dot."""
    (tmp_path / "teacher").mkdir()
    run = run_of(tmp_path / "run", other_experts=(expert.format(folder=tmp_path),))
    assert export(run, "--no-film") == 0
    said = "so put yours beside it" in (run / "hub" / "README.md").read_text("utf-8")
    assert said == ("teacher" in expert)


def test_demonstrations_beside_a_run_of_a_comparison_are_named_without_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path / "run")
    config = json.loads((run / "config.json").read_text("utf-8")) | {"demos": "../demos.h5"}
    write_json(run / "config.json", config)
    monkeypatch.chdir(tmp_path)
    assert export(Path("run"), "--no-film") == 0
    assert json.loads((run / "hub" / "config.json").read_text("utf-8"))["demos"] == "demos.h5"


def test_what_cannot_be_made_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No film of an environment without pictures, no zip of a Discrete space from 1, no return where it is not here."""
    run = run_of(tmp_path / "run", "Identity-v0")
    assert export(run) == 0
    assert "the card has no film" in caplog.text
    config = json.loads((run / "config.json").read_text("utf-8")) | {"env_id": "Elsewhere-v0"}
    write_json(run / "config.json", config)
    assert export(run, "--out", str(tmp_path / "b")) == 0
    assert "the card has no measured return" in caplog.text
    card = ModelCard.load(tmp_path / "b" / "README.md")
    assert card.data.eval_results is None
    assert "was not measured" in card.text
    assert "None was given" in card.text


class OneNumber(gym.Env[Any, Any]):
    """Its observation has no axis."""

    observation_space, action_space = gym.spaces.Box(-10, 10, ()), gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros((), np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros((), np.float32), float(action), True, False, {}


def test_a_folder_whose_policy_is_none_of_sb3s_has_no_zip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(
        gym.registry, "One-v0", gym.envs.registration.EnvSpec("One-v0", entry_point=OneNumber)
    )
    assert export(run_of(tmp_path / "run", "One-v0"), "--no-film") == 0
    assert "the folder has no SB3 zip: Stable-Baselines3 takes no observation without an axis" in caplog.text
    assert not list((tmp_path / "run" / "hub").glob("*.zip"))


def test_the_cards_commands_name_the_modules_of_an_own_environment_and_expert(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "Identity-v0")
    config = json.loads((run / "config.json").read_text("utf-8")) | {
        "env_id": "robot:Arm-v0",
        "expert": "robot:make_expert",
    }
    write_json(run / "config.json", config)
    assert export(run, "--out", str(tmp_path / "out")) == 0
    text = ModelCard.load(tmp_path / "out" / "README.md").text
    assert "imitate evaluate hub:ORG/REPO --env robot:Arm-v0\n" in text
    again = "imitate train --config config.json --out again --env robot:Arm-v0 --expert robot:make_expert\n"
    assert again in text


def test_mistakes_of_the_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path / "run")
    for options, said in (
        (["--to", "onnx", "--push", "org/a"], "only --to hub takes --push: leave that out"),
        (["--episodes", "3", "--film"], "only --to hub takes --episodes and --film"),
        (["--to", "hub", "--private"], "--private is for --push"),
        (["--to", "hub", "--out", str(run)], "exists: move it"),
    ):
        assert main(["export", str(run), *options]) == 2
        assert said in capsys.readouterr().err
    assert main(["export", str(run / "policy"), "--to", "hub"]) == 2
    assert "has no config.json" in capsys.readouterr().err


def test_downloads_are_bounded(hub: Hub) -> None:
    hub.put("models/org/large", {"policy.bin": b"0" * 100})
    with pytest.raises(InputError, match="100 bytes in 1 files, over the limit of 99"):
        the_hub.fetch(the_hub.find("org/large"), ["policy.bin"], 99)


def test_a_card_of_one_episode_claims_no_interval(tmp_path: Path) -> None:
    run, out = run_of(tmp_path / "run"), str(tmp_path / "out")
    assert main(["export", str(run), "--to", "hub", "--episodes", "1", "--out", out]) == 0
    card = ModelCard.load(tmp_path / "out" / "README.md")
    (mean,) = json.loads((tmp_path / "out" / "evaluation.json").read_text("utf-8"))["returns"]
    assert f"**Mean return {mean:.2f}**, over 1 deterministic episode (seed" in card.text
    assert card.data.eval_results[0].metric_value == f"{mean:.2f}"
