"""`imitate data info|validate|merge|concat|split|filter|subsample`"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import tyro

from imitate.commands.options import print_json, report, subcommand
from imitate.datasets import edit
from imitate.datasets.validate import describe, validate

__all__ = ["data"]


def data(argv: list[str]) -> int:
    commands: dict[str, Callable[..., int]] = {
        "info": info,
        "validate": check,
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
