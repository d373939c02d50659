"""Finds the way to improve on an expert that pays, on a budget of environment steps, and tests it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitate.improvement.task import Task

if TYPE_CHECKING:
    from imitate.improvement.verdict import Verdict

__all__ = ["improve"]


def improve(
    expert: str | Path,
    env_id: str,
    budget: int,
    out: Path | str,
    *,
    seed: int = 0,
    env_kwargs: dict[str, Any] | None = None,
    vecnormalize: str | Path | None = None,
) -> Verdict:
    """Look for a better policy than the expert's, and write it, the verdict and a report to the folder `out`.

    Goes on with an interrupted search in `out`; a finished one is returned as it is.

    Args:
        expert: as for `load_expert`: a bundled name, `zoo:ALGO/ENV`, a zip, a run, `module:make_expert` ...
        env_id: a Gymnasium id, or `module:Env-v0`
        budget: environment steps of everything: measuring, training, validation and test
        out: gets `index.html`, `verdict.json`, and `policy/` unless it is worse than the expert
        seed: of everything
        env_kwargs: keyword arguments of the environment
        vecnormalize: statistics for a zipped expert, instead of those beside it

    Raises InputError if `out` holds another search, if the expert can't be loaded or is for another environment, if the
    budget is too small, and if the environment or the expert fails. KeyboardInterrupt (Ctrl-C) leaves the best policy
    so far in `out`.
    """
    from imitate.improvement.search import search  # torch takes a second

    # It makes text of paths.
    task = Task(expert, env_id, budget, seed, env_kwargs, vecnormalize)  # type: ignore[arg-type]
    return search(task, Path(out))
