"""Names of columns in plain files (CSV, npz): the known ones, and those given by `--columns`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from imitate.errors import InputError, did_you_mean

__all__ = ["NAMES", "chosen_columns", "why_unsaid"]

NAMES = {
    "obs": ("obs", "observations", "states"),
    "next_obs": ("next_obs", "next_observations"),
    "action": ("actions", "acts", "action"),
    "expert_action": ("expert_actions", "expert_action"),
    "reward": ("rewards", "rews", "reward"),
    "terminated": ("terminated", "terminals", "dones", "done", "terminal"),
    "truncated": ("truncated", "timeouts"),
    "episode": ("episode", "episodes"),
    "seed": ("seeds", "seed"),
    "length": ("lengths",),
    "start": ("episode_starts",),
    "index": ("indices",),
}
"""Known names of columns, by role. IL-Datasets has `episode_starts`; old files of `imitation` are split at
`indices`."""

_DONE = ("dones", "done", "terminal")


def chosen_columns(texts: Sequence[str], known: Iterable[str]) -> dict[str, list[str]]:
    """`obs=level,velocity action=valve` as {"obs": ["level", "velocity"], "action": ["valve"]}.

    Raises InputError unless each text has this form and begins with one of `known`.
    """
    chosen: dict[str, list[str]] = {}
    known = list(known)
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


def why_unsaid(names: Mapping[str, Sequence[str]]) -> str | None:
    """A note if the columns say when episodes end but not why; otherwise None. `names` are the names of the columns
    found."""
    called = [name for name in names.get("terminated", ()) if name in _DONE]
    if not called or "truncated" in names:
        return None
    return (
        f"{called[0]!r} says when episodes end and not why: time limits count as terminations "
        "(--columns truncated=NAME takes a column of time limits)"
    )
