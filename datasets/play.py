"""Playing episodes: policy, environments and seeds in, trajectories or their scores out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.lib.stride_tricks import sliding_window_view

from imitate.datasets.asking import asking
from imitate.datasets.noise import ActionNoise
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.spaces import Array, uniform_actions
from imitate.envs.stepping import Score, Scores, stepping
from imitate.envs.vec import Step, VecEnv
from imitate.errors import InputError

__all__ = ["RandomPolicy", "episodes", "scores", "stack_frames", "unstack_frames"]

_CAPACITY = 256  # rows of a tape at first


def episodes(
    policy: Policy,
    envs: VecEnv,
    seeds: Iterable[int],
    *,
    deterministic: bool = True,
    expert: Policy | None = None,
    noise: ActionNoise | None = None,
    frame_stack: int = 1,
) -> Iterator[Trajectory]:
    """Play one episode per seed; yields trajectories, with `info["seed"]`, in the order in which they end.

    expert       its deterministic actions on every visited observation become `expert_actions`
    noise        disturbs the executed actions; `expert_actions` then hold the clean ones (the expert's, if given)
    frame_stack  k > 1: observations are stacks (k, *frame) of the last k frames; each frame is kept in memory once,
                 and `obs` of the trajectories are read-only views

    Raises InputError if observations are not stacks of `frame_stack` frames.
    """
    # Unbiased by construction: `seeds` determines which episodes are played, not their length. Taking the first N
    # parallel episodes to *finish* would favour short ones; here an environment that runs out of seeds idles while
    # the last long episodes end.
    obs = envs.reset(seeds)
    tape = _Tape(envs, obs, frame_stack, labelled=expert is not None or noise is not None)
    # The answers have the dtype of the space, so that the recorded action equals the executed one bit by bit.
    ask = asking(policy, envs.single_action_space, deterministic=deterministic)
    label = None if expert is None else asking(expert, envs.single_action_space)

    def choose(obs: Array, _begun: Array) -> tuple[Array, tuple[Array, Array]]:
        actions = ask(obs)
        labels = actions if label is None else label(obs)
        executed = actions if noise is None else noise(actions)
        return executed, (executed, labels)

    def begin(env: int, obs: Array) -> None:
        tape.begin(env, obs)
        if noise is not None:
            noise.begin(env, int(envs.seeds[env]))

    for env in np.flatnonzero(envs.running).tolist():
        begin(env, obs)
    for seen, (executed, labels), step, ends in stepping(envs, choose, obs):
        tape.record(seen, executed, labels, step.rewards)
        for env in ends:
            yield tape.end(env, step)
            if envs.running[env]:
                begin(env, step.obs)


def scores(
    policy: Policy,
    envs: VecEnv,
    seeds: Iterable[int],
    *,
    deterministic: bool = True,
    limit: float = math.inf,
) -> Iterator[Score]:
    """Play one episode per seed, as `episodes` does; yields their returns and lengths, in the order in which they end.

    limit   steps of all environments together; the episodes that it cuts come last, and are not `whole`
    """
    ask = asking(policy, envs.single_action_space, deterministic=deterministic)

    def choose(obs: Array, _begun: Array) -> tuple[Array, None]:
        return ask(obs), None

    obs = envs.reset(seeds)
    tally = Scores(envs)
    for _, _, step, ends in stepping(envs, choose, obs, limit=limit):
        yield from tally.add(step, ends)
    yield from tally.unfinished()


class _Tape:
    """The recent steps of every environment, in arrays (capacity, N, ...) with a row per step.

    A step is recorded with one assignment per array; when an episode ends, it is cut from its environment's column.
    """

    def __init__(self, envs: VecEnv, obs: Array, frame_stack: int, *, labelled: bool) -> None:
        if frame_stack > 1 and (obs.ndim < 3 or obs.shape[1] != frame_stack):
            raise InputError(
                f"observations {obs.shape[1:]} are not stacks of {frame_stack} frames: frame_stack is wrong"
            )
        self._envs = envs
        self._stack = frame_stack
        frame_shape = obs.shape[1:] if frame_stack == 1 else obs.shape[2:]
        action_space = envs.single_action_space
        actions = (_CAPACITY, envs.num_envs, *(action_space.shape or ()))
        self._obs = np.empty((_CAPACITY, envs.num_envs, *frame_shape), obs.dtype)
        self._actions = np.empty(actions, action_space.dtype)
        self._rewards = np.empty(actions[:2], np.float32)
        self._labels = np.empty(actions, action_space.dtype) if labelled else None
        self._length = 0
        self._first = np.full(envs.num_envs, -1)  # (N,) row where the current episode begins; -1: none
        self._seeds = np.zeros(envs.num_envs, np.int64)
        # (k-1, *frame) before an episode's first frame
        self._leading: list[Array] = [obs[:0]] * envs.num_envs

    def begin(self, env: int, obs: Array) -> None:
        self._first[env] = self._length
        self._seeds[env] = self._envs.seeds[env]
        if self._stack > 1:
            self._leading[env] = obs[env, :-1].copy()

    def record(self, obs: Array, actions: Array, labels: Array, rewards: Array) -> None:
        row = self._length
        if row == len(self._rewards):
            row = self._make_room()
        self._obs[row] = obs if self._stack == 1 else obs[:, -1]
        self._actions[row] = actions
        self._rewards[row] = rewards
        if self._labels is not None:
            self._labels[row] = labels
        self._length = row + 1

    def end(self, env: int, step: Step) -> Trajectory:
        """The environment's episode, which ended with this step."""
        final_obs = step.final_obs[env]
        steps = slice(self._first[env], self._length)
        self._first[env] = -1
        last = final_obs if self._stack == 1 else final_obs[-1]
        leading = self._leading[env] if self._stack > 1 else self._obs[:0, env]
        frames = np.concatenate([leading, self._obs[steps, env], last[None]])
        if self._stack > 1 and not np.array_equal(frames[-self._stack :], final_obs):
            raise InputError(
                f"observations are not stacks of the last {self._stack} frames: frame_stack is wrong"
            )
        return Trajectory(
            obs=stack_frames(frames, self._stack),
            actions=self._actions[steps, env].copy(),
            rewards=self._rewards[steps, env].copy(),
            terminated=bool(step.terminated[env]),
            truncated=bool(step.truncated[env]),
            info={"seed": int(self._seeds[env])},
            expert_actions=None if self._labels is None else self._labels[steps, env].copy(),
        )

    def _make_room(self) -> int:
        """Drop the rows that no current episode needs; double the arrays if more than half are needed."""
        in_flight = self._first >= 0
        keep = slice(int(self._first[in_flight].min()), self._length)
        kept = keep.stop - keep.start
        capacity = 2 * self._length if 2 * kept > self._length else self._length
        for name in ("_obs", "_actions", "_rewards", "_labels"):
            old = getattr(self, name)
            if old is not None:
                new = old if capacity == len(old) else np.empty((capacity, *old.shape[1:]), old.dtype)
                new[:kept] = old[keep]
                setattr(self, name, new)
        self._first[in_flight] -= keep.start
        self._length = kept
        return kept


def stack_frames(frames: Array, k: int) -> Array:
    """(T+k, *frame) to a read-only view (T+1, k, *frame) of the last k frames; k = 1: the frames themselves."""
    return frames if k == 1 else np.moveaxis(sliding_window_view(frames, k, axis=0), -1, 1)


def unstack_frames(obs: Array, k: int) -> Array:
    """(T+1, k, *frame) to (T+k, *frame) with every frame once; the inverse of `stack_frames`.

    Raises InputError if an observation is not the previous one shifted by a frame.
    """
    if k == 1:
        return obs
    for start in range(0, len(obs) - 1, 256):  # in chunks: comparing a long episode at once takes much memory
        block = obs[start : start + 257]
        if not np.array_equal(block[1:, :-1], block[:-1, 1:]):
            raise InputError(f"observations are not stacks of the last {k} frames: frame_stack is wrong")
    return np.concatenate([obs[0, :-1], obs[:, -1]])


class RandomPolicy:
    """Uniformly random actions: the baseline that anything learned should exceed."""

    def __init__(self, action_space: spaces.Space[Any], seed: int = 0) -> None:
        self._space = action_space
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the sequence of actions of this seed."""
        self._rng = np.random.default_rng(seed)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return uniform_actions(self._space, len(obs), self._rng)
