"""The learners that suit a task, and their runs."""

from __future__ import annotations

import pytest
from gymnasium import spaces

from imitate.improvement.candidates import experiment, suited
from imitate.improvement.task import Task

BOX, NUMBER = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)


@pytest.mark.parametrize(
    ("observations", "actions", "share", "names"),
    [
        (BOX, NUMBER, None, ["qdagger@undistilled", "qdagger", "loki", "dagger"]),
        (BOX, NUMBER, 0.8, ["qdagger@undistilled", "qdagger", "loki", "dagger"]),
        (BOX, NUMBER, 0.9, ["qdagger", "loki", "dagger"]),
        (BOX, BOX, 0.5, ["guided", "loki", "dagger"]),
        (BOX, BOX, 0.8, ["guided", "loki", "guided@residual", "dagger"]),
        (BOX, BOX, None, ["guided", "loki", "guided@residual", "dagger"]),
        (spaces.Dict(a=BOX), BOX, None, ["dagger"]),
        (BOX, spaces.MultiDiscrete([2, 2]), None, ["dagger"]),
    ],
)
def test_spaces_and_expert_decide(
    observations: spaces.Space,  # type: ignore[type-arg]
    actions: spaces.Space,  # type: ignore[type-arg]
    share: float | None,
    names: list[str],
) -> None:
    assert [each.name for each in suited(observations, actions, share)] == names


def test_a_residual_is_guided_learning_with_another_setting() -> None:
    task = Task("Pendulum-v1", "Pendulum-v1", 20_000, seed=7)
    run = experiment("guided@residual", task, {}, 4_000)
    assert (run.algorithm, run.hyperparameters["residual"], run.hyperparameters["test"]) == (
        "guided",
        0.2,
        0.0,
    )


def test_no_candidate_validates_and_each_has_the_experts_statistics() -> None:
    """The search validates all of them on the same episodes."""
    task = Task("agent.zip", "Pendulum-v1", 20_000, vecnormalize="statistics.pkl")
    runs = [experiment(each.name, task, {}, 4_000) for each in suited(BOX, BOX, None)]
    found = {(run.eval_every, run.expert, run.vecnormalize) for run in runs}
    assert found == {(0, "agent.zip", "statistics.pkl")}


def test_a_run_is_trained_as_the_winner_and_shortened_to_a_small_budget() -> None:
    task = Task("Pendulum-v1", "Pendulum-v1", 20_000, seed=7)
    run = experiment("guided", task, {"g": 9.0}, 4_000)
    assert (run.budget, run.hyperparameters["total_steps"], run.seed, run.eval_every) == (4_000, 4_000, 7, 0)
    assert run.hyperparameters["test"] == 0.0  # the search has one of its own
    assert run.hyperparameters["learning_starts"] == 200  # a twentieth of the steps, not the preset's 500
    assert run.env_kwargs == {"g": 9.0}
