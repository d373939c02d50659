"""Every vector backend against single environments stepped by hand, and returns on what they give."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from itertools import islice
from multiprocessing import active_children
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from counting import CountingEnv
from numpy.testing import assert_allclose
from stepping import steps

from imitate.envs import make_vec, resolve_backend
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.stepping import as_taken
from imitate.envs.vec import Step, SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.rl.ppo import PPO, PPOConfig
from imitate.rl.returns import discounted_returns, gae
from imitate.rl.rollout import Sampler
from imitate.training.experiment import Experiment

BACKENDS = ("gymnasium", "async", "envpool")  # ALE's is in test_envs_atari.py


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "envpool":
        pytest.importorskip("envpool")
    return str(request.param)


def test_cartpole_agrees_with_a_single_env_set_to_the_same_state(backend: str) -> None:
    """The observation of CartPole is its state, so each step can be taken alone: also the true last ones."""
    envs, alone = make_vec("CartPole-v1", 3, backend=backend), make_env("CartPole-v1")
    alone.reset(seed=0)
    ended = 0
    for obs, actions, step in steps(envs, 0, 100):
        assert step.rewards.dtype == np.float32
        for n in range(3):
            alone.unwrapped.state = obs[n].astype(np.float64)  # type: ignore[attr-defined]
            alone.unwrapped.steps_beyond_terminated = None  # type: ignore[attr-defined]
            successor, reward, terminated, _, _ = alone.unwrapped.step(int(actions[n]))
            assert_allclose(step.final_obs[n], successor, atol=1e-6)
            assert (step.rewards[n], step.terminated[n], step.truncated[n]) == (reward, terminated, False)
            if terminated:
                ended += 1
                assert np.abs(step.obs[n]).max() <= 0.05 < np.abs(step.final_obs[n]).max()  # it begins there
            else:
                np.testing.assert_array_equal(step.obs[n], step.final_obs[n])
    assert ended > 5
    envs.close()


def test_async_is_the_same_to_the_byte_as_gymnasium() -> None:
    runs = []
    for name in ("gymnasium", "async"):
        envs = make_vec("CartPole-v1", 3, backend=name)
        runs.append([(*step, envs.seeds.copy()) for _, _, step in steps(envs, 5, 80)])
        envs.close()
    for ours, theirs in zip(*runs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1"])
def test_same_seed_same_bytes_and_other_seeds_other_episodes(backend: str, env_id: str) -> None:
    def play_on(seed: int) -> bytes:
        envs = make_vec(env_id, 2, backend=backend)
        rows = [np.concatenate([np.ravel(part) for part in step]) for _, _, step in steps(envs, seed, 60)]
        again = [np.concatenate([np.ravel(part) for part in step]) for _, _, step in steps(envs, seed, 60)]
        np.testing.assert_array_equal(rows, again)  # a reset begins it all anew
        envs.close()
        return np.stack(rows).tobytes()

    assert play_on(1) == play_on(1)
    assert play_on(1) != play_on(2)


def test_every_environment_has_a_seed_of_its_own(backend: str) -> None:
    """EnvPool once gave all of them the same one."""
    envs = make_vec("CartPole-v1", 16, backend=backend)
    assert len(np.unique(envs.reset(episode_seeds(0)), axis=0)) == 16
    same = envs.reset([7] * 16)
    assert len(np.unique(same, axis=0)) == 1
    envs.close()


def test_a_seed_for_every_episode_and_idle_where_they_run_dry(backend: str) -> None:
    envs = make_vec("CartPole-v1", 3, backend=backend)
    seeds = list(islice(episode_seeds(3), 5))
    obs = envs.reset(seeds)
    assert envs.seeds.tolist() == seeds[:3]
    count, began = 0, set(seeds[:3])
    for _ in range(400):
        before = obs
        step = envs.step(np.zeros(3, np.int64))  # falls within eleven steps
        count += int((step.terminated | step.truncated).sum())
        idle = ~envs.running & ~step.terminated
        assert not step.rewards[idle].any()
        np.testing.assert_array_equal(step.obs[idle], before[idle])
        np.testing.assert_array_equal(step.final_obs[idle], before[idle])
        began |= set(envs.seeds.tolist())
        obs = step.obs
    assert (count, began, envs.running.any()) == (5, set(seeds), np.False_)

    obs = envs.reset(seeds[:1])  # fewer than environments
    assert envs.running.tolist() == [True, False, False]
    before = obs.copy()
    step = envs.step(np.zeros(3, np.int64))
    assert step.rewards.tolist() == [1, 0, 0]
    np.testing.assert_array_equal(step.obs[1:], before[1:])
    envs.close()


@pytest.mark.parametrize(("env_id", "limit"), [("CartPole-v1", 500), ("Pendulum-v1", 200)])
def test_the_time_limit_truncates_and_does_not_terminate(backend: str, env_id: str, limit: int) -> None:
    envs, expert = make_vec(env_id, 2, backend=backend), load_expert(env_id)
    obs = envs.reset(episode_seeds(1))
    total = np.zeros(2)
    for t in range(limit):
        step = envs.step(expert.act(obs, deterministic=True))
        total += step.rewards
        assert not step.terminated.any()
        assert (step.truncated == (t == limit - 1)).all()
        before, obs = obs, step.obs
    # The pole stands, at the end of 500 steps as before: the last successor is one more step of the same episode.
    assert_allclose(step.final_obs, before, atol=0.6)
    assert np.abs(step.obs - step.final_obs).max() > 0.01
    assert (total == 500).all() if env_id == "CartPole-v1" else (total > -600).all()
    envs.close()


def test_termination_in_the_limits_very_step_is_both(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = make_vec("CartPole-v1", 1, backend=backend)
    envs.reset([5])
    lengths = [t for t in range(1, 30) if envs.step(np.zeros(1, np.int64)).terminated[0]]
    envs.close()
    monkeypatch.setattr(gym.spec("CartPole-v1"), "max_episode_steps", lengths[0])
    envs = make_vec("CartPole-v1", 1, backend=backend)
    envs.reset([5])
    flags = [envs.step(np.zeros(1, np.int64))[2:4] for _ in range(lengths[0])]
    assert [bool(terminated[0]) for terminated, _ in flags] == [False] * (lengths[0] - 1) + [True]
    assert [bool(truncated[0]) for _, truncated in flags] == [False] * (lengths[0] - 1) + [True]
    envs.close()


def test_returns_by_hand_on_every_backend(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reward is 1 a step and the value of everything 10, so with discount .5 an episode that goes on is worth
    2 - .5^k (2 - 10) after k steps; the limit of 12 cuts what pushing to and fro keeps up, pushing left falls
    sooner."""
    monkeypatch.setattr(gym.spec("CartPole-v1"), "max_episode_steps", 12)
    envs = make_vec("CartPole-v1", 2, backend=backend)
    sampler = Sampler(envs)
    sampler.restart(0)
    turn = iter(range(1000))

    def choose(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        actions = np.array([next(turn) % 2, 0])  # the first to and fro, the second left
        return actions, actions

    rollout = sampler.collect(choose, 30)
    terminated, truncated = rollout.terminated, rollout.truncated
    assert (terminated[:, 0].sum(), truncated[:, 0].sum()) == (
        0,
        2,
    )  # after 12 and 24, then 6 steps of a running one
    assert terminated[:, 1].sum() >= 2
    assert not truncated[:, 1].any()
    assert sampler.pop_episodes()["train_length"] == pytest.approx(
        np.mean([12, 12, *np.diff(np.flatnonzero(terminated[:, 1]), prepend=-1)])
    )

    values = np.full((30, 2), 10.0)
    next_values = rollout.next_values(values, lambda obs: np.full(len(obs), 10.0))
    ends = (terminated, truncated, 0.5)
    monte_carlo = discounted_returns(rollout.rewards, next_values, *ends)
    advantages = gae(rollout.rewards, values, next_values, *ends, 1.0)
    for n in range(2):
        for t in range(30):
            left = next((u for u in range(t, 30) if (terminated | truncated)[u, n]), 29)
            steps_left = left - t + 1
            worth = 2 - 0.5**steps_left * 2 + (0 if terminated[left, n] else 0.5**steps_left * 10)
            assert monte_carlo[t, n] == pytest.approx(worth), (t, n)
    assert_allclose(advantages, monte_carlo - 10)
    # True final observations: the poles that fell lie beyond the limit, those that were cut stand.
    angles = np.abs(rollout.end_obs[:, 2])
    fell = terminated[tuple(rollout.ends.T)]
    assert (angles[fell] > 0.2094).all()
    assert (angles[~fell] < 0.2094).all()
    envs.close()


def test_a_dead_process_is_one_clear_line() -> None:
    envs = make_vec("CartPole-v1", 3, backend="async")
    envs.reset(episode_seeds(0))
    (second,) = (process for process in active_children() if process.name.endswith("-1"))
    second.kill()
    with pytest.raises(InputError, match=r"gone \(number: exit code\): \{1: -9\}"):
        envs.step(np.zeros(3, np.int64))


def test_auto_and_what_does_not_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("envpool")
    assert resolve_backend("auto", "CartPole-v1") == "envpool"
    assert resolve_backend("auto", "CartPole-v1", {"sutton_barto_reward": True}) == "gymnasium"
    assert resolve_backend("auto", "Identity-v0") == "gymnasium"
    assert resolve_backend("auto", "CarRacing-v3") == "gymnasium"  # EnvPool draws it otherwise
    assert resolve_backend("auto", "BreakoutNoFrameskip-v4") == "ale"
    assert resolve_backend("auto", "BreakoutNoFrameskip-v4", {"mode": 4}) == "gymnasium"
    with pytest.raises(InputError, match="did you mean 'envpool'"):
        resolve_backend("envpol", "CartPole-v1")
    with pytest.raises(InputError, match="takes no env_kwargs"):
        make_vec("CartPole-v1", 1, backend="envpool", env_kwargs={"sutton_barto_reward": True})
    with pytest.raises(InputError, match="EnvPool has no Identity-v0"):
        make_vec("Identity-v0", 1, backend="envpool")
    with pytest.raises(InputError, match="for Atari"):
        make_vec("CartPole-v1", 1, backend="ale")
    with pytest.raises(InputError, match=r"for Atari .*; train with --no-episodic-life --no-clip-rewards"):
        make_vec("CartPole-v1", 1, clip_rewards=True)
    with pytest.raises(InputError, match=r"num_envs must be in \[1, 10000\], got 0"):
        make_vec("CartPole-v1", 0)
    for wrong in ("2", None, 2.0):
        with pytest.raises(InputError, match="num_envs must be a whole number, got"):
            make_vec("CartPole-v1", wrong)  # type: ignore[arg-type]
    monkeypatch.setattr("imitate.envs.backends.envpool.find_spec", lambda _: None)
    assert resolve_backend("auto", "CartPole-v1") == "gymnasium"
    with pytest.raises(InputError, match=r'pip install -c constraints\.txt -e "\.\[envpool\]"'):
        make_vec("CartPole-v1", 1, backend="envpool")


def test_a_run_knows_its_backend(tmp_path: Path) -> None:
    pytest.importorskip("envpool")
    experiment = Experiment.create("ppo", "MountainCar-v0")
    assert experiment.backend == "envpool"
    assert Experiment.create("ppo", "MountainCar-v0", backend="gymnasium").backend == "gymnasium"
    assert (
        Experiment.create("dagger", "MountainCar-v0", expert="zoo:ppo/MountainCar-v0").backend == "gymnasium"
    )
    with pytest.raises(InputError, match="backend of a run must be one of"):
        replace(experiment, backend="auto").check_inputs()

    path = tmp_path / "config.json"
    experiment.write(path)
    assert Experiment.read(path) == experiment
    data = json.loads(path.read_text("utf-8"))
    for name in ("backend", "episodic_life", "clip_rewards"):
        del data[name]
    path.write_text(json.dumps(data))
    assert Experiment.read(path) == replace(experiment, backend="gymnasium")  # the default


def test_a_checkpoint_goes_on_to_the_same_bytes(backend: str) -> None:
    def learner() -> PPO:
        envs = make_vec("CartPole-v1", 2, backend=backend)
        return PPO(PPOConfig(num_steps=32, batch_size=32, num_epochs=1), envs=envs, seed=0)

    first, second = learner(), learner()
    first.step()
    state = copy.deepcopy(first.state_dict())
    for each in (first, second):
        each.load_state_dict(state)
        each.step()
        each.sampler.envs.close()
    for ours, theirs in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class _Stopping(SyncVecEnv):
    """Ctrl-C arrives while the third step is written down."""

    def step(self, actions: Array) -> Step:
        step = super().step(actions)
        return step._replace(rewards=_CtrlC()) if step.obs[0, 1] == 3 else step  # type: ignore[arg-type]


class _CtrlC:
    def __array__(self, *_: object, **__: object) -> Array:
        raise KeyboardInterrupt


def test_a_rollout_that_is_broken_off_ends_with_the_successor_of_its_last_row() -> None:
    sampler = Sampler(_Stopping([lambda: CountingEnv(period=1000)]))  # the first episode is a long one
    sampler.restart(0)
    with pytest.raises(KeyboardInterrupt):
        sampler.collect(as_taken(lambda _: np.zeros(1, int)), 7)
    assert sampler.broken_off is not None
    assert sampler.broken_off.obs[:, 0, 1].tolist() == [0, 1]
    assert sampler.broken_off.last_obs[0, 1] == 2
