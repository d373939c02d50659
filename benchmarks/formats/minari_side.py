"""Minari's reader and writer, for verify.py."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from minari import MinariDataset
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

FIELDS = {"obs": "observations", "actions": "actions", "rewards": "rewards"}


def read(path: str, out: str) -> None:
    arrays = {}
    dataset = MinariDataset(Path(path) / "data")
    dataset.recover_environment().close()
    for episode in dataset.iterate_episodes():
        for ours, theirs in FIELDS.items():
            arrays |= parted(f"{episode.id}/{ours}", getattr(episode, theirs))
        arrays[f"{episode.id}/terminated"] = episode.terminations[-1]
        arrays[f"{episode.id}/truncated"] = episode.truncations[-1]
    np.savez(out, **arrays)


def parted(name: str, values: Any) -> dict[str, Any]:
    """Arrays by name; the parts of a Dict are below its name."""
    if not isinstance(values, dict):
        return {name: values}
    arrays = {}
    for part, inner in values.items():
        arrays |= parted(f"{name}/{part}", inner)
    return arrays


def joined(arrays: Any, name: str) -> Any:
    """The inverse of `parted`."""
    if name in arrays:
        return arrays[name]
    below = {other[len(name) + 1 :].partition("/")[0] for other in arrays if other.startswith(f"{name}/")}
    return {part: joined(arrays, f"{name}/{part}") for part in sorted(below)}


def made(arrays: Any) -> gym.Env[Any, Any]:
    """The environment that was recorded."""
    if "0/obs" not in arrays:
        return gym.make("parts_env:Parts-v0")
    if arrays["0/obs"].ndim > 2:
        return gym.make("CarRacing-v3", max_episode_steps=20)
    return gym.make("CartPole-v1" if arrays["0/actions"].ndim == 1 else "BipedalWalker-v3")


def write(data: str, out: str, layout: str) -> None:
    arrays = dict(np.load(data))
    count = len({name.partition("/")[0] for name in arrays})
    env = made(arrays)
    (Path(out) / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        Path(out) / "data",
        env.observation_space,
        env.action_space,
        env_spec=env.spec,
        data_format="arrow" if layout.endswith("arrow") else "hdf5",
        jpeg_encoding=False,
    )
    for number in range(count):
        steps = len(arrays[f"{number}/rewards"])
        flags = np.zeros((2, steps), bool)
        flags[:, -1] = arrays[f"{number}/terminated"], arrays[f"{number}/truncated"]
        episode = {theirs: joined(arrays, f"{number}/{ours}") for ours, theirs in FIELDS.items()}
        storage.update_episodes(
            [
                EpisodeBuffer(
                    id=number, seed=number, terminations=flags[0], truncations=flags[1], infos={}, **episode
                )
            ]
        )
    storage.update_metadata({"dataset_id": "test/theirs-v0", "minari_version": metadata.version("minari")})


globals()[sys.argv[1]](*sys.argv[2:])
print("minari", metadata.version("minari"))
