"""The files of a learned reward: where they are in a run, and their hash. Nothing here imports torch."""

from __future__ import annotations

import hashlib
from pathlib import Path

from imitate.errors import InputError

__all__ = ["NAME", "reward_folder", "reward_sha256"]

NAME = "reward"
"""The folder in a run, and the name of the two files in it, .json and .safetensors."""


def reward_folder(run: str | Path) -> Path:
    """The folder with the learned reward of a run, or `run` itself if it is one. Raises InputError if there is none."""
    run = Path(run)
    folder = run if (run / f"{NAME}.json").is_file() else run / NAME
    if not run.is_dir():
        raise InputError(f"no folder {run}: wanted a run of gail, dac or gaifo, which learn a reward")
    if not all((folder / f"{NAME}.{suffix}").is_file() for suffix in ("json", "safetensors")):
        raise InputError(
            f"{run} has no learned reward: wanted a run of gail, dac or gaifo that has ended; train one"
        )
    return folder


def reward_sha256(run: str | Path) -> str:
    """The hash of both files of a run's learned reward. Raises InputError if there is none."""
    folder, found = reward_folder(run), hashlib.sha256()
    for suffix in ("json", "safetensors"):
        with (folder / f"{NAME}.{suffix}").open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()
