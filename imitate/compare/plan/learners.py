"""Learners that can be compared: the table's algorithms, Stable-Baselines3's as baselines, and the user's own.

A name is `ppo`, `gail:random` (a variant), `sb3:ppo` (a baseline) or `module:Learner`. A label such as `@wide` behind
any of them gives the learner its own settings, which the hyperparameters list under the full name.
"""

from __future__ import annotations

import re
from dataclasses import replace

from imitate import algorithms
from imitate.algorithms import Algorithm
from imitate.envs.trust import trust
from imitate.errors import InputError, did_you_mean
from imitate.own_code import own_code

__all__ = [
    "BASELINES",
    "base",
    "baseline",
    "code_of_learner",
    "find",
    "is_own",
    "summary",
    "title",
    "trust_learner",
]

BASELINES = ("ppo", "a2c", "dqn", "sac", "td3", "ddpg", "tqc", "qrdqn", "trpo")
"""Algorithms of Stable-Baselines3 and sb3-contrib that can be `sb3:NAME`."""
_NAME = re.compile(r"(?!.*\.\.)[\w.:-]+(@[\w.-]+)?")


def find(name: str) -> Algorithm:
    """The table's entry for a learner. Raises InputError for an unknown name, and for `module:Learner` if the module is
    neither imported already nor typed by the user."""
    plain = base(name)
    sb3 = baseline(plain)
    return replace(_baseline(sb3) if sb3 else algorithms.find(plain), title=title(name))


def title(name: str) -> str:
    """The display name of a learner; nothing is imported for it. The user's own is named with its module, since two
    modules may have a class of one name, which may be that of an algorithm of the table."""
    plain, _, label = name.partition("@")
    if sb3 := baseline(plain):
        said = f"SB3 {sb3.upper()}"
    else:
        said = plain if is_own(plain) else algorithms.find(plain).title
    return f"{said} ({label})" if label else said


def summary(name: str) -> str:
    """A one-line description of a learner; nothing is imported for it."""
    return f"a learner of your own, {base(name)}" if is_own(name) else find(name).summary


def base(name: str) -> str:
    """The name without the label of its settings. Raises InputError if it is not a valid name."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} names no learner: wanted such as ppo, sb3:ppo, module:Learner or ppo@label"
        )
    return name.partition("@")[0]


def baseline(name: str) -> str:
    """The algorithm of a baseline, such as `ppo` for `sb3:ppo`; empty for any other learner. Raises InputError for an
    unknown baseline."""
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
    """True if the name is the user's own learner, `module:Learner`."""
    return algorithms.is_own(base(name)) and not baseline(name)


def trust_learner(name: str) -> None:
    """Allow this process to import the module of `module:Learner`, which the user typed."""
    if is_own(name):
        trust(base(name))


def code_of_learner(name: str) -> str:
    """A hash of the code of the user's own learner, since its results depend on it; empty for other learners, which
    have a version."""
    return own_code(algorithms.find(base(name)).learner) if is_own(name) else ""


def _baseline(algorithm: str) -> Algorithm:
    """The entry of a baseline, to which `find` gives its title."""
    of = "sb3-contrib" if algorithm in ("tqc", "qrdqn", "trpo") else "Stable-Baselines3"
    summary = f"pure RL: {algorithm.upper()} of {of} with the settings of its zoo"
    return Algorithm("", summary, "", "", ("envs",))
