"""Where a run stands, on disk: its account in the checkpoint, and the files of lines that it goes on with."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import torch

from imitate.errors import InputError, one_line
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state

__all__ = ["CHECKPOINT", "Account", "Checkpoint", "append", "continued", "require_finite"]

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Account:
    """Where a run stands; all of it is in the checkpoint. Steps are the environment's."""

    iterations: int = 0
    validation_steps: int = 0
    last_validation: int = 0
    """Steps that the last validation took."""
    validated: int = 0
    """Iterations before the last validation."""
    closing: bool = False
    """The budget has paid for the last validation; what that left over is being spent."""
    next_validation: int = 0
    last_checkpoint: int = 0
    episode_steps: float = 0.0
    """Mean length of the training episodes that ended last."""
    best_mean: float | None = None
    metrics_bytes: int = 0
    evaluations_bytes: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class Checkpoint:
    """What a run goes on from."""

    account: Account
    learner: Mapping[str, Any]
    store_episodes: int

    @classmethod
    def read(cls, folder: Path) -> Checkpoint | None:
        """Of a run's folder; None where it has none. Raises InputError where it is damaged."""
        path = folder / CHECKPOINT
        if not path.exists():
            return None
        try:
            return msgspec.convert(load_state(path), cls)
        except msgspec.ValidationError as error:
            raise InputError(
                f"{path} is damaged: {one_line(error)}; begin anew with another --out"
            ) from error


def require_finite(policy: ActorPolicy) -> None:
    """Raise FloatingPointError where a weight is not."""
    for name, tensor in policy.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise FloatingPointError(f"the policy's {name} is not finite any more")


@contextmanager
def continued(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open for appending, without what was written after the checkpoint. Where the file is shorter than it was then,
    its whole lines are kept."""
    path.touch()
    with path.open("r+b") as file:
        text = file.read(size)
        if len(text) < size:
            logger.warning("%s is shorter than at the checkpoint: rows of it are missing", path)
        whole = text.rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        yield file


def append(file: IO[bytes], row: dict[str, Any]) -> int:
    """Write a row as a line of JSON; returns its bytes."""
    line = (json.dumps(row) + "\n").encode()
    file.write(line)
    file.flush()
    return len(line)
