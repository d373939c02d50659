"""Experts that are code: a bundled controller, a callable of a user's module, and random actions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import Any

import gymnasium as gym

from imitate.datasets.asking import acting
from imitate.datasets.play import RandomPolicy
from imitate.envs.answers import spaces_of
from imitate.envs.make import resolve_env_id
from imitate.envs.spaces import Array
from imitate.envs.trust import bare_id, import_typed
from imitate.errors import InputError, raised
from imitate.experts.expert import Expert
from imitate.experts.placing import Asked, Spaces
from imitate.experts.sources import CONTROLLERS

__all__ = ["controller", "from_callable", "random_expert"]

logger = logging.getLogger(__name__)

_FACTORY = (
    "wanted a function without arguments that returns an object with act(obs), or a function of observations"
)


def controller(asked: Asked) -> Expert:
    """The bundled controller of a task. Raises InputError for another task."""
    if bare_id(asked.env_id or asked.spec) != asked.spec:
        raise InputError(f"{asked.spec} is not for {asked.env_id}: it is a controller of that one task")
    module, _, name = CONTROLLERS[asked.spec].partition(":")
    env_id, env_kwargs, env = _named_environment(replace(asked, env_id=asked.env_id or asked.spec))
    policy = getattr(import_module(module), name)()
    return Expert(env_id, env_kwargs, "controller", asked.spec, "", *env, policy=policy)


def random_expert(asked: Asked) -> Expert:
    """Random actions in the environment that was asked for."""
    env_id, env_kwargs, env = _named_environment(asked)
    return Expert(env_id, env_kwargs, "random", asked.spec, "", *env, policy=RandomPolicy(env[1]))


def from_callable(asked: Asked) -> Expert:
    """The policy that `module:make_expert` returns.

    Raises InputError if it returns something else, and a `Fault` if it raises.
    """
    module, name = import_typed(asked.spec), asked.spec.rpartition(":")[2]
    if _is_home(module.__name__, asked.env_id):
        asked = replace(asked, env_id=f"{module.__name__}:{asked.env_id}")  # which says how to find it again
    env_id, env_kwargs, env = _named_environment(asked)
    make = getattr(module, name, None)
    if not callable(make):
        raise InputError(f"{asked.spec}: {module.__name__} has no callable {name!r}, {_FACTORY}")
    if not _takes_nothing(make):
        raise InputError(f"{asked.spec} needs arguments: {_FACTORY}")
    try:
        made = make()
    except (InputError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a driver may raise SystemExit
        raise raised(asked.spec, error) from error
    if not (hasattr(made, "act") or callable(made)):
        hint = ", such as lambda obs: model.predict(obs, deterministic=True)[0]"
        raise InputError(
            f"{asked.spec} returned a {type(made).__name__}: {_FACTORY}{hint if hasattr(made, 'predict') else ''}"
        )
    if callable(getattr(made, "reset", None)):
        logger.warning(
            "%s has a method reset, which nobody calls: its answers must depend on the observations alone, so what it "
            "remembers belongs into these",
            asked.spec,
        )
    return Expert(env_id, env_kwargs, "custom", asked.spec, "", *env, policy=_Own(made), reproducible=False)


def _takes_nothing(make: Callable[[], Any]) -> bool:
    try:
        signature(make).bind()
    except TypeError:
        return False
    except ValueError:  # written in C
        return True
    return True


def _named_environment(asked: Asked) -> tuple[str, dict[str, Any], Spaces]:
    if asked.env_id is None:
        raise InputError(f"expert {asked.spec!r} is for no environment in particular: name one with --env")
    env_kwargs = dict(asked.env_kwargs or {})
    env_id = resolve_env_id(asked.env_id)
    return env_id, env_kwargs, spaces_of(env_id, env_kwargs)


def _is_home(module: str, env_id: str | None) -> bool:
    """True if the environment's class is in the package of this module, whose import registers it."""
    entry = getattr(gym.registry.get(env_id or ""), "entry_point", None)
    home = entry if isinstance(entry, str) else getattr(entry, "__module__", "")
    return home.replace(":", ".").partition(".")[0] == module.partition(".")[0]


class _Own:
    """A user's policy or function of observations. Its randomness can be seeded only if it has a method `seed`."""

    def __init__(self, made: Any) -> None:
        self._act = acting(made)
        self.seed = getattr(made, "seed", lambda seed: None)  # noqa: ARG005

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        actions: Array = self._act(obs, deterministic)
        return actions
