"""The record of comparisons with few demonstrations has what ended, and nothing else."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

RECORD = Path(__file__).parent.parent / "benchmarks" / "few_demos" / "record.py"
DESCRIBED = {"env_id": "CartPole-v1", "budget": 100, "demo_episodes": 1, "demo_every": 20, "seeds": 2}


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), "utf-8")


def test_runs_that_have_ended_are_kept(tmp_path: Path) -> None:
    expert = {"spec": "CartPole-v1:ppo", "measured": {"returns": [500.0]}}
    write(tmp_path / "references.json", {"expert": expert, "random": {"returns": [20.0]}})
    write(tmp_path / "runs.json", {"iq-seed100": "runs/a", "iq-seed101": "runs/b"})
    run = {"algorithm": "iq", "seed": 100, "returns": [400.0, 500.0], "last_returns": [], "machine": {}}
    run |= {"env_steps": 99, "demo_steps": 1, "validation_steps": 0, "cpu_seconds": 2.0}
    write(tmp_path / "runs" / "a" / "result.json", run | {"curve": [{"steps": 50, "returns": [10.0, 20.0]}]})
    found = runpy.run_path(str(RECORD))["part"](tmp_path, DESCRIBED)
    assert (found["env_id"], found["expert"], found["expert_returns"]) == (
        "CartPole-v1",
        expert["spec"],
        [500],
    )
    (kept,) = found["runs"]["iq"]
    assert kept["curve"] == [(50, 15.0)]
    assert kept["returns"] == [400, 500]


def test_the_record_keeps_learners_that_are_not_measured_again(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    write(suite / "suite.json", {"parts": {"cartpole": DESCRIBED, "later": DESCRIBED}})
    expert = {"spec": "CartPole-v1:ppo", "measured": {"returns": [500.0]}}
    write(suite / "cartpole" / "references.json", {"expert": expert, "random": {"returns": [20.0]}})
    write(suite / "cartpole" / "runs.json", {"iq-seed100": "runs/a"})
    run = {"algorithm": "iq", "seed": 100, "returns": [400.0], "last_returns": [], "machine": {}, "curve": []}
    run |= {"env_steps": 99, "demo_steps": 1, "validation_steps": 0, "cpu_seconds": 2.0}
    write(suite / "cartpole" / "runs" / "a" / "result.json", run)
    older = {
        "cartpole": DESCRIBED | {"expert": expert["spec"], "runs": {"bc": ["as it was"], "iq": ["older"]}}
    }
    grown = runpy.run_path(str(RECORD))["grown"]
    found = grown(older, [suite])
    assert list(found) == ["cartpole"]
    assert found["cartpole"]["runs"]["bc"] == ["as it was"]
    assert [run["returns"] for run in found["cartpole"]["runs"]["iq"]] == [[400.0]]
    with pytest.raises(SystemExit, match="cartpole is recorded with another budget"):
        grown({"cartpole": older["cartpole"] | {"budget": 7}}, [suite])
