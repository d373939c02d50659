"""What `imitate collect` says when it is done."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitate.commands.options import print_json
from imitate.datasets.storage.validate import describe

if TYPE_CHECKING:
    from imitate.experts import Expert

__all__ = ["say_recorded"]


def say_recorded(out: Path, expert: Expert | None, *, as_json: bool) -> None:
    """Print what the file holds: all that is known as JSON, or six lines for a person.

    expert  who played, whose own return stands beside that of the demonstrations; None is a person
    """
    facts = describe(out)
    if as_json:
        print_json(facts)
        return
    skipped = len(facts["failed_seeds"])
    lines = {
        "file": f"{out} ({facts['bytes'] / 1e6:.3g} MB)",
        "episodes": f"{facts['episodes']} ({facts['terminated']} terminated, {facts['truncated']} truncated)",
        "skipped": f"{skipped} episodes, in which the environment failed; `imitate data info {out}` lists their seeds"
        if skipped
        else "",
        "steps": f"{facts['steps']:,}",
        "return": "{mean:.4g} on average, {min:.4g} to {max:.4g}".format(**facts["returns"]),
        "expert": "" if expert is None else _own_return(expert),
        "next": shlex.join(_next(out, facts)),
    }
    print("\n".join(f"{name:<9} {said}" for name, said in lines.items() if said))


def _own_return(expert: Expert) -> str:
    known = []
    if expert.measured is not None:
        known.append(f"{expert.measured.mean:.4g} measured over {expert.measured.episodes} episodes")
    if expert.published_return is not None:
        known.append(f"{expert.published_return:.4g} published")
    return f"{expert.source}: {', '.join(known)}" if known else ""


def _next(out: Path, facts: dict[str, Any]) -> list[str]:
    kwargs = ["--env-kwargs", json.dumps(facts["env_kwargs"])] if facts["env_kwargs"] else []
    return [
        "imitate",
        "train",
        "bc",
        "--env",
        facts["env_id"],
        *kwargs,
        "--demos",
        str(out),
        "--out",
        "runs/bc",
    ]
