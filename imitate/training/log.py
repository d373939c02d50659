"""The numbers of a run on disk: JSON lines that it appends to, and TensorBoard's events."""

from __future__ import annotations

import json
import logging
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from imitate.errors import InputError, one_line
from imitate.files import plain_json, read_bytes

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["Log", "Validated", "append", "continued", "opened", "validations"]

logger = logging.getLogger(__name__)

_LARGEST = 64 << 20  # bytes of an evaluations.jsonl


@dataclass(frozen=True)
class Log:
    """metrics.jsonl, evaluations.jsonl and TensorBoard's events, while they are open."""

    metrics: IO[bytes]
    evaluations: IO[bytes]
    board: SummaryWriter

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of metrics.jsonl and of evaluations.jsonl."""
        return self.metrics.tell(), self.evaluations.tell()

    def show(self, values: Mapping[str, float], step: int) -> None:
        """Draw values by their names on TensorBoard."""
        for name, value in values.items():
            self.board.add_scalar(name, value, step)


@contextmanager
def opened(out: Path, sizes: tuple[int, int], step: int) -> Iterator[Log]:
    """The log of a run's folder. What was written after these sizes, or shown from this step on, is dropped."""
    from torch.utils.tensorboard import SummaryWriter

    with (
        continued(out / "metrics.jsonl", sizes[0]) as metrics,
        continued(out / "evaluations.jsonl", sizes[1]) as evaluations,
        SummaryWriter(str(out), purge_step=step) as board,
    ):
        yield Log(metrics, evaluations, board)


@contextmanager
def continued(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open for appending after `size` bytes; of a file that is shorter, the whole lines are kept.

    Raises InputError if it is not a file, or a link, since rows would go to the file that it leads to.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise InputError(f"{path} is a link or no file; remove it")
    path.touch()
    with path.open("r+b") as file:
        there = min(size, file.seek(0, os.SEEK_END))
        if there < size:
            logger.warning("%s is shorter than at the checkpoint: rows of it are missing", path)
        whole = 0
        if there:  # an empty file can't be mapped
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:  # a large one is not read
                whole = text.rfind(b"\n", 0, there) + 1
        file.truncate(whole)
        file.seek(whole)
        yield file


class Validated(msgspec.Struct, frozen=True):
    """The fields that are read from a line of evaluations.jsonl."""

    best: bool
    env_steps: int
    mean_return: float
    distance: float | None = None

    @property
    def score(self) -> float:
        """The highest one chooses the policy: the return, or minus the distance from the demonstrations."""
        return self.mean_return if self.distance is None else -self.distance


def validations(run: Path) -> list[Validated]:
    """The validations in a run's folder so far. Raises InputError if evaluations.jsonl is damaged or above 64 MiB."""
    path = run / "evaluations.jsonl"
    if not path.exists():
        return []
    lines = read_bytes(path, _LARGEST).splitlines()
    try:
        return [msgspec.convert(plain_json(line), Validated) for line in lines]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {one_line(error)}") from error


def append(file: IO[bytes], row: Mapping[str, Any]) -> None:
    """Write a row as a line of JSON."""
    file.write((json.dumps(row) + "\n").encode())
    file.flush()
