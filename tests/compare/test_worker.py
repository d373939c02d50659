"""One job of a comparison: recording within its steps, training within its budget."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from comparisons import comparison
from forked import run
from reported import fill

from imitate.compare.execute import worker
from imitate.compare.execute.recording import affordable_episodes, in_order, recorded
from imitate.compare.execute.training import training
from imitate.compare.plan.comparison import Comparison, Job, jobs
from imitate.compare.report.report import write_report
from imitate.compare.statistics.job_results import MetricsRow, Result
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.seeds import Stream, draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.files import read_json

SHORT = {"max_episode_steps": 100}


def trajectory(seed: int, steps: int) -> Trajectory:
    obs, rewards = np.zeros((steps + 1, 4), np.float32), np.ones(steps, np.float32)
    return Trajectory(obs, np.zeros(steps, int), rewards, True, False, {"seed": seed})


def test_demonstrations_are_the_first_in_the_order_of_their_seeds() -> None:
    seeds = list(itertools.islice(episode_seeds(5), 4))
    finished = [trajectory(seeds[n], 1 + n) for n in (1, 0, 3, 2)]  # as they end
    ordered = itertools.islice(in_order(iter(finished), 5), 4)
    assert [len(episode) for episode in ordered] == [1, 2, 3, 4]


def test_episodes_of_one_seed_may_wait_at_once() -> None:
    """Seeds have 31 bits: those of episodes 877 and 1223 of collection 272 are the same. Episode 0 ends last."""
    seeds = list(itertools.islice(episode_seeds(272), 1225))
    finished = (trajectory(seeds[n], 1) for n in (*range(1, 1225), 0))
    ordered = itertools.islice(in_order(finished, 272), 1225)
    assert [episode.info["seed"] for episode in ordered] == seeds


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
    """The expert's first ten episodes are 1,000 steps, more than all: two are a quarter of the budget."""
    wanted = comparison("gail", budget=800, episodes=2, curve_episodes=1, env_kwargs=SHORT)
    planned = [job for job in jobs(wanted, tmp_path, 100) if ":" not in job.name]
    for job in planned:
        (worker.record if job.records else worker.train_and_measure)(wanted, job, lambda _steps: None)
    found = Result.load(planned[-1].folder)
    assert found is not None
    assert (found.demo_steps, found.expert_queries) == (200, 200)
    assert 400 < found.env_steps <= 600


def test_a_controls_first_demonstration_may_be_longer_than_the_experts(tmp_path: Path) -> None:
    """Pendulum's episodes take 200 steps; the expert's are said to take 150, and only the budget is a limit."""
    for budget in (1_000, 150):
        wanted = Comparison("Pendulum-v1", ("gail",), "Pendulum-v1", budget=budget, demo_episodes=1)
        control = next(job for job in jobs(wanted, tmp_path, 150) if job.name == "demos:random-seed0")
        assert control.steps == 150
        if budget == 1_000:
            worker.record(wanted, control, lambda _steps: None)
            assert recorded(control).steps == 200
        else:
            with pytest.raises(InputError, match="one episode of random takes more than the budget of 150 "):
                worker.record(wanted, control, lambda _steps: None)


@pytest.mark.usefixtures("undrawn")
def test_a_first_demonstration_longer_than_a_quarter_of_the_budget_is_given(tmp_path: Path) -> None:
    """Episodes of 500 steps, of 1,000 in all; the page says so."""
    wanted = comparison("gail", budget=1_000)
    demos, learner = (job for job in jobs(wanted, tmp_path, 500) if ":" not in job.name)
    worker.record(wanted, demos, lambda _steps: None)
    assert affordable_episodes(wanted, learner) == 1
    page = write_report(fill(tmp_path / "out", {"gail": [[1.0, 2.0]]})).read_text("utf-8")
    assert "as many as a quarter of the budget pays for but at least one." in page


def test_nothing_is_trained_again_on_all_demonstrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two episodes of 100 steps are a quarter of the budget, and one is an eighth."""
    trained = []
    monkeypatch.setattr(worker, "training", lambda *given: trained.append(given[2]) or training(*given))
    settings = {"bc": {"max_updates": 20}}
    given = {"budget": 800, "demo_episodes": 2, "episodes": 2, "curve_episodes": 1}
    wanted = comparison("bc", hyperparameters=settings, env_kwargs=SHORT, **given)
    planned = jobs(wanted, tmp_path, 100)
    for job in planned:
        (worker.record if job.records else worker.train_and_measure)(wanted, job, lambda _steps: None)
    found = Result.load(planned[-1].folder)
    assert found is not None
    assert trained == [2, 1]
    assert [point.steps for point in found.curve] == [0, 0, 100, 100, *[200] * 13]
    assert len({tuple(point.returns) for point in found.curve[4:]}) == 1
    assert {point.cpu_seconds for point in found.curve[4:]} == {found.cpu_seconds}
    training_seconds = read_json(planned[-1].folder / "timing.json", dict[str, float])["cpu_seconds"]
    assert found.cpu_seconds == training_seconds + recorded(planned[0]).cpu_seconds


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no server of workers")
def test_a_worker_starts_without_modules_that_few_runs_need() -> None:
    """scipy.stats takes half a second."""
    unwanted = ("scipy.stats", "stable_baselines3", "matplotlib.figure")
    done = run(f"import sys; print([name for name in {unwanted} if name in sys.modules])")
    assert done.stdout == "[]\n"


def test_a_line_of_metrics_is_read_within_bounds(tmp_path: Path) -> None:
    """The long one is a row too, with blanks."""
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"budget_steps": 1}\n{"budget_steps": 2' + " " * (1 << 16) + "}\n")
    rows = MetricsRow.every(metrics)
    assert next(rows).budget_steps == 1
    with pytest.raises(ValueError, match="column 65537"):
        next(rows)
