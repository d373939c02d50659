"""LeRobot's reader and writer, for verify.py."""

from __future__ import annotations

import sys
from importlib import metadata

import numpy as np
from lerobot.datasets.lerobot_dataset import LeRobotDataset


def read(path: str, out: str) -> None:
    dataset = LeRobotDataset("test/ours", root=path, video_backend="pyav")
    assert {"mean", "std", "min", "max"} <= set(dataset.meta.stats["action"])
    assert list(dataset.meta.tasks.task_index) == [0]
    collected: dict[str, list[np.ndarray]] = {}
    for index in range(len(dataset)):
        row = dataset[index]
        number = int(row["episode_index"])
        if "observation.image" in row:
            obs = (row["observation.image"] * 255).round().byte().permute(1, 2, 0).numpy()
        else:
            obs = row["observation.state"].numpy()
        for name, value in (
            ("obs", obs),
            ("actions", row["action"].numpy()),
            ("rewards", row["next.reward"].numpy()),
        ):
            collected.setdefault(f"{number}/{name}", []).append(value)
        ends = {name: bool(row[f"next.{name}"]) for name in ("terminated", "truncated")}
        collected |= {f"{number}/{name}": value for name, value in ends.items()}
    np.savez(out, **{name: np.asarray(rows) for name, rows in collected.items()})


def write(data: str, out: str, _: str) -> None:
    arrays = np.load(data)
    obs, actions = arrays["0/obs"], arrays["0/actions"]
    pixels = obs.ndim == 4
    shape = actions.shape[1:] or (1,)
    observed = "observation.images.front" if pixels else "observation.state"
    features = {
        observed: {"dtype": "video" if pixels else str(obs.dtype), "shape": obs.shape[1:], "names": None},
        "action": {"dtype": str(actions.dtype), "shape": shape, "names": None},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    }
    if pixels:
        features[observed]["names"] = ["height", "width", "channels"]
    dataset = LeRobotDataset.create("test/theirs", 30, features, root=out, vcodec="h264")
    for number in range(len({name.partition("/")[0] for name in arrays})):
        for step in range(len(arrays[f"{number}/rewards"])):
            frame = {
                observed: arrays[f"{number}/obs"][step],
                "action": arrays[f"{number}/actions"][step].reshape(shape),
                "next.reward": arrays[f"{number}/rewards"][step : step + 1],
                "task": "drive",
            }
            dataset.add_frame(frame)
        dataset.save_episode()
    dataset.finalize()


globals()[sys.argv[1]](*sys.argv[2:])
print("lerobot", metadata.version("lerobot"))
