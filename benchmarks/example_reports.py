"""Rewrite the reports in examples/ from the runs stored beside them.

    python benchmarks/example_reports.py && python docs/screenshots.py

No run is repeated. The videos are taken from the old reports. The second takes pictures of one for the documentation.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

from imitate.compare import Suite, write_suite_report
from imitate.compare.plan.comparison import file_name
from imitate.compare.plan.learners import title
from imitate.files import write_json

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
KEPT = ("report.html", "table.md")
FILM = re.compile(
    r'<video [^>]*?(?:poster="data:image/jpeg;base64,(?P<poster>[^"]*)" )?src="data:video/mp4;base64,(?P<film>[^"]*)" '
    r'aria-label="(?P<who>.*?) playing an episode of [^"]*? with a return of (?P<shown>[^"]*)"'
)


def rewrite(example: Path) -> None:
    """Rewrite the report of a suite and those of its environments."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        with tarfile.open(example / "runs.tar.gz") as archive:
            archive.extractall(runs, filter="data")
        for label, part in Suite.read(runs).parts.items():
            names = {title(name): file_name(name) for name in part.algorithms} | {"Expert": "expert"}
            restore_films(
                (example / label / "report.html").read_text("utf-8"), names, runs / label / "videos"
            )
        write_suite_report(runs)
        for label in ("", *Suite.read(runs).parts):
            for name in KEPT if label else (*KEPT, "suite.toml"):
                shutil.copy(runs / label / name, example / label / name)


def restore_films(page: str, names: dict[str, str], folder: Path) -> None:
    """Extract the films of a page to the files from which it was made."""
    folder.mkdir(exist_ok=True)
    for found in FILM.finditer(page):
        film = folder / f"{names[html.unescape(found['who'])]}.mp4"
        film.write_bytes(base64.b64decode(found["film"]))
        if found["poster"]:
            film.with_suffix(".jpg").write_bytes(base64.b64decode(found["poster"]))
        shown = float(found["shown"].replace(",", "").replace("−", "-"))
        write_json(film.with_suffix(".json"), {"episode_return": shown})


if __name__ == "__main__":
    for example in ("classic", "mujoco"):
        rewrite(EXAMPLES / example)
