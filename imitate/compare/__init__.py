"""Compares learners with each other, their expert and random actions, on one budget of environment steps."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import TYPE_CHECKING

import lazy_loader

from imitate.errors import InputError

if TYPE_CHECKING:
    from imitate.compare.backends import Backend
    from imitate.compare.plan.comparison import Comparison
    from imitate.compare.plan.suite import Suite
    from imitate.compare.report.report import write_report
    from imitate.compare.report.suite_report import write_suite_report

__all__ = ["Comparison", "Suite", "compare", "write_report", "write_suite_report"]

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "plan.comparison": ["Comparison"],
        "report.report": ["write_report"],
        "plan.suite": ["Suite"],
        "report.suite_report": ["write_suite_report"],
    },
)


def compare(
    wanted: Comparison | Suite,
    out: Path | str,
    *,
    workers: int | None = None,
    backend: Backend | None = None,
) -> Path:
    """Carry out or complete a comparison or a suite in the folder `out`, and write its report.

    Returns the path of report.html. By default `workers` processes run at a time, one for each processor. `backend` may
    be another way to carry out the runs, such as `imitate.compare.backends.ray.Ray()`. Neither changes the results.
    Call this function under `if __name__ == "__main__":`, since worker processes import the calling script.

    Raises InputError as `carry_out` does, for anything but a Comparison or a Suite, if no learner finished, and in a
    worker that imports a script which calls it elsewhere.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # as multiprocessing.spawn asks it
        raise InputError('call compare under `if __name__ == "__main__":`, since workers import the script')
    from imitate.compare.execute.carry_out import carry_out
    from imitate.compare.plan.comparison import Comparison
    from imitate.compare.plan.suite import Suite
    from imitate.compare.report.report import write_report
    from imitate.compare.report.suite_report import write_suite_report

    if not isinstance(wanted, Comparison | Suite):
        raise InputError(
            f"compare takes a Comparison or a Suite, got {type(wanted).__name__}: make one, as Comparison(env_id=...)"
        )
    carry_out(wanted, Path(out), workers=workers, backend=backend)
    return write_report(Path(out)) if isinstance(wanted, Comparison) else write_suite_report(Path(out))
