"""The test at the end of guided learning: nothing is handed over that a clone of the expert would beat.

The student and the student as it was when it did best play the same whole episodes. The last goes on unless the other
is clearly ahead: three episodes that went best may have been lucky. On other episodes it meets the expert. If the
expert is ahead, so that the student may be worse, a clone of the expert plays the same episodes, and the one with the
higher mean is handed over. The clone is DAgger's, as the expert was asked in the student's own states too. If the steps
do not last for a test, returns in training decide.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import special

from imitate.configs.guided import GuidedConfig
from imitate.datasets.asking import Askable
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.imitators.guided.learner import Guided
from imitate.imitators.guided.residual import Residual
from imitate.nn.policy import ActorPolicy
from imitate.rl.handed import takes
from imitate.rl.paired import LEAST_PAIRS, lead, paired, played, wins

__all__ = ["HandOver"]

logger = logging.getLogger(__name__)


class HandOver:
    """Guided learning with the test; takes what `Guided` takes.

    tested      the test is over
    takes_kept  the student as it was when it did best is handed over, if there is one
    """

    @takes(GuidedConfig)
    def __init__(
        self,
        config: GuidedConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable],
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.tested, self.takes_kept = config, False, not config.test
        kind = Residual if config.residual else Guided
        self.learner: Guided = kind(config, envs=envs, expert=expert, seed=seed, device=device)

    @property
    def policy(self) -> ActorPolicy:
        kept = self.learner.kept
        return kept.best if self.takes_kept and kept.found else self.learner.policy

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def expert_queries(self) -> int:
        return self.learner.expert_queries

    @property
    def least_steps(self) -> int:
        return self.learner.least_steps

    @property
    def done(self) -> bool:
        # The test can spend a single step; a round takes one in each environment.
        least = 1 if self.config.test else self.learner.sampler.envs.num_envs
        return self.tested or self.env_steps + least > self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """An iteration of guided learning, or at the end the test; at most `limit` environment steps."""
        room = self.config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        learning = room - self._spare()
        if self.learner.missing:  # there is nothing to test or to clone from
            return self.learner.step(min(room, max(learning, self.least_steps)))
        if not self.config.test or learning >= self.least_steps:
            return self.learner.step(learning)
        metrics = self._test(room)
        self.tested = True
        return metrics

    def _spare(self) -> int:
        """Steps that the test may take: its share of the run, or what the least number of episodes takes. If these
        would take over half of the run, there is no test, and a round is left in which that is decided."""
        if not self.config.test:
            return 0
        least = self._plays(self.config.greedy_share > 0) * math.ceil(LEAST_PAIRS * self._length)
        total, one_round = self.config.total_steps, self.learner.sampler.envs.num_envs
        return one_round if least > 0.5 * total else int(max(self.config.test * total, least))

    def _plays(self, kept: bool) -> int:
        """Plays of the same number of episodes: two to choose a student, if one is kept, then those of the test: the
        student's, the experts' and a clone's."""
        return 2 * kept + 2 + self.learner.experts.count

    @property
    def _length(self) -> float:
        """The length that an episode of the test may have: those of the run were often shorter."""
        return max(self.learner.length, self.learner.expert_length)

    def _test(self, room: int) -> dict[str, float]:
        """Choose the student, and let it meet the experts; if one is ahead, let it meet a clone of them."""
        learner = self.learner
        share = room // self._plays(learner.kept.found)
        pairs = int(share / self._length + 1e-6) if self._length else 0
        self.takes_kept, metrics = True, {"test_pairs": 0.0}
        if pairs < LEAST_PAIRS:
            logger.warning("%d steps are too few for a test: returns in training decide", room)
            lost = self._behind_in_training() and self._clone()
        else:
            seeds = list(
                itertools.islice(episode_seeds(draw_seed(learner.seed, learner.iteration, 2)), 2 * pairs)
            )
            if learner.kept.found:
                self.takes_kept = self._prefers_kept(seeds[:pairs], share)
                metrics["test_kept"] = float(self.takes_kept)
            seeds = seeds[pairs:]
            own = self._returns(self.policy.act, seeds, share)
            behind = self._behind(own, seeds, share, metrics)
            lost = behind and self._clone_wins(own, seeds, share, metrics)
        metrics["test_lost"] = float(lost)
        learner.restart()
        return metrics

    def _clone(self) -> bool:
        """Hand over a clone of the expert."""
        self.learner.clone_alone(self.config.clone_updates)
        self.takes_kept = False
        return True

    def _clone_wins(
        self, own: dict[int, float], seeds: Sequence[int], share: int, metrics: dict[str, float]
    ) -> bool:
        """Hand over a clone of the expert, or the student again if it makes more in these episodes."""
        student = {name: weight.clone() for name, weight in self.policy.state_dict().items()}
        self._clone()
        try:
            returns = self._returns(self.policy.act, seeds, share)
        except BaseException:  # of the environment: the test begins again when the run goes on
            self.policy.load_state_dict(student)
            raise
        both = paired(returns, own, len(seeds))
        if both is None:
            return True
        clone, mean = (float(each.mean()) for each in both)
        metrics["test_clone"] = clone
        if clone >= mean:
            return True
        self.policy.load_state_dict(student)
        return False

    def _behind_in_training(self) -> bool:
        """The student's latest episodes in training were worth less than the experts' first ones, or too few ended.

        Only those count in which it played alone, unless `greedy_share` is 0."""
        learner = self.learner
        latest = float(np.mean(learner.kept.latest)) if self.config.greedy_share else learner.train_return
        if latest is None or math.isnan(latest) or learner.expert_return is None:
            return True
        return latest < learner.expert_return

    def _prefers_kept(self, seeds: Sequence[int], share: int) -> bool:
        """The student as it was when it did best is clearly ahead of the last, or they can't be compared."""
        policies = self.learner.policy, self.learner.kept.best
        last, kept = (self._returns(policy.act, seeds, share) for policy in policies)
        both = paired(kept, last, len(seeds))
        return both is None or _clearly(*both)

    def _behind(
        self, own: dict[int, float], seeds: Sequence[int], share: int, metrics: dict[str, float]
    ) -> bool:
        """An expert is ahead of the student, whose returns are `own`. The figures of the last expert that it met go
        into `metrics`."""
        experts = self.learner.experts
        for ask in experts.asks:
            before = self.env_steps
            try:
                both = paired(self._returns(ask, seeds, share), own, len(seeds))
            finally:
                experts.queries += self.env_steps - before
            if both is None:
                logger.warning("most episodes of the test were cut: returns in training decide")
                behind = self._behind_in_training()
            else:
                expert, student = (float(each.mean()) for each in both)
                behind = expert > student
                metrics |= {"test_pairs": float(len(both[0])), "test_expert": expert, "test_return": student}
                logger.info(
                    "in %d paired episodes the student makes %.4g, the expert %.4g",
                    len(both[0]), student, expert,
                )  # fmt: skip
            if behind:
                return True
        return False

    def _returns(self, act: Callable[[Array], Array], seeds: Sequence[int], limit: int) -> dict[int, float]:
        """The returns, by seed, of these whole episodes, in at most `limit` steps."""
        return played(act, self.learner.sampler, seeds, limit)[1]

    def state_dict(self) -> dict[str, Any]:
        return self.learner.state_dict() | {"tested": self.tested, "takes_kept": self.takes_kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state)
        self.tested, self.takes_kept = state["tested"], state["takes_kept"]


def _clearly(returns: Array, others: Array) -> bool:
    """`wins`, by Student's quantile: three pairs take 2.92 standard errors, not 1.645."""
    return wins(returns, others) and lead(returns, others) > float(special.stdtrit(len(returns) - 1, 0.95))
