"""The verdict's arithmetic."""

from __future__ import annotations

import math

import pytest

from imitate.improvement.episodes import Played
from imitate.improvement.verdict import gain, verdict_of


def played(*returns: float, first: int = 0) -> Played:
    return Played([*range(first, first + len(returns))], list(returns), [1] * len(returns), len(returns))


def test_the_gain_is_paired_by_episode() -> None:
    """Differences 8, 10 and 12: mean 10, standard error 2 / sqrt(3), and t(2) is 4.303."""
    found = gain(played(108, 210, 312), played(100, 200, 300))
    assert found is not None
    half = 4.303 * 2 / math.sqrt(3)
    assert (found.mean, found.low, found.high) == pytest.approx((10, 10 - half, 10 + half), abs=1e-3)
    assert (found.student, found.expert, found.pairs, found.better) == (210, 200, 3, True)


def test_episodes_that_one_did_not_end_are_left_out() -> None:
    found = gain(played(1, 2, 3, 4), played(0, 0, 0, 0, first=1))
    assert found is not None
    assert (found.mean, found.pairs, found.student, found.expert) == (3, 3, 3, 0)
    assert gain(played(1, 2, 3), played(0, 0, 0, first=1)) is None


@pytest.mark.parametrize(
    ("learner", "returns", "kind"),
    [
        ("qdagger-900", (108, 210, 312), "better"),
        ("dagger-900", (108, 210, 312), "better"),
        ("qdagger-900", (90, 210, 300), "as good"),
        ("dagger-900", (90, 210, 300), "kept"),
        ("dagger-900", (90, 191, 290), "worse"),
        ("dagger-900", (99, 199, 299), "kept"),  # surely by 1 of 200, which is less than 1 %
    ],
)
def test_the_verdict(learner: str, returns: tuple[float, ...], kind: str) -> None:
    verdict = verdict_of(learner, gain(played(*returns), played(100, 200, 300)), 5_000)
    assert (verdict.kind, verdict.learner, verdict.policy) == (kind, learner[:-4], learner)


def test_negligible_is_a_share_of_a_negative_return_too() -> None:
    """Surely worse by 1 of -200, which is less than 1 %."""
    found = gain(played(-101, -201, -301), played(-100, -200, -300))
    assert verdict_of("dagger-900", found, 5_000).kind == "kept"


def test_the_verdict_in_words() -> None:
    expert = played(100, 200, 300)
    assert verdict_of("qdagger-9", gain(played(108, 210, 312), expert), 5_000).sentence == (
        "Better by 10 (95 % interval 5.03 to 15.0): QDagger makes 210, the expert 200 in 3 paired episodes."
    )
    kept = verdict_of("dagger-9", gain(expert, expert), 5_000).sentence
    assert kept.startswith("Kept your expert's imitation: nothing better was found in 5,000 steps (")
    assert verdict_of("dagger-9", None, 5_000).kind == "untested"


def test_without_a_test_a_policy_that_is_clearly_worse_in_validation_is_not_handed_over() -> None:
    expert = played(100, 200, 300)
    worse = verdict_of("dagger-9", None, 5_000, gain(played(50, 151, 252), expert))
    assert (worse.kind, worse.gain) == ("worse", None)
    assert worse.sentence.startswith(
        "Keep your expert: nothing as good was found in 5,000 steps. The best is worse by "
    )
    assert worse.sentence.endswith("no steps were left for a test.")
    assert verdict_of("dagger-9", None, 5_000, gain(played(50, 199, 352), expert)).kind == "untested"
