"""The learners that suit a task, and their runs."""

from __future__ import annotations

import pytest
from gymnasium import spaces

from imitate.improve.candidates import experiment, suited
from imitate.improve.task import Task

BOX, NUMBER = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)


@pytest.mark.parametrize(
    ("observations", "actions", "names"),
    [
        (BOX, NUMBER, ["qdagger", "loki", "dagger"]),
        (BOX, BOX, ["guided", "loki", "dagger"]),
        (spaces.Dict(a=BOX), BOX, ["dagger"]),
        (BOX, spaces.MultiDiscrete([2, 2]), ["dagger"]),
    ],
)
def test_the_spaces_decide(observations: spaces.Space, actions: spaces.Space, names: list[str]) -> None:  # type: ignore[type-arg]
    assert [each.name for each in suited(observations, actions)] == names


def test_a_run_is_trained_as_the_winner_and_shortened_to_a_small_budget() -> None:
    task = Task("Pendulum-v1", "Pendulum-v1", 20_000, seed=7)
    run = experiment("guided", task, {"g": 9.0}, 4_000)
    assert (run.budget, run.hyperparameters["total_steps"], run.seed, run.eval_every) == (4_000, 4_000, 7, 0)
    assert run.hyperparameters["test"] == 0.0  # the search has one of its own
    assert run.hyperparameters["learning_starts"] == 200  # a twentieth of the steps, not the preset's 500
    assert run.env_kwargs == {"g": 9.0}
