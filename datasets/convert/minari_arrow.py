"""Minari 0.5 in its Arrow layout. `minari.read` reads both layouts."""

from __future__ import annotations

from functools import partial

from imitate.datasets.convert import minari
from imitate.datasets.convert.minari import FOLDER, losses, read

__all__ = ["FOLDER", "found", "losses", "read", "write"]


def found(path: object) -> bool:  # noqa: ARG001
    return False


write = partial(minari.write, layout="arrow")
