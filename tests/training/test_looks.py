"""Looks at a policy cost what they may, and their episodes are those of no validation and no test."""

from __future__ import annotations

from typing import Any

import pytest

from imitate.datasets.evaluation import Evaluation
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed
from imitate.nn.policy import ActorPolicy
from imitate.training.experiment import Experiment
from imitate.training.looks import Looks, look


@pytest.mark.parametrize(
    ("budget", "episodes"), [(10_000, 0), (39_999, 1), (40_000, 2), (79_999, 3), (100_000, 5), (10**6, 5)]
)
def test_ten_looks_take_a_quarter_of_the_budget_at_most(budget: int, episodes: int) -> None:
    """An episode of CartPole-v1 has up to 500 steps, so one in each of ten looks takes 5,000."""
    assert Looks(Experiment("ppo", "CartPole-v1", {}, budget=budget)).episodes == episodes


@pytest.mark.parametrize(("eval_every", "episodes"), [(25_000, 0), (25_001, 5)])
def test_four_validations_give_the_curve_themselves(eval_every: int, episodes: int) -> None:
    assert Looks(Experiment("ppo", "CartPole-v1", {}, eval_every=eval_every)).episodes == episodes


def test_a_look_has_seeds_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def evaluated(*_: Any, seed: int, **__: Any) -> Evaluation:
        asked.append(seed)
        raise NotImplementedError

    monkeypatch.setattr("imitate.training.looks.evaluate", evaluated)
    experiment = Experiment("ppo", "CartPole-v1", {}, seed=3)
    policy: Any = ActorPolicy
    with pytest.raises(NotImplementedError):
        look(policy, experiment)
    assert asked == [draw_seed(Stream.LOOKS, 3)]
    assert len({*asked, TEST_SEED, draw_seed(Stream.VALIDATION, 3), draw_seed(Stream.DEMONSTRATIONS, 3)}) == 4
