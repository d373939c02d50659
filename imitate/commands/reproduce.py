"""`imitate reproduce`"""

from __future__ import annotations

import logging
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated, Any

import tyro

from imitate.commands.option import Offers
from imitate.commands.options import command, print_json
from imitate.errors import InputError, did_you_mean
from imitate.reproduce.experiments import failing_forms
from imitate.reproduce.rows import Row, read_rows
from imitate.reproduce.run_row import run_seed
from imitate.reproduce.summaries import Summary, fits_in, prediction_interval, read_summaries

__all__ = ["reproduce"]

logger = logging.getLogger(__name__)

_ROUNDED = 1e-3  # a summary's means have three decimals


@command
def reproduce(
    rows: Annotated[list[str], tyro.conf.Positional, Offers(read_rows)] = [],  # noqa: B006
    list: bool = False,
    failing: bool = False,
    seeds: int = 1,
    seed: int = 1000,
    out: Path | None = None,
    json: bool = False,
) -> int:
    """Run rows of the results again with fresh seeds, and say whether they agree with the record.

    The exit status is 1 if one lies outside the 95 % prediction interval of its record.

    Args:
        rows: names of rows, as --list prints them
        list: print these rows, or all, with their recorded figures and costs
        failing: run the forms that failed before this project, beside the rows that mend them
        seeds: seeds to run
        seed: the first seed; the row's first_seed in imitate/reproduce/rows.toml, or else 0, repeats the record's own
        out: folder in which the runs are kept, also if they are interrupted: the same command goes on with them; by
            default they are removed
        json: print it as JSON
    """
    known = read_rows()
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, got {seeds}")
    if not (rows or list):
        raise InputError("which rows? `imitate reproduce --list` names them")
    for name in rows:
        if name not in known:
            raise InputError(
                f"no row {name!r}{did_you_mean(name, known)}: `imitate reproduce --list` names them"
            )
    if list:
        _list({name: known[name] for name in rows or known}, read_summaries(), json=json)
        return 0
    named = [*rows, *(form for name in rows for form in failing_forms(name) if failing)]
    if failing and len(named) == len(rows):
        logger.info("no row is a failing form of %s", ", ".join(rows))
    found = []
    for name in dict.fromkeys(named):
        found.append(_reproduced(name, known[name], range(seed, seed + seeds), out))
        if not json:
            print(found[-1]["verdict"])
    if json:
        print_json(found)
    return 0 if all(each["agrees"] is not False for each in found) else 1


def _list(rows: dict[str, Row], summaries: dict[str, Summary], *, json: bool) -> None:
    """Print a line for each row."""
    if json:
        print_json({name: _facts(row, summaries.get(name)) for name, row in rows.items()})
        return
    width = max(map(len, rows))
    print(
        f"{'row':{width}}  {'task':28}  {'learner':18}  {'return':>9}  {'95 % interval':>20}  minutes  fits in"
    )
    for name, row in rows.items():
        head = f"{name:{width}}  {row.env:28}  {row.algorithm:18}"
        if (summary := summaries.get(name)) is None:
            minutes = row.core_minutes
            cost = "" if minutes is None else f"{minutes:7.1f}  {fits_in(minutes)} (estimated)"
            print(f"{head}  {'not run yet':>31}  {cost}")
            continue
        ci95 = "few seeds" if summary.ci95 is None else "{:,.1f} to {:,.1f}".format(*summary.ci95)
        print(f"{head}  {summary.mean:9,.1f}  {ci95:>20}  {summary.minutes:7.1f}  {summary.fits}")


def _facts(row: Row, summary: Summary | None) -> dict[str, Any]:
    facts: dict[str, Any] = {"task": row.env, "learner": row.algorithm, "commands": row.commands(0)}
    if row.core_minutes is not None:
        facts |= {"core_minutes": row.core_minutes, "fits": fits_in(row.core_minutes)}
    if summary is not None:
        facts |= vars(summary) | {"mean": summary.mean, "fits": summary.fits}
    return facts


def _reproduced(name: str, row: Row, seeds: range, out: Path | None) -> dict[str, Any]:
    """Run a row and compare it with its record."""
    means = []
    for seed in seeds:
        logger.info("%s", "; ".join(row.commands(seed)))
        try:
            mean = _mean(row, seed, None if out is None else out / name / str(seed))
        except KeyboardInterrupt as error:
            if out is not None:
                error.add_note("imitate: the same command goes on from here")
            raise
        logger.info("%s, seed %d: %.1f", name, seed, mean)
        means.append(mean)
    summary, mean = read_summaries().get(name), statistics.fmean(means)
    among = None if summary is None else prediction_interval(summary.means, len(means))
    agrees = None if among is None else among[0] - _ROUNDED <= mean <= among[1] + _ROUNDED
    several = f"{len(means)} seed{'s' * (len(means) > 1)}"
    then = f"; the record is of other settings: {row.settings}" if row.settings else ""
    return {
        "row": name,
        "seeds": [*seeds],
        "means": means,
        "among": among,
        "agrees": agrees,
        "verdict": f"{name}: {mean:,.1f} ({several}); {_verdict(summary, among, agrees)}{then}",
    }


def _verdict(summary: Summary | None, among: tuple[float, float] | None, agrees: bool | None) -> str:
    if summary is None:
        return "it was never measured"
    if among is None:
        return f"the record has {summary.mean:,.1f} from one seed, so no interval"
    low, high = among
    point = ", a point, since its seeds are all alike" if low == high else ""
    where = "inside" if agrees else "OUTSIDE"
    return f"the record has {summary.mean:,.1f} ({len(summary.means)} seeds): {where} {low:,.1f} to {high:,.1f}{point}"


def _mean(row: Row, seed: int, folder: Path | None) -> float:
    """The mean return of a seed, run in a folder or, by default, in a temporary one."""
    if folder is None:
        with tempfile.TemporaryDirectory() as scratch:
            return _mean(row, seed, Path(scratch))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return float(run_seed(row.commands(seed), folder)["mean"])
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"a command of the row failed: {lines[-1] if lines else error}") from None
