"""Recordings of so many episodes that are killed again and again until they are whole.

Each is compared with one that nobody disturbed; a line says how many episodes every kill left.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import numpy as np
from counting import Cycling, counting_envs, info_of, stacked_envs

from imitate.datasets import DemoReader, collect, validate


def record(path: Path, count: int, pixels: bool) -> None:
    envs = stacked_envs(8, period=60) if pixels else counting_envs(8, period=60)
    info = info_of(envs, seed=7, noise="random:0.1", frame_stack=4 if pixels else 1)
    collect(Cycling(), envs, path, info, episodes=count, resume=True).close()


def digests(path: Path) -> dict[int, str]:
    """SHA-256 of all that is stored of each episode, by the episode's seed."""
    with DemoReader(path) as reader:
        return {
            int(episode.info["seed"]): hashlib.sha256(
                b"".join(
                    array.tobytes()
                    for array in (episode.obs, episode.actions, episode.rewards, episode.labels)
                )
                + bytes([episode.terminated, episode.truncated])
            ).hexdigest()
            for episode in reader
        }


def killed_after(seconds: float, path: Path, count: int, pixels: bool) -> bool:
    """Record in a child for so long, then kill it; whether it was faster."""
    child = os.fork()
    if child == 0:
        try:
            record(path, count, pixels)
            os._exit(0)
        except BaseException as error:
            print("failed", repr(error), flush=True)
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def main(place: str, most: str, episodes: str, kind: str) -> None:
    folder, kills, count, pixels = Path(place), int(most), int(episodes), kind == "pixels"
    rng = np.random.default_rng(0)
    begin = time.monotonic()
    record(folder / "whole.h5", count, pixels)
    took = time.monotonic() - begin
    whole = digests(folder / "whole.h5")
    assert len(whole) == count
    path, done, longest = folder / "killed.h5", 0, took
    while done < kills:
        had: dict[int, str] = {}
        finished = False
        while not finished and done < kills:
            finished = killed_after(rng.uniform(0, longest), path, count, pixels)
            done += not finished
            if not path.exists():  # killed before the file was there
                assert not had
                continue
            has = digests(path)
            assert has.items() >= had.items(), "an episode that was on disk is gone"
            assert has.items() <= whole.items(), "an episode is not as in a recording that nobody disturbed"
            print("kill", done, "episodes", len(has), flush=True)
            had = has
        record(path, count, pixels)
        assert digests(path) == whole
        assert validate(path) == []
        path.unlink()
