"""Videos: they play in browsers, hold every frame, and appear whole or not at all."""

from __future__ import annotations

import errno
import functools
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium import spaces

from imitate.compare.execute.filming import poster
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.media.video import record_video


class Constant:
    """Does the same thing always."""

    def __init__(self, action: Any) -> None:
        self.action = np.asarray(action)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return np.stack([self.action] * len(obs))


class Countdown(gym.Env[Any, Any]):
    """Three steps of reward 1; the picture is of odd size and says the time."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None, picture: Any = "ok") -> None:
        self.render_mode = render_mode
        self.picture = picture

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.time = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self.time += 1
        return self.time, 1.0, self.time == 3, False, {}

    def render(self) -> Any:
        if self.picture == "none":
            return None
        return np.full((33, 51 + (self.time if self.picture == "grows" else 0), 3), 60 * self.time, np.uint8)


class Blind(Countdown):
    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012


@pytest.fixture(scope="module", autouse=True)
def _environments() -> None:
    gym.register("Countdown-v0", Countdown)
    gym.register("Blind-v0", Blind)


def probe(path: Path) -> str:
    """Ffmpeg's description of a file."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def test_every_frame_of_every_episode_is_there(tmp_path: Path) -> None:
    out = tmp_path / "new" / "film.mp4"
    returns = record_video(Constant(0), "Countdown-v0", out, episodes=2)
    assert returns == [3.0, 3.0]
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(out))
    assert frames == 8  # (1 reset + 3 steps) x 2
    assert seconds == pytest.approx(8 / 5, abs=0.01)  # render_fps of the environment
    assert [path.name for path in out.parent.iterdir()] == ["film.mp4"]


def test_browsers_play_it(tmp_path: Path) -> None:
    out = tmp_path / "film.mp4"
    record_video(Constant(0), "Countdown-v0", out)
    assert re.search(r"h264 \(High\).*yuv420p.* 50x32", probe(out))  # 51 x 33 made even
    data = out.read_bytes()
    assert data[4:8] == b"ftyp"
    assert data.index(b"moov") < data.index(b"mdat")  # faststart


def test_limits_cut_the_film(tmp_path: Path) -> None:
    assert record_video(Constant(0), "Countdown-v0", tmp_path / "a.mp4", episodes=2, max_steps=5) == [
        3.0,
        2.0,
    ]
    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))[0] == 7
    assert record_video(Constant(0), "Countdown-v0", tmp_path / "b.mp4", max_seconds=0.4) == [
        2.0
    ]  # 0.4 s x 5 fps
    assert len(record_video(Constant(0), "Countdown-v0", tmp_path / "c.mp4", max_seconds=math.inf)) == 1


def test_box2d_without_a_display_matches_the_seeded_episode(tmp_path: Path) -> None:
    env = make_env("LunarLander-v3")
    env.reset(seed=next(episode_seeds(3)))
    expected, done = 0.0, False
    while not done:
        _, reward, terminated, truncated, _ = env.step(np.int64(2))
        expected, done = expected + float(reward), terminated or truncated
    out = tmp_path / "lander.mp4"
    assert record_video(Constant(2), "LunarLander-v3", out, seed=3, width=300, crf=30) == pytest.approx(
        [expected]
    )
    assert "300x200" in probe(out)
    assert out.stat().st_size < 100_000


def test_a_fresh_process_needs_no_display_and_says_nothing(tmp_path: Path) -> None:
    code = (
        "import numpy as np, sys; from imitate.media.video import record_video\n"
        "class P:\n    def act(self, obs, *, deterministic=False): return np.zeros(len(obs), int)\n"
        "record_video(P(), 'CartPole-v1', sys.argv[1])"
    )
    env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, str(tmp_path / "film.mp4")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("env_id", "kwargs", "name", "message"),
    [
        ("Countdown-v0", {}, "film.gif", r"written as \.mp4, got .*film\.gif; name the file film\.mp4"),
        ("Countdown-v0", {"episodes": 0}, "film.mp4", "at least 1, got 0"),
        ("Blind-v0", {}, "film.mp4", r"can't be filmed: its render modes are \['ansi'\]"),
        (
            "Countdown-v0",
            {"env_kwargs": {"picture": "none"}},
            "film.mp4",
            "gave NoneType, wanted one picture",
        ),
        ("Countdown-v0", {"env_kwargs": {"picture": "grows"}}, "film.mp4", "changed their shape"),
        ("CartPol-v1", {}, "film.mp4", "unknown environment"),
        ("CartPole-v²", {}, "film.mp4", "unknown environment"),
        ("Countdown-v0", {"width": 0}, "film.mp4", "at least 2 pixels wide, got 0"),
        ("Pendulum-v1", {"env_kwargs": {"time_feature": "false"}}, "film.mp4", "must be true or false"),
    ],
)
@pytest.mark.filterwarnings("error::UserWarning")  # gymnasium has one for Blind-v0, and our line says it all
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, env_id: str, kwargs: dict[str, Any], name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        record_video(Constant(0), env_id, tmp_path / name, **kwargs)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["/", ".", ".."])
def test_a_folder_is_no_video(name: str) -> None:
    """A path without a name has no suffix to change."""
    example = Path(name) / "video.mp4"
    with pytest.raises(
        InputError, match=f"^a video is written as .mp4, got {re.escape(name)}; name the file {example}$"
    ):
        record_video(Constant(0), "Countdown-v0", name)


@pytest.mark.parametrize("folder", ["-y", "tcp:", "p%03d"])
def test_a_name_is_no_option_protocol_or_pattern_of_ffmpeg(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    film = Path(folder, "a.mp4")
    record_video(Constant(0), "Countdown-v0", film)
    poster(film)
    assert {path.name for path in Path(folder).iterdir()} == {"a.mp4", "a.jpg"}


def test_a_link_in_place_of_a_poster_is_replaced_and_not_followed(tmp_path: Path) -> None:
    film, mine = tmp_path / "a.mp4", tmp_path / "mine"
    record_video(Constant(0), "Countdown-v0", film)
    mine.write_text("mine")
    (tmp_path / "a.jpg").symlink_to(mine)
    poster(film)
    assert mine.read_text() == "mine"
    assert (tmp_path / "a.jpg").read_bytes().startswith(b"\xff\xd8")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "film.mp4").write_bytes(b"mine")
    with pytest.raises(InputError, match="exists already"):
        record_video(Constant(0), "Countdown-v0", tmp_path / "film.mp4")
    assert (tmp_path / "film.mp4").read_bytes() == b"mine"


def test_a_failing_encoder_is_an_error_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tmp_path / "ffmpeg"
    encoder.write_text("#!/bin/sh\ncat >/dev/null\necho No space left on device >&2\nexit 1\n")
    encoder.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(encoder))
    with pytest.raises(InputError, match=r"could not write .*film\.mp4: No space left on device$"):
        record_video(Constant(0), "Countdown-v0", tmp_path / "film.mp4")
    assert [path.name for path in tmp_path.iterdir()] == ["ffmpeg"]


class Wide(gym.Env[Any, Any]):
    """Its pictures are larger than a pipe, so that writing one notices that nobody reads."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(0, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        return np.zeros(1, np.float32), 0.0, True, False, {}

    def render(self) -> Any:
        return np.zeros((400, 400, 3), np.uint8)


gym.register("Wide-v0", entry_point=Wide)


def test_the_environment_is_not_blamed_for_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = tmp_path / "ffmpeg"
    encoder.write_text("#!/bin/sh\necho No space left on device >&2\nexit 1\n")
    encoder.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(encoder))
    with pytest.raises(InputError, match=r"^ffmpeg could not write .*: No space left on device$"):
        record_video(Constant(0), "Wide-v0", tmp_path / "film.mp4")


class _OnWindows(subprocess.Popen[bytes]):
    """A process to which nothing can be written, with Windows' error for it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.stdin is not None:  # ffmpeg's, not a look at its version
            self.stdin.close()
            self.stdin = _Ended()


class _Ended(io.BytesIO):
    def write(self, _: Any) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def test_windows_has_another_error_for_an_encoder_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", _OnWindows)
    with pytest.raises(InputError, match=r"^ffmpeg could not write "):
        record_video(Constant(0), "Wide-v0", tmp_path / "film.mp4")


HEADLESS = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")}


@functools.cache
def egl_draws() -> bool:
    command = [sys.executable, "-c", "from mujoco.egl import GLContext; GLContext(64, 64)"]
    return not subprocess.run(command, env=HEADLESS | {"MUJOCO_GL": "egl"}, capture_output=True).returncode


def headless(script: str, *arguments: str) -> None:
    """Run Python without a display; skips if there is no EGL to draw with."""
    pytest.importorskip("mujoco")
    if not egl_draws():
        pytest.skip("no EGL here to draw with")
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=HEADLESS, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_mujoco_is_filmed_without_a_display(tmp_path: Path) -> None:
    film = """
import sys
from pathlib import Path
from imitate.datasets.play import RandomPolicy
from imitate.envs.make import make_env
from imitate.media.video import record_video
env = make_env("Hopper-v5")
env.reset(seed=0)
record_video(RandomPolicy(env.action_space), "Hopper-v5", Path(sys.argv[1]), seed=0, max_steps=3)
"""
    out = tmp_path / "hopper.mp4"
    headless(film, str(out))
    assert out.stat().st_size > 0


def test_the_camera_follows_a_runner() -> None:
    """The hopper is reddish; 50 m further on it must still be in the picture."""
    headless("""
import numpy as np
from imitate.media.video import renderable_env
env = renderable_env("Hopper-v5", None)
env.reset(seed=0)
positions, velocities = env.unwrapped.data.qpos.copy(), env.unwrapped.data.qvel.copy()
positions[0] += 50
env.unwrapped.set_state(positions, velocities)
red, _, blue = np.moveaxis(env.render().astype(int), -1, 0)
assert (red > blue + 40).sum() > 100, "the hopper is out of sight"
""")
