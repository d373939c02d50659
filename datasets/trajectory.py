"""Recorded data: trajectories (episodes, in NumPy) and transitions (flat, in torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from imitate.envs.fields import Array, as_dict, rows_of
from imitate.envs.numbers import all_finite
from imitate.errors import InputError, one_line

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Array", "Policy", "Trajectory", "Transitions", "parts_of", "tensor_of", "tensors_of"]


class Policy(Protocol):
    """Anything that acts: an expert, a learner, a mixture of both."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        """Raw observations (N, *obs_shape) to actions (N, *action_shape) in the environment's own units."""
        ...


_ARRAYS = ("obs", "actions", "rewards", "expert_actions", "states")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode of T >= 1 steps, or a part of one that was cut (then `truncated`).

    obs             (T+1, *obs_shape) raw, never normalised; the last row is the true final observation. Dict
                    observations are rows (T+1,) of a structured array: `obs["goal"]` is (T+1, *goal_shape)
    actions         (T, *action_shape) as the environment took them
    rewards         (T,) float32, the environment's own
    terminated      the task ended: nothing to bootstrap
    truncated       ended by a time limit or cut: bootstrap from V(obs[-1])
    info            seed, expert, env id, and texts such as the task ...
    expert_actions  (T, *action_shape) the expert's actions, if another policy acted or noise was added; None if
                    `actions` are the expert's
    states          (T, S) float64 of the simulator before each action, if they were recorded

    Lists become arrays, and a dict of arrays (T+1, *shape) becomes such rows.

    Raises InputError if lengths disagree, a float is not finite, or anything else than numbers is given.
    """

    obs: Array
    actions: Array
    rewards: Array
    terminated: bool
    truncated: bool
    info: Mapping[str, Any] = field(default_factory=dict)
    expert_actions: Array | None = None
    states: Array | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            given = getattr(self, name)
            if given is not None or name in _ARRAYS[:3]:
                object.__setattr__(self, name, _array(name, given))
        for name in ("terminated", "truncated"):
            flag = getattr(self, name)
            if np.ndim(flag) or np.asarray(flag).dtype.kind not in "biu":
                raise InputError(f"{name} of a trajectory must be True or False, got {flag!r}")
            object.__setattr__(self, name, bool(flag))
        steps = len(self.actions)
        if steps < 1:
            raise InputError("a trajectory needs at least one step, got 0")
        if len(self.obs) != steps + 1:
            raise InputError(
                f"a trajectory of {steps} actions needs {steps + 1} observations (the final one included), "
                f"got {len(self.obs)}"
            )
        if self.rewards.shape != (steps,):
            raise InputError(
                f"a trajectory of {steps} actions needs rewards of shape ({steps},), got {self.rewards.shape}"
            )
        if self.expert_actions is not None and self.expert_actions.shape != self.actions.shape:
            raise InputError(
                f"expert_actions must have the shape of actions {self.actions.shape}, got {self.expert_actions.shape}"
            )
        if self.states is not None and (self.states.ndim != 2 or len(self.states) != steps):
            raise InputError(
                f"a trajectory of {steps} actions needs states of shape ({steps}, S), got {self.states.shape}"
            )
        for name in _ARRAYS:
            array = getattr(self, name)
            if array is not None and not all_finite(array):
                raise InputError(
                    f"{name} of a trajectory hold NaN or infinity; drop the episode or repair its source"
                )

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def episode_return(self) -> float:
        """Undiscounted sum of the rewards."""
        return float(self.rewards.sum(dtype=np.float64))

    @property
    def labels(self) -> Array:
        """The actions to imitate (T, *action_shape)."""
        return self.actions if self.expert_actions is None else self.expert_actions

    def part(self, start: int, stop: int) -> Trajectory:
        """Steps [start, stop), as views; truncated unless the episode ends with them. Its seed is -1, unknown, if it
        begins later than the episode, as no reset leads there."""
        labels, states, last = self.expert_actions, self.states, stop == len(self)
        return replace(
            self,
            obs=self.obs[start : stop + 1],
            actions=self.actions[start:stop],
            rewards=self.rewards[start:stop],
            terminated=self.terminated and last,
            truncated=self.truncated or not last,
            info={**self.info, "seed": -1} if start else self.info,
            expert_actions=None if labels is None else labels[start:stop],
            states=None if states is None else states[start:stop],
        )


def _array(name: str, given: Any) -> Array:
    """Numbers with a row for each step. Raises InputError for anything that is not."""
    got = f"a {type(given).__name__}"
    try:
        array = rows_of(given) if isinstance(given, Mapping) else np.asarray(given)
        if array.ndim and array.dtype.kind in "biufV":
            return array
    except (TypeError, ValueError, RuntimeError) as error:  # rows of different lengths, tensors on a GPU
        got += f" ({one_line(error)})"
    wanted = "an array, or a dict of arrays," if name == "obs" else "an array"
    raise InputError(f"{name} of a trajectory are {got}: wanted {wanted} of numbers with a row for each step")


@dataclass(frozen=True, slots=True)
class Transitions:
    """B steps as tensors, in no particular order.

    Shapes: obs and next_obs (B, *obs_shape), or what `tensor_of` makes of Dict observations; actions
    (B, *action_shape), rewards (B,) float32, terminated and truncated (B,) bool; expert_actions are like actions, or
    None.
    """

    obs: Tensor
    actions: Tensor
    rewards: Tensor
    next_obs: Tensor
    terminated: Tensor
    truncated: Tensor
    expert_actions: Tensor | None = None

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def labels(self) -> Tensor:
        """The actions to imitate (B, *action_shape)."""
        return self.actions if self.expert_actions is None else self.expert_actions


def tensor_of(array: Array) -> Tensor:
    """The array as a tensor in the same memory; rows (...) of a structured one as their bytes (..., B) uint8."""
    import torch  # takes a second, and reading recordings does not need it

    if array.dtype.names is None:
        return torch.from_numpy(array)
    rows = np.ascontiguousarray(array)
    return torch.from_numpy(rows.view(np.uint8).reshape(*array.shape, rows.dtype.itemsize))


def parts_of(rows: Tensor, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The inverse of `tensor_of` for rows (B, bytes) uint8 of a structured type: a dict of tensors (B, *shape), with a
    dict for a Dict in a Dict."""
    parts: dict[str, Any] = tensors_of(rows.numpy().view(dtype).reshape(len(rows)))
    return parts


def tensors_of(values: Any) -> Any:
    """Observations as a network takes them: a tensor, or of Dict observations, or rows of them, a dict of tensors."""
    parts = values if isinstance(values, Mapping) else as_dict(values)
    if isinstance(parts, Mapping):
        return {name: tensors_of(part) for name, part in parts.items()}
    # A single row keeps the stride of its record, which torch refuses unless it is a multiple of the item's size.
    if any(stride % parts.itemsize for stride in parts.strides):
        parts = parts.copy()
    return tensor_of(np.require(parts, requirements=["C", "A", "W"]))
