"""Playing episodes: exact ends, unbiased sets, labels, noise, frame stacks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from counting import CountingEnv, CountingPixels, Cycling, counting_envs, stacked_envs
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from imitate.datasets import ActionNoise, InputError, SyncVecEnv, Trajectory, episodes, make_env
from imitate.datasets.play import scores, stack_frames, unstack_frames


def by_seed(trajectories: Any) -> dict[int, Trajectory]:
    return {trajectory.info["seed"]: trajectory for trajectory in trajectories}


def test_ends_are_exact() -> None:
    played = by_seed(episodes(Cycling(), counting_envs(2), [2, 5, 8]))
    assert sorted(played) == [2, 5, 8]
    two, five, eight = played[2], played[5], played[8]
    assert_array_equal(two.obs, [[2, 0], [2, 1], [2, 2], [2, 3]])  # 3 steps, the final observation included
    assert_array_equal(two.actions, [2, 3, 4])
    np.testing.assert_allclose(two.rewards, [0.2, 1.3, 2.4], rtol=1e-6)
    assert (two.terminated, two.truncated) == (True, False)
    assert (len(five), five.terminated, five.truncated) == (6, False, True)
    assert_array_equal(five.obs[-1], [5, 6])
    assert_array_equal(eight.obs, [[8, 0], [8, 1], [8, 2]])
    assert two.rewards.dtype == np.float32
    assert two.expert_actions is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=30, unique=True), st.integers(1, 9))
def test_the_episodes_are_those_of_the_seeds_whatever_their_length(seeds: list[int], num_envs: int) -> None:
    played = list(episodes(Cycling(), counting_envs(num_envs), seeds))
    assert sorted(t.info["seed"] for t in played) == sorted(seeds)
    for t in played:
        seed = t.info["seed"]
        assert len(t) == 1 + seed % 7
        assert_array_equal(t.obs, [[seed, step] for step in range(len(t) + 1)])


@pytest.mark.parametrize("seeds", [[1999, *range(100, 1300, 100)], [0, 5, 1000, 3, 1500, 700, 1]])
def test_long_episodes_beside_short_ones(seeds: list[int]) -> None:
    """Up to 2,000 steps: the tape is grown and rewound several times."""
    for seed, t in by_seed(episodes(Cycling(), counting_envs(2, period=2000), seeds)).items():
        assert len(t) == seed + 1
        assert_array_equal(t.obs[:, 1], np.arange(seed + 2))
        assert_array_equal(t.obs[:, 0], seed)
        assert_array_equal(t.actions, (seed + np.arange(seed + 1)) % 5)
        np.testing.assert_allclose(t.rewards, np.arange(seed + 1) + t.actions / 10, rtol=1e-6)


def test_what_is_recorded_is_what_was_executed() -> None:
    """A policy's float64 is cast before the environment sees it."""

    class Third:
        def act(self, obs: Any, **_: Any) -> Any:
            return np.full((len(obs), 2), 1 / 3)

    class Spy(CountingEnv):
        seen: Any = None

        def step(self, action: Any) -> Any:
            Spy.seen = action.copy()
            return super().step(action)

    (trajectory,) = episodes(Third(), SyncVecEnv([lambda: Spy(continuous=True)]), [0])
    assert Spy.seen.dtype == np.float32
    assert_array_equal(trajectory.actions[0], Spy.seen)


def test_a_policy_is_deterministic_only_if_it_is_asked_to_be() -> None:
    """Seed 2 has three steps, with rewards 0, 1 and 2 and a tenth of the action."""

    class Told:
        def act(self, obs: Any, *, deterministic: bool = True) -> Any:
            return np.full(len(obs), 1 if deterministic else 4)

    for deterministic, action in ((True, 1), (False, 4)):
        options: dict[str, Any] = {"deterministic": deterministic}
        (played,) = episodes(Told(), counting_envs(1), [2], **options)
        assert played.actions.tolist() == [action] * 3
        (score,) = scores(Told(), counting_envs(1), [2], **options)
        assert score.episode_return == pytest.approx(3 + 3 * action / 10)


def test_expert_labels() -> None:
    class Lazy:
        def act(self, obs: Any, **_: Any) -> Any:
            return np.zeros(len(obs), np.int64)

    (t,) = episodes(Lazy(), counting_envs(1), [3], expert=Cycling())
    assert_array_equal(t.actions, [0, 0, 0, 0])
    assert_array_equal(t.labels, [3, 4, 0, 1])


@pytest.mark.parametrize(
    ("spec", "continuous"), [("gaussian:0.5", True), ("random:0.5", True), ("random:0.5", False)]
)
def test_noise(spec: str, continuous: bool) -> None:
    def play(num_envs: int) -> dict[int, Trajectory]:
        envs = counting_envs(num_envs, period=40, continuous=continuous)
        noise = ActionNoise(spec, envs.single_action_space, num_envs)
        return by_seed(episodes(Cycling(continuous), envs, range(20, 40), noise=noise))

    alone, together = play(1), play(4)
    space = counting_envs(1, continuous=continuous).single_action_space
    for seed, t in alone.items():
        assert_array_equal(t.actions, together[seed].actions)  # an episode does not depend on its neighbours
        assert_array_equal(t.labels, Cycling(continuous).act(t.obs[:-1]))  # the clean actions
        assert all(space.contains(action) for action in t.actions)
    pairs = [(t.actions, t.labels) for t in alone.values()]
    actions, labels = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
    disturbed = (actions != labels).reshape(len(actions), -1).any(axis=1).mean()
    if spec.startswith("gaussian"):
        assert disturbed > 0.9
        # Half ranges are 1 and 2; the labels in the middle of the range are hardly clipped.
        middle = np.isin(labels[:, 1], [1, 2, 3])
        np.testing.assert_allclose((actions - labels)[middle].std(axis=0), [0.45, 0.85], atol=0.12)
    else:
        assert disturbed == pytest.approx(0.5 if continuous else 0.4, abs=0.06)  # 1 in 5 hits the same action


@pytest.mark.parametrize(
    "spec", ["gaussian", "gaussian:-1", "gaussian:nan", "random:1.5", "uniform:0.1", "random:x"]
)
def test_noise_that_can_not_be(spec: str) -> None:
    with pytest.raises(InputError, match="wanted"):
        ActionNoise(spec, counting_envs(1, continuous=True).single_action_space, 1)


def test_gaussian_noise_needs_continuous_actions() -> None:
    with pytest.raises(InputError, match="continuous"):
        ActionNoise("gaussian:0.1", gym.spaces.Discrete(2), 1)


def test_frame_stacks_are_kept_once_and_seen_whole() -> None:
    seeds = range(0, 600, 37)
    plain = by_seed(episodes(Cycling(), stacked_envs(3, 400), seeds))
    thin = by_seed(episodes(Cycling(), stacked_envs(3, 400), seeds, frame_stack=4))
    assert plain.keys() == thin.keys()
    for seed, trajectory in thin.items():
        assert_array_equal(trajectory.obs, plain[seed].obs)
        assert_array_equal(trajectory.actions, plain[seed].actions)
        assert (
            trajectory.obs.strides[0] == trajectory.obs.strides[1]
        )  # a view: a step further is a frame further


def test_what_is_no_stack_is_refused() -> None:
    with pytest.raises(InputError, match="frame_stack"):
        next(episodes(Cycling(), stacked_envs(1), [3], frame_stack=3))

    class Reversed(gym.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return observation[::-1]

    envs = SyncVecEnv([lambda: Reversed(gym.wrappers.FrameStackObservation(CountingPixels(), 4))])
    with pytest.raises(InputError, match="frame_stack"):
        next(episodes(Cycling(), envs, [6], frame_stack=4))


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 600))
def test_unstacking_inverts_stacking(k: int, steps: int) -> None:
    frames = np.random.default_rng(steps).integers(0, 256, (steps + k, 2), np.uint8)
    stacks = stack_frames(frames, k)
    assert len(stacks) == steps + 1
    assert_array_equal(unstack_frames(stacks, k), frames)


def test_rows_that_are_not_frame_stacks_are_refused() -> None:
    stacks = stack_frames(np.arange(700, dtype=np.int64)[:, None], 4).copy()
    stacks[513, 1] += 1
    with pytest.raises(InputError, match="not stacks"):
        unstack_frames(stacks, 4)


@pytest.mark.parametrize("env_id", ["BipedalWalker-v3", "LunarLander-v3"])
def test_an_episode_is_the_same_whatever_was_played_before(env_id: str) -> None:
    env = make_env(env_id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(80)]

    def play(seed: int) -> list[Any]:
        rows = [env.reset(seed=seed)[0]]
        for action in actions:
            obs, _, terminated, truncated, _ = env.step(action)
            rows.append(obs)
            if terminated or truncated:
                break
        return rows

    first, _, again = play(5), play(6), play(5)
    assert_array_equal(np.stack(again), np.stack(first))
