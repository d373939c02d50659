"""`imitate data push`"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any, Literal

import tyro

from imitate import hub
from imitate.commands.recorded import env_options, train_command
from imitate.datasets.convert import FORMATS, convert
from imitate.datasets.convert.sources import SUFFIXES
from imitate.datasets.evaluation import Evaluation
from imitate.datasets.storage.opening import paths_of
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.validate import describe
from imitate.errors import InputError
from imitate.export.cards import data_card

__all__ = ["push"]

_IN_ONE_FILE = {"robomimic": "demos.hdf5", "d4rl": "demos.hdf5", "npz": "demos.npz", "csv": "demos.csv"}


def push(
    demos: tyro.conf.Positional[str],
    repo: tyro.conf.Positional[str],
    /,
    format: Literal[tuple(FORMATS)] = "imitate",  # type: ignore[valid-type]
    license: str | None = None,
    private: bool = False,
) -> int:
    """Push demonstrations with a card to the Hugging Face hub; `--demos hub:ORG/REPO` reads them from there.

    Files of data that the repository has already are replaced, in the same commit.

    Args:
        demos: a file of demonstrations, a folder of them or a pattern
        repo: ORG/REPO, which is made if it is missing; the token is that of `hf auth login`, or HF_TOKEN
        format: format of the files there
        license: the licence on the card, such as mit
        private: make the repository private, if it is new
    """
    facts, result = _described(demos)
    hub.check_push(repo)
    spec = f"hub:{repo}"
    copy = shlex.join(["imitate", "data", "convert", spec, "demos.h5", *env_options(facts)])
    commands = list(filter(None, [train_command(spec, facts), copy]))
    card = data_card(facts, result, commands=commands, format=format, license=license)
    with tempfile.TemporaryDirectory(prefix="imitate-") as scratch:
        files = _ours(demos) if format == "imitate" else _converted(demos, Path(scratch), format)
        pushed = hub.push(
            repo, {**files, "README.md": card.encode()}, "dataset", private=private, replaced=SUFFIXES
        )
    print(f"hub:{pushed}")
    return 0


def _described(demos: str) -> tuple[dict[str, Any], Evaluation]:
    with DemoReader(demos) as reader:
        if not len(reader):
            raise InputError(f"{demos} holds no episodes: record some with `imitate collect`")
        result = Evaluation(reader.returns, reader.lengths)
    return describe(demos), result


def _ours(demos: str) -> dict[str, Path | bytes]:
    """The files by their names on the hub; a single one is `demos.h5`, so that it replaces the last one."""
    paths = paths_of(demos)
    if len(paths) == 1:
        return {"demos.h5": paths[0]}
    named: dict[str, Path | bytes] = {path.name: path for path in paths}
    if len(named) < len(paths):
        raise InputError(f"{demos} are files of the same names: `imitate data merge` makes one of them")
    return named


def _converted(demos: str, scratch: Path, format: str) -> dict[str, Path | bytes]:
    paths = paths_of(demos)
    if len(paths) > 1 and not Path(demos).is_dir():
        raise InputError(
            f"{demos} names {len(paths)} files: `imitate data merge` makes one of them for --format {format}"
        )
    out = scratch / _IN_ONE_FILE.get(format, "demos")
    convert(Path(demos) if len(paths) > 1 else paths[0], out, format=format)
    if out.is_file():
        return {out.name: out}
    return {file.relative_to(out).as_posix(): file for file in sorted(out.rglob("*")) if file.is_file()}
