"""The arithmetic of halving, worked out by hand."""

from __future__ import annotations

import pytest

from imitate.errors import InputError
from imitate.improvement.plan import Plan, Rung, affordable, rungs

ALONE = [Rung(0.5, 1), Rung(0.75, 1), Rung(1.0, 1)]


def test_half_of_the_racers_go_on_at_each_rung() -> None:
    assert rungs(1) == ALONE
    assert rungs(2) == [Rung(0.25, 2), *ALONE]
    assert rungs(3) == [Rung(0.125, 3), Rung(0.25, 2), *ALONE]
    assert rungs(4) == [Rung(0.125, 4), Rung(0.25, 2), *ALONE]


def test_a_budget_is_divided() -> None:
    """Six validations and the expert's at 15,000 / 7 = 2,142 steps, three finalists of 3,333, three players of 6,666 in
    the test; the 55,009 that are left pay for the winner, a quarter of its steps for the loser, and a quarter for the
    imitator."""
    plan = affordable(["a", "b"], ["clone"], 100_000, 200.0)
    assert (plan.racers, plan.imitators, plan.validations) == (("a", "b"), ("clone",), 6)
    assert (plan.validation, plan.choice, plan.test) == (2_142, 3_333, 6_666)
    assert plan.winner == int((100_000 - 7 * 2_142 - 3 * 3_333 - 3 * 6_666) / 1.5) == 36_672
    assert plan.imitation == 9_168


def test_what_the_others_still_get_is_kept_for_them() -> None:
    """Four race, and the winner gets 800 steps: the first rung takes 100 of each, the second 100 more of two."""
    plan = Plan(("a", "b", "c", "d"), (), 800, 0, 0, 0)
    assert plan.kept_for_others(0, 0) == 3 * 100 + 100
    assert plan.kept_for_others(0, 3) == 100
    assert plan.kept_for_others(1, 0) == 100
    assert plan.kept_for_others(1, 1) == 0
    assert plan.kept_for_others(4, 0) == 0
    # A part of a step is a step.
    assert Plan(("a", "b"), (), 801, 0, 0, 0).kept_for_others(0, 0) == 201


def test_a_small_budget_has_fewer_learners_and_a_tiny_one_is_refused() -> None:
    """Three episodes of 100 steps in each validation. Five of them, or four, and three finalists take 2,400 steps, or
    2,100, and the test a fifth of the budget; all must be at most 60 % of it."""
    assert affordable(["a", "b"], ["clone"], 7_500, 100.0).racers == ("a",)
    assert affordable(["a", "b"], ["clone"], 5_900, 100.0) == Plan(
        ("clone",), (), 5_900 - 2_100 - 3 * 393, 300, 300, 393
    )
    with pytest.raises(
        InputError,
        match=r"of 5000 steps is too small: an episode of the expert takes 100 steps.* --budget 5246",
    ):
        affordable(["a", "b"], ["clone"], 5_000, 100.0)
    assert affordable(["a", "b"], ["clone"], 5_246, 100.0).racers == ("clone",)
    with pytest.raises(InputError, match=r"of 6000 steps is too small: .* --budget 6246"):
        affordable(["a", "b"], ["clone"], 6_000, 100.0, measured=1_000)


def test_nobody_is_compared_after_less_than_twenty_episodes() -> None:
    """With 100,000 steps the first rung of two takes 36,672 / 4 = 9,168, which are 20 episodes of 458 steps."""
    assert affordable(["a", "b"], ["clone"], 100_000, 458.0).racers == ("a", "b")
    assert affordable(["a", "b"], ["clone"], 100_000, 459.0).racers == ("a",)


def test_checks_take_no_more_than_they_can_use() -> None:
    """Six validations and the expert's of 20 episodes, three finalists of 50, three players of 100; a step each."""
    plan = affordable(["a", "b"], ["clone"], 100_000, 1.0)
    assert (plan.validation, plan.choice, plan.test) == (20, 50, 100)
    assert plan.winner == int((100_000 - 7 * 20 - 3 * 50 - 3 * 100) / 1.5)


@pytest.mark.parametrize("racers", range(1, 6))
@pytest.mark.parametrize("budget", [20_000, 33_333, 1_000_000])
def test_no_plan_exceeds_its_budget(racers: int, budget: int) -> None:
    plan = affordable([f"r{n}" for n in range(racers)], ["clone"], budget, 50.0)
    learning, before = plan.imitation * len(plan.imitators), 0.0
    for rung in plan.rungs:
        learning += int(rung.racers * (rung.share - before) * plan.winner)
        before = rung.share
    checks = (plan.validations + 1) * plan.validation + 3 * plan.choice + 3 * plan.test
    assert 0.99 * budget < learning + checks <= budget
