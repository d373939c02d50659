"""Asking a policy, which may be anybody's code, and checking its answers before anyone uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.datasets.trajectory import Policy
from imitate.envs.spaces import Array, Space, values_of
from imitate.errors import Fault, InputError, raised

__all__ = ["Ask", "asking"]

Ask = Callable[[Array], Array]
"""From observations (N, *obs_shape) to actions (N, *action_shape) of the action space's dtype, within it."""

_ROUNDING = 1e-5  # of a Box's range: so far beyond a bound counts as on it


def asking(policy: Policy | Ask, space: Space, *, deterministic: bool = True, who: str = "the policy") -> Ask:
    """A function that asks a policy, or a function of observations, and checks what it answers.

    who   is at fault; a policy that has a `source`, as experts do, is named by that

    The function raises a `Fault` if the policy raises, or answers with something else than N actions of the space:
    another shape, NaN, fractions of Discrete actions, values out of range.
    """
    source = getattr(policy, "source", "")
    who = f"the expert {source}" if source else who
    act: Callable[..., Any] | None = getattr(policy, "act", None)
    shape, dtype = space.shape or (), space.dtype
    low, high = _bounds(space)

    def ask(obs: Array) -> Array:
        try:
            given = policy(obs) if act is None else act(obs, deterministic=deterministic)  # type: ignore[operator]
        except InputError:
            raise
        except Exception as error:
            raise raised(who, error) from error
        actions: Array
        if type(given) is np.ndarray and given.dtype == dtype and given.shape == (len(obs), *shape):
            actions = given
        else:
            actions = _cast(given, len(obs), space, who)
        if not ((actions >= low) & (actions <= high)).all():  # NaN is neither
            actions = _rounded(actions, space, who)
        return actions

    return ask


def _bounds(space: Space) -> tuple[Any, Any]:
    """The least and the largest action, in the space's dtype."""
    discrete = values_of(space)
    if discrete is not None:
        first, count = discrete
        return first, first + count - 1
    assert isinstance(space, spaces.Box)
    return space.low, space.high


def _cast(given: Any, count: int, space: Space, who: str) -> Array:
    """Actions of the space's dtype. Raises a `Fault` if they can't be had without losing anything but precision."""
    wanted = (count, *(space.shape or ()))
    try:
        array = np.asarray(given)
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # rows of different lengths, tensors with a gradient or on a GPU
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        hint = "; of SB3's predict, return the first element" if isinstance(given, tuple) else ""
        raise Fault(
            f"{who} answered with a {type(given).__name__}, wanted an array of numbers {wanted}{hint}"
        )
    if array.shape != wanted:
        raise Fault(
            f"{who} answered {count} observations with actions of shape {array.shape}, wanted {wanted} for {space}"
        )
    with np.errstate(invalid="ignore"):  # NaN as an integer
        actions: Array = array.astype(space.dtype)
    if array.dtype.kind == "f" and np.dtype(space.dtype).kind != "f" and (actions != array).any():
        raise Fault(f"{who} answered with {_some(array[actions != array])}, wanted whole numbers of {space}")
    return actions


def _rounded(actions: Array, space: Space, who: str) -> Array:
    """Actions that leave a Box by rounding, on its bounds. Raises a `Fault` for others."""
    low, high = _bounds(space)
    slack = _ROUNDING * (high - low) if isinstance(space, spaces.Box) else 0
    outside = ~((actions >= low - slack) & (actions <= high + slack))
    if outside.any():
        remedy = "clip them" if isinstance(space, spaces.Box) and not np.isnan(actions).any() else "mend it"
        raise Fault(f"{who} answered with {_some(actions[outside])}, which is not in {space}: {remedy}")
    return np.clip(actions, low, high)


def _some(values: Array) -> str:
    return ", ".join(f"{value:g}" for value in values.ravel()[:3].tolist())
