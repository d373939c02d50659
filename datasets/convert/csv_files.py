"""Plain CSV: a line an observation, with the action that was taken on it; the line of a final one has no action."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert.recording import Notes, Recording, ended, refused
from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["FOLDER", "found", "losses", "read", "write"]

FOLDER = False
_LONGEST_LINE = 1 << 20
_LONGEST_EPISODE = 1 << 24
_MOST_COLUMNS = 4096


def found(path: Path) -> bool:
    return path.is_file() and path.suffix == ".csv"


@contextmanager
def read(path: Path, keys: Sequence[str], notes: Notes) -> Iterator[Recording]:  # noqa: ARG001
    """Columns: obs_0 ..., action or action_0 ..., and where they are known episode, reward, terminated, truncated."""
    with refused(path):
        with path.open(encoding="utf-8", newline="") as file:
            header = next(_lines(file), [])
        if len(header) > _MOST_COLUMNS or len(set(header)) < len(header):
            raise InputError(
                f"it has {len(header)} columns, some of one name; wanted at most {_MOST_COLUMNS}"
            )
        at = {name: header.index(name) for name in header}
        obs = _numbered(at, "obs")
        actions, labels = _numbered(at, "action"), _numbered(at, "expert_action")
        if not obs or not actions:
            raise InputError(
                f"it has columns {', '.join(header[:8])}; wanted obs_0 ... and action or action_0 ..."
            )
        known = {*obs, *actions, *labels} | {
            at[name] for name in ("episode", "reward", "terminated", "truncated", "seed") if name in at
        }
        for name in header:
            if at[name] not in known:
                notes[f"column {name!r} is left out"] += 1

        def episodes() -> Iterator[Trajectory]:
            with path.open(encoding="utf-8", newline="") as file:
                lines = _lines(file)
                next(lines)
                for number, group in groupby(
                    lines, key=lambda line: line[at["episode"]] if "episode" in at else ""
                ):
                    with refused(f"{path}: episode {number}"):
                        episode = _episode(group, at, obs, actions, labels, notes)
                    if episode is not None:
                        yield episode

        yield Recording(episodes, labelled=bool(labels))


def losses(info: DemoInfo, labelled: bool) -> list[str]:  # noqa: ARG001
    shape = info.observation_space.shape or ()
    if len(shape) > 1:
        raise InputError(f"CSV holds flat observations, these have shape {shape}: use another format")
    return ["the environment, the expert and its return are not in a CSV"]


def write(path: Path, info: DemoInfo, episodes: Iterable[Trajectory], labelled: bool) -> None:
    losses(info, labelled)

    def names(name: str, shape: tuple[int, ...]) -> list[str]:
        return [f"{name}_{n}" for n in range(shape[0])] if shape else [name]

    obs = [f"obs_{n}" for n in range(int(np.prod(info.observation_space.shape or ())))]
    actions = names("action", info.action_space.shape or ())
    labels = names("expert_action", info.action_space.shape or ()) if labelled else []
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["episode", "seed", *obs, *actions, *labels, "reward", "terminated", "truncated"])
        for number, episode in enumerate(episodes):
            steps = len(episode)
            flags = np.zeros((steps, 2), int)
            flags[-1] = episode.terminated, episode.truncated
            columns = [
                episode.obs[:-1],
                episode.actions,
                *([episode.labels] if labelled else []),
                episode.rewards,
                flags,
            ]
            # `tolist` makes Python floats of float32, whose shortest text would be long; NumPy's own text is exact too.
            rows = zip(*(column.reshape(steps, -1).astype(str).tolist() for column in columns), strict=True)
            seed = episode.info.get("seed", -1)
            out.writerows([number, seed, *chain.from_iterable(row)] for row in rows)
            last = episode.obs[-1:].reshape(-1).astype(str).tolist()
            out.writerow([number, seed, *last, *[""] * (len(actions) + len(labels) + 3)])


def _lines(file: Iterable[str]) -> Iterator[list[str]]:
    width = None
    for line in csv.reader(_bounded(file)):
        width = len(line) if width is None else width
        if len(line) != width:
            raise InputError(f"a line has {len(line)} fields, the first has {width}")
        yield line


def _bounded(file: Iterable[str]) -> Iterator[str]:
    readline = file.readline  # type: ignore[attr-defined]
    while line := readline(_LONGEST_LINE):
        if len(line) >= _LONGEST_LINE:
            raise InputError(f"a line has more than {_LONGEST_LINE} characters")
        yield line


def _numbered(at: dict[str, int], name: str) -> list[int]:
    """Columns `name`, or `name_0`, `name_1` ..."""
    count = sum(f"{name}_{n}" in at for n in range(len(at)))
    return [at[name]] if name in at else [at[f"{name}_{n}"] for n in range(count)]


def _episode(
    group: Iterator[list[str]],
    at: dict[str, int],
    obs: list[int],
    actions: list[int],
    labels: list[int],
    notes: Notes,
) -> Trajectory | None:
    lines = []
    for line in group:
        lines.append(line)
        if len(lines) * len(line) > _LONGEST_EPISODE:
            raise InputError(
                f"it has more than {_LONGEST_EPISODE} fields: name the column of episodes `episode`"
            )
    final = not any(lines[-1][column] for column in actions)
    steps = lines[:-1] if final else lines

    def numbers(columns: list[int], rows: list[list[str]]) -> Array:
        return np.array([[float(row[column]) for column in columns] for row in rows])

    def taken(columns: list[int], name: str) -> Array:
        """Actions: a lone column of whole numbers is of discrete ones."""
        if name in at and all(row[at[name]].lstrip("-").isdecimal() for row in steps):
            return np.array([int(row[at[name]]) for row in steps])
        return numbers(columns, steps)

    if not steps:
        raise InputError("it has no line with an action")
    rewards = numbers([at["reward"]], steps)[:, 0] if "reward" in at else np.zeros(len(steps))
    notes["rewards are absent and become 0"] += int("reward" not in at)
    flags = [
        bool(float(steps[-1][at[name]] or 0)) if name in at else False for name in ("terminated", "truncated")
    ]
    seed = int(steps[-1][at["seed"]] or -1) if "seed" in at else -1
    observed, executed = numbers(obs, lines), taken(actions, "action")
    more: dict[str, Any] = {"info": {"seed": seed}}
    more["expert_actions"] = taken(labels, "expert_action") if labels else None
    if final:
        return Trajectory(observed, executed, rewards, flags[0], flags[1], **more)
    return ended(observed, executed, rewards, flags[0], flags[1], notes, **more)
