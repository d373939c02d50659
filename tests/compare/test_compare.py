"""Compare: who gets how many steps, and jobs in parallel that fail alone, stop cleanly and go on."""

from __future__ import annotations

import itertools
import json
import logging
import signal
import time
import tomllib
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import Script
from tasks import die, double

from imitate.compare import Comparison, compare
from imitate.compare.backends import Task
from imitate.compare.backends.pool import Pool
from imitate.compare.backends.processes import Processes
from imitate.compare.execute import worker
from imitate.compare.execute.carry_out import carry_out
from imitate.compare.execute.recording import in_order
from imitate.compare.execute.training import Trained, training
from imitate.compare.plan.comparison import Job, jobs
from imitate.compare.plan.toml import as_toml
from imitate.compare.statistics.job_results import Result
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.files import lock, write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import save_policy

EXPERT = "CartPole-v1:ppo"
QUICK: dict[str, Any] = {"bc": {"max_epochs": 2}, "dagger": {"updates_per_iteration": 20}}


def comparison(*algorithms: str, **fields: Any) -> Comparison:
    hyperparameters = {name: QUICK[name] for name in algorithms if name in QUICK}
    settings: dict[str, Any] = {
        "expert": EXPERT,
        "seeds": 1,
        "budget": 4_000,
        "episodes": 4,
        "curve_episodes": 3,
    }
    return Comparison(
        "CartPole-v1",
        **({"algorithms": algorithms} | settings | {"hyperparameters": hyperparameters} | fields),
    )


def run(wanted: Comparison, job: Job) -> Trained:
    found = training(wanted, job)
    assert isinstance(found, Trained)
    return found


# --- plan


def test_everybody_gets_the_budget() -> None:
    wanted = comparison("bc", "dagger", "ppo", seeds=2, budget=20_000)
    planned = jobs(wanted, Path("out"), episode_steps=100)
    assert [job.name for job in planned] == [
        "demos-seed0", "demos-seed1",
        "bc-seed0", "dagger-seed0", "ppo-seed0", "bc-seed1", "dagger-seed1", "ppo-seed1",
    ]  # fmt: skip
    assert {job.steps for job in planned} == {20_000}
    bc, dagger = planned[2], planned[3]
    assert bc.demos == planned[0].demos
    assert str(bc.demos).startswith("out/demos/seed0-")
    assert dagger.demos is None
    assert {run(wanted, job).run.eval_every for job in planned[2:]} == {0}  # one rule for all


def test_no_demonstrations_are_recorded_for_rl() -> None:
    planned = jobs(comparison("ppo", expert=None), Path("out"), episode_steps=100)
    assert [job.name for job in planned] == ["ppo-seed0"]


def test_a_run_has_the_place_of_what_decides_it() -> None:
    def places(**changes: Any) -> dict[str, Path]:
        wanted = comparison("bc", "ppo", **changes)
        return {job.name: job.folder for job in jobs(wanted, Path("out"), 100) if not job.records}

    first = places()
    assert places(seeds=2, episodes=50, algorithms=("bc", "ppo", "dagger")).items() >= first.items()
    other = places(hyperparameters={"ppo": {"gamma": 0.9}, "bc": QUICK["bc"]})
    assert other["bc-seed0"] == first["bc-seed0"]
    assert other["ppo-seed0"] != first["ppo-seed0"]
    assert not set(places(budget=5_000).values()) & set(first.values())


def test_iterations_are_made_short_enough_to_learn_several_times() -> None:
    """LunarLander's preset has rollouts of 32 x 128 = 4,096 steps, for a budget of 1.5 M."""
    wanted = Comparison("LunarLander-v3", ("ppo",), seeds=1, budget=20_000)
    (job,) = jobs(wanted, Path("out"), 100)
    chosen, notes = run(wanted, job).run, run(wanted, job).notes
    rollout = chosen.num_envs * chosen.hyperparameters["num_steps"]
    assert 500 <= rollout <= 1_000  # a twentieth of the budget
    assert chosen.hyperparameters["batch_size"] <= rollout
    assert chosen.hyperparameters["total_steps"] == 20_000
    assert notes[0] == "preset made for another budget: 1,500,000 steps"
    given = replace(wanted, hyperparameters={"ppo": {"num_steps": 512}}, num_envs=4)
    kept = run(given, job).run
    assert (kept.num_envs, kept.hyperparameters["num_steps"]) == (4, 512)  # what the user says stays


def test_seeds_of_demonstrations_validation_and_test_differ() -> None:
    bases = [draw_seed(stream, seed) for stream in Stream for seed in [*range(10), 10_000, 20_000]]
    drawn = [seed for base in [*bases, TEST_SEED] for seed in itertools.islice(episode_seeds(base), 200)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithms": ("bc", "dager")}, "unknown algorithm 'dager'; did you mean 'dagger'"),
        ({"algorithms": ("bc", "bc")}, "'bc' is named twice"),
        ({"algorithms": ()}, "no algorithm to compare; known: bc"),
        ({"env_id": "CartPol-v1"}, "unknown environment 'CartPol-v1'; did you mean 'CartPole-v1'"),
        ({"expert": None}, "bc needs an expert: name one with --expert"),
        ({"budget": 10}, "budget must be at least 100, got 10"),
        ({"seeds": 0}, r"seeds must be in \[1, 10000\], got 0"),
        ({"hyperparameters": {"ppo": {}}}, "hyperparameters of 'ppo', which is not in this comparison"),
    ],
)
def test_bad_comparisons_are_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        replace(comparison("bc"), **change)
    assert "\n" not in str(error.value)


def test_a_changed_comparison_keeps_what_still_matters() -> None:
    wanted = comparison("bc", "dagger", "ppo")
    assert wanted.changed(["dqn"], seeds=3) == replace(
        wanted, algorithms=("bc", "dagger", "ppo", "dqn"), seeds=3
    )
    assert wanted.changed(algorithms=["ppo", "bc"]).hyperparameters == {"bc": QUICK["bc"]}


def test_a_comparison_survives_json() -> None:
    wanted = comparison("bc", "ppo", env_kwargs={"sutton_barto_reward": True})
    assert Comparison.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert tomllib.loads(as_toml(wanted.to_json())) == {
        k: v for k, v in wanted.to_json().items() if v is not None
    }
    assert wanted.command == (
        "imitate compare --env CartPole-v1 --env-kwargs '{\"sutton_barto_reward\": true}' --expert "
        "CartPole-v1:ppo --algorithms bc ppo --seeds 1 --budget 4000 --episodes 4 --curve-episodes 3 "
        '--hyperparameters \'{"bc": {"max_epochs": 2}}\' --out report'
    )


def test_settings_survive_toml() -> None:
    """All but None, which TOML does not have."""
    settings = {
        "my:Own @wide": {
            "lr": 1e-7,
            "on": True,
            "none": None,
            "hidden": (64, 64),
            "empty": {},
            "a\x7f": "\x7f",
        }
    }
    read = tomllib.loads(as_toml({"hyperparameters": settings, "env_kwargs": {}, "expert": None, "seeds": 5}))
    kept = {"lr": 1e-7, "on": True, "hidden": [64, 64], "empty": {}, "a\x7f": "\x7f"}
    assert read == {"hyperparameters": {"my:Own @wide": kept}, "seeds": 5}


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
    keywords = {"time_feature": True}
    with closing(make_env("Pendulum-v1", keywords)) as env:
        save_policy(tmp_path / "run" / "policy", ActorPolicy(env.observation_space, env.action_space))
    config = {"algorithm": "bc", "env_id": "Pendulum-v1", "env_kwargs": keywords}
    write_json(tmp_path / "run" / "config.json", config)
    wanted = Comparison(
        "Pendulum-v1", ("bc",), str(tmp_path / "run"), seeds=1, budget=100, episodes=2, curve_episodes=2
    )
    with pytest.raises(InputError, match="a budget of 100 steps is too small: an episode takes 200 steps"):
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


# --- work


def trajectory(seed: int, steps: int) -> Trajectory:
    obs, rewards = np.zeros((steps + 1, 4), np.float32), np.ones(steps, np.float32)
    return Trajectory(obs, np.zeros(steps, int), rewards, True, False, {"seed": seed})


def test_demonstrations_are_the_first_in_the_order_of_their_seeds() -> None:
    seeds = list(itertools.islice(episode_seeds(5), 4))
    finished = [trajectory(seeds[n], 1 + n) for n in (1, 0, 3, 2)]  # as they end
    ordered = itertools.islice(in_order(iter(finished), 5), 4)
    assert [len(episode) for episode in ordered] == [1, 2, 3, 4]


def test_recording_spends_no_more_than_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "demos" / "seed0.h5"
    reports: list[int] = []
    worker.record(comparison("bc"), Job("demos", 0, path.parent, 1_300, path), reports.append)
    with DemoReader(path) as demos:
        assert demos.lengths.tolist() == [500, 500]  # a third one would be too much
        assert demos.table["seed"].tolist() == list(
            itertools.islice(episode_seeds(draw_seed(Stream.DEMONSTRATIONS, 0)), 2)
        )
    assert reports == [500, 1_000]
    assert sorted(file.name for file in path.parent.iterdir()) == ["seed0.h5", "seed0.json"]


def test_learners_with_an_environment_keep_most_of_the_budget_for_it(tmp_path: Path) -> None:
    """The expert's first ten episodes are 5,000 steps, more than all: two are a quarter of the budget."""
    wanted = comparison("gail", episodes=2, curve_episodes=1)
    planned = [job for job in jobs(wanted, tmp_path, 500) if ":" not in job.name]
    for job in planned:
        (worker.record if job.records else worker.train_and_measure)(wanted, job, lambda _steps: None)
    found = Result.load(planned[-1].folder)
    assert found is not None
    assert (found.demo_steps, found.expert_queries) == (1_000, 1_000)
    assert 2_000 < found.env_steps <= 3_000


# --- pool


def test_jobs_fail_alone(tmp_path: Path) -> None:
    with Processes(1) as backend:
        pool = Pool(backend, tmp_path)
        for value in (1, -1, 99, 3):
            pool.submit(Task(f"job {value}", double, (value,), root=tmp_path))
        ended: list[str] = []
        while pool.running:
            ended += pool.ended()
        names = ["job -1", "job 1", "job 3", "job 99"]
        assert sorted(ended) == names
        assert (tmp_path / "1").read_text() == "2"
        assert (tmp_path / "3").read_text() == "6"
        news: dict[str, int] = {}
        deadline = (
            time.monotonic() + 30
        )  # a worker's queue is emptied by a thread: news may come after the end
        while sorted(news) != names and time.monotonic() < deadline:
            news |= dict(pool.news())
        assert sorted(news) == names
        assert pool.failed("job 1") is None
        assert pool.failed("job -1") == "job -1: a negative value"
        assert pool.failed("job 99") == "job 99: RuntimeError: two lines"
        assert "Traceback" in json.loads((tmp_path / "errors" / "job-99.json").read_text())["traceback"]


def test_a_killed_worker_is_a_failure_of_its_job(tmp_path: Path) -> None:
    with Processes(1) as backend:
        pool = Pool(backend, tmp_path)
        pool.submit(Task("job", die))
        while pool.running:
            list(pool.ended())
        assert "its process died" in str(pool.failed("job"))


# --- execute


def test_a_comparison_from_the_expert_to_the_report(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "report"
    wanted = comparison("bc", "dagger", "ppo", curve_episodes=1)
    with caplog.at_level(logging.INFO):
        page = compare(wanted, out, workers=2)
    assert page == out / "report.html"
    assert page.stat().st_size > 50_000
    assert any("random actions: mean return" in message for message in caplog.messages)
    assert any("measured 500.0" in message for message in caplog.messages)
    assert not (out / "errors").exists()
    summary = json.loads((out / "summary.json").read_text())
    bc, dagger, ppo = (summary["algorithms"][name] for name in ("bc", "dagger", "ppo"))
    for learner in (bc, dagger, ppo):
        assert 0.9 * 4_000 <= learner["env_steps"] + learner["demo_steps"] <= 4_000
        assert learner["cpu_seconds"] > 0
        assert len(learner["curve"]["budget_steps"]) == 17
    assert (bc["demo_steps"], bc["env_steps"], bc["expert_queries"]) == (4_000, 0, 4_000)
    assert dagger["expert_queries"] == dagger["env_steps"]
    assert (ppo["expert_queries"], ppo["demo_steps"]) == (0, 0)
    # BC is trained anew on 1/8, 1/4, 1/2 and all; 1/16 is no episode.
    assert bc["curve"]["budget_steps"] == [0] * 2 + [500] * 2 + [1_000] * 4 + [2_000] * 8 + [4_000]
    steps = ppo["curve"]["budget_steps"]
    assert steps == sorted(steps)
    assert all(n * 250 <= step < n * 250 + 256 for n, step in enumerate(steps[:-1]))
    assert {path.stem for path in (out / "videos").glob("*.mp4")} == {"expert", "bc", "dagger", "ppo"}
    assert page.read_text("utf-8").count("data:video/mp4") == 4
    assert page.read_text("utf-8").count("data:image/jpeg") == 4
    assert not list((out / "runs").glob("*/snapshots"))

    # Again: nothing is left to do. Another budget in its place: refused.
    times = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    compare(wanted, out, workers=1)
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == times
    with pytest.raises(InputError, match="holds another comparison: its budget is 4000, not 5000"):
        compare(replace(wanted, budget=5_000), out)

    # More test episodes, and a seed of PPO: what is there is not trained again.
    policies = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("policy.safetensors")}
    grow: dict[str, Any] = {
        "algorithms": ("bc", "ppo"),
        "hyperparameters": {"bc": QUICK["bc"]},
        "episodes": 6,
        "seeds": 2,
    }
    compare(replace(wanted, **grow), out, workers=1)
    assert {path: path.stat().st_mtime_ns for path in policies} == policies
    grown = json.loads((out / "summary.json").read_text())["algorithms"]
    assert list(grown) == ["bc", "ppo"]
    assert grown["ppo"]["seeds"] == [0, 1]
    results = [json.loads(path.read_text()) for path in (out / "runs").glob("ppo-*/result.json")]
    assert [len(result["returns"]) for result in results] == [6, 6]


SCRIPT = """
import sys
from pathlib import Path
from imitate.compare import Comparison
from imitate.compare.execute.carry_out import carry_out
wanted = Comparison("CartPole-v1", ("ppo",), seeds=1, budget=6_000, episodes=2, curve_episodes=1)
carry_out(wanted, Path(sys.argv[1]), workers=1)
"""


def test_interrupted_it_goes_on_where_it_stopped(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wanted = Comparison("CartPole-v1", ("ppo",), seeds=1, budget=6_000, episodes=2, curve_episodes=1)
    (job,) = jobs(wanted, out, 500)
    metrics, result = job.folder / "metrics.jsonl", job.folder / "result.json"
    with Script(SCRIPT, str(out)) as process:
        end = time.monotonic() + 60
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
    done = metrics.read_bytes()
    carry_out(wanted, out, workers=1)
    assert metrics.read_bytes().startswith(done)
    assert len(metrics.read_bytes()) > len(done)
    assert result.exists()
