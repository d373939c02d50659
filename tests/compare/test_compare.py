"""`compare` from the first refusal to the report, in a folder that it can go on in."""

from __future__ import annotations

import json
import logging
import multiprocessing
import signal
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from comparisons import QUICK, comparison
from forked import Script

from imitate.compare import Comparison, compare
from imitate.compare.execute.carry_out import carry_out
from imitate.compare.plan.comparison import jobs
from imitate.envs.make import make_env
from imitate.errors import InputError
from imitate.files import lock, write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import save_policy


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"budget": 400},
            "budget of 400 steps is too small: an episode takes 500 steps; give at least 501",
        ),
        ({"expert": "CartPole-v1:pop"}, "no expert 'CartPole-v1:pop'"),
        ({"expert": "Pendulum-v1"}, "Pendulum-v1"),
        ({"hyperparameters": {"ppo": {"learning_rat": 1}}}, "no hyperparameter 'learning_rat'; did you mean"),
    ],
)
def test_what_can_not_be_carried_out_is_refused_before_anything_is_written(
    tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        carry_out(comparison("dagger", "ppo", **({"hyperparameters": {}} | fields)), tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_learner_that_can_not_act_here_is_refused_before_anything_runs(tmp_path: Path) -> None:
    wanted = Comparison("Pendulum-v1", ("bc", "dqn"), expert="Pendulum-v1", seeds=1)
    with pytest.raises(InputError, match="dqn wants discrete actions, got Box"):
        carry_out(wanted, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_environment_is_made_as_the_expert_knows_it(tmp_path: Path) -> None:
    """The expert observes the time left, which only these keywords bring. It is measured, and then 100 steps are too
    few for an episode."""
    keywords = {"time_feature": True, "max_episode_steps": 120}
    with closing(make_env("Pendulum-v1", keywords)) as env:
        save_policy(tmp_path / "run" / "policy", ActorPolicy(env.observation_space, env.action_space))
    config = {"algorithm": "bc", "env_id": "Pendulum-v1", "env_kwargs": keywords}
    write_json(tmp_path / "run" / "config.json", config)
    wanted = Comparison(
        "Pendulum-v1", ("bc",), str(tmp_path / "run"), seeds=1, budget=100, episodes=2, curve_episodes=2
    )
    with pytest.raises(InputError, match="a budget of 100 steps is too small: an episode takes 120 steps"):
        carry_out(wanted, tmp_path / "out")


def test_two_comparisons_in_one_folder_are_refused(tmp_path: Path) -> None:
    wanted = comparison("ppo", expert=None)
    write_json(tmp_path / "comparison.json", wanted.to_json())
    with lock(tmp_path, "a comparison"), pytest.raises(InputError, match=r"at work in .*: wait for it"):
        carry_out(wanted, tmp_path)


def test_another_folder_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match="exists and is no comparison; choose another --out"):
        carry_out(comparison("ppo"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


SHORT = {"max_episode_steps": 50}


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_from_the_expert_to_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "report"
    settings = QUICK | {"ppo": {"num_steps": 8}}
    wanted = comparison(
        "bc", "dagger", "ppo", hyperparameters=settings, curve_episodes=1, budget=400, env_kwargs=SHORT
    )
    with caplog.at_level(logging.INFO):
        page = compare(wanted, out, workers=2)
    assert page == out / "report.html"
    assert page.stat().st_size > 50_000
    assert any("random actions: mean return" in message for message in caplog.messages)
    assert any("measured 50.0" in message for message in caplog.messages)
    assert not (out / "errors").exists()
    summary = json.loads((out / "summary.json").read_text("utf-8"))
    bc, dagger, ppo = (summary["algorithms"][name] for name in ("bc", "dagger", "ppo"))
    for learner in (bc, dagger, ppo):
        assert 0.9 * 400 <= learner["env_steps"] + learner["demo_steps"] <= 400
        assert learner["cpu_seconds"] > 0
        assert len(learner["curve"]["budget_steps"]) == 17
    assert (bc["demo_steps"], bc["env_steps"], bc["expert_queries"]) == (400, 0, 400)
    assert dagger["expert_queries"] == dagger["env_steps"]
    assert (ppo["expert_queries"], ppo["demo_steps"]) == (0, 0)
    # BC is trained anew on 1/8, 1/4, 1/2 and all; 1/16 is no episode.
    assert bc["curve"]["budget_steps"] == [0] * 2 + [50] * 2 + [100] * 4 + [200] * 8 + [400]
    steps = ppo["curve"]["budget_steps"]
    assert steps == sorted(steps)
    assert all(n * 25 <= step < n * 25 + 64 for n, step in enumerate(steps[:-1]))
    assert {path.stem for path in (out / "videos").glob("*.mp4")} == {"expert", "bc", "dagger", "ppo"}
    results = [path.stat().st_mtime_ns for path in (out / "runs").glob("*/result.json")]
    assert (out / "videos" / "expert.mp4").stat().st_mtime_ns > max(results)  # no run waits for films
    assert page.read_text("utf-8").count("data:video/mp4") == 4
    assert page.read_text("utf-8").count("data:image/jpeg") == 4
    assert not list((out / "runs").glob("*/snapshots"))

    # Again: nothing is left to do. Another budget in its place: refused.
    times = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    compare(wanted, out, workers=1)
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == times
    with pytest.raises(InputError, match="holds another comparison: its budget is 400, not 1000"):
        compare(replace(wanted, budget=1_000), out)

    # More test episodes, and a seed of PPO: what is there is not trained again.
    policies = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("policy.safetensors")}
    grow: dict[str, Any] = {
        "algorithms": ("bc", "ppo"),
        "hyperparameters": {name: settings[name] for name in ("bc", "ppo")},
        "episodes": 6,
        "seeds": 2,
    }
    compare(replace(wanted, **grow), out, workers=1)
    assert {path: path.stat().st_mtime_ns for path in policies} == policies
    grown = json.loads((out / "summary.json").read_text("utf-8"))["algorithms"]
    assert list(grown) == ["bc", "ppo"]
    assert grown["ppo"]["seeds"] == [0, 1]
    results = [json.loads(path.read_text("utf-8")) for path in (out / "runs").glob("ppo-*/result.json")]
    assert [len(result["returns"]) for result in results] == [6, 6]


@pytest.mark.usefixtures("inline")
def test_demonstrations_that_are_gone_are_recorded_again_if_a_learner_needs_them(tmp_path: Path) -> None:
    """A scratch folder may be cleaned of large files."""
    wanted = comparison("bc", budget=200, episodes=2, curve_episodes=1, env_kwargs=SHORT)
    carry_out(wanted, tmp_path, workers=1)
    (demos,) = (tmp_path / "demos").glob("*.h5")
    recorded = demos.read_bytes()
    demos.unlink()
    carry_out(wanted, tmp_path, workers=1)
    assert not demos.exists()  # its learner is done
    carry_out(replace(wanted, algorithms=("bc", "gail")), tmp_path, workers=1)
    assert demos.read_bytes() == recorded
    assert not (tmp_path / "errors").exists()


SCRIPT = """
import sys
from pathlib import Path
from imitate.compare import Comparison
from imitate.compare.execute.carry_out import carry_out
wanted = Comparison("CartPole-v1", ("ppo",), seeds=1, budget=1_500, episodes=2, curve_episodes=1)
carry_out(wanted, Path(sys.argv[1]), workers=1)
"""


@pytest.mark.usefixtures("inline")
def test_interrupted_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """The script that is interrupted has workers of its own."""
    out = tmp_path / "out"
    wanted = Comparison("CartPole-v1", ("ppo",), seeds=1, budget=1_500, episodes=2, curve_episodes=1)
    (job,) = jobs(wanted, out, 500)
    metrics, result = job.folder / "metrics.jsonl", job.folder / "result.json"
    (tmp_path / "torch.py").write_text("from pathlib import Path; Path('ran').touch()")
    with Script(SCRIPT, str(out), cwd=tmp_path) as process:
        end = time.monotonic() + 200
        while not (metrics.exists() and metrics.stat().st_size):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        assert process.wait() != 0
    assert said.strip().endswith("KeyboardInterrupt")  # the command line says it in its own words
    assert said.count("Traceback") == 1  # no worker's
    assert not result.exists()
    assert not (out / "errors").exists()
    assert not (tmp_path / "ran").exists()  # the server of workers imports nothing from the current folder
    done = metrics.read_bytes()
    carry_out(wanted, out, workers=1)
    assert metrics.read_bytes().startswith(done)
    assert len(metrics.read_bytes()) > len(done)
    assert result.exists()


def test_anything_else_than_a_comparison_or_a_suite_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="takes a Comparison or a Suite, got dict: make one"):
        compare({"env_id": "CartPole-v1"}, tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_worker_that_imports_a_script_without_a_guard_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_inheriting", True, raising=False)
    with pytest.raises(InputError, match="call compare under `if __name__ =="):
        compare(Comparison("CartPole-v1", ("ppo",)), tmp_path)
