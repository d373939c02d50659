"""Scripts that add to a record, perhaps on another machine, name the machine of what they add and keep the rest."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate.datasets import collect
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
OLD, NEW = {"cpu": "old"}, {"cpu": "new"}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    spec = importlib.util.spec_from_file_location(
        f"script_{request.param}", BENCHMARKS / f"{request.param}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(module, "machine", lambda: NEW)
    return module


@pytest.mark.parametrize("script", ["compression"], indirect=True)
def test_compression(script: Any) -> None:
    hdf5plugin = pytest.importorskip("hdf5plugin")
    hdf5plugin.register(force=False)  # reading demonstrations in this process may have left zstd alone
    older = {"raw": 1, "filters": {}}
    script.RECORD.write_text(json.dumps({"machine": OLD, "found": {"HalfCheetah-v5": older}}))
    script.main(states=8_192, data=("CartPole-v1",))
    record = json.loads(script.RECORD.read_text("utf-8"))
    assert (record["machine"], record["found"]["HalfCheetah-v5"]) == (OLD, older)
    assert record["found"]["CartPole-v1"]["machine"] == NEW


@pytest.mark.parametrize("script", ["bc_grid"], indirect=True)
def test_bcs_grid(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(iter(script.SETTINGS))
    script.RECORD.write_text(
        json.dumps({"machine": OLD, "results": {"Pendulum": {name: {"10": {"mean": 1.0}}}}})
    )
    monkeypatch.setattr(script, "recorded", lambda *_: Path())
    monkeypatch.setattr(script, "measure", lambda *_: {"mean": 2.0})
    script.main(settings=(name,), tasks=("Pendulum",), seeds=(10, 11))
    record = json.loads(script.RECORD.read_text("utf-8"))
    runs = record["results"]["Pendulum"][name]
    assert (record["machine"], runs["10"]) == (OLD, {"mean": 1.0})
    assert (runs["11"]["mean"], runs["11"]["machine"]) == (2.0, NEW)


@pytest.mark.parametrize("script", ["bc_grid"], indirect=True)
def test_bcs_grid_perturbs_what_learns(script: Any, tmp_path: Path) -> None:
    envs = SyncVecEnv([lambda: make_env("CartPole-v1")])
    info = DemoInfo("CartPole-v1", envs.single_observation_space, envs.single_action_space, seed=0)
    collect(lambda obs: np.ones(len(obs), int), envs, tmp_path / "demos.h5", info, episodes=2).close()
    losses = []
    with DemoReader(tmp_path / "demos.h5") as demos:
        for setting in (script.Setting({}), script.Setting({}, dropout=0.5), script.Setting({}, noise=1.0)):
            learner = script.BC(script.BCConfig(max_updates=3), demos=demos, seed=0)
            script.perturb(learner, setting)
            losses.append(learner.step()["loss"])
    assert len(set(losses)) == 3


@pytest.mark.parametrize("script", ["aggrevated"], indirect=True)
def test_forms_of_aggrevated(script: Any) -> None:
    script.RECORD.write_text(json.dumps({"versions": {"torch": "old"}, "CartPole-v1": {"budget": 1}}))
    script.keep("Acrobot-v1", {"budget": 2})
    record = json.loads(script.RECORD.read_text("utf-8"))
    assert (record["versions"], record["CartPole-v1"]) == ({"torch": "old"}, {"budget": 1})
    assert record["Acrobot-v1"]["machine"] == NEW
