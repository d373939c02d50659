"""Runs that learn a reward leave it in their folder, and other learners learn from it; what is measured stays true."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from handwritten import named

from imitate import Experiment, evaluate, execute, load_policy, load_reward
from imitate.algorithms import ALGORITHMS
from imitate.cli import main
from imitate.envs.make import make_env
from imitate.envs.rewarded import Rewarded
from imitate.envs.spaces import Array, space_to_json
from imitate.envs.vec import Step
from imitate.errors import InputError
from imitate.imitators.architecture import Architecture
from imitate.imitators.learned_reward import Description, LearnedReward, save_reward
from imitate.imitators.reward_files import reward_sha256

ENV = "Identity-v0"


def wrong(folder: Path) -> Path:
    """A run's folder with a reward of 1 for naming the observation after this one, and 0 for the others.

    A hidden unit is 1 for one observation with one action, and 0 otherwise.
    """
    with make_env(ENV) as env:
        spaces = space_to_json(env.observation_space), space_to_json(env.action_space)
    reward = LearnedReward(Description(Architecture("gail", (9,), "relu"), "logit", 0.0, 0.0, *spaces))
    pairs = [(obs, action) for obs in range(3) for action in range(3)]
    rows = [
        [float(n == obs) for n in range(3)] + [float(n == action) for n in range(3)] for obs, action in pairs
    ]
    with torch.no_grad():
        for layer, weight, bias in (
            (reward.network.net[0], rows, -1.0),
            (reward.network.output, [[float(action == (obs + 1) % 3) for obs, action in pairs]], 0.0),
        ):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.fill_(bias)
    save_reward(folder / "reward", reward)
    return folder


def test_the_reward_by_hand(tmp_path: Path) -> None:
    reward = load_reward(wrong(tmp_path))
    obs = np.array([0, 1, 2, 0])
    found = reward(obs, np.array([1, 2, 0, 0]), obs, np.zeros(4, bool))
    assert found.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ppo", {"num_steps": 32, "gamma": 0.5, "learning_rate": 3e-3}),
        (
            "dqn",
            {"learning_starts": 64, "gamma": 0.5, "learning_rate": 3e-3, "num_steps": 4, "num_updates": 2},
        ),
        ("reinforce", {"gamma": 0.5, "num_episodes": 16, "learning_rate": 3e-2}),
    ],
)
def test_a_learner_follows_it_and_is_measured_truly(
    tmp_path: Path, name: str, settings: dict[str, float]
) -> None:
    """Random actions return 3.3. Who learns from this reward returns 0."""
    given = {"reward": wrong(tmp_path / "wrong"), "eval_every": 1_500, "eval_episodes": 5, "seed": 1}
    experiment = Experiment.create(name, ENV, budget=4_000, hyperparameters=settings, **given)
    assert execute(experiment, tmp_path / "run")
    assert evaluate(load_policy(tmp_path / "run" / "last_policy"), ENV, episodes=10).mean < 1
    lines = (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[-1])["train_return"] < 3  # of 10 by the reward that it learns from
    record = json.loads((tmp_path / "run" / "config.json").read_text("utf-8"))
    assert record["reward"] == str((tmp_path / "wrong").absolute())
    assert record["reward_sha256"] == reward_sha256(tmp_path / "wrong")
    assert Experiment.read(tmp_path / "run" / "config.json") == experiment


class Counted:
    """One environment whose episodes have two steps, worth 5 each; it idles after the second episode."""

    num_envs, single_observation_space, single_action_space = 1, None, None
    running, seeds = np.array([False]), np.array([0])

    def reset(self, seeds: Iterable[int]) -> Array:
        self.left, self.running, self.seeds = 4, np.array([True]), np.array([next(iter(seeds))])
        return np.float32([[4]])

    def step(self, _actions: Array) -> Step:
        self.left -= 1
        end, paid = np.array([self.left in (2, 0)]), np.float32([5.0 if self.left >= 0 else 0.0])
        self.running[:] = self.left > 0
        return Step(np.float32([[self.left]]), paid, end, end & False, np.float32([[self.left + 0.5]]))

    def close(self) -> None: ...


def test_the_reward_sees_true_successors_and_games_keep_their_returns() -> None:
    def paid(obs: Array, actions: Array, next_obs: Array, terminated: Array) -> Array:
        return 100 * obs[:, 0] + 10 * next_obs[:, 0] + actions + 1_000 * terminated

    envs = Rewarded(Counted(), paid)  # type: ignore[arg-type]
    assert envs.reset([7]).tolist() == [[4]]
    rewards = [envs.step(np.array([1])).rewards.tolist() for _ in range(5)]
    assert rewards == [[400 + 35 + 1], [1_000 + 300 + 25 + 1], [200 + 15 + 1], [1_000 + 100 + 5 + 1], [0]]
    assert envs.pop_games() == [(10, 2), (10, 2)]
    assert envs.pop_games() == []


@pytest.fixture(scope="module")
def gail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run of GAIL on the command line."""
    folder = tmp_path_factory.mktemp("gail")
    demos = named(folder / "demos.h5", ENV, 5)
    words = f"train gail --env {ENV} --demos {demos} --budget 600 --bc-updates 5 --no-looks --reward airl"
    assert main([*words.split(), "--ppo.num-steps", "16", "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_the_command_line_trains_on_a_runs_reward(gail: Path, tmp_path: Path) -> None:
    words = f"train ppo --env {ENV} --reward {gail} --budget 200 --num-steps 8 --no-looks --out {tmp_path / 'ppo'}"
    assert main(words.split()) == 0
    assert json.loads((tmp_path / "ppo" / "config.json").read_text("utf-8"))["reward"] == str(gail)
    again = f"train --config {tmp_path / 'ppo' / 'config.json'} --no-looks --out {tmp_path / 'again'}"
    assert main(again.split()) == 0
    for name in ("metrics.jsonl", "policy/policy.safetensors"):
        assert (tmp_path / "ppo" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_reward_that_changed_is_rejected(tmp_path: Path) -> None:
    run = Experiment.create("ppo", ENV, reward=wrong(tmp_path / "wrong"), budget=200)
    path = tmp_path / "wrong" / "reward" / "reward.json"
    path.write_text(path.read_text("utf-8").replace('"alive": 0.0', '"alive": 1.0'))
    with pytest.raises(InputError, match="has changed since this run was planned"):
        execute(run, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    run = run.changed(reward=run.reward)  # named again, it is another reward
    assert run.reward_sha256 == reward_sha256(tmp_path / "wrong")


def test_mistakes_are_one_line(gail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(tmp_path / "run")]
    for words, said in (
        (
            f"train ppo --env CartPole-v1 --reward {gail} --budget 500",
            r"the reward of .* has observation_space",
        ),
        (
            f"train ppo --env {ENV} --reward {tmp_path}",
            "has no learned reward: wanted a run of gail, dac or gaifo",
        ),
        (
            f"train bc --env {ENV} --demos {gail.parent / 'demos.h5'} --reward {gail}",
            "unknown option --reward",
        ),
    ):
        assert main([*words.split(), *out]) == 2
        assert said.split(".*")[-1].strip() in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
    takers = ", ".join(name for name, each in ALGORITHMS.items() if each.rewarded)
    with pytest.raises(
        InputError, match=f"dagger does not learn from a reward alone: --reward is for {takers}"
    ):
        Experiment.create("dagger", ENV, expert="x", reward=gail)
    with pytest.raises(InputError, match="give --reward or --demos, not both"):
        Experiment.create("sac", "ContinuousIdentity-v0", demos="x.h5", reward=gail)


def test_the_command_compares_it_with_the_true_reward(
    gail: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "random.h5"
    assert main(["collect", "random", "--env", ENV, "--episodes", "8", "--out", str(other)]) == 0
    capsys.readouterr()
    plot = tmp_path / "plot.png"
    assert main(["reward", str(gail), "--demos", str(other), "--plot", str(plot), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["steps"], found["episodes"]) == (80, 8)
    assert found["network"]["kind"] == "airl"
    assert -1 <= found["per_step"]["ranks"] <= 1
    assert plot.stat().st_size > 1_000
    with caplog.at_level(logging.WARNING):
        assert main(["reward", str(gail), "--demos", str(gail.parent / "demos.h5")]) == 0
    assert "is what the reward was learned from: record other episodes" in caplog.text
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "steps    50: none: the true or the learned reward never varies"
    one = tmp_path / "one.h5"
    assert main(["collect", "random", "--env", ENV, "--episodes", "1", "--out", str(one)]) == 0
    assert main(["reward", str(gail), "--demos", str(one)]) == 0
    assert "returns  1: none: a correlation takes two or more" in capsys.readouterr().out
    assert main(["reward", str(gail), "--demos", str(other), "--plot", str(plot)]) == 2
    assert "exists already: choose another name" in capsys.readouterr().err


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("learned_from", ["*.h5", "demos.npz"])
def test_it_knows_what_it_was_learned_from_in_a_pattern_and_another_format(
    gail: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, learned_from: str
) -> None:
    run, demos = tmp_path / "run", tmp_path / "demos.h5"
    shutil.copytree(gail, run)
    shutil.copy(gail.parent / "demos.h5", demos)
    assert main(["data", "convert", str(demos), str(tmp_path / "demos.npz")]) == 0
    config = json.loads((run / "config.json").read_text("utf-8"))
    (run / "config.json").write_text(json.dumps(config | {"demos": str(tmp_path / learned_from)}))
    shown = demos if learned_from == "*.h5" else tmp_path / learned_from
    assert main(["reward", str(run), "--demos", str(shown)]) == 0
    assert "is what the reward was learned from" in caplog.text
