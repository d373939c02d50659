"""robomimic's reader, for verify.py. It has no general writer: its scripts write only what simulators play."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import h5py
import numpy as np
import robomimic.scripts.split_train_val as split
from robomimic.utils.dataset import SequenceDataset


def read(path: str, out: str) -> None:
    subprocess.run([sys.executable, split.__file__, "--dataset", path, "--ratio", "0.4"], check=True)
    dataset = SequenceDataset(
        path,
        obs_keys=("flat",),
        dataset_keys=("actions", "rewards", "dones"),
        load_next_obs=True,
        hdf5_use_swmr=False,
    )
    with h5py.File(path) as file:
        names = [f"demo_{number}" for number in range(len(file["data"]))]
        lengths = [int(file["data"][name].attrs["num_samples"]) for name in names]
    assert sum(lengths) == len(dataset)
    by_demo = {name: [] for name in names}
    for index in range(len(dataset)):
        by_demo[dataset._index_to_demo_id[index]].append(dataset[index])
    arrays = {}
    for number, name in enumerate(names):
        rows = by_demo[name]
        obs = [row["obs"]["flat"][0] for row in rows] + [rows[-1]["next_obs"]["flat"][0]]
        arrays[f"{number}/obs"] = np.array(obs)
        for field in ("actions", "rewards"):
            arrays[f"{number}/{field}"] = np.array([row[field][0] for row in rows])
    np.savez(out, **arrays)


def write(*_: str) -> None:
    print("no writer")
    sys.exit()


globals()[sys.argv[1]](*sys.argv[2:])
print("robomimic", metadata.version("robomimic"))
