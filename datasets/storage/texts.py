"""Texts of episodes in a file of demonstrations: their task, the masks they are in, the model of their simulator."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import h5py
import numpy as np

from imitate.datasets.storage.schema import TAGS, TEXTS
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["Heap", "episodes_by", "texts_of"]

_LONGEST = 1 << 24  # bytes of a text
_MOST = 1 << 22
"""Most bytes of all tasks of a file, and of all its masks. Short names take a hundred times as much memory."""


class Heap:
    """The texts that a writer has stored, each once; without `has_texts` its file has none."""

    def __init__(self, has_texts: bool) -> None:
        self._has_texts = has_texts
        self._places: dict[bytes, tuple[int, int]] = {}

    def encoded(self, info: Mapping[str, Any]) -> dict[str, bytes]:
        """The texts of an episode with this `info` by name, if they are stored. Raises InputError for one too long."""
        texts = {name: _plain(info.get(name)) for name in TEXTS} if self._has_texts else {}
        for name, text in texts.items():
            if len(text) > _LONGEST:
                raise InputError(
                    f"the {name} of an episode has {len(text)} bytes, over the limit of {_LONGEST}: shorten it"
                )
        return texts

    def rows(self, texts: Sequence[Mapping[str, bytes]], end: int) -> dict[str, Array]:
        """New rows of `texts` (B,), which has `end` already, and of `tags` (E,) for episodes with these `texts`."""
        if not self._has_texts:
            return {}
        fresh, tags = bytearray(), np.zeros(len(texts), TAGS)
        for tag, named in zip(tags, texts, strict=True):
            for name, text in named.items():
                key = hashlib.sha256(text).digest()
                if text and key not in self._places:
                    self._places[key] = end + len(fresh), len(text)
                    fresh += text
                tag[name] = self._places[key] if text else (0, 0)
        return {"texts": np.frombuffer(bytes(fresh), np.uint8), "tags": tags}

    def forget(self) -> None:
        """Store every text again, because what was stored may be lost."""
        self._places.clear()


def texts_of(file: h5py.File, number: int) -> dict[str, Any]:
    """The texts of an episode of a file by name; `masks` are a tuple of names. Raises InputError if they are not in the
    file."""
    if "tags" not in file:
        return {}
    tag, heap = file["tags"][number], file["texts"]
    found = {name: _read(heap, *tag[name].tolist()) for name in TEXTS if tag[name][1]}
    return found | ({"masks": tuple(found["masks"].split("\n"))} if "masks" in found else {})


def episodes_by(file: h5py.File, name: Literal["task", "masks"], count: int) -> dict[str, list[int]]:
    """The numbers of the episodes with each task, or in each mask, among the first `count` of a file.

    Raises InputError if the texts are not in the file, overlap, or take more than 4 MiB."""
    if "tags" not in file:
        return {}
    places, heap = file["tags"][name][:count].tolist(), file["texts"]
    distinct = {tuple(place) for place in places if place[1]}
    for place in distinct:
        _check(heap, *place)
    total = sum(length for _, length in distinct)
    if total > len(heap):
        raise InputError("its texts overlap, which no writer makes: it is damaged")
    if total > _MOST:
        raise InputError(
            f"the texts {name!r} of its episodes take {total} bytes, over the limit of {_MOST}: shorten them, or "
            "divide the file with `imitate data split`"
        )
    texts = {place: _read(heap, *place) for place in distinct}
    named = {place: text.split("\n") if name == "masks" else [text] for place, text in texts.items()}
    found: dict[str, list[int]] = {}
    for number, place in enumerate(places):
        for each in named.get(tuple(place), ()):
            found.setdefault(each, []).append(number)
    return found


def _plain(value: Any) -> bytes:
    return ("\n".join(value) if isinstance(value, tuple) else str(value or "")).encode("utf-8", "replace")


def _check(heap: h5py.Dataset, start: int, length: int) -> None:
    if not (0 <= start <= len(heap) - length and 0 < length <= _LONGEST):
        raise InputError(f"a text from byte {start} to {start + length} is not in the file's {len(heap)}")


def _read(heap: h5py.Dataset, start: int, length: int) -> str:
    _check(heap, start, length)
    read: bytes = heap[start : start + length].tobytes()
    return read.decode("utf-8", "replace")
