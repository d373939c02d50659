"""The same command gives the same bytes, whatever a process finds in memory and however it hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OPTIONS = (
    "train aggrevated --env CartPole-v1 --expert CartPole-v1:ppo --num-envs 1 --budget 100 --iterations 2 "
    '--fqe-updates 20 --updates-per-iteration 20 --final-updates 20 --env-kwargs {"max_episode_steps":50} --no-looks'
)


def test_uninitialised_memory_and_hashes_change_nothing(tmp_path: Path) -> None:
    """glibc fills fresh memory with the complement of MALLOC_PERTURB_; elsewhere only the hashes differ."""
    command = [sys.executable, "-m", "imitate.cli", *OPTIONS.split(), "--out"]
    running = {
        tmp_path / number: subprocess.Popen(
            [*command, str(tmp_path / number)],
            env=os.environ | {"PYTHONHASHSEED": number, "MALLOC_PERTURB_": number},
        )
        for number in ("17", "168")
    }
    assert [process.wait() for process in running.values()] == [0, 0]
    files = "metrics.jsonl", "policy/policy.safetensors"
    first, second = ([(out / name).read_bytes() for name in files] for out in running)
    assert first == second
