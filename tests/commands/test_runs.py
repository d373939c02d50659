"""`imitate runs` lists runs as they are, also unfinished and damaged ones."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from typed import PPO, refused

from imitate.cli import main

pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_runs_are_listed_from_the_newest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "600", "--out", "runs/deep/first"]) == 0
    shutil.copytree("runs/deep/first", "runs/second")
    Path("runs/second/finished.json").unlink()
    Path("runs/second/evaluations.jsonl").write_text('{"mean_return": 12.25}\n{"mean_ret', "utf-8")
    now = time.time()
    os.utime("runs/deep/first/metrics.jsonl", (now - 7_200,) * 2)
    for folder in ("runs/other", "runs/deep"):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "config.json").write_text("[]", "utf-8")  # another program's
    capsys.readouterr()
    assert main(["runs"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "learner", "environment", "seed", "steps", "return", "state", "age"]
    assert [line.split()[0] for line in lines] == ["runs/second", "runs/deep/first"]
    assert lines[0].split()[5:8] == ["12.2", "not", "finished"]
    assert lines[1].split()[-3:] == ["finished", "2", "h"]
    assert main(["runs", "runs/deep", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["run"], row["learner"], row["environment"]) == ("runs/deep/first", "ppo", "CartPole-v1")
    assert 0 < row["steps"] <= 600


def test_a_run_without_a_log_has_its_steps_too(capsys: pytest.CaptureFixture[str]) -> None:
    """As `improve` hands one over."""
    assert main([*PPO, "--budget", "600", "--out", "runs/ppo"]) == 0
    totals = json.loads(Path("runs/ppo/finished.json").read_text("utf-8"))
    Path("runs/ppo/metrics.jsonl").unlink()
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["steps"] == totals["env_steps"] + totals["validation_steps"] > 0
    Path("runs/ppo/finished.json").write_text('{"env_steps": "many"}')
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["steps"] == 0


def shown(capsys: pytest.CaptureFixture[str]) -> float | None:
    capsys.readouterr()
    assert main(["runs", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    found: float | None = row["return"]
    return found


def test_a_run_is_known_by_its_best_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "CartPole-v1:ppo", "--episodes", "1", "--out", "demos.h5"]) == 0
    clone = ["train", "bc", "--env", "CartPole-v1", "--demos", "demos.h5", "--max-epochs", "2"]
    assert main([*clone, "--out", "runs/bc"]) == 0
    look = json.loads(Path("runs/bc/look.json").read_text("utf-8"))["mean"]
    assert f"it returns {look:.4g} on average" in capsys.readouterr().err
    assert shown(capsys) == pytest.approx(look)
    Path("runs/bc/result.json").write_text(
        '{"algorithm": "bc", "returns": [1.0, 2.0]}', encoding="utf-8"
    )  # as `compare` does
    assert shown(capsys) == 1.5
    assert main(["evaluate", "runs/bc", "--episodes", "2"]) == 0
    assert shown(capsys) == json.loads(Path("runs/bc/evaluation.json").read_text("utf-8"))["mean"]
    Path("runs/bc/evaluations.jsonl").write_text('{"mean_return": 12.25}\n', "utf-8")
    assert shown(capsys) == 12.25
    Path("runs/bc/evaluations.jsonl").write_text('{"mean_return": 1e400}\n', "utf-8")
    assert shown(capsys) == json.loads(Path("runs/bc/evaluation.json").read_text("utf-8"))["mean"]


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    """A learner of one's own may log it."""
    assert main([*PPO, "--budget", "200", "--no-looks", "--out", "runs/ppo"]) == 0
    Path("runs/ppo/metrics.jsonl").write_text('{"budget_steps": 10, "train_return": NaN}\n', "utf-8")
    assert shown(capsys) is None


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a folder" in refused(capsys, "runs", "nowhere")
    Path("empty").mkdir()
    assert "holds no run" in refused(capsys, "runs", "empty")
