"""The state of a run on disk: its account in the checkpoint, and the JSON-lines files that it appends to."""

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

from imitate.algorithms import Learner
from imitate.errors import InputError, one_line
from imitate.files import Count, Number
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import check_like, check_state, load_state

__all__ = [
    "CHECKPOINT",
    "Account",
    "Checkpoint",
    "Unlawful",
    "append",
    "check_policy",
    "check_step",
    "checked",
    "continued",
    "require_finite",
]

logger = logging.getLogger(__name__)

CHECKPOINT = "checkpoint.safetensors"


@dataclass
class Account:
    """The progress of a run, saved in its checkpoint. Steps are environment steps."""

    iterations: Count = 0
    validation_steps: Count = 0
    last_validation: Count = 0
    """Steps that the last validation took."""
    validated: Count = 0
    """Iterations at the time of the last validation."""
    faults: int = 0
    """Exceptions that ended the run so far. After each it goes on with other episodes."""
    closing: bool = False
    """The last reserved validation is done, and the rest of the budget is being spent."""
    next_validation: Count = 0
    last_checkpoint: Count = 0
    episode_steps: Number = 0.0
    """Mean length of the latest finished training episodes."""
    best_score: float | None = None
    metrics_bytes: Count = 0
    evaluations_bytes: Count = 0
    wall_seconds: Number = 0.0
    cpu_seconds: Number = 0.0


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a run resumes."""

    account: Account
    learner: Mapping[str, Any]
    store_episodes: Count

    @classmethod
    def read(cls, folder: Path) -> Checkpoint | None:
        """Read the checkpoint of a run's folder; None if it has none. Raises InputError if it is damaged."""
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
    """Raise FloatingPointError if a weight of the policy is not finite."""
    for name, tensor in policy.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise FloatingPointError(f"the policy's {name} is not finite any more")


@contextmanager
def continued(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Open for appending, after dropping what was written since the checkpoint.

    If the file is shorter than it was at the checkpoint, its whole lines are kept.
    """
    path.touch()
    if not path.is_file():
        raise InputError(f"{path} is no file; remove it")
    with path.open("r+b") as file:
        text = file.read(size)
        if len(text) < size:
            logger.warning("%s is shorter than at the checkpoint: rows of it are missing", path)
        whole = text.rfind(b"\n") + 1
        file.truncate(whole)
        file.seek(whole)
        yield file


def check_policy(policy: Any) -> None:
    """Raise InputError if a learner's policy is not one that a run can store."""
    # A subclass would be loaded as an ActorPolicy, which acts differently.
    if type(policy) is not ActorPolicy:
        raise InputError(
            f"the learner's policy is a {type(policy).__name__}: a run stores and loads an imitate.ActorPolicy alone; "
            "train others in Python, and measure them with imitate.evaluate"
        )


class Unlawful(InputError):
    """A learner broke its protocol, so the step in which it did must not be saved."""


def check_step(learner: Learner, taken: int, limit: int, fresh: Mapping[str, Any] | None) -> None:
    """Raise Unlawful if a learner has just taken more steps than its limit, if its counts are no ints, or if its state
    could not be resumed, as it has other types or shapes than the `fresh` one."""
    for name in ("env_steps", "expert_queries"):
        if not isinstance(count := getattr(learner, name), int):
            raise Unlawful(f"the learner's {name} is a {type(count).__name__}, wanted an int")
    if taken > limit:
        raise Unlawful(f"the learner's step took {taken} environment steps, at most {limit} were left to it")
    if fresh is not None:
        check_state(state := learner.state_dict())
        try:
            check_like(fresh, state)
        except ValueError as error:
            raise Unlawful(
                f"the learner's state could not be resumed: {error} as before its first step; an empty tensor may grow"
            ) from error


def checked(metrics: Any) -> dict[str, float]:
    """The metrics that a learner's step, perhaps a user's own, returned. Raises InputError unless they are numbers."""
    if not isinstance(metrics, dict):
        raise InputError(f"the learner's step returned a {type(metrics).__name__}, wanted a dict of numbers")
    for name, value in metrics.items():
        if not isinstance(value, float | int):
            raise InputError(
                f"the learner's step returned {name} as a {type(value).__name__}, wanted a float or an int"
            )
    return metrics


def append(file: IO[bytes], row: dict[str, Any]) -> int:
    """Write a row as a line of JSON; returns the number of bytes written."""
    line = (json.dumps(row) + "\n").encode()
    file.write(line)
    file.flush()
    return len(line)
