"""Comparisons of learners from few demonstrations: their number, every n-th step, and what such a suite costs."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from handwritten import named

from imitate.cli import main
from imitate.compare import Suite, compare
from imitate.compare.execute.recording import affordable_episodes
from imitate.compare.execute.training import training
from imitate.compare.execute.worker import test as measured
from imitate.compare.plan.comparison import Comparison, Job, jobs
from imitate.compare.plan.cost import workloads
from imitate.compare.statistics.job_results import Result
from imitate.configs.bc import BCConfig
from imitate.datasets import edit
from imitate.datasets.edit import thinned
from imitate.datasets.storage.reader import DemoReader
from imitate.errors import InputError
from imitate.imitators.bc import BC
from imitate.nn.stored_policy import load_policy

TOML = """
algorithms = ["bc", "gail", "iq", "ppo"]
audit = false
[[environments]]
env_id = "CartPole-v1"
experts = ["CartPole-v1", "CartPole-v1:ppo"]
demonstrations = [1, 10]
demo_every = 20
budget = 20_000
[[environments]]
env_id = "CartPole-v1"
label = "longer"
expert = "CartPole-v1"
demonstrations = [1]
budget = 50_000
"""


def comparison(**changed: object) -> Comparison:
    given = {"expert": "CartPole-v1", "seeds": 1, "budget": 20_000} | changed
    return Comparison("CartPole-v1", ("bc", "gail", "iq", "ppo"), **given)  # type: ignore[arg-type]


def test_a_suite_is_environments_times_experts_times_demonstrations() -> None:
    suite = Suite.from_toml("few", tomllib.loads(TOML))
    assert list(suite.parts) == [
        *("CartPole-v1-from-CartPole-v1-with-1", "CartPole-v1-from-CartPole-v1-with-10"),
        *("CartPole-v1-from-CartPole-v1-ppo-with-1", "CartPole-v1-from-CartPole-v1-ppo-with-10"),
        "longer-with-1",
    ]
    assert [part.demo_episodes for part in suite.parts.values()] == [1, 10, 1, 10, 1]
    assert [part.demo_every for part in suite.parts.values()] == [20, 20, 20, 20, 1]
    assert not any(part.controls for part in suite.parts.values())
    assert Suite.from_toml("few", tomllib.loads(suite.to_toml())) == suite
    with pytest.raises(InputError, match="give each its own expert or label"):
        Suite.from_toml("few", tomllib.loads(TOML.replace('"longer"', '"CartPole-v1-from-CartPole-v1"')))
    with pytest.raises(InputError, match=r"label '\.\.' names no folder: use letters and digits"):
        Suite.from_toml("few", tomllib.loads(TOML.replace('"longer"', '".."')))
    with pytest.raises(InputError, match="demo_episodes must be"):
        comparison(demo_episodes=0)


def shown(part: Comparison) -> dict[str, int | None]:
    return {job.algorithm: job.demo_episodes for job in jobs(part, Path("out"), 500.0)}


def test_every_imitator_gets_as_many_and_the_controls_too() -> None:
    usual = shown(comparison())
    assert [usual[name] for name in ("demos", "bc", "gail", "iq", "ppo")] == [None, None, 10, 10, None]
    few = shown(comparison(demo_episodes=3))
    assert [few[name] for name in ("demos", "bc", "gail", "iq", "ppo")] == [3, 3, 3, 3, None]
    planned = {job.algorithm: job for job in jobs(comparison(demo_episodes=3), Path("out"), 500.0)}
    assert planned["demos:random"].steps == 1_500
    assert (
        affordable_episodes(comparison(demo_episodes=3), planned["gail"]) == 3
    )  # more than a quarter of a budget


def test_results_of_before_keep_their_places() -> None:
    """Only a comparison that says more has other folders."""
    plain, every = comparison(), comparison(demo_every=5)
    before, after = ({job.folder for job in jobs(each, Path("out"), 500.0)} for each in (plain, every))
    assert not (before & after) - {Path("out/demos")}
    assert comparison(demo_every=1, demo_episodes=None, audit=True) == plain


def test_the_settings_of_a_run_say_which_steps_it_sees(tmp_path: Path) -> None:
    part = comparison(demo_episodes=1, demo_every=20, audit=False)
    for job in jobs(part, tmp_path, 500.0):
        if not job.records:
            run = training(part, job)
            assert run.hyperparameters.get("demo_every") == (None if job.algorithm == "ppo" else 20)
    job = Job("td3bc", 0, tmp_path, 20_000, tmp_path / "demos.h5", 1)
    with pytest.raises(
        InputError, match=r"td3bc can't learn from one of 20 steps .*: leave demo_every out, or td3bc"
    ):
        training(part, job)


@pytest.mark.parametrize(("terminated", "kept"), [(False, [0, 4, 8]), (True, [0, 4, 8, 9])])
def test_thinned_by_hand(tmp_path: Path, terminated: bool, kept: list[int]) -> None:
    """The last two of three episodes of ten steps: each fourth step, and the last one if it terminates."""
    with DemoReader(named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 3, terminated=terminated)) as demos:
        few = thinned(demos, 4, np.array([1, 2]))
        wanted = np.concatenate([demos[n].obs[kept] for n in (1, 2)])
        np.testing.assert_array_equal(np.concatenate([each.obs[:1] for each in few]), wanted)
        assert [each.terminated for each in few] == [terminated and at == 9 for _ in (1, 2) for at in kept]
        bc = BC(BCConfig(demo_every=4, max_updates=2), demos=demos, seed=0)
        assert bc.demos.num_steps == 3 * len(kept)
        assert len(bc.heldout) == 0


def test_no_step_of_another_episode_is_shown(tmp_path: Path) -> None:
    """The last two of three episodes of ten steps are chosen: each fourth step of them, or twenty drawn ones."""
    with DemoReader(named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 3, terminated=False)) as demos:
        chosen = np.array([1, 2])
        each = np.concatenate([demos[n].obs[[0, 4, 8]] for n in chosen])
        every = np.concatenate([demos[n].obs[:-1] for n in chosen])
        for (nth, pairs), wanted in (((4, None), each), ((1, 20), every), ((4, 6), each)):
            few, left = edit.shown(demos, chosen, every=nth, pairs=pairs, seed=0)
            assert left is None
            np.testing.assert_array_equal(np.concatenate([step.obs[:1] for step in few]), wanted)
        assert edit.shown(demos, chosen, every=1, pairs=None, seed=0) == (demos, chosen)


def test_the_cost_of_a_suite_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Two seeds of a clone, 2 minutes, and of learners that take 0.5, 1.5 and 0.5 for 100,000 steps."""
    part = comparison(audit=False, seeds=2, budget=100_000, demo_episodes=1)
    (found,) = workloads(part)
    assert (found.runs, found.core_seconds) == (8, 2 * 60 * (2 + 0.5 + 1.5 + 0.5))
    assert main(["compare", "few-demos", "--list", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("CartPole-v1-with-1 ")
    assert "1 seed, 20,000 steps, demonstrations: 1, one step in 20: 4 runs, about" in lines[0]
    assert lines[-1].startswith("24 comparisons, 115 runs, about ")
    assert main(["compare", "few-demos"]) == 2
    assert "name the folder of the report with --out" in capsys.readouterr().err


@pytest.mark.parametrize("keep_closest", [False, True])
def test_only_presets_that_see_no_reward_validate(tmp_path: Path, keep_closest: bool) -> None:
    """GAIL's preset validates by true returns, which a comparison never does."""
    part = replace(comparison(keep_closest=keep_closest), algorithms=("bc", "gail", "iq"))
    validates = {
        job.algorithm: training(part, job).run.eval_every > 0  # type: ignore[attr-defined]
        for job in jobs(part, tmp_path, 500.0)
        if not job.records and ":" not in job.algorithm
    }
    assert validates == {"bc": False, "gail": False, "iq": keep_closest}
    assert ("--keep-closest" in part.command) == keep_closest


@pytest.mark.usefixtures("inline", "undrawn")
def test_the_closest_policy_counts_and_the_last_one_is_measured_too(tmp_path: Path) -> None:
    short: dict[str, object] = {"episodes": 2, "curve_episodes": 1, "env_kwargs": {"max_episode_steps": 100}}
    part = comparison(budget=3_000, demo_episodes=1, audit=False, keep_closest=True, **short)
    few_updates = {"iq": {"dqn": {"num_updates": 1}}}
    wanted = replace(part, algorithms=("iq",), hyperparameters=few_updates)
    page = compare(wanted, tmp_path / "report", workers=1)
    (folder,) = (tmp_path / "report" / "runs").glob("iq-*")
    result = Result.load(folder)
    assert result is not None
    validations = [
        json.loads(line) for line in (folder / "evaluations.jsonl").read_text("utf-8").splitlines()
    ]
    assert validations
    assert all("distance" in each for each in validations)
    # One that the budget cut counts too, takes what is left of it, and chooses nothing.
    cut = result.validation_steps - sum(each["steps"] for each in validations)
    assert cut == 0 or (cut > 0 and result.spent > 3_000 - 2)
    assert result.spent == result.curve[-1].steps <= 3_000
    assert result.curve[-1].queries == result.demo_steps == 100
    for name, returns in (("policy", result.returns), ("last_policy", result.last_returns)):
        assert measured(part, load_policy(folder / name)).returns.tolist() == returns
    assert ">Last policy<" in page.read_text("utf-8")
    facts = json.loads((page.parent / "summary.json").read_text("utf-8"))
    assert facts["algorithms"]["iq"]["last_seed_means"] == [np.mean(result.last_returns)]
    assert any("closest to the demonstrations counts" in each for each in facts["warnings"])
