"""Makes output printable: names in foreign files may hold control sequences, which a terminal would carry out."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from types import ModuleType
from typing import Any, TextIO, cast

__all__ = ["plain_output", "printable", "quiet_pygame", "raw"]

# C0 and C1 controls except tab and line feed, and marks that change the direction of text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with control characters as escapes, such as `\\x1b`; a carriage return at its start or before a line feed
    stays."""
    return re.sub(rf"(?!^\r|\r\n){_CONTROL.pattern}", lambda found: repr(found[0])[1:-1], text)


class _Plain:
    """A stream of printable text, otherwise like the stream below it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw(stream: TextIO) -> TextIO:
    """The stream below, for colours and cursor movements of our own."""
    return stream.stream if isinstance(stream, _Plain) else stream


@contextmanager
def plain_output() -> Iterator[None]:
    """Inside the block, everything that is printed is made printable; characters that a stream's encoding lacks, such
    as the minus sign in a file on Windows, become escapes."""
    before = sys.stdout, sys.stderr
    for stream in map(raw, before):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = (cast(TextIO, _Plain(raw(stream))) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def quiet_pygame() -> ModuleType:
    """pygame, imported without its greeting."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    import pygame

    return pygame
