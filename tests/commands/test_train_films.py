"""`imitate train --video-every`: films of the policy while it learns, which change nothing else."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from typed import PPO, refused

from imitate.cli import main
from imitate.errors import Fault
from imitate.media.video import record_video

pytestmark = pytest.mark.usefixtures("in_a_folder")

# An iteration is 16 steps of 8 environments: a film is due at 0, 256 and 512 steps, the last of them only in `FILMED`.
SHORT = (*PPO, "--budget", "384", "--no-looks")
FILMED = (*PPO, "--budget", "640", "--no-looks")
NAMES = ["00000000.mp4", "00000256.mp4", "00000512.mp4"]


def films(run: str) -> list[str]:
    return sorted(path.name for path in Path(run, "videos").iterdir())


def test_films_are_made_on_the_way_and_change_no_byte_of_the_run() -> None:
    assert main([*SHORT, "--video-every", "256", "--out", "filmed"]) == 0
    assert films("filmed") == NAMES[:2]
    assert all(Path("filmed/videos", name).stat().st_size > 1_000 for name in NAMES[:2])
    assert main([*SHORT, "--out", "blind"]) == 0
    assert not Path("blind/videos").exists()
    for name in ("policy/policy.safetensors", "metrics.jsonl", "config.json", "finished.json"):
        assert Path("filmed", name).read_bytes() == Path("blind", name).read_bytes(), name


def test_a_resumed_run_goes_on_after_its_last_film(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filmed: list[str] = []

    def record(policy: Any, env_id: str, out: Path, **options: Any) -> list[float]:
        filmed.append(out.name)
        if len(filmed) == 2:
            signal.raise_signal(signal.SIGINT)  # the run ends after this iteration
        return record_video(policy, env_id, out, **options)

    monkeypatch.setattr("imitate.training.films.record_video", record)
    assert main([*FILMED, "--video-every", "256", "--out", "run"]) == 130
    assert films("run") == NAMES[:2]
    assert "go on with `imitate train --resume run --no-looks --video-every 256`" in capsys.readouterr().err
    assert main(["train", "--resume", "run", "--video-every", "256"]) == 0
    assert filmed == films("run") == NAMES  # each once


def test_a_learner_without_environments_is_filmed_by_iterations() -> None:
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    clone = ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--max-epochs", "3", "--no-looks"]
    assert main([*clone, "--video-every", "2", "--out", "bc"]) == 0
    assert films("bc") == ["00000000.mp4", "00000002.mp4"]


def test_a_film_that_fails_is_the_last_and_ends_no_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried: list[str] = []

    def record(policy: Any, env_id: str, out: Path, **options: Any) -> list[float]:
        tried.append(out.name)
        if len(tried) == 2:
            raise Fault("CartPole-v1 raised in step 3: the display is gone")
        return record_video(policy, env_id, out, **options)

    monkeypatch.setattr("imitate.training.films.record_video", record)
    assert main([*FILMED, "--video-every", "256", "--out", "run"]) == 0
    assert tried == NAMES[:2]
    assert films("run") == NAMES[:1]
    assert "not filmed any more: CartPole-v1 raised in step 3: the display is gone" in caplog.text


def test_mistakes_leave_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert "video_every must be at least 1, got -5" in refused(
        capsys, *FILMED, "--video-every", "-5", "--out", "o"
    )
    blind = [word.replace("CartPole-v1", "Identity-v0") for word in FILMED]
    assert "Identity-v0 can't be filmed" in refused(capsys, *blind, "--video-every", "256", "--out", "o")
    assert not Path("o").exists()
