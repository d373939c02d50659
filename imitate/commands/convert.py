"""`imitate data convert`"""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

import tyro

import imitate.datasets.convert
from imitate.commands.options import JsonObject, print_json
from imitate.datasets.convert import FORMATS
from imitate.datasets.convert.lerobot_layout import Codec
from imitate.datasets.convert.sources import source_path, store_path
from imitate.datasets.storage.schema import Compression

__all__ = ["convert"]


def convert(
    source: tyro.conf.Positional[str],
    out: tyro.conf.Positional[str],
    /,
    format: Literal[tuple(FORMATS)] | None = None,  # type: ignore[valid-type]
    env: str | None = None,
    env_kwargs: JsonObject | None = None,
    obs_keys: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    mask: str | None = None,
    clip: bool = False,
    actions: bool = True,
    compression: Compression | None = None,
    fps: float | None = None,
    codec: Codec | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> int:
    """Convert demonstrations between the formats of imitation learning, in either direction.

    A CSV has a line for each observation, with the action that was taken on it and what came of it. The final
    observation of an episode may follow on a line of its own, whose action and later columns are empty:

        episode,obs_0,obs_1,action,reward,terminated,truncated
        0,0.1,-0.3,1,1.0,0,0
        0,0.2,-0.1,0,1.0,1,0
        0,0.3,0.2,,,,

    It needs obs_0 ... and action (whole numbers) or action_0 ... (a Box), and may have seed and expert_action. An .npz
    has the arrays obs, actions, rewards, terminated and truncated, with a row for each step of all episodes one after
    another; or obs with one more row for each episode, and lengths. Other names are given with --columns:

        imitate data convert log.csv demos.h5 --env Valve-v0 --columns obs=level,velocity action=valve reward=r

    Args:
        source: a data set, whose format is found from its content; minari:ID is one in Minari's folder,
            hub:ORG/DATASET one on the Hugging Face hub
        out: the file or folder to write, or minari:ID
        format: the format to write; by default that of the suffix: .h5 (ours), .npz or .csv
        env: the environment, if the data do not name it
        obs_keys: the observations to take; by default all. From robomimic and LeRobot, vectors alone become one array,
            in this order, and pictures with others a Dict. From Minari and our own files a Dict is kept
            whole, or these keys are joined in one array
        columns: the columns of a CSV, or arrays of an .npz, by what they are: obs=level,velocity action=valve reward=r;
            also expert_action, terminated, truncated, done (an episode ends, whatever the cause), seed, and episode
            (CSV) or next_obs, length, start (.npz)
        mask: take only the part of the source with this name, such as robomimic's train
        clip: move actions outside the action space to its bounds
        actions: --no-actions leaves them out, or says that an .npz has none: demonstrations of observations alone, for
            gaifo; only .h5 and .npz are written so
        compression: compression of the pictures in an .h5 of ours; zstd is smaller and faster, but every reader of the
            file needs the extra zstd
        fps: steps a second; by default what the data say. If they don't, LeRobot's videos have the environment's
            render_fps, or 30. A CSV has no place for it
        codec: codec of the pictures in a LeRobotDataset, both lossless: h264 makes a video for each episode, png an
            image for each step
        dry_run: read everything and say what would be lost; write nothing
    """
    done = imitate.datasets.convert.convert(
        source_path(source),
        store_path(out),
        format=format or ("minari" if out.startswith("minari:") else None),
        env_id=env,
        env_kwargs=env_kwargs,
        obs_keys=obs_keys,
        columns=columns,
        mask=mask,
        clip=clip,
        actions=actions,
        compression=compression,
        fps=fps,
        codec=codec,
        dry_run=dry_run,
    )
    if json:
        print_json(asdict(done))
        return 0
    said = "would write" if dry_run else "wrote"
    amount = f"{done.episodes} episodes, {done.steps} steps of {done.env_id}"
    print(f"{said} {amount} from {done.source_format} to {done.format}")
    for note in done.notes:
        print(f"  {note}")
    return 0
