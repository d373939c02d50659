"""`imitate collect human`"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path

from imitate.commands.line import typed_command
from imitate.commands.options import JsonObject, run
from imitate.commands.recorded import check_out, say_recorded
from imitate.datasets.collect import check_same
from imitate.datasets.human.keymap import key_map
from imitate.datasets.human.playing import by_hand, interventions
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.savepoint import go_on
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.answers import Checked
from imitate.envs.atari import protocol
from imitate.envs.make import make_env, stacked_frames
from imitate.envs.seeds import check_seed, episode_seeds
from imitate.envs.trust import trust
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.media.video import fps_of
from imitate.media.window import Window
from imitate.training.inputs import check_expert

__all__ = ["human"]


def human(argv: list[str]) -> int:
    return run(command, argv, "collect human")


def command(
    env: str,
    out: Path,
    episodes: int = 1_000,
    env_kwargs: JsonObject | None = None,
    keys: Path | None = None,
    intervene: str | None = None,
    fps: float | None = None,
    seed: int = 0,
    resume: bool = False,
    json: bool = False,
) -> int:
    """Play yourself: your episodes are the demonstrations.

    `p` pauses, `backspace` takes the last finished episode back and plays it again, `escape` ends.
    If actions are continuous, the mouse steers while its left button is down: the middle of the window is idle, its
    edges are the arrow keys.

    Args:
        env: a Gymnasium id, or module:Env-v0 to import the module first
        out: the HDF5 file to write
        episodes: how many to record
        keys: TOML with a table [keys], such as left = 0 or "up+left" = 5, and above it idle, the action without a
            key, or "last" (by default zeros, if actions are continuous); [mouse] has other actions for the edges
            left, right, up and down
        intervene: a run or an expert that plays while you hold no key and no button; only your own steps are recorded,
            for HG-DAgger: `imitate data concat` joins them with what the run learned from
        fps: steps a second; by default the environment's
        seed: episode n depends on (seed, n) alone
        resume: go on with a file until it holds `episodes`
        json: print the description of the file as JSON
    """
    check_out(out, resume)
    check_seed(seed)
    for name, value in (("episodes", episodes), ("fps", fps)):
        if value is not None and not 0 < value < math.inf:
            raise InputError(f"--{name} must be above 0, got {value}")
    with closing(Checked(make_env(env, env_kwargs, render_mode="rgb_array"))) as made:
        SyncVecEnv([lambda: made])  # which knows the spaces that can be recorded
        rate = fps or fps_of(made)
        info = DemoInfo(
            env,
            made.observation_space,
            made.action_space,
            env_kwargs=env_kwargs or {},
            expert="human",
            deterministic=False,
            seed=seed if intervene is None else None,
            frame_stack=stacked_frames(made.env),
            protocol=protocol(env, env_kwargs),
            command=typed_command.get(),
            fps=rate,
        )
        mapping = key_map(made, env, keys)
        policy = None
        if intervene is not None:
            trust(intervene)
            policy = load_expert(intervene, env_id=env, env_kwargs=env_kwargs)
            check_expert(policy, intervene, env, env_kwargs or {})
        resume = resume and out.exists()
        played = _played(out, info, seed) if resume else 0
        if played < episodes:
            with Window(rate) as window:
                hand = by_hand(made, mapping, window, episode_seeds(seed), episodes, policy, played=played)
                _record(
                    hand if policy is None else chain.from_iterable(map(interventions, hand)),
                    DemoWriter.resume(out) if resume else DemoWriter(out, info),
                )
    if not out.exists():
        print("no episode of yours was finished: nothing was written")
        return 0
    say_recorded(out, None, as_json=json)
    return 0


def _record(trajectories: Iterable[Trajectory], writer: DemoWriter) -> None:
    """Write the trajectories; if this raises, say how many episodes the file holds, and how to go on."""
    try:
        with writer:
            for trajectory in trajectories:
                writer.append(trajectory)
    except InputError as error:
        raise InputError(f"{error}; {_kept(writer)}") from error
    except BaseException:
        print(f"imitate: {_kept(writer)}", file=sys.stderr)
        raise


def _kept(writer: DemoWriter) -> str:
    if not writer.flushed:
        return "no episode had ended: nothing was written"
    return f"{writer.path} holds {writer.flushed} episodes; the same command with --resume goes on"


def _played(out: Path, info: DemoInfo, seed: int) -> int:
    """The number of episodes played for a file, up to the last one that it holds. Raises InputError if `info` would not
    go on with it."""
    go_on(out)
    with DemoReader(out) as reader:
        if reader.info.expert != "human":
            raise InputError(
                f"{out} was recorded from {reader.info.expert}, not by a person: choose another --out"
            )
        check_same(out, reader.info, info)
        # 0 in files of versions that did not note it
        if (fps := reader.info.fps) not in (0, info.fps):
            raise InputError(f"{out} was recorded at {fps:g} steps a second: resume with --fps {fps:g}")
        return max(reader.begun(seed).values(), default=-1) + 1
