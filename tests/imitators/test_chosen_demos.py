"""Learners with a replay see the demonstrations that they are told to see, as their settings say."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.algorithms import ALGORITHMS
from imitate.configs.dac import DACConfig
from imitate.configs.iq import IQConfig
from imitate.configs.sqil import SQILConfig
from imitate.configs.td3bc import TD3BCConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.imitators import td3bc
from imitate.imitators.absorbing import share_of_demos
from imitate.imitators.dac import DAC
from imitate.imitators.sqil import SQIL

DISCRETE, CONTINUOUS = "Identity-v0", "ContinuousIdentity-v0"
SMALL: dict[str, Any] = {"gamma": 0.5, "hidden": (8,)}


def two_episodes(folder: Path, env_id: str) -> DemoReader:
    """One of 4 steps that terminates, and one of 10 that is cut."""
    env = make_env(env_id)
    info = DemoInfo(env_id, env.observation_space, env.action_space)
    assert isinstance(env.observation_space, spaces.Box | spaces.Discrete)
    with DemoWriter(folder / "demos.h5", info) as writer:
        for steps in (4, 10):
            obs, actions = (
                np.zeros((count, *(space.shape or ())), space.dtype)
                for count, space in ((steps + 1, env.observation_space), (steps, env.action_space))
            )
            writer.append(Trajectory(obs, actions, np.ones(steps, np.float32), steps == 4, steps != 4))
    return DemoReader(folder / "demos.h5")


def learner_of(name: str, config: Any, demos: DemoReader, episodes: list[int] | None = None) -> Any:
    envs = SyncVecEnv([lambda: make_env(demos.info.env_id)])
    chosen = None if episodes is None else np.array(episodes)
    return ALGORITHMS[name].learner(config, envs=envs, demos=demos, seed=0, episodes=chosen)


@pytest.mark.parametrize(
    ("name", "env_id"), [("dac", CONTINUOUS), ("iq", DISCRETE), ("iq", CONTINUOUS), ("sqil", DISCRETE)]
)
def test_only_the_chosen_steps_are_learned_from(name: str, env_id: str, tmp_path: Path) -> None:
    """Each n-th step of an episode, and the last one if it terminates: 0, 2 and 3 of 4, and 0, 4 and 8 of 10."""
    configs: dict[str, Callable[..., Any]] = {
        "dac": partial(DACConfig, **SMALL),
        "iq": partial(IQConfig, dqn=SMALL, sac=SMALL),  # type: ignore[arg-type]
        "sqil": partial(SQILConfig, dqn=SMALL),  # type: ignore[arg-type]
    }
    config = configs[name]
    with two_episodes(tmp_path, env_id) as demos:
        for episodes, every, count in ((None, 1, 14), ([0], 1, 4), ([1], 1, 10), ([0], 2, 3), ([1], 4, 3)):
            learner = learner_of(name, config(demo_every=every), demos, episodes)
            assert len(getattr(learner, "learner", learner).demos) == count


def test_the_experts_share_of_time_is_that_in_the_chosen_episodes(tmp_path: Path) -> None:
    """At discount 0.5 a termination is worth one step in the absorbing state: 1 of 5, 1 of 15 and none, of which 0.01
    is left."""
    with two_episodes(tmp_path, CONTINUOUS) as demos:
        for episodes, share in (([0], 0.2), (None, 1 / 15), ([1], 0.01)):
            chosen = None if episodes is None else np.array(episodes)
            assert share_of_demos(demos, chosen, 0.5) == pytest.approx(share)
            assert learner_of("dac", DACConfig(**SMALL), demos, episodes).expert_share == pytest.approx(share)
            iq = learner_of("iq", IQConfig(sac=SMALL), demos, episodes)  # type: ignore[arg-type]
            assert iq.bounds.expert_share == pytest.approx(share)


def test_rewards_of_several_steps_are_discounted_together(tmp_path: Path) -> None:
    """1 + 1/2 + 1/4 of three steps, and the value after them counts an eighth; the last two of a cut episode have
    fewer."""
    with two_episodes(tmp_path, DISCRETE) as demos:
        config = SQILConfig(dqn=SMALL | {"n_step": 3})  # type: ignore[arg-type]
        learner = learner_of("sqil", config, demos, [1])
    assert isinstance(learner, SQIL)
    assert learner.learner.demos is not None
    samples = learner.learner.demos.sample(200, np.random.default_rng(0))
    assert {*zip(samples.returns.tolist(), samples.discounts.tolist(), strict=True)} == {
        *((1.75, 0.125), (1.5, 0.25), (1.0, 0.5))
    }


# --- DAC's discriminator


def dac(folder: Path, **settings: Any) -> DAC:
    with two_episodes(folder, CONTINUOUS) as demos:
        learner = learner_of(
            "dac", DACConfig(**SMALL | {"learning_starts": 4, "batch_size": 4} | settings), demos
        )
    assert isinstance(learner, DAC)
    return learner


def test_the_discriminator_has_a_step_size_of_its_own(tmp_path: Path) -> None:
    learner = dac(tmp_path, learning_rate=1e-3, discriminator_learning_rate=1e-5)
    assert learner.discriminator_optimizer.learning_rate == 1e-5
    assert learner.critics.optimizer.learning_rate == 1e-3


def test_the_reward_that_is_shown_is_the_learners(tmp_path: Path) -> None:
    """The expert's half of the batch comes first."""
    learner: Any = dac(tmp_path)
    learner._discriminate = lambda _batch, half: {"half": half}
    learner.rewards = lambda _: torch.tensor([1.0, 1.0, 5.0, 7.0])
    found = learner._judge({"obs": torch.zeros(4, 1)})
    assert (found["half"], float(found["reward"])) == (2, 6.0)


def test_observations_of_each_batch_are_counted_once(tmp_path: Path) -> None:
    learner = dac(tmp_path)
    while not learner.ready:
        learner.replay.add(learner.collect())
    seen: list[int] = []
    observe = learner.discriminator.observe
    learner.discriminator.observe = lambda batch: (seen.append(len(batch["obs"])), observe(batch))[1]  # type: ignore[method-assign, func-returns-value]
    assert len(learner.learn()) == len(seen) > 0
    assert {*seen} == {4}


def test_a_discriminator_that_is_wrong_about_one_half_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = dac(tmp_path)
    with caplog.at_level(logging.WARNING):
        for expert, own in ((0.5, 0.99), (0.99, 0.5), (0.95, 0.95)):
            learner.end_iteration(
                [{"expert_accuracy": torch.tensor(expert), "learner_accuracy": torch.tensor(own)}]
            )
    assert caplog.messages == []


# --- TD3+BC's iterations


def td3bc_of(folder: Path, **settings: Any) -> td3bc.TD3BC:
    with two_episodes(folder, CONTINUOUS) as demos:
        return td3bc.TD3BC(TD3BCConfig(**SMALL | {"batch_size": 4} | settings), demos=demos, seed=0)


def test_the_last_iteration_is_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are drawn four at a time, and the last two of an iteration by themselves."""
    monkeypatch.setattr(td3bc, "_DRAWN", 4)
    learner = td3bc_of(tmp_path, max_updates=14, updates_per_iteration=6)
    found = []
    while not learner.done:
        progress = learner.step()["progress"]
        found.append((learner.updates, progress))
    assert found == [(6, 6 / 14), (12, 12 / 14), (14, 1.0)]


def test_each_iteration_draws_other_steps(tmp_path: Path) -> None:
    learner = td3bc_of(tmp_path, max_updates=2, updates_per_iteration=1, batch_size=8)
    learner.replay.rewards[learner.replay.acted] = np.arange(14)
    drawn: list[list[float]] = []
    learner.update = lambda batch: (drawn.append(batch["returns"].tolist()), {"q_loss": torch.zeros(())})[1]  # type: ignore[method-assign, func-returns-value]
    learner.step()
    learner.step()
    assert drawn[0] != drawn[1]
