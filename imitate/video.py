"""Videos of a policy, made without a display and small enough to put into a web page."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np

from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import atomic

__all__ = ["record_video", "renderable_env"]

DEFAULT_FPS = 30  # of environments whose metadata name none


def record_video(
    policy: Policy,
    env_id: str,
    out: Path | str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
    episodes: int = 1,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    width: int | None = None,
    crf: int = 23,
) -> list[float]:
    """Record deterministic episodes to an H.264 mp4 that any browser plays; the return of each episode.

    Episodes are those of `evaluate(..., seed=seed)`, in its order. The film runs at the environment's own
    `render_fps` and ends with the last episode, after `max_steps` environment steps or after `max_seconds` of
    film, whichever comes first (the last return is then of the recorded part). `width` in pixels shrinks the
    picture, never enlarges it; `crf` is x264's quality, 18 (fine) to 35 (small). Memory does not grow with
    length: frames go to ffmpeg one by one. `out` appears when it is complete, or not at all.

    Raises InputError where `out` exists or is no .mp4, or the environment can't be rendered to pictures.
    """
    out = Path(out)
    if out.suffix.lower() != ".mp4":
        raise InputError(
            f"a video is written as .mp4, got {out}; name the file {out.with_suffix('.mp4').name}"
        )
    if out.exists():
        raise InputError(f"{out} exists already; choose another name or remove it")
    if episodes < 1:
        raise InputError(f"episodes of a video must be at least 1, got {episodes}")
    with closing(renderable_env(env_id, env_kwargs)) as env:
        fps = float(env.metadata.get("render_fps") or DEFAULT_FPS)
        limits = [max_steps, None if max_seconds is None else int(max_seconds * fps)]
        limit = min((limit for limit in limits if limit is not None), default=sys.maxsize)
        returns: list[float] = []
        frames = _frames(policy, env, itertools.islice(episode_seeds(seed), episodes), limit, returns)
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic(out) as temporary:
            _encode(frames, temporary, fps, width, crf)
    return returns


def renderable_env(env_id: str, env_kwargs: Mapping[str, Any] | None) -> gym.Env[Any, Any]:
    """An environment whose render() gives pictures. Raises InputError where there is none.

    SDL is told to use no display where there is none: it reads that when pygame starts, and an environment imports
    pygame at its first picture.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
    try:
        env: gym.Env[Any, Any] = make_env(env_id, env_kwargs, render_mode="rgb_array")
    except InputError:
        make_env(env_id, env_kwargs).close()  # says what is wrong where it is not the render mode
        raise InputError(f"{env_id} can't be filmed: it takes no render_mode='rgb_array'") from None
    modes = env.metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        env.close()
        raise InputError(f"{env_id} can't be filmed: its render modes are {list(modes)}, wanted 'rgb_array'")
    return env


def _frames(
    policy: Policy, env: gym.Env[Any, Any], seeds: Iterator[int], max_steps: int, returns: list[float]
) -> Iterator[Array]:
    """(H, W, 3) uint8 pictures: one of each reset and one of each step. Adds to `returns` as it goes."""
    steps = 0
    for seed in seeds:
        obs, done = env.reset(seed=seed)[0], False
        returns.append(0.0)
        yield _picture(env)
        while not done:
            if steps == max_steps:
                return
            action = policy.act(np.asarray(obs)[None], deterministic=True)[0]
            obs, reward, terminated, truncated, _ = env.step(action)
            done = bool(terminated or truncated)
            returns[-1] += float(reward)
            steps += 1
            yield _picture(env)


def _picture(env: gym.Env[Any, Any]) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pygame's at import: setuptools, CPU features, missing fonts
        frame = env.render()
    if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
        got = f"shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
        raise InputError(f"render() of {env} gave {got}, wanted one picture of shape (height, width, 3)")
    return np.ascontiguousarray(frame, np.uint8)


def _encode(frames: Iterator[Array], path: Path, fps: float, width: int | None, crf: int) -> None:
    first = next(frames)
    height, full_width = first.shape[:2]
    width = min(width or full_width, full_width) // 2 * 2  # yuv420p needs even sides
    scale = f"scale={width}:{round(height * width / full_width / 2) * 2}:flags=lanczos"
    size = f"{full_width}x{height}"
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-nostdin"]
    command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(fps), "-i", "pipe:0"]
    # yuv420p is the one chroma format that all browsers decode. Rendered scenes are flat: a slow preset
    # brings them to about 5 KB a second. faststart: the index comes first, playing needs not all of it.
    command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-vf", scale, "-crf", str(crf), "-preset", "slow"]
    command += ["-threads", "1", "-movflags", "+faststart", "-f", "mp4", str(path)]
    # Not imageio_ffmpeg.write_frames: it ignores ffmpeg's exit status, so that a full disk would pass.
    with tempfile.TemporaryFile() as log:
        # A session of its own: Ctrl-C is for us, who then remove the unfinished file.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=log, start_new_session=True)
        assert process.stdin is not None
        try:
            for frame in itertools.chain([first], frames):
                if frame.shape != first.shape:
                    raise InputError(f"pictures changed their shape from {first.shape} to {frame.shape}")
                process.stdin.write(frame.data)
            process.stdin.close()
            failed = process.wait() != 0
        except BrokenPipeError:
            failed = True
        finally:
            process.kill()
            process.wait()
            with suppress(BrokenPipeError):
                process.stdin.close()
        if failed:
            log.seek(0)
            raise OSError(
                f"ffmpeg could not write {path}: {' '.join(log.read().decode(errors='replace').split())}"
            )
