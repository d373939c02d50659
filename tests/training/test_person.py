"""A person labels the states that the learner visits, by scripted keys and without a display."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from conftest import Identity

from imitate.cli import main
from imitate.datasets import DemoReader, InputError
from imitate.datasets.evaluation import evaluate
from imitate.datasets.human.keymap import KeyMap
from imitate.datasets.human.playing import Person
from imitate.media.window import Window
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment
from imitate.training.process import interruptible


class Pictured(Identity):
    """Identity, whose observation is the colour of the picture."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((4, 4, 3), self._obs, np.uint8)


gym.register("Pictured-v0", entry_point=Pictured)


class Reader:
    """Sees the picture and presses the key that names it; before the frame `last`, which presses escape."""

    mouse = None

    def __init__(self, last: float = np.inf) -> None:
        self.last, self.frames, self.seen = last, 0, 0
        self.captions: list[str] = []

    def show(self, picture: Any, caption: str) -> None:
        self.seen = int(picture[0, 0, 0])
        self.captions.append(caption)

    def down(self) -> set[str]:
        self.frames += 1
        return {"abc"[self.seen]} | ({"escape"} if self.frames == self.last else set())


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    keys = tmp_path / "keys.toml"
    keys.write_text('idle = "last"\n[keys]\na = 0\nb = 1\nc = 2\n')
    options = "--budget 300 --iterations 3 --updates-per-iteration 50 --final-updates 400 --eval-every 0"
    return ["train", "dagger", "--env", "Pictured-v0", "--expert", f"human:{keys}", *options.split()]


def sit_down(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Window, "show", lambda _, *shown: reader.show(*shown))
    monkeypatch.setattr(Window, "down", lambda _: reader.down())


def test_dagger_learns_from_a_person(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every state is labelled while it is shown, also where the learner acts: keys that came late would be wrong."""
    reader, out = Reader(), tmp_path / "run"
    sit_down(reader, monkeypatch)
    assert main([*command, "--out", str(out)]) == 0
    assert reader.frames == 300
    with DemoReader(out / "aggregated.h5") as store:
        assert store.info.expert.startswith("human:")
        assert all((piece.labels == piece.obs[:-1]).all() for piece in store)
        assert any((piece.actions != piece.labels).any() for piece in store)  # the learner acted too
    assert evaluate(load_policy(out), "Pictured-v0", episodes=5, seed=0).mean == 10


def test_escape_saves_after_the_roll_in(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, out = Reader(last=130), tmp_path / "run"
    sit_down(reader, monkeypatch)
    monkeypatch.chdir(tmp_path)
    command[command.index("--expert") + 1] = "human:keys.toml"
    assert main([*command, "--out", str(out)]) == 128 + signal.SIGINT
    assert reader.frames == 200
    assert reader.captions[130] == "state 131: ends soon"
    monkeypatch.chdir("/")
    assert main(["train", "--resume", str(out)]) == 0
    assert reader.frames == 300


def test_what_a_person_answered_before_the_environment_failed_is_kept_and_used(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails in step 130, in the second of three roll-ins of 100 steps: of the 130 answers, the last has no step."""
    reader, out = Reader(), tmp_path / "run"
    sit_down(reader, monkeypatch)
    step = Pictured.step

    def failing(self: Pictured, action: Any) -> Any:
        if reader.frames == 130:
            raise RuntimeError("unplugged")
        return step(self, action)

    with monkeypatch.context() as patch:
        patch.setattr(Pictured, "step", failing)
        assert main([*command, "--out", str(out)]) == 2
    with DemoReader(out / "aggregated.h5") as store:
        before = [piece.obs.tolist() for piece in store]
        assert store.num_steps == 129
    assert main(["train", "--resume", str(out)]) == 0
    assert reader.frames == 130 + 300 - 129
    with DemoReader(out / "aggregated.h5") as store:
        assert [piece.obs.tolist() for piece in store][: len(before)] == before
        assert store.num_steps == 300


def test_a_pause_gives_no_label() -> None:
    env = Pictured("rgb_array")
    env.reset(seed=0)
    frames = iter([{"p"}, set(), {"p", "b"}, set(), {"escape"}])

    class Script(Reader):
        def down(self) -> set[str]:
            return next(frames)

    keys = KeyMap({frozenset(key): np.array(action) for action, key in enumerate("abc")})
    person = Person(env, keys, script := Script())
    assert person.act(np.zeros(1)).tolist() == [1]
    assert script.captions == [
        "state 1: what would you do?",
        "state 1: paused, p goes on",
        "state 1: paused, p goes on",
    ]
    with interruptible() as caught:
        assert person.act(np.zeros(1)).tolist() == [1]  # without a key the last action goes on
        assert not caught()
        person.act(np.zeros(1))
        assert caught() == signal.SIGINT


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "aggrevated"}, "human is for dagger"),
        ({"num_envs": 8}, "watches one environment"),
        ({"other_experts": ("CartPole-v1",)}, "only expert"),
    ],
)
def test_what_a_person_cannot_do(changes: dict[str, Any], message: str) -> None:
    experiment = Experiment(
        **{"algorithm": "dagger", "env_id": "CartPole-v1", "hyperparameters": {}, "num_envs": 1}
        | {"expert": "human"}
        | changes
    )
    with pytest.raises(InputError, match=message):
        experiment.check_inputs()


def test_keys_that_are_not_known_come_from_a_file(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Pictured] = []
    monkeypatch.setattr(Pictured, "close", lambda env: closed.append(env))
    command[command.index("--expert") + 1] = "human"
    assert main([*command, "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "no keys are known for Pictured-v0: describe them in a file, --expert human:keys.toml"
    )
    assert closed
