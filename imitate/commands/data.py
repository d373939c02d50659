"""`imitate data info|validate|repair|replay|video|plot|convert|push|merge|concat|split|filter|subsample`"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tyro

import imitate.datasets.plot
import imitate.datasets.replay
from imitate.commands.convert import convert
from imitate.commands.options import print_facts, print_json, subcommand
from imitate.commands.push import push
from imitate.datasets import edit
from imitate.datasets.convert.sources import source_path
from imitate.datasets.plot import bars
from imitate.datasets.replay import again
from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.savepoint import lost_power, recover, savepoint_of
from imitate.datasets.storage.validate import describe, validate
from imitate.envs.trust import bare_id
from imitate.errors import InputError, one_line
from imitate.media.video import filming

__all__ = ["data"]


def data(argv: list[str]) -> int:
    commands: dict[str, Callable[..., int]] = {
        "info": info,
        "validate": check,
        "repair": repair,
        "replay": replay,
        "video": video,
        "plot": plot,
        "convert": convert,
        "push": push,
        "merge": merge,
        "concat": concat,
        "split": split,
        "filter": keep,
        "subsample": subsample,
    }
    return subcommand(commands, argv, "data")


def info(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
    """Describe demonstrations: episodes, steps, returns, spaces, expert, size; for people rounded, with a histogram.

    Args:
        file: a file of demonstrations, a folder of them, a pattern, or hub:ORG/DATASET
    """
    path = source_path(file.as_posix())
    _say(path, as_json=json)
    if json:
        return 0
    with DemoReader(path) as reader:
        block = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
        print("\nreturns", *bars(reader.returns, block=block), sep="\n  ")
    return 0


def _say(file: Path, *, as_json: bool) -> None:
    facts = describe(file)
    print_facts(facts if as_json else for_people(facts), as_json=as_json)


def for_people(facts: dict[str, Any]) -> dict[str, Any]:
    """The description with few digits, sizes in units, and without what is empty."""
    shown: dict[str, Any] = {"path": facts["path"], "size": f"{facts['bytes'] / 1e6:.3g} MB"}
    shown["episodes"] = (
        f"{facts['episodes']} ({facts['terminated']} terminated, {facts['truncated']} truncated)"
    )
    for name, value in facts.items():
        if name == "has_actions":
            value = None if value else "no: only observations"
        if name in ("returns", "lengths") and value is not None:
            value = "{mean:.4g} +- {std:.3g}, {min:.4g} to {max:.4g}".format(**value)
        elif name == "tasks":
            few = [f"{one_line(text)[:60]} ({count})" for text, count in value.items()]
            value = ", ".join(few[:5] + ([f"and {len(few) - 5} more"] if len(few) > 5 else []))
        elif isinstance(value, float):
            value = f"{value:.4g}"
        if name not in ("bytes", "terminated", "truncated", *shown) and value not in ("", None, {}, []):
            shown[name] = value
    return shown


def repair(file: tyro.conf.Positional[Path], /) -> int:
    """Restore a recording that a power cut ended: the episodes that were synced, up to a second or so before it.

    Args:
        file: the file of demonstrations; the file beside it that ends in .savepoint says what it held
    """
    # A whole file holds more than was synced.
    if savepoint_of(file).is_file() and not lost_power(file) and _is_whole(file):
        raise InputError(
            f"{file} is whole, its writer was only killed, or is at work: go on with --resume, or read it as it is"
        )
    print(f"{file}: restored {recover(file)} episodes")
    return 0


def _is_whole(file: Path) -> bool:
    try:
        return not validate(file)
    except InputError:
        return False


def replay(
    file: tyro.conf.Positional[Path],
    /,
    episodes: int | None = None,
    env: str | None = None,
    json: bool = False,
) -> int:
    """Take the recorded actions again and compare, to the last bit; status 2 where something differs.

    Args:
        file: a file of demonstrations, a folder of them, a pattern, or hub:ORG/DATASET
        episodes: only the first so many
        env: MODULE:ENV of the recording, which imports the module that registers the environment
    """
    if episodes is not None and episodes < 1:
        raise InputError(f"--episodes must be at least 1, got {episodes}")
    with DemoReader(source_path(file.as_posix())) as reader:
        chosen = range(min(episodes or len(reader), len(reader)))
        found = [
            difference
            for difference in imitate.datasets.replay.replay(reader, chosen, _env_of(reader, env))
            if difference is not None
        ]
    if json:
        print_json({"episodes": len(chosen), "differ": [asdict(difference) for difference in found]})
    else:
        print("\n".join(map(str, found)) or f"{file}: {len(chosen)} episodes are the same again")
    return 2 if found else 0


def video(
    file: tyro.conf.Positional[Path],
    /,
    out: Path,
    episodes: tuple[int, ...] = (0,),
    width: int | None = None,
    env: str | None = None,
) -> int:
    """Film recorded episodes, by taking their actions again.

    Args:
        file: a file of demonstrations, a folder of them, a pattern, or hub:ORG/DATASET
        out: the .mp4 to write
        episodes: the numbers of the episodes, from 0
        width: the most pixels from left to right
        env: MODULE:ENV of the recording, which imports the module that registers the environment
    """
    if not episodes:
        raise InputError("no episode to film: give --episodes N ...")
    with DemoReader(source_path(file.as_posix())) as reader:
        for number in episodes:
            if not 0 <= number < len(reader):
                raise InputError(f"there is no episode {number}: {file} has 0 to {len(reader) - 1}")
        env_id, env_kwargs = _env_of(reader, env), reader.info.env_kwargs
        check_env(env_id, env_kwargs)
        with filming(env_id, out, env_kwargs, width=width) as (filmed, _):
            for number in episodes:
                for _ in again(filmed, reader, number):
                    pass
    print(f"{out}: {len(episodes)} episodes")
    return 0


def _env_of(reader: DemoReader, typed: str | None) -> str:
    """The recording's environment, by the module that was typed, if one was. Raises InputError if another environment
    was typed."""
    recorded = reader.info.env_id
    if typed is not None and bare_id(typed) != bare_id(recorded):
        remedy = f"leave --env out, or say --env MODULE:{recorded} if a module of yours registers it"
        if ":" in recorded:
            remedy = f"say --env {recorded}"
        raise InputError(f"the recording is of {recorded}, not of {typed}: {remedy}")
    return typed if typed is not None and ":" in typed else recorded


def plot(file: tyro.conf.Positional[Path], /, out: Path) -> int:
    """Plot returns, lengths and actions.

    Args:
        file: a file of demonstrations, a folder of them, a pattern, or hub:ORG/DATASET
        out: the .png or .html to write
    """
    imitate.datasets.plot.plot(source_path(file.as_posix()), out)
    print(out)
    return 0


def check(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
    """Check every invariant of demonstrations; status 2 if one is broken.

    Args:
        file: a file of demonstrations, a folder of them, a pattern, or hub:ORG/DATASET
    """
    problems = validate(source_path(file.as_posix()))
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
    _say(out, as_json=json)
    return 0


def concat(files: tyro.conf.Positional[tuple[Path, ...]], /, out: Path, json: bool = False) -> int:
    """All episodes of several files, one after another, repeated ones too.

    Args:
        files: files of demonstrations of one environment, folders of them or patterns
        out: the file to write
        json: print the description of the new file as JSON
    """
    edit.concat(files, out)
    _say(out, as_json=json)
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
    _say(out, as_json=json)
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

    The new file does not tell how often episodes end, which gail, dac, gaifo, sqil and iq learn from: give these the
    whole file and --demo-every (gail also takes --demo-pairs).

    Args:
        file: a file of demonstrations, a folder of them or a pattern
        out: the file to write
        every: keep the first of every so many steps
        pairs: keep so many steps, at random
        seed: which ones follows from it
        json: print the description of the new file as JSON
    """
    if every is None and pairs is None:
        raise InputError("give either --every N or --pairs N, got neither")
    edit.subsample(file, out, every=every, pairs=pairs, seed=seed)
    _say(out, as_json=json)
    return 0
