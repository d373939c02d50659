"""Parts that `imitate collect`, `imitate collect human` and `imitate data push` share."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitate.commands.options import print_json
from imitate.datasets.storage.validate import describe
from imitate.errors import InputError, one_line

if TYPE_CHECKING:
    from imitate.experts import Expert

__all__ = ["check_out", "env_options", "say_recorded", "train_command"]

_OTHER_FORMATS = (".csv", ".npz", ".parquet", ".arrow")


def check_out(out: Path, resume: bool, *, sharded: bool = False) -> None:
    """Raise InputError if `out` can't be written, or exists and is not to be continued."""
    if out.exists() and not resume:
        raise InputError(f"{out} exists; choose another --out, or --resume it")
    if sharded and out.is_file():
        raise InputError(
            f"{out} is a file, wanted a folder of shards: leave --shards out, or choose another --out"
        )
    if out.is_dir() and not sharded:
        raise InputError(
            f"{out} is a folder, wanted a file: say --shards to go on with shards, or choose another --out"
        )
    if out.suffix in _OTHER_FORMATS:
        raise InputError(
            f"recordings are HDF5, got {out}: name it {out.with_suffix('.h5').name}; `imitate data convert` writes "
            f"{out.suffix}"
        )
    if not out.absolute().parent.is_dir():
        raise InputError(f"there is no folder {out.parent} for {out.name}; create it first")


def say_recorded(out: Path, expert: Expert | None, *, as_json: bool) -> None:
    """Print what the file holds: everything as JSON, or a few lines for a person.

    expert  the player, whose own return stands beside that of the demonstrations; None for a person
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
        "next": train_command(str(out), facts)
        or "no learner here imitates discrete actions from observations alone: leave --no-actions out",
    }
    print("\n".join(f"{name:<9} {said}" for name, said in lines.items() if said))


def _own_return(expert: Expert) -> str:
    known = []
    if expert.measured is not None:
        known.append(f"{expert.measured.mean:.4g} measured over {expert.measured.episodes} episodes")
    if expert.published_return is not None:
        known.append(f"{expert.published_return:.4g} published")
    return f"{expert.source}: {', '.join(known)}" if known else ""


def train_command(demos: str, facts: dict[str, Any]) -> str | None:
    """The command that imitates the demonstrations `describe` has described; None if no learner here can."""
    if not facts["has_actions"] and facts["action_space"]["type"] != "Box":
        return None
    algorithm = "bc" if facts["has_actions"] else "gaifo"
    words = ["imitate", "train", algorithm, *env_options(facts)]
    return shlex.join([*words, "--demos", demos, "--out", f"runs/{algorithm}"])


def env_options(facts: dict[str, Any]) -> list[str]:
    """The options that make the environment of the demonstrations."""
    kwargs = ["--env-kwargs", json.dumps(facts["env_kwargs"])] if facts["env_kwargs"] else []
    # A file of somebody else's may name any text.
    return ["--env", one_line(facts["env_id"]), *kwargs]
