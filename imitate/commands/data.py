"""`imitate data info|validate|convert|merge|concat|split|filter|subsample`"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

import tyro

from imitate.commands.options import JsonObject, print_json, report, subcommand
from imitate.datasets import convert as converting
from imitate.datasets import edit
from imitate.datasets.convert import FORMATS
from imitate.datasets.convert.sources import source_path, store_path
from imitate.datasets.validate import describe, validate

__all__ = ["data"]


def data(argv: list[str]) -> int:
    commands: dict[str, Callable[..., int]] = {
        "info": info,
        "validate": check,
        "convert": convert,
        "merge": merge,
        "concat": concat,
        "split": split,
        "filter": keep,
        "subsample": subsample,
    }
    return subcommand(commands, argv, "data")


def info(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
    """Describe demonstrations: episodes, steps, returns, spaces, expert, size.

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        json: print JSON
    """
    report(describe(file), as_json=json)
    return 0


def check(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
    """Check every invariant of demonstrations; status 2 if one is broken.

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        json: print JSON
    """
    problems = validate(file)
    if json:
        print_json({"valid": not problems, "problems": problems})
    else:
        print("\n".join(problems) or f"{file}: valid")
    return 2 if problems else 0


def convert(
    source: tyro.conf.Positional[str],
    out: tyro.conf.Positional[str],
    /,
    format: Literal[tuple(FORMATS)] | None = None,  # type: ignore[valid-type]
    env: str | None = None,
    env_kwargs: JsonObject | None = None,
    obs_keys: tuple[str, ...] = (),
    clip: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Convert demonstrations between the formats of imitation learning, in either direction.

    Args:
        source: a data set, whose format is found from its content; minari:ID is one in Minari's folder,
            hub:ORG/DATASET one on the Hugging Face hub
        out: the file or folder to write, or minari:ID
        format: the format to write; by default after the suffix .h5 (ours), .npz or .csv
        env: the environment, where the data do not name it
        env_kwargs: keyword arguments of the environment, as a JSON object
        obs_keys: the observations to take where there are several; by default all flat ones, in one array
        clip: move actions that leave the action space to its bounds
        dry_run: read everything and say what would be lost; write nothing
        json: print JSON
    """
    done = converting.convert(
        source_path(source),
        store_path(out),
        format=format or ("minari" if out.startswith("minari:") else None),
        env_id=env,
        env_kwargs=env_kwargs,
        obs_keys=obs_keys,
        clip=clip,
        dry_run=dry_run,
    )
    if json:
        print_json(asdict(done))
        return 0
    said = "would write" if dry_run else "wrote"
    amount = f"{done.episodes} episodes, {done.steps} steps of {done.env_id}"
    print(f"{said} {amount} from {done.source_format} to {done.format}")
    for note in done.notes:
        print(f"  {note}")
    return 0


def merge(files: tyro.conf.Positional[tuple[Path, ...]], /, out: Path, json: bool = False) -> int:
    """All episodes of several files in one; an episode that is in several of them only once.

    Args:
        files: files of demonstrations of one environment, folders of them or patterns
        out: the file to write
        json: print the description of the new file as JSON
    """
    edit.merge(files, out)
    report(describe(out), as_json=json)
    return 0


def concat(files: tyro.conf.Positional[tuple[Path, ...]], /, out: Path, json: bool = False) -> int:
    """All episodes of several files, one after another, repeated ones too.

    Args:
        files: files of demonstrations of one environment, folders of them or patterns
        out: the file to write
        json: print the description of the new file as JSON
    """
    edit.concat(files, out)
    report(describe(out), as_json=json)
    return 0


def split(
    file: tyro.conf.Positional[Path],
    /,
    train: Path,
    held_out: Path,
    holdout: float = 0.1,
    seed: int = 0,
) -> int:
    """Split whole episodes at random into two files.

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        train: the file for most episodes
        held_out: the file for the others
        holdout: the share of the others
        seed: which ones follows from it
    """
    edit.split(file, train, held_out, holdout=holdout, seed=seed)
    print(
        f"{describe(train)['episodes']} episodes in {train}, {describe(held_out)['episodes']} in {held_out}"
    )
    return 0


def keep(
    file: tyro.conf.Positional[Path],
    /,
    out: Path,
    min_return: float = -math.inf,
    max_return: float = math.inf,
    min_length: int = 1,
    max_length: int | None = None,
    terminated: bool | None = None,
    json: bool = False,
) -> int:
    """Keep the episodes within all these bounds.

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        out: the file to write
        min_return: the lowest return
        max_return: the highest return
        min_length: the fewest steps
        max_length: the most steps
        terminated: True: those that ended by themselves; False: those that were cut
        json: print the description of the new file as JSON
    """
    edit.keep(
        file,
        out,
        min_return=min_return,
        max_return=max_return,
        min_length=min_length,
        max_length=max_length,
        terminated=terminated,
    )
    report(describe(out), as_json=json)
    return 0


def subsample(
    file: tyro.conf.Positional[Path],
    /,
    out: Path,
    every: int | None = None,
    pairs: int | None = None,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Keep some steps: every k-th of each episode, or so many at random.

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        out: the file to write
        every: keep the first of every so many steps
        pairs: keep so many steps, at random
        seed: which ones follows from it
        json: print the description of the new file as JSON
    """
    edit.subsample(file, out, every=every, pairs=pairs, seed=seed)
    report(describe(out), as_json=json)
    return 0
