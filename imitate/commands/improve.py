"""`imitate improve`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from imitate.commands.option import Rare
from imitate.commands.options import JsonObject, command
from imitate.envs.trust import trust
from imitate.improvement.task import Task

__all__ = ["improve"]


@command
def improve(
    expert: tyro.conf.Positional[str],
    /,
    env: str,
    budget: int,
    out: Path,
    seed: int = 0,
    env_kwargs: Annotated[JsonObject | None, Rare] = None,
    vecnormalize: Annotated[str | None, Rare] = None,
) -> int:
    """Look for a policy that is better than the expert: several learners race on one budget, and a test on episodes
    that chose nothing gives the verdict. The same command goes on with an interrupted search.

    Args:
        expert: the expert to improve on: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip, a folder, a run,
            or module:make_expert
        env: a Gymnasium id, or module:Env-v0 to import the module first
        budget: environment steps of everything: measuring the expert, training, validation and test
        out: the folder to write: index.html is the report, policy/ the policy
            unless it is worse than the expert, verdict.json the verdict
        seed: random seed of everything
    """
    task = Task(expert, env, budget, seed, env_kwargs, vecnormalize)
    trust(expert)
    from imitate.improvement.search import search  # torch takes a second: arguments are read before

    try:
        verdict = search(task, out)
    except (KeyboardInterrupt, SystemExit):
        print(f"imitate: {_so_far(task, out)}go on with `{task.command(out)}`", file=sys.stderr)
        raise
    print(verdict.sentence)
    ready = f"{out / 'policy'} is ready for `imitate evaluate`; " if verdict.kind != "worse" else ""
    print(f"imitate: {ready}the report is {out / 'index.html'}", file=sys.stderr)
    return 0


def _so_far(task: Task, out: Path) -> str:
    """The policy that an interrupted search leaves, beside the expert; empty if there is none."""
    from imitate.improvement.journal import Journal
    from imitate.improvement.verdict import gain

    journal = Journal.open(out, task)
    if not (out / "policy").exists() or not (names := journal.by_mean()) or journal.expert is None:
        return ""
    found = gain(journal.snapshot(names[0]).validation, journal.expert)
    beside = f", the expert {found.expert:.5g}" if found else ""
    mean = found.student if found else journal.snapshot(names[0]).validation.mean
    return f"the best policy so far is in {out / 'policy'}: it makes {mean:.5g} in validation{beside}; "
