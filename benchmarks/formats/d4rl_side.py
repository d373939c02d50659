"""D4RL's reader and writer, for verify.py. They are loaded from their files, since the package needs mujoco-py."""

from __future__ import annotations

import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import gym
import numpy as np


def module(name: str):
    path = Path(importlib.util.find_spec("d4rl").submodule_search_locations[0]) / name
    spec = importlib.util.spec_from_file_location(path.stem, path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def read(path: str, out: str) -> None:
    class Env(module("offline_env.py").OfflineEnv):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (24,), np.float32)
        action_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    data = Env().get_dataset(path)
    ends = np.flatnonzero(data["terminals"] | data["timeouts"])
    arrays, start = {}, 0
    for number, end in enumerate(ends):
        rows = slice(start, end + 1)
        arrays[f"{number}/obs"] = np.concatenate(
            [data["observations"][rows], data["next_observations"][end : end + 1]]
        )
        arrays[f"{number}/actions"], arrays[f"{number}/rewards"] = (
            data["actions"][rows],
            data["rewards"][rows],
        )
        arrays[f"{number}/terminated"], arrays[f"{number}/truncated"] = (
            data["terminals"][end],
            data["timeouts"][end],
        )
        start = end + 1
    np.savez(out, **arrays)


def write(data: str, out: str, _: str) -> None:
    """Write with D4RL's writer, which has no timeouts, so every episode ends in a terminal."""
    arrays = np.load(data)
    writer = module("utils/dataset_utils.py").DatasetWriter()
    for number in range(len({name.partition("/")[0] for name in arrays})):
        steps = len(arrays[f"{number}/rewards"])
        for step in range(steps):
            row = (arrays[f"{number}/{name}"][step] for name in ("obs", "actions", "rewards"))
            writer.append_data(*row, step == steps - 1)
    writer.write_dataset(out)


globals()[sys.argv[1]](*sys.argv[2:])
print("d4rl", metadata.version("d4rl"))
