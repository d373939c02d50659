"""`imitate reproduce`: the list, the verdict, the exit status; every short row really runs (slow)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

import imitate.commands.reproduce as module
from imitate.cli import main
from imitate.errors import InputError
from imitate.reproduce.experiments import read_experiments
from imitate.reproduce.rows import Row
from imitate.reproduce.run_row import run_seed
from imitate.reproduce.summaries import Summary, read_summaries


@pytest.fixture
def returns(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Means by a part of a row's commands, instead of running them; anything else makes 500."""
    means: dict[str, float] = {}

    def run_seed(commands: list[str], folder: Path) -> dict[str, Any]:
        (folder / "run").mkdir()
        said = "; ".join(commands)
        return {"mean": next((mean for part, mean in means.items() if part in said), 500.0)}

    monkeypatch.setattr(module, "run_seed", run_seed)
    return means


def test_the_list_has_figures_and_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("ppo-cartpole ")]
    assert "500.0 to 500.0" in line
    assert "10 minutes" in line
    assert main(["reproduce", "--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ppo-cartpole"]["mean"] == 500.0


def test_named_rows_are_listed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "ppo-cartpole"]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("ppo-cartpole ")


def test_every_row_has_a_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in lines if not line.endswith(("minutes", "hour", "night", "days", "(estimated)"))
    ] == []


def test_rows_that_were_not_run_yet_have_an_estimated_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {
        "ppo-cartpole": Row("PPO", "ppo", "CartPole-v1", core_minutes=61),
        "ppo-pendulum": Row("PPO", "ppo", "Pendulum-v1", core_minutes=9),
    }
    monkeypatch.setattr(module, "read_rows", lambda: known)
    monkeypatch.setattr(module, "read_summaries", dict)
    assert main(["reproduce", "--list"]) == 0
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("not run yet     61.0  a night (estimated)")
    assert second.endswith("9.0  10 minutes (estimated)")


@pytest.mark.usefixtures("returns")
def test_a_row_that_agrees(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["reproduce", "ppo-cartpole", "--seeds", "2", "--out", str(tmp_path)]) == 0
    assert "500.0 (2 seeds)" in capsys.readouterr().out
    assert (tmp_path / "ppo-cartpole" / "1001" / "run").is_dir()


def in_this_process(words: list[str], cwd: Path, **_: Any) -> bytes:
    """The output of a row's command, without starting a process."""
    said = io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(said):
        assert main(words[3:]) == 0
    return said.getvalue().encode()


def test_an_interrupted_row_goes_on_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is recorded or trained twice, and what is measured is what an uninterrupted run makes."""
    monkeypatch.setattr("imitate.reproduce.rows.EPISODES", 2)
    monkeypatch.setattr("imitate.reproduce.run_row._run", in_this_process)
    options = "--max-updates 20 --eval-every 0 --no-looks"
    row = Row("BC", "bc", "CartPole-v1", expert="CartPole-v1", demos=2, options=options)
    whole = run_seed(row.commands(7), tmp_path)
    written = (
        (tmp_path / "demos.h5").stat().st_mtime_ns,
        (tmp_path / "run" / "finished.json").stat().st_mtime_ns,
    )
    assert run_seed(row.commands(7), tmp_path)["returns"] == whole["returns"]
    assert written == tuple(
        (tmp_path / name).stat().st_mtime_ns for name in ("demos.h5", "run/finished.json")
    )
    (tmp_path / "run" / "finished.json").unlink()  # as if it was killed before
    assert run_seed(row.commands(7), tmp_path)["returns"] == whole["returns"]
    assert (tmp_path / "run" / "finished.json").exists()
    with pytest.raises(InputError, match="is of other commands or versions: choose another --out"):
        run_seed(row.commands(8), tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("imitate.reproduce.run_row.versions", dict)
        with pytest.raises(InputError, match="is of other commands or versions"):
            run_seed(row.commands(7), tmp_path)
    with pytest.raises(InputError, match="holds something else"):
        run_seed(row.commands(7), tmp_path / "run")


def test_a_relative_zoo_is_found_from_a_rows_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def run(_: list[str], env: dict[str, str], **__: Any) -> bytes:
        found.append(env["IMITATE_ZOO_DIR"])
        return b"{}"

    monkeypatch.setattr("imitate.reproduce.run_row._run", run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IMITATE_ZOO_DIR", os.pathsep.join(["zoo", "/another"]))
    run_seed(["imitate evaluate zoo:dqn/Acrobot-v1 --json"], tmp_path)
    assert found == [os.pathsep.join([str(tmp_path / "zoo"), "/another"])]


@pytest.mark.usefixtures("returns")
def test_a_record_of_other_settings_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "qdagger-cartpole-dqn-without-layer-norm", "--seeds", "1"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("; the record is of other settings: without layer norm")
    main(["reproduce", "ppo-cartpole", "--seeds", "1"])
    assert "other settings" not in capsys.readouterr().out


def test_a_row_outside_its_interval(capsys: pytest.CaptureFixture[str], returns: dict[str, float]) -> None:
    returns["--seed 1000"] = 499.0
    assert main(["reproduce", "ppo-cartpole"]) == 1
    assert "OUTSIDE 500.0 to 500.0, a point, since its seeds are all alike" in capsys.readouterr().out


def test_a_mean_that_the_summary_rounds_agrees_with_itself(
    capsys: pytest.CaptureFixture[str], returns: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three seeds that all make -254 / 3, which is -84.667 in summaries.json: a point, 0.0003 away."""
    alike = {"ppo-acrobot": Summary((-84.667,) * 3, None, None, -500.0, 1, 1.0)}
    monkeypatch.setattr(module, "read_summaries", lambda: alike)
    returns["--seed 1000"] = -254 / 3
    assert main(["reproduce", "ppo-acrobot"]) == 0
    assert "inside" in capsys.readouterr().out


def test_the_failing_form_runs_beside_the_working_one(
    capsys: pytest.CaptureFixture[str], returns: dict[str, float]
) -> None:
    returns["--reward positive"] = 9.0
    main(["reproduce", "gail-cartpole-30-pairs", "--failing", "--json"])
    means = {each["row"]: each["means"] for each in json.loads(capsys.readouterr().out)}
    assert means == {"gail-cartpole-30-pairs": [500.0], "gail-cartpole-30-pairs-positive": [9.0]}


@pytest.mark.usefixtures("returns")
@pytest.mark.parametrize("row", ["ppo-acrobot", "gail-cartpole-30-pairs-positive"])
def test_a_row_without_a_failing_form_runs_alone(
    row: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """One that is in no experiment, and one that is itself a failing form."""
    with caplog.at_level("INFO"):
        main(["reproduce", row, "--failing"])
    assert f"no row is a failing form of {row}" in caplog.messages
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{row}: 500.0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which rows?"),
        (["ppo-cartpol"], "did you mean 'ppo-cartpole'"),
        (["ppo-cartpol", "--list"], "did you mean 'ppo-cartpole'"),
        (["ppo-cartpole", "--seeds", "0"], "--seeds must be at least 1, got 0"),
    ],
)
def test_mistakes_get_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", [name for name, each in read_summaries().items() if each.minutes <= 10])
def test_every_row_under_ten_minutes_runs(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One in twenty lies outside by chance, so only the commands are checked, and that something was learned, unless
    the row is there because it fails."""
    assert main(["reproduce", row, "--json"]) in (0, 1)
    (found,) = json.loads(capsys.readouterr().out)
    fails = any(row in each.failing for each in read_experiments())
    assert fails or found["means"][0] > read_summaries()[row].random


SCRIPTS = {each.number: each.scripts for each in read_experiments() if "imitate " in "".join(each.scripts)}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", SCRIPTS)
def test_an_experiments_other_commands_run(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any("--backend ray" in command for command in SCRIPTS[number]):
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    for command in SCRIPTS[number]:
        assert main(shlex.split(command)[1:]) == 0


def test_a_run_of_stable_baselines3_is_recorded_with_its_settings_and_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imitate.reproduce.run_row._run", in_this_process)
    train = (
        "imitate expert train --algo dqn --env CartPole-v1 --steps 1100 --eval-episodes 1 --seed 7 --out run"
    )
    found = run_seed([train, "imitate evaluate run --episodes 2 --json"], tmp_path)
    assert found["env_steps"] == 1100
    assert found["config"]["learning_starts"] == 1000  # the zoo's
    assert len(found["returns"]) == 2
