"""Vector environments (`make_vec`) over gymnasium, processes, EnvPool and ALE, and our own environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from imitate.envs.registration import register

if TYPE_CHECKING:
    from imitate.envs.vectorize import BACKENDS, make_vec, resolve_backend

__all__ = ["BACKENDS", "make_vec", "resolve_backend"]

register()  # so that gym.make knows our environments after `import imitate.envs`


def __getattr__(name: str) -> Any:
    """Import on first use: `gym.make` imports this package for our environments, and should not import torch."""
    if name in __all__:
        from imitate.envs import vectorize

        return getattr(vectorize, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
