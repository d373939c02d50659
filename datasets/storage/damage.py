"""Reads what may be damaged: any error becomes an InputError, and attributes are checked. Names the recording if a copy
of it fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import h5py
import numpy as np

from imitate.errors import InputError, one_line

__all__ = ["checked", "closed", "copying", "damaged", "read_attribute"]

T = TypeVar("T")

_LONGEST_TEXT = 1 << 20  # of an attribute


def closed(path: str | Path) -> InputError:
    return InputError(f"{path} is closed: open it again with DemoReader({str(path)!r})")


@contextmanager
def damaged(path: str | Path, what: str, source: h5py.File | h5py.Dataset | None = None) -> Iterator[None]:
    """Turn any error while `what` of a file is read into an InputError, since HDF5 raises six kinds of exceptions. If
    `source`, from which it is read, has been closed, the message says so."""
    try:
        yield
    except InputError as error:
        message = str(error)
        raise InputError(message if str(path) in message else f"{path}: {message}") from error
    except Exception as error:
        # Asking beforehand would take a quarter of the time of a short read.
        if source is not None and not source:
            raise closed(path) from error
        raise InputError(
            f"{path}: {what} can't be read ({one_line(error)}): the file is damaged; restore it or record it again"
        ) from error


@contextmanager
def copying(path: Path, copy: Path, episodes: int) -> Iterator[None]:
    """Remove the copy of a recording if writing it fails. The InputError then names the recording and its episodes."""
    try:
        yield
    except BaseException as error:
        copy.unlink(missing_ok=True)
        if not (isinstance(error, InputError) and str(copy) in str(error)):
            raise
        cause = error.__cause__ or error
        reason = getattr(cause, "strerror", None) or one_line(cause)
        raise InputError(
            f"{path} can't be resumed, as a copy of it can't be written: {reason}; episodes kept: {episodes}"
        ) from error


def read_attribute(attrs: h5py.AttributeManager, name: str, kind: type[T], default: T | None = None) -> T:
    """An attribute of an HDF5 object, one value or a text of at most 1 MiB; its shape is checked before it is read.

    Raises InputError if it is of another type, KeyError if it is missing and there is no default."""
    if name not in attrs and default is not None:
        return default
    stored = attrs.get_id(name)
    if stored.shape != ():
        raise InputError(f"attribute {name!r} is an array of shape {stored.shape}, wanted one value")
    return checked(name, attrs[name], kind)


def checked(name: str, value: Any, kind: type[T]) -> T:
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is not kind:
        raise InputError(f"attribute {name!r} is {type(value).__name__}, wanted {kind.__name__}")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise InputError(f"attribute {name!r} has {len(value)} characters, over the limit of {_LONGEST_TEXT}")
    return value
