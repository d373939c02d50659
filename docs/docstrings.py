"""Shows the lists of our docstrings, `name   meaning`, as lists."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ITEM = re.compile(r"^(\w\S*(?:, \w\S*)*)\s{2,}(\S.*)$")


class Lists(griffe.Extension):
    """Rewrites the docstring of each object that is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """The text with a bullet for each line `name   meaning`; indented lines that follow go on with it."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        item = _ITEM.match(line)
        if item:
            lines += [*([] if inside or not lines else [""]), f"- `{item[1]}`: {item[2]}"]
        elif inside and line.startswith(" ") and line.strip():
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line)
        inside = bool(item) or (inside and line.startswith(" "))
    return "\n".join(lines)
