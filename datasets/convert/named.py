"""Names of columns in plain files (CSV, npz): the known ones, and those given by `--columns`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from imitate.datasets.convert.foreign import Notes
from imitate.envs.spaces import Array
from imitate.errors import InputError, did_you_mean

__all__ = ["FLAGS", "NAMES", "both_flags", "columns_of_roles", "note_unsaid"]

NAMES = {
    "obs": ("obs", "observations", "states"),
    "next_obs": ("next_obs", "next_observations"),
    "action": ("actions", "acts", "action"),
    "expert_action": ("expert_actions", "expert_action"),
    "reward": ("rewards", "rews", "reward"),
    "terminated": ("terminated", "terminals"),
    "truncated": ("truncated", "timeouts"),
    "done": ("dones", "done", "terminal"),
    "episode": ("episode", "episodes"),
    "seed": ("seeds", "seed"),
    "length": ("lengths",),
    "start": ("episode_starts",),
    "index": ("indices",),
}
"""Known names of columns, by role. IL-Datasets has `episode_starts`; old files of `imitation` are split at
`indices`."""
FLAGS = ("terminated", "truncated", "done")
"""The roles of columns that say that an episode ends."""


def columns_of_roles(
    texts: Sequence[str],
    roles: Sequence[str],
    stored: Collection[str],
    known: Callable[[str], list[str]],
    what: str,
) -> dict[str, list[str]]:
    """The names of the columns of each role that has some: those that `texts` choose, or else those that are `known`.

    what   "column" or "array", for the message

    Raises InputError for a name that is not `stored`, or if `texts` are no choice of columns.
    """
    columns = _chosen_columns(texts, roles)
    for role in roles:
        names = columns.get(role) or known(role)
        for name in names:
            if name not in stored:
                there = ", ".join(map(repr, list(stored)[:8]))  # quoted, as a blank counts
                raise InputError(f"it has no {what} {name!r}{did_you_mean(name, stored)}; it has {there}")
        if names:
            columns[role] = names
    return columns


def _chosen_columns(texts: Sequence[str], known: Sequence[str]) -> dict[str, list[str]]:
    """`obs=level,velocity action=valve` as {"obs": ["level", "velocity"], "action": ["valve"]}.

    Raises InputError unless each text has this form and begins with one of `known`.
    """
    chosen: dict[str, list[str]] = {}
    for text in texts:
        name, equals, columns = text.partition("=")
        if not equals or not columns or "" in columns.split(","):
            raise InputError(
                f"--columns {text!r} names no columns; wanted such as obs=level,velocity action=valve"
            )
        if name not in known or name in chosen:
            raise InputError(
                f"--columns {text!r}: {name!r} is unknown or twice{did_you_mean(name, known)}; "
                f"wanted {', '.join(known)}"
            )
        chosen[name] = columns.split(",")
    return chosen


def both_flags(flags: Mapping[str, Array]) -> dict[str, Array]:
    """`terminated` and `truncated`, as far as they are known. `done` says that an episode ends, and not why: it stands
    for the one of them that is absent, and for `terminated` if both are."""
    known = dict(flags)
    done = known.pop("done", None)
    if done is not None and "terminated" not in known:
        known["terminated"] = done & ~known["truncated"] if "truncated" in known else done
    elif done is not None and "truncated" not in known:
        known["truncated"] = done & ~known["terminated"]
    return known


def note_unsaid(names: Mapping[str, Sequence[str]], notes: Notes) -> None:
    """Note it if the columns say when episodes end but not why. `names` are the names of the columns found."""
    if "done" in names and "truncated" not in names and "terminated" not in names:
        notes[
            f"{names['done'][0]!r} says when episodes end and not why: time limits count as terminations "
            "(--columns truncated=NAME takes a column of time limits)"
        ] += 1
