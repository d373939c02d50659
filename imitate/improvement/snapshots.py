"""Policies on disk: one for each rung that a learner reached, and the one that is handed over."""

from __future__ import annotations

import shutil
from pathlib import Path

from imitate.files import atomic_folder, write_json
from imitate.improvement.journal import Snapshot
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import save_policy

__all__ = ["hand_over", "store"]


def store(folder: Path, snapshot: Snapshot, run: Path, policy: ActorPolicy) -> None:
    """Write the policy of a run to a folder of the snapshot's name. It is itself a run, for `imitate evaluate`."""
    target = folder / snapshot.name
    shutil.rmtree(target, ignore_errors=True)  # left by a process that was killed
    folder.mkdir(exist_ok=True)
    with atomic_folder(target) as temporary:
        shutil.copy(run / "config.json", temporary)
        save_policy(temporary / "policy", policy)
        costs = {"env_steps": snapshot.steps, "demo_steps": 0, "validation_steps": 0}
        write_json(temporary / "finished.json", costs | {"expert_queries": snapshot.answers})


def hand_over(source: Path, target: Path) -> None:
    """Make `target` a copy of a snapshot, instead of what it was. If copying fails, it stays what it was."""
    old, new = (target.with_name(f".{which}-{target.name}") for which in ("old", "new"))
    for leftover in (old, new):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(source, new)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
