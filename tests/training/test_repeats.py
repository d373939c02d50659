"""The same command gives the same bytes, whatever a process finds in memory and however it hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from imitate.cli import main

OPTIONS = (
    "train aggrevated --env CartPole-v1 --expert CartPole-v1:ppo --num-envs 1 --budget 100 --iterations 2 "
    '--fqe-updates 20 --updates-per-iteration 20 --final-updates 20 --env-kwargs {"max_episode_steps":50} --no-looks'
)


def test_uninitialised_memory_and_hashes_change_nothing(tmp_path: Path) -> None:
    """In this process, whose hashes are random, and in one whose fresh memory glibc fills with 238, the complement of
    MALLOC_PERTURB_; elsewhere only the hashes differ."""
    here, there = tmp_path / "here", tmp_path / "there"
    command = [*OPTIONS.split(), "--out"]
    environment = os.environ | {"PYTHONHASHSEED": "17", "MALLOC_PERTURB_": "17"}
    done = subprocess.run(
        [sys.executable, "-m", "imitate.cli", *command, str(there)], env=environment, check=False
    )
    assert (done.returncode, main([*command, str(here)])) == (0, 0)
    files = "metrics.jsonl", "policy/policy.safetensors"
    first, second = ([(out / name).read_bytes() for name in files] for out in (here, there))
    assert first == second
