"""An estimate of the processor time that a comparison takes, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from gymnasium.spaces import Box

from imitate.compare.formatting import counted, duration
from imitate.compare.plan.comparison import Comparison
from imitate.compare.plan.learners import base, baseline, find
from imitate.compare.plan.suite import Suite
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env
from imitate.errors import InputError

__all__ = ["Workload", "listing", "workloads"]

_MINUTES = {"offline": 3.0, "replay": 21.0, "quantiles": 31.0, "values": 2.0, "rollouts": 5.0}
"""Minutes of a core for 100,000 steps, rough. SAC's took 21 on a busy machine, with an update a step on 256 x 256
units, and TQC's 1.5 times as long; the others are rounded up. A clone takes as long with any budget."""
_QUANTILES = ("tqc", "guided")
_REPLAY = ("sac", "td3", "ddpg", "dac", "gaifo", "sqil", "iq")
_VALUES = ("dqn", "qdagger", "qrdqn")


@dataclass(frozen=True)
class Workload:
    """The work of a comparison: its runs, controls included, and about how many seconds of a core they take."""

    label: str
    comparison: Comparison
    runs: int
    core_seconds: float


def workloads(wanted: Comparison | Suite) -> list[Workload]:
    """The work of each comparison: learning alone, without the episodes that measure policies."""
    parts = wanted.parts if isinstance(wanted, Suite) else {wanted.env_id: wanted}
    found = []
    for label, part in parts.items():
        continuous = _is_continuous(part)
        runs = dict.fromkeys(part.algorithms, part.seeds) | dict.fromkeys(part.controls, 1)
        seconds = sum(count * 60 * _minutes(name, part.budget, continuous) for name, count in runs.items())
        found.append(Workload(label, part, sum(runs.values()), seconds))
    return found


def listing(wanted: Comparison | Suite) -> str:
    """A line for each comparison, and their sum."""
    found = workloads(wanted)
    width = max(len(each.label) for each in found)
    lines = []
    for each in found:
        part = each.comparison
        seeds = counted(part.seeds, "seed")
        shown = "" if part.demo_episodes is None else f", demonstrations: {part.demo_episodes}"
        thinned = f", one step in {part.demo_every}" if part.demo_every > 1 else ""
        lines.append(
            f"{each.label:<{width}}  {', '.join(part.algorithms)}; {seeds}, {part.budget:,} steps"
            f"{shown}{thinned}: {counted(each.runs, 'run')}, about {duration(each.core_seconds)} of a core"
        )
    runs, seconds = sum(each.runs for each in found), sum(each.core_seconds for each in found)
    of_all = f"{counted(len(found), 'comparison')}, {counted(runs, 'run')}"
    lines.append(f"{of_all}, about {duration(seconds)} of a core for learning")
    return "\n".join(lines)


def _minutes(name: str, budget: int, continuous: bool) -> float:
    """Minutes of a core for a run of this learner."""
    if find(name).offline:
        return _MINUTES["offline"]
    plain = baseline(name) or base(name).partition(":")[0]
    kind = "rollouts"
    if plain in _QUANTILES:
        kind = "quantiles"
    elif plain in _REPLAY and continuous:
        kind = "replay"
    elif plain in (*_REPLAY, *_VALUES):
        kind = "values"
    return _MINUTES[kind] * budget / 100_000


def _is_continuous(part: Comparison) -> bool:
    """True if actions are continuous, or nothing is known because the environment lacks its package."""
    try:
        with closing_env(make_env(part.env_id, part.env_kwargs)) as env:
            return isinstance(env.action_space, Box)
    except InputError:
        return True
