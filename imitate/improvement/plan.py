"""The plan of a search: how many steps go into learning, validation and the test, and who learns how long.

Learners that imitate come near their expert soon and hardly beyond, so each is trained to its end on a quarter of what
the winner gets. Learners that reinforce race: they are stopped at rungs, half of them go on, and the last one is
trained to its end. Every learner is trained as the winner would be, so that its schedules fit if it wins; it is merely
stopped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from imitate.errors import InputError
from imitate.rl.paired import LEAST_PAIRS

__all__ = [
    "FINALISTS", "FINAL_RUNGS", "MOST_CHOICE", "MOST_TEST", "MOST_VALIDATION", "PLAYERS", "Plan", "Rung", "affordable",
    "rungs",
]  # fmt: skip

PLAYERS = 3  # of the test: the expert, the student, and an imitator if the student fails
FINAL_RUNGS = (0.5, 0.75, 1.0)
"""Shares of the winner's steps after which it is validated when it is alone."""
FINALISTS = 3  # policies of the race that are validated on more episodes, before one goes to the test
_VALIDATION, _CHOICE, _TEST = 0.15, 0.1, 0.2  # of the budget: the race, the finalists, the test
_MOST_CHECKS = 0.6  # of the budget, for measuring, validation and test together
# Episodes; more would take steps from learning for little.
MOST_VALIDATION, MOST_CHOICE, MOST_TEST = 20, 50, 100
_LEAST_RUNG = 20  # episodes of training before learners are compared; after fewer it is chance who leads


@dataclass(frozen=True)
class Rung:
    """`racers` learners are trained up to this share of the winner's steps."""

    share: float
    racers: int


def rungs(racers: int) -> list[Rung]:
    """The rungs of so many learners: at each, half go on; the last one is alone.

    >>> rungs(2)
    [Rung(share=0.25, racers=2), Rung(share=0.5, racers=1), Rung(share=0.75, racers=1), Rung(share=1.0, racers=1)]
    """
    halvings = (racers - 1).bit_length()
    race = [Rung(0.5 ** (halvings + 1 - n), -(-racers >> n)) for n in range(halvings)]
    return race + [Rung(share, 1) for share in FINAL_RUNGS]


@dataclass(frozen=True)
class Plan:
    """Steps of a search.

    racers, imitators   names of the learners
    winner      of the learner that wins
    validation  of each validation
    choice      of each finalist
    test        of each player in the test
    """

    racers: tuple[str, ...]
    imitators: tuple[str, ...]
    winner: int
    validation: int
    choice: int
    test: int

    @property
    def rungs(self) -> list[Rung]:
        return rungs(len(self.racers))

    @property
    def stretches(self) -> list[tuple[int, float]]:
        """The racers of each rung, and their share of the winner's steps since the rung before."""
        shares = [0.0, *(rung.share for rung in self.rungs)]
        return [(rung.racers, rung.share - before) for rung, before in zip(self.rungs, shares, strict=False)]

    @property
    def race(self) -> list[Rung]:
        """The rungs at which learners are compared."""
        return [rung for rung in self.rungs if rung.racers > 1]

    @property
    def imitation(self) -> int:
        """Steps of each learner that imitates."""
        return self.winner // 4

    @property
    def validations(self) -> int:
        """Validations of all learners together."""
        return len(self.imitators) + sum(rung.racers for rung in self.rungs)

    @property
    def checks(self) -> int:
        """Steps of all that is no learning; the expert is validated too."""
        validations = (self.validations + 1) * self.validation
        return validations + FINALISTS * self.choice + PLAYERS * self.test

    def kept_for_others(self, rung: int, place: int) -> int:
        """Steps that other learners still get, if the racer at this place of a rung's order wins."""
        (racers, share), *later = self.stretches[rung:]
        steps = (racers - 1 - place) * share + sum((racers - 1) * share for racers, share in later)
        return math.ceil(steps * self.winner)


def affordable(
    racers: Sequence[str], imitators: Sequence[str], budget: int, length: float, measured: int = 0
) -> Plan:
    """The plan for as many learners as the budget allows, the first of them, if an episode takes `length` steps.

    measured   steps of the budget that the expert has taken, beyond those that a plan counts

    Measuring, validation and test take at most 60 % of the budget, and nobody is compared after fewer than 20 episodes;
    with fewer learners there is less to validate and more to learn. Without racers an imitator takes the winner's part.

    Raises InputError if the budget is too small for one learner.
    """
    everybody, left = [*racers, *imitators], budget - measured
    trials = [(list(racers[:count]), list(imitators)) for count in range(len(racers), 0, -1)]
    trials.append(([everybody[-1]], []))
    for racing, imitating in trials:
        plan = _plan(racing, imitating, left, length)
        first = plan.rungs[0].share * plan.winner
        if plan.checks <= _MOST_CHECKS * left and (not plan.race or first >= _LEAST_RUNG * length):
            return plan
    least = left
    while (checks := _plan(*trials[-1], least, length).checks) > _MOST_CHECKS * least:
        least = int(checks / _MOST_CHECKS) + 1
    raise InputError(
        f"a budget of {budget} steps is too small: an episode of the expert takes {length:.0f} steps, and measuring "
        f"and testing take many episodes; give at least --budget {least + measured}"
    )


def _plan(racers: Sequence[str], imitators: Sequence[str], budget: int, length: float) -> Plan:
    def part(share: float, players: int, most: int) -> int:
        return int(max(min(share * budget / players, most * length), LEAST_PAIRS * length))

    choice, test = part(_CHOICE, FINALISTS, MOST_CHOICE), part(_TEST, PLAYERS, MOST_TEST)
    plan = Plan(tuple(racers), tuple(imitators), 0, 0, choice, test)
    plan = replace(plan, validation=part(_VALIDATION, plan.validations + 1, MOST_VALIDATION))
    # Steps of all learners, in units of the winner's.
    winners = len(plan.imitators) / 4 + sum(racers * share for racers, share in plan.stretches)
    return replace(plan, winner=max(int((budget - plan.checks) / winners), 0))
