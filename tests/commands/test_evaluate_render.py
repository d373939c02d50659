"""`imitate evaluate --render`: the episodes in a window."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from imitate.cli import main
from imitate.envs.spaces import Array
from imitate.media.window import Window

COMMAND = ["evaluate", "CartPole-v1", "--env-kwargs", '{"max_episode_steps": 5}', "--episodes", "3"]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The captions of the pictures, shown as fast as possible in a window that nobody sees."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    captions: list[str] = []
    begin, show = Window.__init__, Window.show

    def watched(window: Window, picture: Array, caption: str) -> None:
        assert picture.std() > 10
        captions.append(caption)
        show(window, picture, caption)

    monkeypatch.setattr(Window, "__init__", lambda window, _fps: begin(window, 10_000))
    monkeypatch.setattr(Window, "show", watched)
    return captions


def test_every_picture_of_every_episode_is_shown(
    shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COMMAND, "--render"]) == 0
    assert "return 5.00 +- 0.00" in capsys.readouterr().out
    assert shown == [
        f"CartPole-v1, episode {n} of 3: return {steps}" for n in (1, 2, 3) for steps in range(6)
    ]


def test_escape_ends_it(shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    keys = iter([set(), set(), {"escape"}])
    monkeypatch.setattr(Window, "down", lambda _: next(keys))
    assert main([*COMMAND, "--render"]) == 0
    assert len(shown) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no variable names the display")
def test_a_display_that_does_not_answer_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """SDL would draw to memory, where nobody sees it."""
    for name in ("WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISPLAY", ":977")
    assert main([*COMMAND, "--render"]) == 2
    out, err = capfd.readouterr()
    (line,) = err.splitlines()
    assert "there is no display for a window: DISPLAY=:977 did not answer" in line
    assert out == ""


@pytest.mark.parametrize("video", [[], ["--video", "film.mp4"]])
def test_without_a_display_it_is_one_line_before_anything_is_played(
    video: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Filming tells SDL that there is no display, which must not pass for one."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def played(*_: Any, **__: Any) -> None:
        pytest.fail("played")

    monkeypatch.setattr("imitate.datasets.evaluation.evaluate", played)
    assert main([*COMMAND, "--render", *video]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "there is no display for a window: DISPLAY is not set; --video FILM.mp4 needs none" in line
    assert list(tmp_path.iterdir()) == []
