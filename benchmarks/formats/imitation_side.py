"""imitation's reader and writer, for verify.py."""

from __future__ import annotations

import sys
from importlib import metadata

import numpy as np
from imitation.data import rollout, serialize
from imitation.data.types import TrajectoryWithRew


def read(path: str, out: str) -> None:
    arrays = {}
    trajectories = serialize.load_with_rewards(path)
    for number, trajectory in enumerate(trajectories):
        assert trajectory.infos[0] == {}
        for ours, theirs in {
            "obs": "obs",
            "actions": "acts",
            "rewards": "rews",
            "terminated": "terminal",
        }.items():
            arrays[f"{number}/{ours}"] = np.asarray(getattr(trajectory, theirs))
    assert len(rollout.flatten_trajectories(trajectories)) == sum(map(len, trajectories))
    np.savez(out, **arrays)


def write(data: str, out: str, _: str) -> None:
    arrays = np.load(data)
    count = len({name.partition("/")[0] for name in arrays})
    trajectories = [
        TrajectoryWithRew(
            obs=arrays[f"{n}/obs"],
            acts=arrays[f"{n}/actions"],
            infos=np.array([{"number": n}] * len(arrays[f"{n}/actions"])),
            terminal=bool(arrays[f"{n}/terminated"]),
            rews=arrays[f"{n}/rewards"],
        )
        for n in range(count)
    ]
    serialize.save(out, trajectories)


globals()[sys.argv[1]](*sys.argv[2:])
print("imitation", metadata.version("imitation"))
