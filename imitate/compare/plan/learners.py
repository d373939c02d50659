"""Learners that can be compared: the table's algorithms, Stable-Baselines3's as baselines, and the user's own.

A name is `ppo`, `gail:random` (a variant), `sb3:ppo` (a baseline) or `module:Learner`; `@wide` behind any of them gives
it settings of its own, under that name among the hyperparameters.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path

from imitate import algorithms
from imitate.algorithms import Algorithm
from imitate.envs.trust import trust
from imitate.errors import InputError, did_you_mean

__all__ = ["BASELINES", "base", "baseline", "find", "is_own", "source", "summary", "title", "trust_learner"]

BASELINES = ("ppo", "a2c", "dqn", "sac", "td3", "ddpg", "tqc", "qrdqn", "trpo")
"""Algorithms of Stable-Baselines3 and sb3-contrib that can be `sb3:NAME`."""
_NAME = re.compile(r"[\w.:-]+(@[\w.-]+)?")


def find(name: str) -> Algorithm:
    """What a learner is and needs. Raises InputError for an unknown name, and for `module:Learner` of a module that is
    neither imported already nor one that the user typed."""
    plain = base(name)
    found = _baseline(baseline(plain)) if baseline(plain) else algorithms.find(plain)
    return replace(found, title=title(name))


def title(name: str) -> str:
    """What a learner is called; nothing is imported for it."""
    plain, _, label = name.partition("@")
    if sb3 := baseline(plain):
        said = f"SB3 {sb3.upper()}"
    else:
        said = plain.rpartition(":")[2] if is_own(plain) else algorithms.find(plain).title
    return f"{said} ({label})" if label else said


def summary(name: str) -> str:
    """A line on a learner, for people; nothing is imported for it."""
    return f"a learner of your own, {base(name)}" if is_own(name) else find(name).summary


def base(name: str) -> str:
    """Without the label of its settings. Raises InputError if it is no name."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} names no learner: wanted such as ppo, sb3:ppo, module:Learner or ppo@label"
        )
    return name.partition("@")[0]


def baseline(name: str) -> str:
    """`ppo` of `sb3:ppo`, empty for any other learner. Raises InputError for an unknown baseline."""
    prefix, _, algorithm = name.partition("@")[0].partition(":")
    if prefix != "sb3":
        return ""
    if algorithm not in BASELINES:
        raise InputError(
            f"unknown baseline {name!r}{did_you_mean(algorithm, BASELINES)}; known: "
            + ", ".join(f"sb3:{each}" for each in BASELINES)
        )
    return algorithm


def is_own(name: str) -> bool:
    """Whether it names a learner of the user's own."""
    return algorithms.is_own(base(name)) and not baseline(name)


def trust_learner(name: str) -> None:
    """Allow the module of `module:Learner`, which the user typed, to be imported in this process."""
    if is_own(name):
        trust(base(name))


def source(name: str) -> str:
    """The text of a user's own learner, on which its results depend; empty for others, which have a version."""
    if not is_own(name):
        return ""
    path = inspect.getsourcefile(algorithms.find(base(name)).learner)
    return "" if path is None else Path(path).read_text("utf-8", errors="replace")


def _baseline(algorithm: str) -> Algorithm:
    of = "sb3-contrib" if algorithm in ("tqc", "qrdqn", "trpo") else "Stable-Baselines3"
    summary = f"pure RL: {algorithm.upper()} of {of} with the settings of its zoo"
    return Algorithm(f"SB3 {algorithm.upper()}", summary, "", "", ("envs",))
