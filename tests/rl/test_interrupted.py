"""A step() that Ctrl-C or a fault ended, and the next one in the same process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting import CountingEnv

from imitate import PPO, SAC, DAgger, DAggerConfig, DemoReader, PPOConfig, SACConfig
from imitate.datasets import DemoInfo, DemoWriter, SyncVecEnv
from imitate.envs.stepping import as_taken
from imitate.rl.paired import played
from imitate.rl.rollout import Sampler


class Stopped(CountingEnv):
    """Ctrl-C comes in the steps and the resets of these numbers, counted over all environments."""

    steps_taken = resets = 0
    in_steps, in_resets = (21,), ()

    def __init__(self) -> None:
        super().__init__(period=1000, continuous=True)

    def reset(self, **keywords: Any) -> Any:
        Stopped.resets += 1
        if Stopped.resets in Stopped.in_resets:
            raise KeyboardInterrupt
        return super().reset(**keywords)

    def step(self, action: Any) -> Any:
        Stopped.steps_taken += 1
        if Stopped.steps_taken in Stopped.in_steps:
            raise KeyboardInterrupt
        return super().step(action)


@pytest.fixture
def envs(monkeypatch: pytest.MonkeyPatch) -> SyncVecEnv:
    monkeypatch.setattr(Stopped, "steps_taken", 0)
    monkeypatch.setattr(Stopped, "resets", 0)
    return SyncVecEnv([Stopped] * 2)


def follows(obs: np.ndarray, after: np.ndarray) -> bool:
    """True if each row of `after` has the seed of that of `obs`, and one step more."""
    return bool((after - obs == [0, 1]).all())


def test_an_on_policy_rollout_begins_new_episodes(envs: SyncVecEnv) -> None:
    learner = PPO(PPOConfig(hidden=(4,), num_steps=8, batch_size=16), envs=envs, seed=0)
    learner.step()
    with pytest.raises(KeyboardInterrupt):
        learner.step()
    rollout = learner.collect()
    assert follows(rollout.obs[:-1], rollout.obs[1:])
    assert rollout.obs[0, :, 1].tolist() == [0, 0]


def test_a_replay_holds_no_step_between_two_episodes(envs: SyncVecEnv) -> None:
    config = SACConfig(hidden=(4,), num_steps=8, learning_starts=1_000, rounds_per_iteration=1)
    learner = SAC(config, envs=envs, seed=0)
    learner.step()
    with pytest.raises(KeyboardInterrupt):
        learner.step()
    learner.step()
    samples = learner.replay.sample(500, np.random.default_rng(0))
    assert follows(samples.obs, samples.next_obs)


def test_a_roll_in_holds_no_step_between_two_episodes(envs: SyncVecEnv, tmp_path: Path) -> None:
    config = DAggerConfig(total_steps=64, iterations=4, hidden=(4,), updates_per_iteration=1, final_updates=1)

    def expert(obs: np.ndarray) -> np.ndarray:
        return np.zeros((len(obs), 2), np.float32)

    info = DemoInfo("Stopped-v0", envs.single_observation_space, envs.single_action_space)
    with DemoWriter(tmp_path / "states.h5", info, expert_actions=True) as store:
        learner = DAgger(config, envs=envs, expert=expert, store=store, seed=0)
        learner.step()
        with pytest.raises(KeyboardInterrupt):
            learner.step()
        while not learner.done:
            learner.step()
    with DemoReader(tmp_path / "states.h5") as states:
        assert states.num_steps > 40
        assert all(follows(each.obs[:-1], each.obs[1:]) for each in states)


def test_a_second_interruption_leads_to_other_episodes(
    envs: SyncVecEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rollouts of two environments have six seeds, so a fault that a seed causes does not come again."""
    monkeypatch.setattr(Stopped, "in_steps", (21, 31))
    learner = PPO(PPOConfig(hidden=(4,), num_steps=8, batch_size=16), envs=envs, seed=0)
    seeds = [learner.collect().obs[0, :, 0]]
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            learner.collect()
        assert learner.sampler.broken_off is not None
        seeds.append(learner.sampler.broken_off.obs[-1, :, 0])
    seeds.append(learner.collect().obs[0, :, 0])
    assert np.array_equal(seeds[0], seeds[1])
    assert len(np.unique(seeds)) == 6


def test_an_interrupted_reset_is_made_up_for(envs: SyncVecEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stopped, "in_resets", (3,))
    learner = PPO(PPOConfig(hidden=(4,), num_steps=8, batch_size=16), envs=envs, seed=0)
    learner.collect()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            learner.collect()
    assert learner.sampler.broken_off is None
    assert learner.collect().obs[:, 0, 1].tolist() == [*range(8)]


def test_steps_that_others_took_are_not_gone_on_from() -> None:
    """As in AggreVaTeD's trial, if it is interrupted."""
    sampler = Sampler(SyncVecEnv([lambda: CountingEnv(period=1000, continuous=True)]))
    sampler.restart(0)

    def act(obs: np.ndarray) -> np.ndarray:
        return np.zeros((len(obs), 2), np.float32)

    sampler.collect(as_taken(act), 3)
    played(act, sampler, [2], limit=3)
    rollout = sampler.collect(as_taken(act), 3)
    assert rollout.obs[:, 0, 1].tolist() == [0, 1, 2]
    assert 2 not in rollout.obs[:, 0, 0]
