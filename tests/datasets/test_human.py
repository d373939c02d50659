"""A person plays, by scripted keys and without a display."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pygame
import pytest
from counting import CountingEnv
from gymnasium.envs.classic_control import CartPoleEnv

from imitate.cli import main
from imitate.datasets import DemoReader, InputError, episode_seeds, make_env
from imitate.datasets.human.keymap import KeyMap, key_map
from imitate.datasets.human.playing import by_hand, interventions
from imitate.media.window import Window


class Script:
    """Keys that are down at each frame; the captions that were shown."""

    mouse = None

    def __init__(self, *frames: str) -> None:
        self._frames = iter(frames)
        self.captions: list[str] = []

    def show(self, picture: Any, caption: str) -> None:  # noqa: ARG002
        self.captions.append(caption)

    def down(self) -> set[str]:
        return set(next(self._frames).split())


class Shown(CountingEnv):
    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


KEYS = KeyMap(
    {frozenset({"a"}): np.array(1), frozenset({"b"}): np.array(2), frozenset({"a", "b"}): np.array(3)}
)


def played(script: Script, seeds: Iterator[int], episodes: int) -> list[Any]:
    return list(by_hand(Shown(period=3), KEYS, script, seeds, episodes))


def test_actions_follow_the_keys() -> None:
    """Seed 5 is an episode of three steps that is truncated. Without a key the last action goes on."""
    script = Script("b", "", "a b")
    (episode,) = played(script, iter([5]), 1)
    assert episode.actions.tolist() == [2, 2, 3]
    assert episode.obs.tolist() == [[5, 0], [5, 1], [5, 2], [5, 3]]
    assert (episode.terminated, episode.truncated, episode.info["seed"]) == (False, True, 5)
    assert script.captions == [f"episode 1 of 1: return {total}" for total in ("0", "0.2", "1.4")]


class Reused(Shown):
    """Writes every observation into one array, and looks actions up, as FrozenLake does."""

    def _obs(self) -> Any:
        self.shown = getattr(self, "shown", np.zeros(2, np.float32))
        self.shown[:] = self.seed, self.steps
        return self.shown

    def step(self, action: Any) -> Any:
        return super().step({2: 2}[action])


def test_an_environment_may_use_one_array_and_look_actions_up() -> None:
    (episode,) = by_hand(Reused(period=3), KEYS, Script("b", "", ""), iter([5]), 1)
    assert episode.obs.tolist() == [[5, 0], [5, 1], [5, 2], [5, 3]]


def test_a_pause_takes_no_steps() -> None:
    script = Script("p", "", "p", "a")  # p is pressed, released, and pressed again with the first step
    (episode,) = played(script, iter([3]), 1)
    assert len(episode) == 1
    assert script.captions[1:3] == ["episode 1 of 1: paused, p goes on"] * 2


def test_an_episode_that_is_taken_back_is_played_again() -> None:
    """Seed 3 has one step, seed 4 two: after the first of these the episode of seed 3 is taken back."""
    script = Script("a", "a", "backspace", "b", "a", "a")
    first, second = played(script, iter([3, 4]), 2)
    assert (first.info["seed"], first.actions.tolist()) == (3, [2])
    assert (second.info["seed"], second.actions.tolist()) == (4, [1, 1])


def test_quitting_keeps_what_was_finished() -> None:
    episodes = played(Script("a", "a", "escape"), iter([3, 5]), 9)
    assert [episode.info["seed"] for episode in episodes] == [3]


@pytest.mark.parametrize("error", [ConnectionError("no arm"), SystemExit(3), KeyboardInterrupt()])
def test_the_last_finished_episode_comes_before_an_error(error: BaseException) -> None:
    """It is held back, so that it can be taken back. The second of the two episodes fails in its second step."""

    class Failing(Shown):
        def step(self, action: Any) -> Any:
            if self.seed == 5 and self.steps == 1:
                raise error
            return super().step(action)

    episodes = by_hand(Failing(period=3), KEYS, Script("a", "a", "a"), iter([3, 5]), 2)
    assert next(episodes).info["seed"] == 3
    with pytest.raises(type(error)):
        next(episodes)


def test_keys_come_from_a_file_or_are_known(tmp_path: Path) -> None:
    env = make_env("Pendulum-v1")
    assert key_map(env, "Pendulum-v1").action({"left"}, None, np.zeros(1)).tolist() == [2.0]
    path = tmp_path / "keys.toml"
    path.write_text('idle = [0.5]\n[keys]\nleft = [1.0]\n"left+up" = [1.5]\n')
    keys = key_map(env, "Pendulum-v1", path)
    assert [
        keys.action(set(down), None, np.zeros(1)).tolist() for down in ((), ("left",), ("up", "left"))
    ] == [
        [0.5],
        [1.0],
        [1.5],
    ]
    for text, said in (
        ("[keys]\nleft = [9.0]\n", "not in Box"),
        ("[keys]\nleft = 'x'\n", "not in Box"),
        ("[keys]\np = [1.0]\n", "choose others"),
        ("keys = 3\n", r"wanted a table \[keys\]"),
        ("=", "no TOML"),
        (f"x = {'[' * 20_000}{']' * 20_000}", "no TOML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            key_map(env, "Pendulum-v1", path)
    several = CountingEnv()
    several.action_space = gym.spaces.MultiDiscrete([3, 2])
    path.write_text("idle = [0, 0]\n[keys]\nleft = [[1], [1, 2]]\n")
    with pytest.raises(InputError, match="not in MultiDiscrete"):
        key_map(several, "Counting-v0", path)
    path.write_text(f"idle = 0\n[keys]\nleft = {10**30}\n")
    with pytest.raises(InputError, match="a number of 31 digits"):
        key_map(make_env("CartPole-v1"), "CartPole-v1", path)
    with pytest.raises(InputError, match="--keys"):
        key_map(CountingEnv(), "Counting-v0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[keys]\nleft = 0\n",
            r'keys.toml has no idle, .*: write idle = ACTION above \[keys\], or idle = "last"',
        ),
        ("[keys]\nleft = 0\nidle = 1\n", r"no key is named 'idle', .*; idle belongs above \[keys\]"),
        ("idle = 0\n[keys]\nlefft = 0\n", "no key is named 'lefft', .*; did you mean 'left'"),
        ('idle = 0\n[keys]\n"left+A" = 0\n', "no key is named 'A', .*; did you mean 'a'"),
        ("idel = 0\nidle = 0\n[keys]\nleft = 0\n", r"got idel, wanted \[keys\], idle and \[mouse\]"),
    ],
)
def test_a_mistake_in_a_file_of_keys_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        key_map(make_env("CartPole-v1"), "CartPole-v1", path)


def test_without_a_key_nothing_moves_unless_the_last_action_is_asked_for(tmp_path: Path) -> None:
    """Zeros, or the nearest that the bounds allow; whole numbers have no such action, so a file has to name one."""
    path, last = tmp_path / "keys.toml", np.array([0.5, 3])
    env = CountingEnv(continuous=True)
    env.action_space = gym.spaces.Box(np.float32([-1, 2]), np.float32([1, 4]))
    for head, chosen in (("", [0, 2]), ("idle = [1.0, 2.0]\n", [1, 2]), ('idle = "last"\n', [0.5, 3])):
        path.write_text(f'{head}[keys]\n"ö" = [1.0, 3.0]\n"[4]" = [-1.0, 3.0]\n')
        keys = key_map(env, "Counting-v0", path)
        assert keys.action(set(), None, last).tolist() == chosen
        assert keys.action({"ö"}, None, last).tolist() == [1, 3]


def test_a_window_without_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are pygame's events: one that is pressed and released within a frame counts for this frame."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="no display"):
        Window(60)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with Window(1000) as window:
        window.show(np.zeros((30, 40, 3), np.uint8), "a caption")
        assert pygame.display.get_caption()[0] == "a caption"
        pygame.event.clear()
        for kind, key in (
            (pygame.KEYDOWN, pygame.K_LEFT),
            (pygame.KEYDOWN, pygame.K_a),
            (pygame.KEYUP, pygame.K_a),
        ):
            pygame.event.post(pygame.event.Event(kind, key=key))
        assert window.down() == {"left", "a"}
        assert window.down() == {"left"}
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        assert "escape" in window.down()
        pygame.display.quit()
        with pytest.raises(InputError, match="the window is gone: video system not initialized"):
            window.down()


def test_collect_human_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key to the right is held until the pole falls; then the person quits, and goes on another day."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses = iter([])
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    out = tmp_path / "a.h5"
    command = ["collect", "human", "--env", "CartPole-v1", "--out", str(out), "--fps", "1000"]
    for resume in ([], ["--resume"]):
        presses = iter([{"right"}] * 14 + [{"escape"}] * 2)
        assert main([*command, *resume]) == 0
    with DemoReader(out) as reader:
        assert reader.info.expert == "human"
        assert reader.info.command == "imitate collect human --env CartPole-v1 --fps 1000"
        assert reader.info.fps == 1000
        assert len(reader) >= 2
        assert reader.table["seed"].tolist() == list(islice(episode_seeds(0), len(reader)))
        assert all((episode.actions == 1).all() for episode in reader)
    assert main(["data", "replay", str(out)]) == 0


@pytest.mark.parametrize("mistake", [["--episodes", "0"], ["--fps", "-3"]])
def test_a_person_plays_something_at_some_speed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: list[str]
) -> None:
    assert main(["collect", "human", "--env", "CartPole-v1", "--out", str(tmp_path / "a.h5"), *mistake]) == 2
    assert f"{mistake[0]} must be above 0, got {mistake[1]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (["--env", "Acrobot-v1"], "env_id 'CartPole-v1', not 'Acrobot-v1'"),
        (
            ["--env", "CartPole-v1", "--env-kwargs", '{"sutton_barto_reward": true}'],
            "not {'sutton_barto_reward': True}",
        ),
        (["--env", "CartPole-v1", "--seed", "1"], "seed 0, not 1"),
        (
            ["--env", "CartPole-v1", "--fps", "500"],
            "was recorded at 1000 steps a second: resume with --fps 1000",
        ),
    ],
)
def test_a_person_goes_on_with_the_same_settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    other: list[str],
    said: str,
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    presses = iter([{"right"}] * 14 + [{"escape"}])
    monkeypatch.setattr(Window, "down", lambda _: next(presses))
    out = tmp_path / "a.h5"
    command = ["collect", "human", "--out", str(out)]
    assert main([*command, "--env", "CartPole-v1", "--fps", "1000"]) == 0
    if "--fps" not in other:
        other = [*other, "--fps", "1000"]
    before = out.read_bytes()
    assert main([*command, "--resume", *other]) == 2
    assert said in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "answer", "said"),
    [
        ("step", (np.zeros(4, np.float32), 1.0, False, {}), "step must return (observation, reward,"),
        ("render", None, "has a render() that gave NoneType, wanted one picture"),
    ],
)
def test_an_environment_that_answers_wrongly_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    answer: Any,
    said: str,
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(Window, "down", lambda _: {"right"})
    monkeypatch.setattr(CartPoleEnv, name, lambda *_: answer)
    assert main(["collect", "human", "--env", "CartPole-v1", "--out", str(tmp_path / "a.h5")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("imitate: the environment CartPole-v1")
    assert said in line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionError("no arm"), "the environment CartPole-v1 raised ConnectionError: no arm"),
        (SystemExit(3), "the environment CartPole-v1 raised SystemExit: 3"),
    ],
)
def test_an_error_keeps_every_finished_episode_and_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    said: str,
) -> None:
    """The third episode does not begin."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(Window, "down", lambda _: {"right"})
    reset, seeds = CartPoleEnv.reset, set(islice(episode_seeds(0), 2))

    def failing(self: CartPoleEnv, *, seed: int, **more: Any) -> Any:
        if seed not in seeds:
            raise error
        return reset(self, seed=seed, **more)

    monkeypatch.setattr(CartPoleEnv, "reset", failing)
    out = tmp_path / "a.h5"
    assert main(["collect", "human", "--env", "CartPole-v1", "--out", str(out), "--fps", "100000"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"imitate: {said}")
    assert line.endswith(f"; {out} holds 2 episodes; the same command with --resume goes on")
    with DemoReader(out) as reader:
        assert reader.table["seed"].tolist() == list(islice(episode_seeds(0), 2))


def test_resuming_fills_up_to_the_number_of_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(Window, "down", lambda _: {"right"})
    captions: list[str] = []
    monkeypatch.setattr(Window, "show", lambda _, __, caption: captions.append(caption))
    out = tmp_path / "a.h5"
    command = ["collect", "human", "--env", "CartPole-v1", "--out", str(out), "--fps", "100000"]
    assert main([*command, "--episodes", "1"]) == 0
    captions.clear()
    assert main([*command, "--episodes", "3", "--resume"]) == 0
    assert captions[0] == "episode 2 of 3: return 0"
    with DemoReader(out) as reader:
        assert reader.table["seed"].tolist() == list(islice(episode_seeds(0), 3))
    captions.clear()
    before = out.read_bytes()
    capsys.readouterr()
    assert main([*command, "--episodes", "2", "--resume"]) == 0
    assert (captions, out.read_bytes()) == ([], before)
    assert "episodes  3" in capsys.readouterr().out


class Four:
    """Always acts 4."""

    def act(self, obs: Any, **_: Any) -> Any:
        return np.full(len(obs), 4)


def test_only_the_steps_of_the_person_are_interventions() -> None:
    """Seed 6 of period 7 has seven steps and is terminated: the person acts in the third, fourth and last."""
    script = Script("", "", "a", "b", "", "", "a")
    (episode,) = by_hand(Shown(), KEYS, script, iter([6]), 1, Four())
    assert episode.actions.tolist() == [4, 4, 1, 2, 4, 4, 1]
    first, second = interventions(episode)
    assert (first.actions.tolist(), first.obs[:, 1].tolist()) == ([1, 2], [2, 3, 4])
    assert (first.terminated, first.truncated) == (False, True)
    assert (second.actions.tolist(), second.obs[:, 1].tolist()) == ([1], [6, 7])
    assert (second.terminated, second.truncated) == (True, False)
