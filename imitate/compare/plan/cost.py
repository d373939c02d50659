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
from imitate.nn.networks import is_image

__all__ = ["Workload", "listing", "workloads"]

_MINUTES = {
    **dict.fromkeys(("dqn", "qrdqn"), 1.5),
    **dict.fromkeys(("dagger", "aggrevated", "aggrevate", "qdagger"), 3.0),
    **dict.fromkeys(("sac", "td3", "ddpg", "gaifo", "sqil", "iq"), 15.0),
    **dict.fromkeys(("tqc", "guided"), 20.0),
    "dac": 25.0,
}
"""Minutes of a core for 100,000 steps, rough: about the medians of the rows of `imitate reproduce` and of
docs/few-demonstrations.md."""
_ROLLOUTS = 0.5
"""The same for learners from rollouts alone, such as PPO, and for learners of one's own, which may take longer."""
_CLONE = 2.0
"""Minutes of a learner that takes no steps."""
_ON_DQN = ("sqil", "iq")
"""Learners that are on DQN's core with discrete actions, and on SAC's with continuous ones."""
_PICTURES, _SB3 = 10.0, 2.0
"""Factors of the time: with pictures, and in Stable-Baselines3."""


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
        discrete, pictures = _spaces(part)
        runs = dict.fromkeys(part.algorithms, part.seeds) | dict.fromkeys(part.controls, 1)
        minutes = sum(count * _minutes(name, part.budget, discrete) for name, count in runs.items())
        seconds = 60 * minutes * (_PICTURES if pictures else 1)
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


def _minutes(name: str, budget: int, discrete: bool) -> float:
    """Minutes of a core for a run of this learner without pictures."""
    if find(name).offline:
        return _CLONE
    plain = baseline(name) or base(name).partition(":")[0]
    minutes = _MINUTES.get("dqn" if discrete and plain in _ON_DQN else plain, _ROLLOUTS)
    return minutes * (_SB3 if baseline(name) else 1) * budget / 100_000


def _spaces(part: Comparison) -> tuple[bool, bool]:
    """True for discrete actions, and true for pictures; both False if the environment lacks its package."""
    try:
        with closing_env(make_env(part.env_id, part.env_kwargs)) as env:
            return not isinstance(env.action_space, Box), is_image(env.observation_space)
    except InputError:
        return False, False
