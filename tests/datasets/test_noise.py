"""Noise as large as a learner's errors (DART)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from imitate.cli import main
from imitate.datasets import ActionNoise, DemoReader, InputError
from imitate.datasets.noise import dart
from imitate.experts import Expert

BOX = spaces.Box(np.float32([-1, 0]), np.float32([1, 4]))


def test_noise_is_the_episodes_own_and_not_what_its_environment_draws_of_the_seed() -> None:
    noise = ActionNoise("gaussian:0.1", BOX, 2)
    for env, seed in ((0, 5), (1, 9)):
        noise.begin(env, seed)
    middle = np.float32([[0, 2], [0, 2]])
    drawn = [np.random.default_rng((seed, 1)).standard_normal(2) for seed in (5, 9)]
    np.testing.assert_allclose(noise(middle), middle + 0.1 * np.float32([1, 2]) * drawn, rtol=1e-5)
    assert not np.allclose(drawn[0], np.random.default_rng(5).standard_normal(2))


class Off:
    """Acts as the labels say, but for an error in the first rows."""

    def __init__(self, labels: Any, error: Any, rows: int) -> None:
        self._actions = labels.copy()
        self._actions[:rows] += error

    def act(self, obs: Any, **_: Any) -> Any:  # noqa: ARG002
        return self._actions


def test_the_covariance_is_that_of_the_errors_in_half_ranges() -> None:
    """Half ranges are 1 and 2: an error of (0.5, -1) in half of the rows is (0.5, -0.5) there."""
    labels = np.tile(np.float32([0, 2]), (8, 1))
    spec = dart(Off(labels, np.float32([0.5, -1.0]), 4), labels, labels, BOX)
    assert json.loads(spec.removeprefix("gaussian:")) == [[0.125, -0.125], [-0.125, 0.125]]
    noise = ActionNoise(spec, BOX, 1)
    noise.begin(0, 3)
    disturbed = np.array([noise(np.float32([[0, 2]]))[0] for _ in range(4000)]) - [0, 2]
    inside = np.abs(disturbed) < [0.999, 1.999]
    assert disturbed[inside.all(1)] @ [1, 0.5] == pytest.approx(0, abs=1e-3)  # the errors go one way together
    assert disturbed[:, 0].std() == pytest.approx(np.sqrt(0.125), rel=0.05)


def test_two_equal_bounds_have_no_errors() -> None:
    box, labels = spaces.Box(np.float32([-1, 2]), np.float32([1, 2])), np.tile(np.float32([0, 2]), (8, 1))
    assert (
        dart(Off(labels, np.float32([0.5, 0]), 4), labels, labels, box)
        == "gaussian:[[0.125, 0.0], [0.0, 0.0]]"
    )


def test_discrete_errors_become_a_probability() -> None:
    """3 of 10 are wrong; a random action of 4 differs in 3 of 4 cases, so 0.4 of the actions are drawn."""
    labels = np.zeros(10, np.int64)
    assert dart(Off(labels, 1, 3), labels, labels, spaces.Discrete(4)) == "random:0.4"
    with pytest.raises(InputError, match="no errors"):
        dart(Off(labels, 1, 0), labels, labels, spaces.Discrete(4))


def test_noise_of_a_learner_that_is_hardly_trained_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    labels = np.zeros(10, np.int64)
    dart(Off(labels, 1, 3), labels, labels, spaces.Discrete(4))
    assert not caplog.records
    dart(Off(labels, 1, 6), labels, labels, spaces.Discrete(4))
    assert "nearly as large as random actions" in caplog.text
    caplog.clear()
    far = np.tile(np.float32([0, 2]), (8, 1))
    dart(
        Off(far, np.float32([0.6, 0]), 8), far, far, BOX
    )  # the mean square of both is 0.18, so the size 0.42
    assert not caplog.records
    dart(Off(far, np.float32([0.6, 1.2]), 8), far, far, BOX)
    assert "nearly as large as random actions" in caplog.text


@pytest.mark.parametrize(
    "size",
    [
        "[[1]]",
        "[[1, 0], [0, -1]]",
        "[[1, 0.9], [0, 1]]",
        "[[1, 0], [0, NaN]]",
        "[[Infinity, 0], [0, 1]]",
        f"[[1{400 * '0'}, 0], [0, 1]]",
        "[1, 2]",
        "[[",
        "[[1e9, 0], [0, 1]]",
    ],
)
def test_an_invalid_covariance_is_refused(size: str) -> None:
    with pytest.raises(InputError, match=r"covariance .*: wanted .* with eigenvalues from 0 to 100"):
        ActionNoise(f"gaussian:{size}", BOX, 1)


def test_a_wrong_noise_is_refused_before_the_expert_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(*_: object, **__: object) -> None:
        raise AssertionError("the expert was measured")

    monkeypatch.setattr(Expert, "measure", measure)
    words = ["collect", "Pendulum-v1", "--episodes", "1", "--noise", "foo:1", "--out", str(tmp_path / "a.h5")]
    assert main(words) == 2
    assert "noise 'foo:1': wanted gaussian:SIGMA" in capsys.readouterr().err


def test_collect_with_the_errors_of_a_run(tmp_path: Path) -> None:
    """The executed actions are noisy and the labels are the expert's, both stored; so is the noise."""
    demos, run, noisy = tmp_path / "a.h5", tmp_path / "run", tmp_path / "b.h5"
    assert main(["collect", "Pendulum-v1", "--episodes", "2", "--out", str(demos)]) == 0
    train = [
        "train",
        "bc",
        "--env",
        "Pendulum-v1",
        "--demos",
        str(demos),
        "--max-epochs",
        "1",
        "--out",
        str(run),
    ]
    assert main([*train, "--device", "cpu"]) == 0
    command = ["collect", "Pendulum-v1", "--episodes", "2", "--noise", f"dart:{run}", "--out", str(noisy)]
    assert main(command) == 0
    with DemoReader(noisy) as reader:
        assert reader.info.noise.startswith("gaussian:[[")
        (variance,) = json.loads(reader.info.noise.removeprefix("gaussian:"))[0]
        assert 0 < variance < 4
        assert (reader[0].actions != reader[0].labels).any()
    before = noisy.read_bytes()
    assert main([*command, "--resume"]) == 0  # the same noise is found again
    assert noisy.read_bytes() == before


def test_a_run_that_is_not_there_is_named_before_the_expert_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Expert, "measure", lambda *_, **__: pytest.fail("the expert was measured"))
    missing = f"dart:{tmp_path / 'run'}"
    command = [
        "collect",
        "Pendulum-v1",
        "--episodes",
        "2",
        "--noise",
        missing,
        "--out",
        str(tmp_path / "b.h5"),
    ]
    assert main(command) == 2
    assert str(tmp_path / "run") in capsys.readouterr().err
