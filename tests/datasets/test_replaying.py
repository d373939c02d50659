"""Recorded actions are taken again, filmed and plotted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import h5py
import numpy as np
import pytest
from gymnasium import registry, spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.registration import EnvSpec
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from imitate.cli import main
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.datasets.plot import bars, plot
from imitate.datasets.replay import Difference, replay


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "a.h5"
    command = ["collect", "CartPole-v1", "--episodes", "3", "--noise", "random:0.5", "--out", str(path)]
    assert main(command) == 0
    return path


def test_a_recording_is_the_same_again(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "replay", str(recorded)]) == 0
    assert "3 episodes are the same again" in capsys.readouterr().out
    assert main(["data", "replay", str(recorded), "--episodes", "2"]) == 0
    assert "2 episodes are the same again" in capsys.readouterr().out


class Wide(gym.Env[Any, Any]):
    """Observes in float64, though its space is of float32, and ends after a step."""

    action_space = spaces.Discrete(2)

    def __init__(self, parted: bool) -> None:
        box = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.parted, self.observation_space = parted, spaces.Dict(at=box) if parted else box

    def _seen(self) -> Any:
        at = self.np_random.random(2)
        return {"at": at} if self.parted else at

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._seen(), float(action), True, False, {}


@pytest.mark.parametrize("parted", [False, True])
def test_observations_are_compared_in_the_type_of_their_space(
    parted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry, "Wide-v0", EnvSpec("Wide-v0", entry_point=Wide, kwargs={"parted": parted}))
    out = str(tmp_path / "a.h5")
    assert (
        main(["collect", "random", "--env", "Wide-v0", "--episodes", "2", "--no-measure", "--out", out]) == 0
    )
    assert main(["data", "replay", out]) == 0


@pytest.mark.parametrize("count", ["0", "-1"])
def test_no_episode_cannot_be_replayed(
    recorded: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    assert main(["data", "replay", str(recorded), "--episodes", count]) == 2
    assert f"--episodes must be at least 1, got {count}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("column", "row", "change", "said"),
    [
        ("obs", 0, 0.25, "episode 0: obs differs at its reset, by 0.25"),
        ("obs", 3, 0.5, "episode 0: obs differs after the action of step 2, by 0.5"),
        ("rewards", 4, 2.0, "episode 0: reward differs after the action of step 4, by 2"),
    ],
)
def test_the_first_step_that_differs_is_named(
    recorded: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    column: str,
    row: int,
    change: float,
    said: str,
) -> None:
    path = tmp_path / "b.h5"
    path.write_bytes(recorded.read_bytes())
    with h5py.File(path, "a") as file:
        rows = file[column][row : row + 1]
        # Away from the other end of a float's range, so that the difference is exact.
        rows[..., :1] = rows[..., :1] + change if rows.ndim == 1 else np.round(rows[..., :1]) + change
        file[column][row : row + 1] = rows
    with DemoReader(recorded) as reader, DemoReader(path) as changed:
        was, now = reader[0], changed[0]
        wanted = np.abs(
            (was.obs if column == "obs" else was.rewards) - (now.obs if column == "obs" else now.rewards)
        )
    assert main(["data", "replay", str(path)]) == 2
    out = capsys.readouterr().out
    assert out.startswith(said.rpartition(",")[0])
    assert f"by {wanted.max():.3g}" in out.splitlines()[0]
    assert main(["data", "replay", str(path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["differ"][0]["step"] == (
        row if column == "rewards" else row - 1
    )


class Walk(gym.Env[Any, Any]):
    """Observes the number of its steps; the flag `end`, or both, is set after `steps` of them."""

    observation_space, action_space = spaces.Box(0.0, 9.0, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, end: str, steps: int) -> None:
        self.end, self.steps = end, steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self.at += 1
        ends = [self.at == self.steps and self.end in (end, "both") for end in ("terminated", "truncated")]
        return np.full(1, self.at, np.float32), 0.0, ends[0], ends[1], {}


@pytest.mark.parametrize(
    ("recorded_end", "last", "end", "steps", "wanted"),
    [
        ("truncated", 2, "truncated", 2, (None, None)),
        ("terminated", 2, "terminated", 2, (None, None)),
        # Only in a collection is an episode never cut.
        ("truncated", 2, "", 9, (None, Difference(0, 1, "truncated", 1.0))),
        ("truncated", 3, "", 9, (Difference(0, 1, "obs", 1.0),) * 2),
        ("terminated", 2, "", 9, (Difference(0, 1, "terminated", 1.0),) * 2),
        ("truncated", 2, "terminated", 2, (Difference(0, 1, "terminated", 1.0),) * 2),
        ("truncated", 2, "truncated", 1, (Difference(0, 0, "truncated", 1.0),) * 2),
        ("both", 2, "both", 2, (None, None)),
        ("both", 2, "terminated", 2, (None, Difference(0, 1, "truncated", 1.0))),
        ("both", 2, "truncated", 2, (Difference(0, 1, "terminated", 1.0),) * 2),
        ("terminated", 2, "both", 2, (Difference(0, 1, "truncated", 1.0),) * 2),
    ],
)
def test_another_end_is_a_difference_unless_the_recording_was_cut(
    recorded_end: str,
    last: float,
    end: str,
    steps: int,
    wanted: tuple[Difference | None, Difference | None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two steps were recorded; the file is no collection, then one of seed 0."""
    kwargs = {"end": end, "steps": steps}
    monkeypatch.setitem(registry, "Walk-v0", EnvSpec("Walk-v0", entry_point=Walk))
    obs, nothing = np.array([[0], [1], [last]], np.float32), np.zeros(2, np.float32)
    flags = recorded_end in ("terminated", "both"), recorded_end in ("truncated", "both")
    episode = Trajectory(obs, np.zeros(2, np.int64), nothing, *flags, info={"seed": 5})
    for number, seed in enumerate((None, 0)):
        info = DemoInfo("Walk-v0", Walk.observation_space, Walk.action_space, env_kwargs=kwargs, seed=seed)
        with DemoWriter(tmp_path / f"{number}.h5", info) as writer:
            writer.append(episode)
        with DemoReader(tmp_path / f"{number}.h5") as demos:
            assert list(replay(demos)) == [wanted[number]]


def test_an_episode_in_pieces_is_the_same_again(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitate.datasets.storage.reader.PIECE_BYTES", 100)
    with DemoReader(recorded) as demos:
        assert len(list(demos.pieces(0))) > 1
        assert list(replay(demos)) == [None] * 3


def test_an_environment_that_answers_otherwise_today_is_named(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(CartPoleEnv, "step", lambda *_: (np.zeros(4, np.float32), 1.0, False, {}))
    assert main(["data", "replay", str(recorded)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(
        "imitate: the environment CartPole-v1 raised ValueError: not enough values to unpack"
    )
    assert "step must return (observation, reward, terminated, truncated, info)" in said


@pytest.mark.parametrize("command", [["replay"], ["video", "--out", "a.mp4"]])
def test_another_environment_than_the_recorded_one_is_refused(
    recorded: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", command[0], str(recorded), *command[1:], "--env", "Acrobot-v1"]) == 2
    assert "the recording is of CartPole-v1, not of Acrobot-v1" in capsys.readouterr().err


def test_an_environment_that_a_module_registers_is_named_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recording may have the module's name, or, if a program of its own wrote it, not have it."""
    monkeypatch.chdir(tmp_path)
    Path("replayed_cart.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('ReplayedCart-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)\n",
        encoding="utf-8",
    )
    known = "replayed_cart:ReplayedCart-v0"

    def run(*command: str) -> tuple[int, str]:
        """As in a process of its own, where the module is not imported already and no name is trusted."""
        sys.modules.pop("replayed_cart", None)
        registry.pop("ReplayedCart-v0", None)
        monkeypatch.setattr("imitate.envs.trust._trusted", set())
        status = main(command)
        said = capsys.readouterr()
        return status, said.out + said.err

    assert (
        run("collect", "random", "--env", known, "--episodes", "1", "--num-envs", "1", "--out", "a.h5")[0]
        == 0
    )
    with (
        DemoReader("a.h5") as reader,
        DemoWriter("b.h5", replace(reader.info, env_id="ReplayedCart-v0")) as bare,
    ):
        bare.append(reader[0])
    for file in ("a.h5", "b.h5"):
        assert run("data", "replay", file, "--env", known) == (0, f"{file}: 1 episodes are the same again\n")
    status, said = run("data", "replay", "b.h5")
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith("imitate: unknown environment 'ReplayedCart-v0'")
    for file, remedy in (
        ("a.h5", f"say --env {known}"),
        ("b.h5", "leave --env out, or say --env MODULE:ReplayedCart-v0 if a module of yours registers it"),
    ):
        assert main(["data", "replay", file, "--env", "Nope-v0"]) == 2
        assert capsys.readouterr().err.endswith(f"not of Nope-v0: {remedy}\n")


def test_an_episode_without_a_seed_is_refused(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.h5"
    path.write_bytes(recorded.read_bytes())
    with h5py.File(path, "a") as file:
        table = file["episodes"][:]
        table["seed"] = -1
        file["episodes"][:] = table
        file.attrs["seed"] = -1
    assert main(["data", "replay", str(path)]) == 2
    assert "episode 0 has no seed" in capsys.readouterr().err


def test_episodes_are_filmed(recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.mp4"
    assert main(["data", "video", str(recorded), "--out", str(out), "--episodes", "1", "--width", "200"]) == 0
    assert out.read_bytes()[4:8] == b"ftyp"
    assert main(["data", "video", str(recorded), "--out", str(tmp_path / "b.mp4"), "--episodes", "3"]) == 2
    assert "there is no episode 3" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


def test_a_plot_is_a_picture_or_a_page(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, start in (("a.png", b"\x89PNG"), ("a.html", b"<!doctype html>")):
        assert main(["data", "plot", str(recorded), "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert main(["data", "plot", str(recorded), "--out", str(tmp_path / "a.pdf")]) == 2
    assert "as .png or .html" in capsys.readouterr().err


def test_unknown_actions_are_not_plotted_and_far_ones_not_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bins: list[int] = []
    monkeypatch.setattr(Axes, "hist", lambda _, values, edges: bins.append(len(edges) - 1))  # noqa: ARG005
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    for has_actions in (True, False):
        space = spaces.Discrete(1_000_000)
        info = DemoInfo("Own-v0", spaces.Box(-1.0, 1.0, (2,)), space, has_actions=has_actions)
        with DemoWriter(tmp_path / f"{has_actions}.h5", info) as writer:
            parts = np.zeros((3, 2), np.float32), np.array([0, 999_999]), np.ones(2, np.float32)
            writer.append(Trajectory(*parts, terminated=True, truncated=False))
        plot(tmp_path / f"{has_actions}.h5", tmp_path / f"{has_actions}.png")
    # Of return, length and action; of return and length.
    assert bins == [1, 1, 20, 1, 1]


def test_a_name_with_dollars_is_no_formula(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(recorded.read_bytes())
    with h5py.File(path, "a") as file:
        file.attrs["env_id"] = "$\\nothing$" + "long" * 10_000
    assert main(["data", "plot", str(path), "--out", str(tmp_path / "a.png")]) == 0
    assert capsys.readouterr().err == ""


def test_a_histogram_in_text() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0])
    assert bars(values, bins=2, width=4) == ["0 #### 4", "1 #### 4"]
    assert bars(values, bins=3, width=4) == ["     0 #### 4", "0.6667 # 1", " 1.333 ### 3"]
    assert bars(np.full(3, 5.0)) == ["5 ######################################## 3"]
    assert bars(values[:0]) == []


def test_a_file_without_episodes_is_one_line_and_large_numbers_are_bins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    info = DemoInfo("Own-v0", spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([255, 3], dtype=np.uint8))
    path, words = tmp_path / "a.h5", ["--out", str(tmp_path / "a.png")]
    with DemoWriter(path, info) as writer:
        writer.sync()
        assert main(["data", "plot", str(path), *words]) == 2
        assert "holds no episodes" in capsys.readouterr().err
        parts = np.zeros((4, 2), np.float32), np.uint8([[254, 0], [253, 1], [254, 2]]), np.ones(3, np.float32)
        writer.append(Trajectory(*parts, terminated=True, truncated=False))
    assert main(["data", "plot", str(path), *words]) == 0


def test_returns_that_differ_by_rounding_are_one_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 + 2**-53 is 1, so the last bit of the sum depends on the order."""
    rewards = np.array([1.0, 2.0**-53, 2.0**-53], np.float32)
    info = DemoInfo("Own-v0", spaces.Box(-1.0, 1.0, (2,)), spaces.Box(-1.0, 1.0, (1,)))
    zeros = np.zeros((4, 2), np.float32), np.zeros((3, 1), np.float32)
    with DemoWriter(tmp_path / "a.h5", info) as writer:
        for order in (rewards, rewards[::-1]):
            writer.append(Trajectory(*zeros, order, terminated=True, truncated=False))
    with DemoReader(tmp_path / "a.h5") as reader:
        assert np.ptp(reader.returns) == 2.0**-52
    assert main(["data", "plot", str(tmp_path / "a.h5"), "--out", str(tmp_path / "a.png")]) == 0
    assert main(["data", "info", str(tmp_path / "a.h5")]) == 0
    assert capsys.readouterr().out.endswith(" 2\n")


def test_info_is_short_for_people_and_whole_as_json(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "info", str(recorded)]) == 0
    out = capsys.readouterr().out
    assert "episodes           3 (" in out
    assert out.count("#") + out.count("█") >= 40
    assert main(["data", "info", str(recorded), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["returns"]["mean"] == facts["lengths"]["mean"]
    assert facts["noise"] == "random:0.5"
