"""The messages of `imitate train` while it trains, and at the end."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from imitate.algorithms import find
from imitate.errors import InputError
from imitate.training.experiment import Experiment
from imitate.training.log import validations

if TYPE_CHECKING:
    from imitate.datasets.evaluation import Evaluation
    from imitate.training.run import Progress

__all__ = ["chosen", "progress_of", "told"]

logger = logging.getLogger(__name__)


def told(found: Evaluation) -> str:
    """A line on the policy's return at the end."""
    if not found.complete:
        return f"{found.steps} steps were too few for {len(found.returns) + 1} whole episodes of it"
    low, high = found.returns.min(), found.returns.max()
    return (
        f"it returns {found.mean:.4g} on average in {len(found.returns)} episodes ({low:.4g} to {high:.4g}): "
        "a look outside the budget, not the test"
    )


def chosen(run: Path) -> str:
    """A line on the validation that chose the policy of a finished run; "" if none did."""
    try:
        rows = validations(run)
    except InputError as error:
        logger.warning("%s; what it says is left out", error)
        return ""
    number = max((number for number, row in enumerate(rows, 1) if row.best), default=0)
    if not number:
        return ""
    best = rows[number - 1]
    by = "did best" if best.distance is None else "was closest to the demonstrations"
    who = f"of {len(rows)} policies that were validated this one {by}"
    if len(rows) == 1:
        who = "only this one was validated"
    steps = best.env_steps  # 0 of an offline learner
    when = f"after {steps:,} steps of its own" if steps else f"as number {number}"
    return f"{who}, {when} with a return of {best.mean_return:.4g}; the last one is in {run / 'last_policy'}"


@contextmanager
def progress_of(experiment: Experiment) -> Iterator[Progress]:
    """Progress on standard error: a bar on a terminal, otherwise lines, and a last line with the final metrics.

    Lines come at every tenth of the budget, or for offline learners after 1, 2, 4, 8 ... iterations and after the
    first one of a resumed run. The bar of an offline learner shows the metric `progress`, its share of the work.
    """
    offline, last = find(experiment.algorithm).offline, ""
    iterations, due = 0, 1 if offline else experiment.budget // 10
    share = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}{postfix}]"
    with (
        tqdm(
            total=1.0 if offline else experiment.budget,
            unit="step",
            file=sys.stderr,
            desc=experiment.algorithm,
            bar_format=share if offline else None,
            disable=None,
        ) as bar,
        nullcontext() if bar.disable else logging_redirect_tqdm(),
    ):

        def progress(spent: int, metrics: dict[str, float]) -> None:
            nonlocal iterations, due, last
            iterations = int(metrics.get("iteration", iterations))
            position = iterations if offline else spent
            named = ("train_return", "loss", "cloning_loss", "heldout_loss", "agreement")
            names = [name for name in named if name in metrics]
            if offline and not names:  # a learner of one's own: its first metrics
                names = [name for name in metrics if name not in ("iteration", "progress")][:3]
            shown = {name: f"{metrics[name]:.4g}" for name in names}
            last = ", ".join(f"{name} {value}" for name, value in shown.items()) or last
            bar.update((metrics.get("progress", bar.n) if offline else spent) - bar.n)
            bar.set_postfix(({"iteration": str(iterations)} if offline else {}) | shown, refresh=False)
            if not metrics:  # the end: what is left of the budget is too little for another update
                bar.total = bar.n
            if bar.disable and position >= due and metrics:
                done = f" ({metrics['progress']:.0%})" if "progress" in metrics else ""
                where = (
                    f"iteration {iterations}{done}" if offline else f"{spent} of {experiment.budget} steps"
                )
                logger.info("%s: %s", where, last or "no episode has ended yet")
                due = (
                    2 * position
                    if offline
                    else (spent * 10 // experiment.budget + 1) * experiment.budget // 10
                )

        yield progress
    if last:
        logger.info("at the end: %s", last)
