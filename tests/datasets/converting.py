"""Recordings to convert, small files as others write them, and whether two recordings are the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory

UNIT = DemoInfo(
    "Unit-v0",
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
    env_kwargs={"gravity": -5},
    expert="zoo:ppo/Unit-v0",
    expert_sha256="ab" * 32,
    expert_return=12.5,
    seed=3,
)
DISCRETE = replace(UNIT, env_id="CartPole-v1", env_kwargs={}, action_space=spaces.Discrete(3, start=1))
SINGLE = replace(
    UNIT,
    observation_space=spaces.Box(-np.inf, np.inf, (1,), np.float64),
    action_space=spaces.Box(-1.0, 1.0, (1,), np.float32),
)
NUMBER = replace(UNIT, observation_space=spaces.Box(-np.inf, np.inf, (), np.float64))
PICTURES = replace(UNIT, observation_space=spaces.Box(0, 255, (32, 34, 3), np.uint8))
STACKS = replace(UNIT, observation_space=spaces.Box(0, 255, (2, 36, 36), np.uint8), frame_stack=2)


def recording(
    info: DemoInfo, *, labelled: bool = False, lengths: tuple[int, ...] = (4, 1, 7)
) -> list[Trajectory]:
    """Episodes of random numbers; the first is terminated, the others truncated."""
    rng = np.random.default_rng(0)
    shape = info.observation_space.shape or ()

    def actions(steps: int) -> Any:
        if isinstance(info.action_space, spaces.Discrete):
            return rng.integers(1, 4, steps)
        return rng.uniform(-1, 1, (steps, *(info.action_space.shape or ()))).astype(np.float32)

    played = []
    for number, steps in enumerate(lengths):
        if info.observation_space.dtype == np.uint8:
            frames = rng.integers(0, 256, (steps + 2, *shape)).astype(np.uint8)
            stacked = np.stack([frames[:-1, 0], frames[1:, 0]], 1)
            obs = stacked if info.frame_stack == 2 else frames[1:]
        else:
            obs = rng.standard_normal((steps + 1, *shape))
        labels = actions(steps) if labelled else None
        rewards = rng.standard_normal(steps).astype(np.float32)
        seed = {"seed": 100 + number}
        played.append(
            Trajectory(
                obs, actions(steps), rewards, number == 0, number != 0, info=seed, expert_actions=labels
            )
        )
    return played


def write(path: Path, info: DemoInfo, episodes: list[Trajectory]) -> Path:
    with DemoWriter(path, info, expert_actions=episodes[0].expert_actions is not None) as writer:
        for episode in episodes:
            writer.append(episode)
    return path


def same(one: Path, other: Path) -> None:
    with DemoReader(one) as a, DemoReader(other) as b:
        assert a.info == b.info
        assert (a.table == b.table).all()
        for x, y in zip(a, b, strict=True):
            for name in ("obs", "actions", "rewards", "labels"):
                was, now = getattr(x, name), getattr(y, name)
                assert was.dtype == now.dtype
                assert was.tobytes() == now.tobytes(), name


def minari(path: Path, **changes: Any) -> Path:
    """Two episodes as Minari 0.5 writes them, with Dict observations."""
    parts = {
        "b": {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0, -1.0], "high": [1.0, 1.0]},
        "a": {"type": "Discrete", "dtype": "int64", "start": 0, "n": 3},
    }
    metadata = {
        "total_episodes": 2,
        "total_steps": 4,
        "data_format": "hdf5",
        "jpeg_encoding": True,
        "observation_space": json.dumps({"type": "Dict", "subspaces": parts}),
        "action_space": json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 2}),
        "env_spec": json.dumps({"id": "Goal-v3", "entry_point": "os:system", "kwargs": {"size": 3}}),
        "dataset_id": "goal/test-v0",
        "minari_version": "0.5.4",
    } | changes
    (path / "data").mkdir(parents=True)
    (path / "data" / "metadata.json").write_text(json.dumps(metadata))
    with h5py.File(path / "data" / "main_data.hdf5", "w") as file:
        for number in range(2):
            group = file.create_group(f"episode_{number}")
            group["observations/b"] = np.full((3, 2), number / 2, np.float32)
            group["observations/a"] = np.array([0, 1, 2])
            group["actions"] = np.array([0, 1])
            group["rewards"] = np.array([0.5, 1.0])
            group["terminations"] = np.array([False, number == 0])
            group["truncations"] = np.array([False, number == 1])
            group["infos/success"] = np.array([0, 0, 1])
    return path


def d4rl(path: Path, **columns: Any) -> Path:
    """Two episodes of three steps: the first ends by itself, the second by a timeout."""
    flags = np.zeros((2, 6), bool)
    flags[0, 2] = flags[1, 5] = True
    default = {
        "observations": np.arange(12, dtype=np.float32).reshape(6, 2),
        "actions": np.linspace(-1, 1, 6, dtype=np.float32)[:, None],
        "rewards": np.arange(6, dtype=np.float32),
        "terminals": flags[0],
        "timeouts": flags[1],
    }
    with h5py.File(path, "w") as file:
        for name, rows in (default | columns).items():
            if rows is not None:
                file[name] = rows
    return path
