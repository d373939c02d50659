"""The check of what a learner is handed, which would otherwise fail far away, with an AttributeError."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.spaces import kind
from imitate.envs.vec import check_envs
from imitate.errors import InputError
from imitate.nn.networks import check_device

__all__ = ["takes"]

Making = TypeVar("Making", bound=Callable[..., Any])


def takes(wanted: type[Any]) -> Callable[[Making], Making]:
    """For the `__init__` of a learner, or the function that makes it, whose first argument is a config of class
    `wanted`.

    It raises InputError unless it is one, and unless torch can use `device`, `envs` is a VecEnv, `demos` a DemoReader
    and `store` a DemoWriter, both of the spaces of `envs`.
    """

    def checked(making: Making) -> Making:
        owner, signature = making.__qualname__.removesuffix(".__init__"), inspect.signature(making)

        @functools.wraps(making)
        def make(*args: Any, **handed: Any) -> Any:
            # Python's own TypeError names what is missing or unknown.
            config = signature.bind_partial(*args, **handed).arguments.get("config", making)
            if config is not making and not isinstance(config, wanted):
                got = f"the class {config.__name__}" if isinstance(config, type) else type(config).__name__
                raise InputError(f"{owner} takes {wanted.__name__}, got {got}")
            check_device(handed.get("device", "cpu"))
            envs = handed.get("envs")
            if "envs" in handed:
                check_envs(envs)
            for name, kept in (("demos", DemoReader), ("store", DemoWriter)):
                if handed.get(name) is not None:
                    _check_file(name, handed[name], kept, envs)
            return making(*args, **handed)

        return make  # type: ignore[return-value]

    return checked


def _check_file(name: str, given: Any, wanted: type[DemoReader | DemoWriter], envs: Any) -> None:
    if not isinstance(given, wanted):
        raise InputError(
            f"{name} must be a {wanted.__name__}, got {type(given).__name__}: open its file with {wanted.__name__}"
        )
    for space in ("observation_space", "action_space") if envs is not None else ():
        has, needed = kind(getattr(given.info, space)), kind(getattr(envs, f"single_{space}"))
        if has != needed:
            raise InputError(
                f"{name} is of {given.info.env_id}, whose {space} is {has}; that of the environments is {needed}"
            )
