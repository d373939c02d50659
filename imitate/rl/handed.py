"""The check of what a learner is handed, which would otherwise fail far away, with an AttributeError."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from gymnasium import spaces

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.spaces import beyond, kind
from imitate.envs.vec import VecEnv, check_envs
from imitate.errors import InputError
from imitate.nn.networks import check_device
from imitate.nn.policy import ActorPolicy

__all__ = ["check_actions", "takes"]

Making = TypeVar("Making", bound=Callable[..., Any])


def takes(wanted: type[Any]) -> Callable[[Making], Making]:
    """For the `__init__` of a learner, or the function that makes it, whose first argument is a config of class
    `wanted`.

    It raises InputError unless it is one, and unless torch can use `device`, `envs` is a VecEnv, `demos` a DemoReader,
    `store` a DemoWriter and `policy` an ActorPolicy, all of the spaces of `envs`. The demonstrations have the actions
    that the learner needs, and `episodes` names at least one of them.
    """

    def checked(making: Making) -> Making:
        owner = making.__qualname__.removesuffix(".__init__")
        place = list(inspect.signature(making).parameters).index("config")

        @functools.wraps(making)
        def make(*args: Any, **handed: Any) -> Any:
            config = args[place] if len(args) > place else handed.get("config", making)
            # Python itself names what is missing.
            if config is not making and not isinstance(config, wanted):
                got = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
                raise InputError(f"{owner} takes {wanted.__name__}, got {got}")
            check_device(handed.get("device", "cpu"))
            if "envs" in handed:
                check_envs(handed["envs"])
            for name in _KINDS.keys() & handed:
                if handed[name] is not None:
                    _check(name, handed[name], handed.get("envs"))
            if (demos := handed.get("demos")) is not None:
                check_actions(demos.info, type(config), str(demos.paths[0]), owner)
            if (episodes := handed.get("episodes")) is not None and len(episodes) == 0:
                raise InputError(
                    "episodes names none: give the index of at least one, or leave it out for all"
                )
            return making(*args, **handed)

        return make  # type: ignore[return-value]

    return checked


_KINDS: dict[str, tuple[type[Any], str]] = {
    "demos": (DemoReader, "open their file with DemoReader"),
    "store": (DemoWriter, "open its file with DemoWriter"),
    "policy": (ActorPolicy, "open a run's with load_policy"),
}


def check_actions(info: DemoInfo, config: type[Any], demos: str, learner: str) -> None:
    """Raise InputError if demonstrations lack actions, unless learners with this class of config need none."""
    if info.has_actions or getattr(config, "WITHOUT_ACTIONS", False):
        return
    remedy = "use gaifo" if isinstance(info.action_space, spaces.Box) else "record them with their actions"
    raise InputError(f"{demos} holds observations without the actions that {learner} needs: {remedy}")


def _check(name: str, given: Any, envs: VecEnv | None) -> None:
    wanted, remedy = _KINDS[name]
    if not isinstance(given, wanted):
        raise InputError(f"{name} must be of class {wanted.__name__}, got {type(given).__name__}: {remedy}")
    owner = given if isinstance(given, ActorPolicy) else given.info
    for space in ("observation_space", "action_space") if envs is not None else ():
        has, needed = kind(getattr(owner, space)), kind(getattr(envs, f"single_{space}"))
        if has != needed:
            raise InputError(f"{name} of other environments: their {space} is {has}, that of envs {needed}")
    if envs is not None:
        theirs, ours = owner.action_space, envs.single_action_space
        # A policy may keep to a part of the actions.
        if beyond(theirs, ours) or (not isinstance(given, ActorPolicy) and beyond(ours, theirs)):
            raise InputError(
                f"{name} of other environments: their actions are in {theirs}, those of envs in {ours}"
            )
