"""The plan of a comparison: who gets how many steps, and comparisons as text."""

from __future__ import annotations

import itertools
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from comparisons import QUICK, comparison

from imitate.compare import Comparison
from imitate.compare.execute.training import Trained, training
from imitate.compare.plan.comparison import Job, jobs, overrides
from imitate.compare.plan.cost import workloads
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.toml import as_toml
from imitate.training.execute import execute


def run(wanted: Comparison, job: Job) -> Trained:
    found = training(wanted, job)
    assert isinstance(found, Trained)
    return found


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


def test_seeds_begin_where_they_are_told_to() -> None:
    wanted = comparison("gail", seeds=2, first_seed=100)
    names = [job.name for job in jobs(wanted, Path("out"), 100)]
    assert {"demos-seed100", "demos-seed101", "gail-seed100", "gail-seed101"} <= {*names}
    assert {name for name in names if ":" in name and name.startswith("gail")} == {
        f"gail:{control}-seed100" for control in ("plus-one", "minus-one", "one-action", "random")
    }
    assert "--seeds 2" in wanted.command
    assert "--first-seed 100" in wanted.command
    assert "--first-seed" not in comparison("gail").command


def test_a_control_learns_from_its_own_demonstrations_and_each_is_recorded_once() -> None:
    """Also a control that is named as a learner, with all seeds, and labels beside it."""
    names = ("gail", "dac", "dac:random", "dac:random@wide")
    planned = jobs(comparison(*names, seeds=2), Path("out"), 100)
    recorded = [job for job in planned if job.records]
    assert len({job.demos for job in recorded}) == len(recorded) == len({job.name for job in recorded})
    source = {job.demos: job.name for job in recorded}
    assert {job.name: source[job.demos] for job in planned if ":random" in job.name and not job.records} == {
        "gail:random-seed0": "demos:random-seed0",
        **{f"{name}-seed{n}": f"demos:random-seed{n}" for name in names[2:] for n in (0, 1)},
    }


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


@pytest.mark.parametrize(
    "changed",
    [
        {"num_envs": 2},
        {"curve_episodes": 4},
        {"device": "cuda"},
        {"keep_closest": True},
        {"demo_episodes": 3},
        {"expert": "CartPole-v1"},
        {"env_kwargs": {"max_episode_steps": 9}},
    ],
)
def test_runs_of_other_settings_are_not_found_again(changed: dict[str, Any]) -> None:
    before, after = (
        {job.folder for job in jobs(comparison("bc", "ppo", **fields), Path("out"), 100) if not job.records}
        for fields in ({}, changed)
    )
    assert len(before) == len(after) == 2
    assert not before & after


@pytest.mark.parametrize(
    ("episode_steps", "shown", "steps"),
    [
        (20, None, 200),  # ten episodes
        (500, None, 1_000),  # a quarter of the budget of 4,000
        (1_500, None, 1_500),  # one episode at least
        (9_000, None, 4_000),  # and never more than the budget
        (500, 3, 1_500),  # as many as were asked for
        (500, 30, 4_000),
    ],
)
def test_a_controls_own_demonstrations_cost_as_much_as_the_experts(
    episode_steps: float, shown: int | None, steps: int
) -> None:
    planned = jobs(comparison("gail", demo_episodes=shown), Path("out"), episode_steps)
    assert {job.name: job.steps for job in planned if job.algorithm.startswith("demos:")} == {
        "demos:random-seed0": steps,
        "demos:one-action-seed0": steps,
    }


def test_a_label_overrides_its_learner() -> None:
    given = {"ppo": {"gamma": 0.9, "num_steps": 64}, "ppo@wide": {"gamma": 0.8}}
    wanted = comparison("ppo", "ppo@wide", hyperparameters=given)
    assert overrides(wanted, "ppo") == given["ppo"]
    assert overrides(wanted, "ppo@wide") == {"gamma": 0.8, "num_steps": 64}


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
    without = replace(wanted, env_id="CliffWalking-v1")
    assert not any("preset" in note for note in run(without, job).notes)  # the defaults, made for no budget


@pytest.mark.parametrize(
    ("env_id", "name", "budget", "minutes"),
    [
        ("CartPole-v1", "ppo", 50_000, 0.25),
        ("CartPole-v1", "sb3:ppo", 50_000, 0.5),
        ("CartPole-v1", "dqn", 50_000, 0.75),
        ("CartPole-v1", "bc", 50_000, 2),
        ("CartPole-v1", "sqil", 50_000, 0.75),
        ("Pendulum-v1", "sqil", 50_000, 7.5),
        ("Pendulum-v1", "sqil@other", 50_000, 7.5),
        ("Pendulum-v1", "sb3:tqc", 200_000, 80),
        ("imitate/PixelCartPole-v0", "ppo", 50_000, 2.5),
        ("imitate/PixelCartPole-v0", "sb3:dqn", 50_000, 15),
    ],
)
def test_the_estimated_time_of_three_seeds(env_id: str, name: str, budget: int, minutes: float) -> None:
    wanted = Comparison(env_id, (name,), "random", seeds=3, budget=budget)
    (found,) = workloads(wanted)
    assert (found.runs, found.core_seconds) == (3, pytest.approx(3 * 60 * minutes))


def test_the_estimated_time_counts_each_control_once() -> None:
    """GAIL has four."""
    (found,) = workloads(Comparison("CartPole-v1", ("gail",), "random", seeds=3, budget=100_000))
    assert (found.runs, found.core_seconds) == (3 + 4, pytest.approx(7 * 60 * 0.5))


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
        ({"budget": "20k"}, "budget must be a whole number, got '20k'"),
        ({"algorithms": "bc"}, "algorithms must be a tuple of texts, got 'bc'"),
        ({"hyperparameters": {"gamma": 1}}, "got {'gamma': 1}; write .*{'ppo': {'gamma': 0.99}}"),
        ({"seeds": 0}, r"seeds must be in \[1, 10000\], got 0"),
        ({"hyperparameters": {"ppo": {}}}, "hyperparameters of 'ppo', which is not in this comparison"),
    ],
)
def test_bad_comparisons_are_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        replace(comparison("bc"), **change)
    assert "\n" not in str(error.value)


def test_a_comparison_takes_numbers_of_numpy() -> None:
    wanted = replace(comparison("bc"), seeds=np.int64(2), budget=np.int32(20_000))
    assert json.loads(json.dumps(wanted.to_json()))["seeds"] == 2


def test_a_changed_comparison_keeps_what_still_matters() -> None:
    wanted = comparison("bc", "dagger", "ppo")
    assert wanted.changed(["dqn"], seeds=3) == replace(
        wanted, algorithms=("bc", "dagger", "ppo", "dqn"), seeds=3
    )
    assert wanted.changed(algorithms=["ppo", "bc"]).hyperparameters == {"bc": QUICK["bc"]}
    # Otherwise the runs of learners that stay would begin anew.
    wide = {"bc@wide": {"hidden": [48]}}
    assert wanted.changed(["bc@wide"], hyperparameters=wide).hyperparameters == wanted.hyperparameters | wide
    assert wanted.changed(hyperparameters={"bc": {}}).hyperparameters == wanted.hyperparameters | {"bc": {}}


def test_a_comparison_survives_json() -> None:
    wanted = comparison("bc", "ppo", env_kwargs={"sutton_barto_reward": True})
    assert Comparison.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted
    assert tomllib.loads(wanted.to_toml()) == {k: v for k, v in wanted.to_json().items() if v is not None}
    assert wanted.command == (
        "imitate compare --env CartPole-v1 --env-kwargs '{\"sutton_barto_reward\": true}' --expert "
        "CartPole-v1:ppo --algorithms bc ppo --seeds 1 --budget 4000 --episodes 4 --curve-episodes 3 "
        '--hyperparameters \'{"bc": {"max_epochs": 2}}\' --out report'
    )


def test_settings_survive_toml() -> None:
    settings = {
        "my:Own @wide": {
            "lr": 1e-7,
            "on": True,
            "hidden": (64, 64),
            "empty": {},
            "a\x7f": "\x7f",
        }
    }
    read = tomllib.loads(as_toml({"hyperparameters": settings, "env_kwargs": {}, "seeds": 5}))
    kept = {"lr": 1e-7, "on": True, "hidden": [64, 64], "empty": {}, "a\x7f": "\x7f"}
    assert read == {"hyperparameters": {"my:Own @wide": kept}, "seeds": 5}


def test_a_learner_goes_on_with_the_settings_that_it_began_with(tmp_path: Path) -> None:
    """A preset of a later version may have others."""
    wanted = comparison("ppo", expert=None, budget=1_024, hyperparameters={"ppo": {"num_steps": 16}})
    job = replace(jobs(wanted, tmp_path, episode_steps=100)[0], folder=tmp_path / "run")
    learner = run(wanted, job)
    execute(learner.run, job.folder, until=512)
    config = job.folder / "config.json"
    began = json.loads(config.read_text("utf-8"))
    began["hyperparameters"] |= {"vf_coef": 0.125}
    config.write_text(json.dumps(began))
    assert learner.execute(job.folder, lambda _steps: None)
    assert json.loads(config.read_text("utf-8"))["hyperparameters"]["vf_coef"] == 0.125
    assert json.loads((job.folder / "finished.json").read_text("utf-8"))["env_steps"] == 1_024
