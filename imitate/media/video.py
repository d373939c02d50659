"""Videos of a policy, rendered without a display and small enough for a web page."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
import imageio_ffmpeg
import numpy as np

from imitate.datasets.evaluation import play
from imitate.datasets.trajectory import Policy
from imitate.envs.answers import Checked
from imitate.envs.make import is_mujoco, make_env, resolve_env_id
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.files import atomic, make_parent

__all__ = ["filming", "fps_of", "record_video", "renderable_env"]


def fps_of(env: gym.Env[Any, Any]) -> float:
    """Frames a second of the environment's films, 30 if its metadata has none."""
    return float(env.metadata.get("render_fps") or 30)


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
    deterministic: bool = True,
) -> list[float]:
    """Record episodes to an H.264 mp4 that any browser plays; returns the return of each episode.

    Episodes are those of `evaluate(..., seed=seed)`, in the same order. The video runs at the environment's
    `render_fps` and ends with the last episode, after `max_steps` environment steps or after `max_seconds` of video,
    whichever comes first (the last return then covers only the recorded part). `width`, in pixels, can only shrink the
    picture; `crf` is x264's quality, from 18 (fine) to 35 (small). Frames go to ffmpeg one by one, so memory does not
    grow with length. `out` appears only when it is complete.

    Raises InputError if `out` exists or is not an .mp4, or if the environment can't be rendered to pictures.
    """
    with filming(
        env_id, out, env_kwargs, max_steps=max_steps, max_seconds=max_seconds, width=width, crf=crf
    ) as (filmed, limit):
        if episodes < 1:
            raise InputError(f"episodes of a video must be at least 1, got {episodes}")
        envs = SyncVecEnv([lambda: filmed])
        play(policy, envs, episodes=episodes, seed=seed, max_steps=limit, deterministic=deterministic)
    return filmed.returns


@contextmanager
def filming(
    env_id: str,
    out: Path | str,
    env_kwargs: Mapping[str, Any] | None,
    *,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    width: int | None = None,
    crf: int = 23,
    episodes: float = math.inf,
) -> Iterator[tuple[_Filmed, int | None]]:
    """Yield an environment that adds a picture to the video `out` at every reset and step of its first `episodes`, and
    the maximum number of steps to take in it.

    Other settings and errors are those of `record_video`.
    """
    out = Path(out)
    if out.suffix.lower() != ".mp4":
        example = out / "video.mp4" if out.is_dir() else out.with_suffix(".mp4").name
        raise InputError(f"a video is written as .mp4, got {out}; name the file {example}")
    if out.exists():
        raise InputError(f"{out} exists already; choose another name or remove it")
    if width is not None and width < 2:
        raise InputError(f"a video is at least 2 pixels wide, got {width}")
    with closing(renderable_env(env_id, env_kwargs)) as env:
        fps = fps_of(env)
        seconds = math.inf if max_seconds is None else max_seconds
        limits = [max_steps, None if seconds == math.inf else int(seconds * fps)]
        limit = min((limit for limit in limits if limit is not None), default=None)
        make_parent(out)
        with atomic(out) as temporary, closing(_Encoder(temporary, fps, width, crf)) as encoder:
            yield _Filmed(env, encoder.write, episodes), limit
            encoder.finish()


def renderable_env(env_id: str, env_kwargs: Mapping[str, Any] | None) -> gym.Env[Any, Any]:
    """Make an environment whose render() returns pictures. Raises InputError if it can't.

    Without a display, environment variables tell SDL and MuJoCo so. They are set in time, since environments start
    these libraries when they first render.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gymnasium warns of a render mode that we refuse below
            filmed = _view(env_id, env_kwargs) | dict(env_kwargs or {})
            env: gym.Env[Any, Any] = make_env(env_id, filmed, render_mode="rgb_array")
    except InputError:
        # Raises if something other than the render mode is wrong.
        Checked(make_env(env_id, env_kwargs)).close()
        raise InputError(f"{env_id} can't be filmed: it takes no render_mode='rgb_array'") from None
    modes = env.metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        Checked(env).close()
        raise InputError(f"{env_id} can't be filmed: its render modes are {list(modes)}, wanted 'rgb_array'")
    return Checked(env)


def _view(env_id: str, env_kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keywords for a camera that follows a MuJoCo robot; since Gymnasium 1.4 the default one stands still."""
    chosen = {"camera_id", "camera_name"} & set(env_kwargs or {})
    return {"camera_name": "track"} if is_mujoco(resolve_env_id(env_id)) and not chosen else {}


class _Filmed(gym.Wrapper[Any, Any, Any, Any]):
    """Shows a picture of each reset and each step of the first episodes; `returns` holds each episode's return so far.
    `filming` closes the environment."""

    def __init__(self, env: gym.Env[Any, Any], show: Callable[[Array], None], episodes: float) -> None:
        super().__init__(env)
        self._show, self._episodes = show, episodes
        self.returns: list[float] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        answer = self.env.reset(seed=seed, options=options)
        self.returns.append(0.0)
        self._film()
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(action)
        self.returns[-1] += float(answer[1])
        self._film()
        return answer

    def close(self) -> None:
        pass

    def _film(self) -> None:
        if len(self.returns) <= self._episodes:
            self._show(_picture(self.env))


def _picture(env: gym.Env[Any, Any]) -> Array:
    with warnings.catch_warnings():
        # pygame warns at import about setuptools, CPU features, missing fonts.
        warnings.simplefilter("ignore")
        frame = env.render()
    return np.ascontiguousarray(frame)


class _Encoder:
    """Writes pictures (H, W, 3) uint8 to an H.264 file, one by one. Raises InputError if ffmpeg fails."""

    def __init__(self, path: Path, fps: float, width: int | None, crf: int) -> None:
        self._path, self._fps, self._width, self._crf = path, fps, width, crf
        # imageio_ffmpeg.write_frames ignores ffmpeg's exit status, so a full disk would go unnoticed.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._process: subprocess.Popen[bytes] | None = None
        self._shape: tuple[int, ...] = ()

    def write(self, frame: Array) -> None:
        if self._process is None:
            self._shape = frame.shape
            # In its own session, so that Ctrl-C reaches only this process, which removes the unfinished file.
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.PIPE, stderr=self._log, start_new_session=True
            )
        if frame.shape != self._shape:
            raise InputError(f"pictures changed their shape from {self._shape} to {frame.shape}")
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(frame.data)
        except OSError:  # a BrokenPipeError, except on Windows
            self._fail()

    def finish(self) -> None:
        """Finish the file; call after the last picture."""
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except OSError:
            self._fail()
        if self._process.wait() != 0:
            self._fail()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
        self._log.close()

    def _fail(self) -> NoReturn:
        assert self._process is not None
        self._process.wait()
        self._log.seek(0)
        said = " ".join(self._log.read().decode(errors="replace").split())
        raise InputError(f"ffmpeg could not write {self._path}: {said}")

    def _command(self) -> list[str]:
        height, full_width, _ = self._shape
        width = min(self._width or full_width, full_width) // 2 * 2  # yuv420p needs even sides
        scale = f"scale={width}:{round(height * width / full_width / 2) * 2}:flags=lanczos"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-nostdin"]
        command += ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{full_width}x{height}"]
        command += ["-r", str(self._fps), "-i", "pipe:0"]
        # yuv420p is the only chroma format that all browsers decode. Rendered scenes are flat, so a slow preset
        # compresses them to about 5 KB a second. faststart puts the index first, so playback starts at once.
        command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-vf", scale, "-crf", str(self._crf)]
        command += ["-preset", "slow", "-threads", "1", "-movflags", "+faststart", "-f", "mp4"]
        return [*command, f"file:{self._path}"]  # otherwise a name may be an option or a protocol
