"""`imitate report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from imitate.commands.options import command
from imitate.errors import InputError

__all__ = ["report"]


@command
def report(
    folders: Annotated[tuple[Path, ...], tyro.conf.Positional],
    out: Path | None = None,
    format: Literal["html", "md", "latex", "csv"] = "html",
    env: tyro.conf.UseAppendAction[tuple[str, ...]] = (),  # noqa: ARG001
) -> int:
    """Write the report of a comparison or a suite anew, or one of several folders of the same.

    Args:
        folders: folders of `imitate compare`; comparisons must be of the same environment, expert and budget
        out: where the report goes; by default to the first folder
        format: html writes the page and all that belongs to it; the others print the table of results
        env: module:Env-v0 of the comparison, to allow the import of its module
    """
    if not folders:
        raise InputError("no folder to report: name one or more that `imitate compare` filled")
    # Torch takes a second: arguments are read before.
    from imitate.compare import write_report, write_suite_report
    from imitate.compare.plan.suite import is_suite
    from imitate.compare.report.results_table import ALL_COLUMNS, SHOWN, as_csv, as_markdown, latex, rows
    from imitate.compare.report.suite_tables import suite_latex, suite_rows
    from imitate.compare.statistics.aggregate import read_suite
    from imitate.compare.statistics.finished_runs import read_finished

    of_suites = is_suite(folders[0])
    if format == "html":
        print((write_suite_report if of_suites else write_report)(*folders, out=out))
        return 0
    if out is not None:
        raise InputError("--out is for the page: --format html writes files, the others print")
    if of_suites:
        suite = read_suite(*folders)
        columns, table = suite_rows(suite)
    else:
        outcome = read_finished(*folders)
        columns, table = ALL_COLUMNS if format == "csv" else SHOWN, rows(outcome)
    if format == "latex":
        text = suite_latex(suite) if of_suites else latex(outcome)
    else:
        text = {"md": as_markdown, "csv": as_csv}[format](table, columns)
    print(text, end="")
    return 0
