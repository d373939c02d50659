"""Replay: every sample is what happened, whatever the ring's state, the stack and the episodes' ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.rl.prioritized import PrioritizedReplay, SumTree, importance_weights
from imitate.rl.replay import Replay
from imitate.rl.rollout import Rollout

GAMMA = 0.5
VECTORS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACTIONS = spaces.Discrete(5)
PIXELS = spaces.Box(0, 255, (3, 2, 2), np.uint8)  # stacks of 3 frames


class World:
    """Environment n at its step t shows frame number t (modulo 200) and pays t; episodes end at random."""

    def __init__(self, seed: int, num_envs: int, *, pixels: bool) -> None:
        self.rng, self.num_envs, self.pixels = np.random.default_rng(seed), num_envs, pixels
        self.time = np.zeros(num_envs, int)  # a clock that episodes do not set back
        self.episodes: list[list[dict[str, Array | float | bool]]] = [[] for _ in range(num_envs)]
        self.stacks: list[list[Array]] = [self._begin(n) for n in range(num_envs)]

    def _show(self, n: int) -> Array:
        self.time[n] += 1
        value = self.time[n] % 200
        return np.full((2, 2), value, np.uint8) if self.pixels else np.float32([n, self.time[n]])

    def _begin(self, n: int) -> list[Array]:
        return [self._show(n)] * 3

    def _obs(self, n: int) -> Array:
        return np.stack(self.stacks[n]) if self.pixels else self.stacks[n][-1]

    def rollout(self, steps: int) -> Rollout:
        """Also remembers, for each environment, what happened: obs, action, reward, terminated, next_obs, end."""
        shape = (steps, self.num_envs)
        all_obs, actions = [], self.rng.integers(5, size=shape)
        rewards = np.zeros(shape, np.float32)
        terminated = self.rng.random(shape) < 0.15
        truncated = (self.rng.random(shape) < 0.15) & ~terminated
        end_obs, last_obs = [], []
        for t in range(steps):
            all_obs.append(np.stack([self._obs(n) for n in range(self.num_envs)]))
            for n in range(self.num_envs):
                rewards[t, n] = self.time[n]
                before = self._obs(n)
                self.stacks[n] = [*self.stacks[n][1:], self._show(n)]
                after, end = self._obs(n), bool(terminated[t, n] | truncated[t, n])
                self.episodes[n].append(
                    {
                        "obs": before,
                        "action": actions[t, n],
                        "reward": float(rewards[t, n]),
                        "terminated": bool(terminated[t, n]),
                        "next_obs": after,
                        "end": end,
                    }
                )
                if t == steps - 1:
                    last_obs.append(after)
                if end:
                    end_obs.append(after)
                    self.stacks[n] = self._begin(n)
        ends = np.argwhere(terminated | truncated)
        return Rollout(
            np.stack(all_obs),
            actions,
            rewards,
            terminated,
            truncated,
            ends=ends,
            end_obs=np.stack(end_obs) if end_obs else np.stack(last_obs)[:0],
            last_obs=np.stack(last_obs),
        )

    def transitions(self, n_step: int) -> Iterator[tuple[Array, int, float, float, Array]]:
        """Every n-step transition that ever happened, by the definition."""
        for steps in self.episodes:
            for t in range(len(steps)):
                returns, discount, step = 0.0, 1.0, steps[t]
                for step in steps[t : t + n_step]:
                    returns += discount * step["reward"]  # type: ignore[operator]
                    discount *= GAMMA
                    if step["end"]:
                        break
                discount *= not step["terminated"]
                yield steps[t]["obs"], steps[t]["action"], returns, discount, step["next_obs"]  # type: ignore[misc]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    num_envs=st.integers(1, 3),
    pixels=st.booleans(),
    n_step=st.integers(1, 4),
    rollouts=st.integers(1, 12),
    prioritized=st.booleans(),
)
def test_samples_are_transitions_that_happened(
    seed: int, num_envs: int, pixels: bool, n_step: int, rollouts: int, prioritized: bool
) -> None:
    world = World(seed, num_envs, pixels=pixels)
    space = PIXELS if pixels else VECTORS
    kind = PrioritizedReplay if prioritized else Replay
    replay = kind(25 * num_envs, num_envs, space, ACTIONS, gamma=GAMMA, n_step=n_step)
    rng = np.random.default_rng(seed)
    for length in rng.integers(1, 7, size=rollouts):
        replay.add(world.rollout(int(length)))
    if not len(replay):
        return
    happened = {
        (
            obs.tobytes(),
            int(action),
            round(returns, 4),
            round(discount, 6),
            next_obs.tobytes() if discount else b"",
        )
        for obs, action, returns, discount, next_obs in world.transitions(n_step)
    }
    samples = replay.sample(64, rng)
    for obs, action, returns, discount, next_obs in zip(*samples[:5], strict=True):
        sample = (obs.tobytes(), int(action), round(float(returns), 4), round(float(discount), 6))
        assert (*sample, next_obs.tobytes() if discount else b"") in happened


def steps(rewards: list[float], *, terminated: int = -1, truncated: int = -1) -> Rollout:
    """One environment that counts its steps: obs 0, 1, 2 ...; the final observation is 9."""
    count = len(rewards)
    at = np.arange(count)[:, None]
    ends = np.argwhere((at == terminated) | (at == truncated))
    return Rollout(
        np.arange(count, dtype=np.float32)[:, None, None],
        np.arange(count)[:, None],
        np.float32(rewards)[:, None],
        at == terminated,
        at == truncated,
        ends=ends,
        end_obs=np.full((len(ends), 1), 9, np.float32),
        last_obs=np.float32([[9 if len(ends) and ends[-1, 0] == count - 1 else count]]),
    )


def drawn(replay: Replay) -> dict[int, tuple[float, float, float]]:
    """action -> returns, discount, next_obs, of everything that can be drawn"""
    samples = replay.sample(500, np.random.default_rng(0))
    columns = (samples.actions, samples.returns, samples.discounts, samples.next_obs[:, 0])
    return {int(a): (float(r), float(d), float(s)) for a, r, d, s in zip(*columns, strict=True)}


def make(kind: type[Replay] = Replay, *, n_step: int = 2, actions: spaces.Space[Any] = ACTIONS) -> Replay:
    return kind(20, 1, spaces.Box(-9, 9, (1,), np.float32), actions, gamma=0.5, n_step=n_step)


@pytest.mark.parametrize("kind", [Replay, PrioritizedReplay])
def test_by_hand(kind: type[Replay]) -> None:
    running = make(kind)
    running.add(steps([1, 2, 4]))
    # 1 + .5 * 2 and .25 V(2), 2 + .5 * 4 and .25 V(3); the newest has one reward only: 4 and .5 V(3)
    assert drawn(running) == {0: (2, 0.25, 2), 1: (4, 0.25, 3), 2: (4, 0.5, 3)}

    ended = make(kind)
    ended.add(steps([1, 2, 4], terminated=1))
    assert drawn(ended) == {0: (2, 0, 9), 1: (2, 0, 9), 2: (4, 0.5, 3)}

    cut = make(kind)
    cut.add(steps([1, 2, 4], truncated=1))
    assert drawn(cut) == {0: (2, 0.25, 9), 1: (2, 0.5, 9), 2: (4, 0.5, 3)}


def test_the_oldest_steps_give_way_and_a_restart_cuts() -> None:
    replay = make(n_step=1)
    for _ in range(3):
        replay.add(steps([1] * 10))
        replay.begin()  # fresh episodes: 10 steps and the observation after them fill 11 rows
    assert len(replay) == 18  # of 20 rows two hold a last observation
    assert drawn(replay)[9] == (1, 0.5, 10)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_continuous_actions_are_kept_as_they_are(dtype: type[np.floating[Any]]) -> None:
    """Half precision, which has 11 bits, is too coarse for an action between -1 and 1."""
    replay = make(n_step=1, actions=spaces.Box(-1, 1, (2,), dtype))
    actions = np.float32([[[0.3, -1]], [[0.7, 1]]])
    replay.add(replace(steps([1, 2]), actions=actions))
    samples = replay.sample(50, np.random.default_rng(0))
    assert samples.actions.dtype == np.float32
    # the reward says which of the two steps it is
    np.testing.assert_array_equal(samples.actions, actions[samples.returns.astype(int) - 1, 0])


def test_low_rewards_count_as_the_least() -> None:
    """Rewards 1, 2 and 3 are stored as 2, 2 and 3."""
    replay = Replay(20, 1, spaces.Box(-9, 9, (1,), np.float32), ACTIONS, gamma=0.5, least_reward=2)
    replay.add(steps([1, 2, 3]))
    assert set(replay.sample(50, np.random.default_rng(0)).returns.tolist()) == {2.0, 3.0}


def test_each_frame_is_stored_once() -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    replay = PrioritizedReplay(1_000_000, 8, space, ACTIONS, gamma=0.99)
    arrays = [value for value in vars(replay).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in [*arrays, replay.tree.sums]) < 7.5e9


def test_observations_that_are_not_stacks_are_refused() -> None:
    world = World(0, 1, pixels=True)
    rollout = world.rollout(1)
    while rollout.done[0, 0]:
        rollout = world.rollout(1)
    rollout.last_obs[:] = 77
    with pytest.raises(InputError, match=r"\(3, 2, 2\) are not stacks of the last frames: give colours last"):
        Replay(100, 1, PIXELS, ACTIONS, gamma=0.9).add(rollout)
    with pytest.raises(InputError, match="replay_size 10 is too small for 4 environments"):
        Replay(10, 4, PIXELS, ACTIONS, gamma=0.9)


def black(steps: int) -> Rollout:
    """Two environments that show black pictures; the first ends an episode in the step before the last."""
    flags = np.zeros((steps, 2), bool)
    terminated = flags.copy()
    terminated[-2, 0] = True
    return Rollout(
        np.zeros((steps, 2, *PIXELS.shape), np.uint8),
        np.zeros((steps, 2), int),
        np.zeros((steps, 2), np.float32),
        terminated,
        flags,
        ends=np.argwhere(terminated),
        end_obs=np.zeros((1, *PIXELS.shape), np.uint8),
        last_obs=np.zeros((2, *PIXELS.shape), np.uint8),
    )


@pytest.mark.parametrize(
    ("array", "place"), [("obs", (3, 1)), ("obs", (-1, 1)), ("last_obs", (0,)), ("end_obs", (0,))]
)
@pytest.mark.parametrize("later", [False, True])
def test_pictures_that_are_no_stacks_are_refused_after_a_black_start_too(
    array: str, place: tuple[int, ...], later: bool
) -> None:
    """Black pictures are alike: the first colours come in a later step, rollout, or at the end of an episode."""
    replay = Replay(100, 2, PIXELS, ACTIONS, gamma=0.9)
    if later:
        replay.add(black(6))
    stored = len(replay)
    rollout = black(6)
    getattr(rollout, array)[place] = 77
    with pytest.raises(InputError, match=r"\(3, 2, 2\) are not stacks of the last frames"):
        replay.add(rollout)
    assert len(replay) == stored


def test_an_episode_may_begin_with_another_picture() -> None:
    replay = Replay(100, 2, PIXELS, ACTIONS, gamma=0.9)
    rollout = black(6)
    rollout.obs[-1, 0] = rollout.last_obs[0] = 77
    replay.add(rollout)
    assert len(replay) == 12


def test_the_sum_tree_draws_in_proportion() -> None:
    tree = SumTree(5)
    tree.set(np.arange(5), np.array([1.0, 0.0, 2.0, 0.0, 1.0]))
    assert tree.sums[1] == 4
    indices, probabilities = tree.draw(4_000, np.random.default_rng(0))
    # One from each of 4,000 equal shares of the sum, so the counts are the shares.
    assert np.bincount(indices, minlength=5).tolist() == [1000, 0, 2000, 0, 1000]
    assert_allclose(probabilities, np.array([0.25, 0, 0.5, 0, 0.25])[indices])
    tree.set(np.array([2, 4]), np.array([0.0, 3.0]))
    assert tree.sums[1] == 4
    assert np.bincount(tree.draw(4_000, np.random.default_rng(0))[0], minlength=5).tolist() == [
        1000,
        0,
        0,
        0,
        3000,
    ]
    assert tree.highest == 3


@pytest.mark.parametrize(
    ("values", "place", "drawn"),
    [
        ([1, 1, 1, 1], 0.25, [0, 2]),  # 0.5 and 2.5 of a sum of 4
        ([1, 1, 1, 1], 0.75, [1, 3]),  # 1.5 and 3.5
        ([0, 2, 0, 2], 0.0, [1, 3]),  # 0 and 2: what ends there has no share of its own
        ([2, 0, 2, 0], np.nextafter(1, 0), [0, 2]),  # the second one rounds to 4, the end of the sum
    ],
)
def test_a_draw_falls_where_the_generator_says_and_never_on_a_value_of_0(
    values: list[float], place: float, drawn: list[int]
) -> None:
    tree, generator = SumTree(4), SimpleNamespace(random=lambda size: np.full(size, place))
    tree.set(np.arange(4), np.array(values, float))
    assert tree.draw(2, generator)[0].tolist() == drawn  # type: ignore[arg-type]


def test_steps_are_drawn_by_priority_and_new_ones_have_the_highest() -> None:
    replay = make(PrioritizedReplay, n_step=1)
    assert isinstance(replay, PrioritizedReplay)
    replay.add(steps([1, 2, 4]))
    replay.prioritize(np.flatnonzero(replay.acted), np.array([1.0, 3.0, 0.0]))
    actions = replay.sample(400, np.random.default_rng(0)).actions
    assert np.bincount(actions, minlength=3).tolist() == [100, 300, 0]
    replay.add(steps([8]))
    assert replay.tree.sums[1] == 1 + 3 + 3


def test_what_was_cleared_is_drawn_no_more() -> None:
    replay = make(PrioritizedReplay, n_step=1)
    assert isinstance(replay, PrioritizedReplay)
    replay.add(steps([1, 2, 4]))
    replay.prioritize(np.flatnonzero(replay.acted), np.array([1.0, 3.0, 9.0]))
    replay.clear()
    replay.add(steps([8]))
    assert set(replay.sample(100, np.random.default_rng(0)).returns.tolist()) == {8.0}
    assert replay.tree.sums[1] == 1


def test_importance_weights_by_hand() -> None:
    """(1 / P)^0.5, divided by the largest: of 1 / 2 and 1 / 4 the first is the square root of a half."""
    assert importance_weights(np.float32([0.5, 0.25]), 0.5).tolist() == pytest.approx([2**-0.5, 1.0])
