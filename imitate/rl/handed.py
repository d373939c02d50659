"""The check of what a learner is handed, which would otherwise fail far away, with an AttributeError."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.spaces import kind
from imitate.envs.vec import VecEnv, check_envs
from imitate.errors import InputError
from imitate.nn.networks import check_device
from imitate.nn.policy import ActorPolicy

__all__ = ["takes"]

Making = TypeVar("Making", bound=Callable[..., Any])


def takes(wanted: type[Any]) -> Callable[[Making], Making]:
    """For the `__init__` of a learner, or the function that makes it, whose first argument is a config of class
    `wanted`.

    It raises InputError unless it is one, and unless torch can use `device`, `envs` is a VecEnv, `demos` a DemoReader,
    `store` a DemoWriter and `policy` an ActorPolicy, all of the spaces of `envs`.
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
            return making(*args, **handed)

        return make  # type: ignore[return-value]

    return checked


_KINDS: dict[str, tuple[type[Any], str]] = {
    "demos": (DemoReader, "open their file with DemoReader"),
    "store": (DemoWriter, "open its file with DemoWriter"),
    "policy": (ActorPolicy, "open a run's with load_policy"),
}


def _check(name: str, given: Any, envs: VecEnv | None) -> None:
    wanted, remedy = _KINDS[name]
    if not isinstance(given, wanted):
        raise InputError(f"{name} must be of class {wanted.__name__}, got {type(given).__name__}: {remedy}")
    spaces = given if isinstance(given, ActorPolicy) else given.info
    for space in ("observation_space", "action_space") if envs is not None else ():
        has, needed = kind(getattr(spaces, space)), kind(getattr(envs, f"single_{space}"))
        if has != needed:
            raise InputError(f"{name} of other environments: their {space} is {has}, that of envs {needed}")
