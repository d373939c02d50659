"""The report of a suite."""

from __future__ import annotations

from pathlib import Path

from imitate.compare.report import write_report
from imitate.compare.suite import Suite

__all__ = ["write_suite_report"]


def write_suite_report(*folders: Path, out: Path | None = None) -> Path:
    out = out or folders[0]
    for label in Suite.read(folders[0]).parts:
        write_report(*[folder / label for folder in folders], out=out / label)
    return out / "report.html"
