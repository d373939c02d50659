"""AggreVaTeD's check of a critic before a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from typed import refused

import imitate.experts
from imitate.cli import main


def test_a_critic_is_not_checked_on_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AggreVaTeD's check plays four episodes of the expert, outside the budget."""
    begun: list[int] = []
    connected: list[Counted] = []

    class Counted(PendulumEnv):
        def __init__(self) -> None:
            super().__init__()
            assert not connected, "one connection at a time"
            connected.append(self)

        def close(self) -> None:
            if self in connected:
                connected.remove(self)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            begun.append(0)
            return super().reset(seed=seed, options=options)

        def step(self, action: Any) -> Any:
            begun[-1] += 1
            return super().step(action)

    gym.register("Counted-v0", Counted, max_episode_steps=50)
    monkeypatch.chdir(tmp_path)
    line = (
        "train aggrevated --env Counted-v0 --expert Pendulum-v1 --num-envs 1 --no-measure --no-looks --eval-every 0 "
        "--budget 200 --iterations 2 --updates-per-iteration 5 --final-updates 5 --out"
    )
    try:
        assert main([*line.split(), "run"]) == 0
        assert sum(begun) == 200
        assert main([*line.replace("--no-measure ", "").split(), "checked"]) == 0
        assert sum(begun) >= 400 + 4 * 50, "two runs and a check; the expert's return may be in the cache"
    finally:
        gym.registry.pop("Counted-v0")


def test_a_critic_without_its_environment_is_not_denied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pendulum's SAC has a critic, wherever it is; without the environment nothing can be checked."""
    shutil.copytree(Path(imitate.experts.__file__).parent / "bundled" / "Pendulum-v1", tmp_path / "sac")
    described = json.loads((tmp_path / "sac" / "expert.json").read_text())
    (tmp_path / "sac" / "expert.json").write_text(json.dumps(described | {"env_id": "Elsewhere-v0"}))
    said = refused(capsys, "expert", "check", str(tmp_path / "sac"))
    assert "Elsewhere-v0 can't be run here" in said
    assert "--env" in said
