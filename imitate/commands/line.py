"""A command line in words, as it can be read before it is known which options there are."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

__all__ = ["WORDS", "CommandLine", "Typed", "dashed", "typed_command"]

WORDS = "--help-words"
"""Asks for the words that may follow, for the completion of a shell."""
typed_command: ContextVar[str] = ContextVar("typed_command", default="")
"""The command line, as it is recorded in what it makes."""
_HELP = ("-h", "--help", "--help-all", WORDS)


def dashed(name: str) -> str:
    """The option of a parameter or a field: `--batch-size` of `batch_size`."""
    return f"--{name}".replace("_", "-")


class Typed(NamedTuple):
    """An option that was typed, with hyphens in its name, and all words up to the next one."""

    name: str
    words: list[str]
    place: int


@dataclass(frozen=True)
class CommandLine:
    """The words after the name of a command. A word is an option if it begins with two hyphens, or is `-h`."""

    argv: Sequence[str]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words before the first option."""
        return tuple(self.argv[: self.options[0].place] if self.options else self.argv)

    @cached_property
    def options(self) -> tuple[Typed, ...]:
        """The options in order, `--name=word` split in two."""
        found: list[Typed] = []
        for place, word in enumerate(self.argv):
            if word.startswith("--") or word == "-h":
                name, joined, value = word.partition("=")
                found.append(Typed(name.replace("_", "-"), [value] if joined else [], place))
            elif found:
                found[-1].words.append(word)
        return tuple(found)

    @property
    def asks_for_help(self) -> bool:
        return any(self.has(name) for name in _HELP)

    def has(self, name: str) -> bool:
        return any(option.name == name for option in self.options)

    def values(self, name: str) -> list[str]:
        """The first word after each occurrence of the option."""
        return [option.words[0] for option in self.options if option.name == name and option.words]

    def value(self, name: str) -> str | None:
        """The first word after the option; the last occurrence counts."""
        return next(reversed(self.values(name)), None)

    def without(self, name: str, words: int = 1) -> CommandLine:
        """The line without an option, and without so many words after it."""
        gone: set[int] = set()
        for option in self.options:
            if option.name == name:
                more = 0 if "=" in self.argv[option.place] else words
                gone |= set(range(option.place, option.place + 1 + more))
        return CommandLine([word for place, word in enumerate(self.argv) if place not in gone])
