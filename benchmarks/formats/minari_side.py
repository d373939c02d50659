"""Minari's reader and writer, for verify.py."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

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
            arrays[f"{episode.id}/{ours}"] = getattr(episode, theirs)
        arrays[f"{episode.id}/terminated"] = episode.terminations[-1]
        arrays[f"{episode.id}/truncated"] = episode.truncations[-1]
    np.savez(out, **arrays)


def write(data: str, out: str, layout: str) -> None:
    arrays = np.load(data)
    count = len({name.partition("/")[0] for name in arrays})
    pixels = arrays["0/obs"].ndim > 2
    discrete = arrays["0/actions"].ndim == 1
    env = "CarRacing-v3" if pixels else "CartPole-v1" if discrete else "BipedalWalker-v3"
    made = gym.make(env, **({"max_episode_steps": 20} if pixels else {}))
    (Path(out) / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        Path(out) / "data",
        made.observation_space,
        made.action_space,
        env_spec=made.spec,
        data_format="arrow" if layout.endswith("arrow") else "hdf5",
        jpeg_encoding=False,
    )
    for number in range(count):
        steps = len(arrays[f"{number}/rewards"])
        flags = np.zeros((2, steps), bool)
        flags[:, -1] = arrays[f"{number}/terminated"], arrays[f"{number}/truncated"]
        episode = {theirs: arrays[f"{number}/{ours}"] for ours, theirs in FIELDS.items()}
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
