"""Asks a policy, whose code may come from anybody, and checks its answers before they are used."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.datasets.trajectory import Policy
from imitate.envs.fields import LEAVES
from imitate.envs.numbers import all_finite, strays
from imitate.envs.spaces import Array, Space, beyond, kind
from imitate.errors import Fault, InputError, raised

__all__ = ["Ask", "Askable", "acting", "asking"]

Ask = Callable[[Array], Array]
"""A function from observations (N, *obs_shape) to actions (N, *action_shape) of the action space's dtype."""

Askable = Policy | Ask
"""A policy whose deterministic actions are asked for, or a function of observations."""

_FEW = 1024  # actions of a Discrete space


def asking(policy: Askable, space: Space, *, deterministic: bool = True, who: str = "the policy") -> Ask:
    """A function that asks a policy and checks its answer.

    who   name to blame in the message; a policy with a `source`, such as an expert, is named by that

    A policy that was trained for wider bounds than the space's is clipped to these.

    Raises InputError if the policy's action space is not of the same `kind`. The function raises InputError if the
    policy does, or if it fails on observations of a shape that is not its own. It raises a `Fault` if the policy raises
    anything else except KeyboardInterrupt, or if its answer is not N actions of the space: another shape, NaN, a
    fraction instead of a discrete action, or an action outside the space. None of them reaches an environment.
    """
    source = getattr(policy, "source", "")
    who = f"the expert {source}" if source else who
    act = acting(policy)
    shape, dtype = space.shape or (), space.dtype
    trained = getattr(policy, "action_space", space)
    if isinstance(trained, LEAVES) and kind(trained) != kind(space):
        raise InputError(f"{who} is not for this environment: it acts in {trained}, not in {space}")
    is_wider = beyond(trained, space)
    is_sound = _soundness(space, clipped=is_wider)

    def ask(obs: Array) -> Array:
        try:
            given = act(obs, deterministic)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            seen = getattr(policy, "observation_space", None)
            if isinstance(seen, LEAVES) and seen.shape != obs.shape[1:]:
                raise InputError(
                    f"{who} is not for this environment: it observes {seen}, not rows of shape {obs.shape[1:]}"
                ) from error
            if isinstance(error, InputError):
                raise
            raise Fault(f"{raised(who, error)}{_given(obs, error)}") from error
        actions: Array = given
        if type(given) is not np.ndarray or given.dtype != dtype or given.shape != (len(obs), *shape):
            actions = _cast(given, len(obs), space, who)
        if not is_sound(actions):
            if not all_finite(obs):
                raise Fault(
                    f"{who} was given an observation that holds NaN or infinite numbers: correct the environment"
                )
            outside = actions[_unsound(space, actions)]
            remedy = "clip it" if np.isfinite(outside).all() and isinstance(space, spaces.Box) else "mend it"
            raise Fault(f"{who} answered with {_some(outside)}, which is not in {space}: {remedy}")
        return actions.clip(space.low, space.high) if is_wider else actions  # type: ignore[attr-defined]

    return ask


def _given(obs: Array, error: BaseException) -> str:
    """The form of the batch, for the author of a controller that takes one observation at a time, or a dict."""
    if not isinstance(error, TypeError | ValueError | IndexError | AttributeError):
        return ""
    if obs.dtype.names:
        parts = ", ".join(map(repr, obs.dtype.names))
        return f"; it was given {len(obs)} observations as rows {obs.shape} with the fields {parts}"
    return f"; it was given {len(obs)} observations as one array {obs.shape}"


def acting(policy: Any) -> Callable[[Array, bool], Any]:
    """The policy's `act`, or the policy itself if it is a function, called with observations and `deterministic`, which
    a plain controller need not take. A user's own code gets copies, since it may change observations in place.

    Raises InputError if it is neither.
    """
    act = getattr(policy, "act", policy)
    if not callable(act):
        remedy = "imitate.load_expert loads one by its name, and `lambda obs: model.predict(obs)[0]` asks one of SB3's"
        if callable(getattr(getattr(policy, "policy", None), "act", None)):  # a learner
            remedy = "give learner.policy"
        raise InputError(
            "a policy is an object with act(obs), or a function of observations, got a "
            f"{type(policy).__name__}: {remedy}"
        )
    makers = {type(each).__module__.partition(".")[0] for each in (policy, getattr(policy, "policy", policy))}
    given: Callable[[Array], Array] = (lambda obs: obs) if makers == {"imitate"} else np.copy
    if act is not policy and _takes_deterministic(act):
        return lambda obs, deterministic: act(given(obs), deterministic=deterministic)
    return lambda obs, deterministic: act(given(obs))  # noqa: ARG005


def _takes_deterministic(act: Callable[..., Any]) -> bool:
    try:
        taken = inspect.signature(act).parameters
    except (TypeError, ValueError):  # written in C
        return True
    return "deterministic" in taken or any(each.kind is each.VAR_KEYWORD for each in taken.values())


def _soundness(space: Space, *, clipped: bool) -> Callable[[Array], bool]:
    """A test that no action is `_unsound`, or, if they are `clipped` afterwards, that all are finite. It runs in every
    step, so it must take no more than a few microseconds."""
    if isinstance(space, spaces.Discrete) and space.n <= _FEW:
        known = frozenset(range(int(space.start), int(space.start) + int(space.n)))
        return lambda actions: known.issuperset(actions.tolist())
    if isinstance(space, spaces.Box):
        # The sum of squares is NaN or infinite if an action is; if it is small, all actions are within the bounds.
        inner = (
            math.inf if clipped else float(np.minimum(-space.low, space.high).clip(0).min(initial=math.inf))
        )
        small = min(inner, 1e18) ** 2

        def is_sound(actions: Array) -> bool:
            if np.vdot(actions, actions) <= small:
                return True
            return bool((np.isfinite(actions) if clipped else ~_unsound(space, actions)).all())

        return is_sound
    return lambda actions: not _unsound(space, actions).any()


def _unsound(space: Space, actions: Array) -> Array:
    """Mask (N, *action_shape) of NaN, infinity, and actions outside the space."""
    return ~np.isfinite(actions) | strays(space, actions)


def _cast(given: Any, count: int, space: Space, who: str) -> Array:
    """Actions in the space's dtype. Raises a `Fault` if the conversion would lose more than precision."""
    wanted = (count, *(space.shape or ()))
    try:
        array = np.asarray(given)
    # Rows of different lengths, tensors with a gradient or on a GPU.
    except (TypeError, ValueError, RuntimeError):
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
    if np.dtype(space.dtype).kind != "f" and (actions != array).any():
        raise Fault(f"{who} answered with {_some(array[actions != array])}, wanted whole numbers of {space}")
    return actions


def _some(values: Array) -> str:
    return ", ".join(map(str, values.ravel()[:3]))  # as many digits as tell a float from its neighbours
