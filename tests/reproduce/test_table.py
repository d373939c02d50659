"""benchmarks/table.py goes on with a record: no seed is run twice."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from imitate.errors import InputError
from imitate.reproduce.rows import read_rows

ROW = "bc-cartpole-10-pairs"
RETURNS = {"mean": 1.0, "std": 0.0}


@pytest.fixture
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "table", Path(__file__).parents[2] / "benchmarks" / "table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(*seeds: int) -> dict[str, Any]:
    found = [{"commands": read_rows()[ROW].commands(seed), **RETURNS} for seed in seeds]
    return {"expert_mean": None, "random": 0.0, "seeds": found}


def test_only_the_missing_seed_is_run(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run_seed(commands: list[str], _: Path) -> dict[str, Any]:
        ran.append(commands)
        return {"commands": commands, "mean": 4.0, "std": 0.0}

    monkeypatch.setattr(table, "run_seed", run_seed)
    first = read_rows()[ROW].first_seed
    (grown,) = table.run_row(ROW, 3, record(first, first + 2))
    assert ran == [read_rows()[ROW].commands(first + 1)]
    assert grown["mean"] == 2.0
    assert list(table.run_row(ROW, 3, grown)) == []


def test_seeds_on_another_device_belong_to_the_same_record(
    table: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        table, "run_seed", lambda commands, _: {"commands": commands, "mean": 4.0, "std": 0.0}
    )
    first = read_rows()[ROW].first_seed
    with ThreadPoolExecutor(2) as pool:
        *_, whole = table.run_row(ROW, 3, record(first + 1), device="cuda", pool=pool)
    trained = [seed["commands"][1] for seed in whole["seeds"]]
    assert [command.split()[-4:] for command in trained] == [
        ["--out", "run", "--device", "cuda"],
        ["--seed", str(first + 1), "--out", "run"],
        ["--out", "run", "--device", "cuda"],
    ]
    assert list(table.run_row(ROW, 3, whole)) == []


def test_each_seeds_own_teacher_is_measured(table: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(read_rows()[ROW], expert="teacher", teacher="--budget 100", seeds=2)
    monkeypatch.setattr(table, "read_rows", lambda: {ROW: row})
    monkeypatch.setattr(
        table, "run_seed", lambda commands, _: {"commands": commands, "mean": 4.0, "std": 0.0}
    )
    teachers = iter([[1.0, 3.0], [5.0, 7.0]])
    monkeypatch.setattr(table, "measured", lambda *_: SimpleNamespace(returns=np.array(next(teachers))))
    *_, whole = table.run_row(ROW, record=record())
    assert whole["expert_returns"] == [[1.0, 3.0], [5.0, 7.0]]
    assert whole["expert_mean"] == 4.0
    assert whole["share_of_range"] == 1.0


def test_a_record_of_other_commands_is_not_gone_on_with(table: ModuleType) -> None:
    old = record(read_rows()[ROW].first_seed)
    old["seeds"][0]["commands"][1] += " --batch-size 7"
    with pytest.raises(InputError, match="delete it"):
        next(table.run_row(ROW, 1, old))
