"""Replay: a ring buffer of past steps per environment, sampled uniformly; `prioritized` has the other kind.

A row holds one frame. A vector observation is one frame. A pixel observation that stacks S frames is rebuilt from S
consecutive rows, so each frame is stored once (1 M rows of 84 x 84 take 7.1 GB). An episode of T steps is stored as

    the S - 1 older frames of its first observation | T rows, each with an action | the true final observation

Only rows with an action are sampled, so neither a stack nor an n-step return reaches across the end of an episode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium import spaces

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.nn.networks import channels_last
from imitate.rl.rollout import Rollout

__all__ = ["Replay", "Samples"]


def _frames_stacked(space: spaces.Space[Any]) -> int:
    """Number of frames (H, W) that an observation stacks; 1 for colour images and for anything else."""
    shape = space.shape or ()
    stacked = len(shape) == 3 and space.dtype == np.uint8 and not channels_last(space)
    return int(shape[0]) if stacked else 1


def _shifted(obs: Array, after: Array) -> Array:
    """(B,) bool: the stacks `after` (B, S, H, W) are those of `obs` shifted by a frame."""
    shifted: Array = (after[:, :-1] == obs[:, 1:]).all((1, 2, 3))
    return shifted


def _stored(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Discrete):
        return np.int64  # what torch gathers by
    return np.float32 if np.issubdtype(space.dtype, np.floating) else space.dtype


class Samples(NamedTuple):
    """B samples. `obs` and `next_obs` (B, *obs_shape) are raw and up to n steps apart. `returns` (B,) sum the
    discounted rewards between them, and `discounts` (B,) weigh the value of `next_obs` (0: terminated)."""

    obs: Array
    actions: Array
    returns: Array
    discounts: Array
    next_obs: Array
    slots: Array  # their places in the replay, for `PrioritizedReplay.prioritize`
    probabilities: Array  # sampling probabilities, up to a constant factor


class Replay:
    """The last `capacity` rows of N environments, one ring each; sampled uniformly.

    Floats are stored in single precision, as the networks take them: a million steps of HalfCheetah are 0.1 GB.

    capacity       rows of all environments together; an episode of T steps takes T + S of them, of S stacked frames
    gamma, n_step  the discount, and the number of rewards that a return sums
    least_reward   lower rewards are stored as this

    Raises InputError for a capacity that is too small.
    """

    _arrays = ("frames", "actions", "rewards", "terminated", "acted", "written")

    def __init__(
        self,
        capacity: int,
        num_envs: int,
        space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        gamma: float,
        n_step: int = 1,
        least_reward: float | None = None,
    ) -> None:
        shape, self.stack = space.shape or (), _frames_stacked(space)
        self.gamma, self.n_step, self.num_envs = gamma, n_step, num_envs
        self.least_reward = least_reward
        self.rows = capacity // num_envs
        if self.rows < 2 * self.stack + n_step:
            raise InputError(
                f"replay_size {capacity} is too small for {num_envs} environments; "
                f"take at least {(2 * self.stack + n_step) * num_envs}"
            )
        slots = num_envs * self.rows  # environment n starts at n * rows
        self.frames = np.zeros((slots, *(shape[1:] if self.stack > 1 else shape)), _stored(space))
        self.actions = np.zeros((slots, *(action_space.shape or ())), _stored(action_space))
        self.rewards = np.zeros(slots, np.float32)
        self.terminated = np.zeros(slots, bool)
        self.acted = np.zeros(slots, bool)  # the row has an action and a whole stack: it can be sampled
        # Number of these rows; None: they changed, and a large replay takes a while to count.
        self._count: int | None = 0
        self.written = np.zeros(num_envs, np.int64)  # rows so far, including overwritten ones
        self._everywhere, self._counting = np.arange(num_envs), np.arange(self.rows + self.stack)
        self.begin()

    @classmethod
    def of_episodes(
        cls,
        episodes: Sequence[Rollout],
        space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *,
        gamma: float,
        n_step: int = 1,
        least_reward: float | None = None,
    ) -> Self:
        """A replay of these episodes, each from one environment, with room for no more."""
        stack = _frames_stacked(space)
        rows = sum(len(episode.obs) + stack for episode in episodes) + 2 * stack + n_step
        replay = cls(rows, 1, space, action_space, gamma=gamma, n_step=n_step, least_reward=least_reward)
        for episode in episodes:
            replay.add(episode)
        return replay

    def __len__(self) -> int:
        """Number of steps that can be sampled."""
        if self._count is None:
            self._count = int(np.count_nonzero(self.acted))
        return self._count

    @property
    def full(self) -> bool:
        """True if every row was written."""
        return bool(self.written.min() >= self.rows)

    def begin(self) -> None:
        """Expect new episodes in every environment at the start of the next rollout."""
        self._begun = np.ones(self.num_envs, bool)

    def add(self, rollout: Rollout) -> None:
        """Append T steps of every environment; `rollout.actions` (T, N, *action_shape) are stored unchanged.

        Raises InputError, and stores nothing, if pixel observations aren't stacks of the last frames.
        """
        if self.stack > 1:
            self._check_stacks(rollout)
        steps = len(rollout.obs)
        done = rollout.done
        ended = begin = 0
        while begin < steps:
            fresh = np.flatnonzero(self._begun)
            for age in reversed(range(self.stack)) if len(fresh) else ():
                self._write(fresh, self._frame(rollout.obs[begin, fresh], age)[None])
            # All rows up to the next end of an episode at once, if they fit in the ring.
            end = min(begin + self.rows - 2 * self.stack, steps)
            if done[begin:end].any():
                end = begin + int(done[begin:end].any(1).argmax()) + 1
            successors = self._frame(rollout.obs[begin + 1 : end + 1], 0)
            if end == steps:
                successors = np.concatenate([successors, self._frame(rollout.last_obs, 0)[None]])
            self._begun = done[end - 1]
            if ends := int(np.count_nonzero(self._begun)):
                successors = successors.copy()
                successors[-1, self._begun] = self._frame(rollout.end_obs[ended : ended + ends], 0)
                ended += ends
            slots = self._write(self._everywhere, successors)
            rewards = rollout.rewards[begin:end]
            self.rewards[slots] = rewards if self.least_reward is None else rewards.clip(self.least_reward)
            self.actions[slots] = rollout.actions[begin:end]
            self.terminated[slots] = rollout.terminated[begin:end]
            self.mark(slots, acted=True)
            begin = end

    def sample(self, size: int, rng: np.random.Generator) -> Samples:
        """`size` steps, drawn with replacement."""
        slots, probabilities = self._draw(size, rng)
        returns, discounts = self.rewards[slots], np.full(size, self.gamma, np.float32)
        last, following = slots, self._next(slots)
        going = np.ones(size, bool)
        for _ in range(1, self.n_step):
            # A final observation has no action, and neither has the newest row.
            going &= self.acted[following]
            returns += going * (discounts * self.rewards[following])
            discounts = np.where(going, discounts * np.float32(self.gamma), discounts)
            last = np.where(going, following, last)
            following = np.where(going, self._next(following), following)
        discounts *= ~self.terminated[last]
        return Samples(
            self._observations(slots),
            self.actions[slots],
            returns,
            discounts,
            self._observations(following),
            slots,
            probabilities,
        )

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Slots (B,) that have an action, and their sampling probabilities up to a constant factor."""
        filled = min(int(self.written.max()), self.rows)  # rings differ only by the ends of episodes
        slots = np.empty(0, np.int64)
        while len(slots) < size:  # replace rows without an action
            drawn = rng.integers(self.num_envs * filled, size=size)
            if filled < self.rows:
                drawn = drawn // filled * self.rows + drawn % filled
            drawn = drawn[self.acted[drawn]]
            slots = np.concatenate([slots, drawn]) if len(slots) else drawn
        return slots[:size], np.ones(size, np.float32)

    def _observations(self, slots: Array) -> Array:
        if self.stack > 1:
            row = slots % self.rows
            older = (row[:, None] + np.arange(1 - self.stack, 1)) % self.rows  # (B, S)
            slots = (slots - row)[:, None] + older
        observations: Array = self.frames[slots]
        return observations

    def _next(self, slots: Array) -> Array:
        following = slots + 1
        following[following % self.rows == 0] -= self.rows  # a ring ends where the next one begins
        return following

    def _frame(self, obs: Array, age: int) -> Array:
        """The frame `age` steps before the newest of stacks (..., S, H, W); other observations are left unchanged."""
        return obs if self.stack == 1 else obs[..., -1 - age, :, :]

    def _write(self, envs: Array, frames: Array) -> Array:
        """Append `frames` (T, E, ...) to the rings of E environments; returns the slots (T, E) of the rows before."""
        ring = envs * self.rows
        rows = self.written[envs] + self._counting[: len(frames) + self.stack, None]  # (T + stack, E)
        slots = ring + (rows - 1) % self.rows
        self.frames[slots[1 : len(frames) + 1]] = frames
        self.written[envs] += len(frames)
        # The overwritten rows have lost their actions, and the oldest rows that stack them have lost frames.
        self.mark(slots[1:], acted=False)
        before: Array = slots[: len(frames)]
        return before

    def mark(self, slots: Array, *, acted: bool) -> None:
        """Set whether these slots can be sampled."""
        self.acted[slots], self._count = acted, None

    def _check_stacks(self, rollout: Rollout) -> None:
        # Every step is checked, since an episode may begin with pictures that are all alike, such as black ones.
        steps = zip(rollout.obs, [*rollout.obs[1:], rollout.last_obs], rollout.done, strict=True)
        shifted = all((_shifted(obs, after) | done).all() for obs, after, done in steps)
        before_ends = rollout.obs[tuple(rollout.ends.T)]
        if not (shifted and _shifted(before_ends, rollout.end_obs).all()):
            raise InputError(
                f"pixel observations {rollout.obs.shape[2:]} are not stacks of the last frames: give colours last, as "
                "(H, W, C), and other planes as floats, or wrap the environment with "
                "gymnasium.wrappers.FrameStackObservation over grey frames"
            )

    def state_dict(self) -> dict[str, Any]:
        """The whole replay; don't save one of pixels, which takes gigabytes."""
        return {name: torch.from_numpy(getattr(self, name)) for name in self._arrays}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; the next rollout must begin with new episodes."""
        for name in self._arrays:
            getattr(self, name)[...] = state[name].numpy()
        self._count = None
        self.begin()

    def clear(self) -> None:
        """Forget everything."""
        self.acted[:], self._count = False, 0
        self.written[:] = 0
        self.begin()
