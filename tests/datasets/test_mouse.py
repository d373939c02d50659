"""A person steers with the mouse, by scripted events and without a display."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from counting import CountingEnv

from imitate.cli import main
from imitate.datasets import DemoReader, InputError, make_env
from imitate.datasets.human.keymap import key_map
from imitate.datasets.human.playing import Person
from imitate.media.window import Window


def posted(kind: int, at: tuple[int, int], **more: Any) -> None:
    pygame.event.post(pygame.event.Event(kind, pos=at, **more))


def action(env_id: str, down: str, mouse: tuple[float, float] | None, **env_kwargs: Any) -> list[float]:
    env = make_env(env_id, env_kwargs)
    keys = key_map(env, env_id)
    return [round(float(x), 3) for x in keys.action(set(down.split()), mouse, np.zeros(3, np.float32))]


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with Window(1000) as window:
        window.show(np.zeros((481, 481, 3), np.uint8), "480 pixels wide and high")
        pygame.event.clear()
        yield window


def test_the_mouse_leads_from_idle_to_the_edges() -> None:
    """Halfway to the right is half of the key to the right. The lander's engines start halfway to their edges."""
    assert action("CarRacing-v3", "", None) == [0, 0, 0]
    assert action("CarRacing-v3", "", (0.5, 0)) == [0.5, 0, 0]
    assert action("CarRacing-v3", "", (-0.25, 1)) == [-0.25, 1, 0]
    assert action("CarRacing-v3", "", (0, -0.5)) == [0, 0, 0.4]
    assert action("LunarLanderContinuous-v3", "", (-0.75, 0.25)) == [-0.5, -0.75]
    assert action("LunarLander-v3", "", (1, 1), continuous=True) == [1, 1]
    assert action("Pendulum-v1", "", (0.5, 0)) == [-1]


def test_keys_and_mouse_add_up_within_the_space() -> None:
    assert action("CarRacing-v3", "up", (0.5, 0)) == [0.5, 1, 0]
    assert action("CarRacing-v3", "right up", (0.5, 0.5)) == [1, 1, 0]


def test_discrete_actions_have_no_mouse() -> None:
    for env_id, env_kwargs in (("CarRacing-v3", {"continuous": False}), ("LunarLander-v3", {})):
        keys = key_map(make_env(env_id, env_kwargs), env_id)
        assert keys.stick is None
        assert keys.chosen({"right"}, (1, 1)) == keys.actions[frozenset({"right"})]
        assert keys.chosen(set(), (1, 1)) is None


def test_a_file_describes_the_edges(tmp_path: Path) -> None:
    env = make_env("Pendulum-v1")
    path = tmp_path / "keys.toml"
    path.write_text("idle = [0.5]\n[mouse]\nup = [1.5]\n")
    keys = key_map(env, "Pendulum-v1", path)
    assert keys.first == 0.5
    assert [keys.action(set(), (1, y), np.zeros(1)).tolist() for y in (0, 0.5, 1, -1)] == [
        [0.5],
        [1.0],
        [1.5],
        [0.5],
    ]
    path.write_text("idle = [0.5]\nmouse = {}\n[keys]\nleft = [1.5]\n")
    assert key_map(env, "Pendulum-v1", path).chosen(set(), (-1, 0)) is None
    for text, said in (
        ('idle = "last"\n[mouse]\nup = [1.0]\n', "it needs an idle action"),
        ("idle = [0.0]\n[mouse]\nabove = [1.0]\n", "actions for left, right, up, down"),
        ("idle = [0.0]\nmouse = 3\n", "actions for left"),
        ("idle = [0.0]\n[mouse]\nup = [9.0]\n", "not in Box"),
        ("mouse = {}\n", r"wanted a table \[keys\]"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            key_map(env, "Pendulum-v1", path)
    path.write_text("idle = 0\n[mouse]\nup = 1\n")
    with pytest.raises(InputError, match="a Box of floats, got Discrete"):
        key_map(CountingEnv(), "Counting-v0", path)


def test_the_mouse_counts_while_its_left_button_is_down(window: Window) -> None:
    """Corner to corner of a window of 480 pixels; a click within a frame counts for this frame."""
    posted(pygame.MOUSEMOTION, (0, 0), rel=(0, 0), buttons=(0, 0, 0))
    posted(pygame.MOUSEBUTTONDOWN, (0, 0), button=3)
    assert (window.down(), window.mouse) == (set(), None)
    posted(pygame.MOUSEBUTTONDOWN, (479, 0), button=1)
    assert (window.down(), window.mouse) == (set(), (1, 1))
    window.down()
    assert window.mouse == (1, 1)
    posted(pygame.MOUSEMOTION, (-90, 600), rel=(0, 0), buttons=(1, 0, 0))  # dragged out of the window
    window.down()
    assert window.mouse == (-1, -1)
    posted(pygame.MOUSEBUTTONUP, (0, 0), button=1)
    window.down()
    window.down()
    assert window.mouse is None
    posted(pygame.MOUSEBUTTONDOWN, (0, 0), button=1)
    posted(pygame.MOUSEBUTTONUP, (0, 0), button=1)
    window.down()
    assert window.mouse == (-1, 1)
    window.down()
    assert window.mouse is None


def test_a_person_labels_with_the_mouse(window: Window) -> None:
    env = make_env("Pendulum-v1", render_mode="rgb_array")
    env.reset(seed=0)
    person = Person(env, key_map(env, "Pendulum-v1"), window)
    assert person.act(np.zeros(1)).tolist() == [[0]]
    posted(pygame.MOUSEBUTTONDOWN, (479, 240), button=1)
    assert person.act(np.zeros(1)).tolist() == [[-2]]


def test_the_mouse_takes_over_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The button is down in frames 3 to 6: only these steps of an episode of 200 are the person's."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    down, frame = Window.down, 0

    def scripted(window: Window) -> set[str]:
        nonlocal frame
        frame += 1
        if frame in (3, 6):
            posted(pygame.MOUSEBUTTONDOWN if frame == 3 else pygame.MOUSEBUTTONUP, (0, 240), button=1)
        if frame == 201:
            pygame.event.post(pygame.event.Event(pygame.QUIT))
        return down(window)

    monkeypatch.setattr(Window, "down", scripted)
    out = tmp_path / "a.h5"
    command = ["collect", "human", "--env", "Pendulum-v1", "--intervene", "random", "--fps", "100000"]
    assert main([*command, "--out", str(out)]) == 0
    with DemoReader(out) as reader:
        assert reader[0].actions.tolist() == [[2]] * 4
