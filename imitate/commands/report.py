"""`imitate report`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from imitate.commands.options import run
from imitate.compare import write_report
from imitate.compare.results import read_outcome
from imitate.compare.tables import as_csv, as_latex, as_markdown, rows

__all__ = ["report"]


def report(argv: list[str]) -> int:
    def command(
        folders: Annotated[tuple[Path, ...], tyro.conf.Positional],
        out: Path | None = None,
        format: Literal["html", "md", "latex", "csv"] = "html",
    ) -> int:
        """Write the report of a comparison anew, or one of several folders of the same environment, expert and budget.

        Args:
            folders: of `imitate compare`
            out: where the report goes; by default to the first folder
            format: html writes the page and all that belongs to it; the others print the table of results
        """
        if format == "html":
            print(write_report(*folders, out=out))
        else:
            writer = {"md": as_markdown, "latex": as_latex, "csv": as_csv}[format]
            print(writer(rows(read_outcome(*folders))), end="")
        return 0

    return run(command, argv, "report")
