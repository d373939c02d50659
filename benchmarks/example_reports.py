"""Write the reports in examples/ anew from their packed runs; nothing is run again.

    python benchmarks/example_reports.py [classic mujoco]

Files that an example has are replaced by those of the new report. The runs are packed without films, so these are
taken from the pages that are there.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import tarfile
import tempfile
from pathlib import Path

import tyro

from imitate.compare import write_suite_report
from imitate.compare.learners import title
from imitate.compare.suite import Suite

EXAMPLES = Path(__file__).parents[1] / "examples"
FILM = re.compile(
    r'poster="data:image/jpeg;base64,([^"]+)" src="data:video/mp4;base64,([^"]+)" '
    r'aria-label="([^"]+) playing an episode of \S+ with a return of ([^"]+)"'
)


def unpack_films(page: Path, folder: Path, algorithms: tuple[str, ...]) -> None:
    """The films of a page as the files that it was made of."""
    names = {"Expert": "expert"} | {title(name): name.replace(":", "-") for name in algorithms}
    for poster, film, learner, shown in FILM.findall(page.read_text()):
        path = folder / f"{names[html.unescape(learner)]}.mp4"
        folder.mkdir(exist_ok=True)
        path.write_bytes(base64.b64decode(film))
        path.with_suffix(".jpg").write_bytes(base64.b64decode(poster))
        episode_return = float(shown.replace("−", "-").replace(",", ""))
        path.with_suffix(".json").write_text(json.dumps({"episode_return": episode_return, "run": ""}))


def main(names: tuple[str, ...] = ("classic", "mujoco"), /) -> None:
    for example in (EXAMPLES / name for name in names):
        with tempfile.TemporaryDirectory() as folder:
            runs, out = Path(folder) / "runs", Path(folder) / "out"
            with tarfile.open(example / "runs.tar.gz") as archive:
                archive.extractall(runs, filter="data")
            for label, part in Suite.read(runs).parts.items():
                unpack_films(example / label / "report.html", runs / label / "videos", part.algorithms)
            write_suite_report(runs, out=out)
            for path in example.rglob("*"):
                if (new := out / path.relative_to(example)).is_file():
                    shutil.copyfile(new, path)
                    print(path.relative_to(EXAMPLES))


if __name__ == "__main__":
    tyro.cli(main)
