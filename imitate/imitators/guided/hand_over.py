"""The test at the end of guided learning: what is handed over is not clearly worse than the expert.

The student, the student as it was when it did best, and the expert play the same whole episodes. The better student is
handed over. If the expert is clearly ahead of it, a clone of the expert is handed over instead: DAgger's, as the expert
was asked in the student's own states too.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import torch

from imitate.configs.guided import GuidedConfig
from imitate.datasets.asking import Askable
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.vec import VecEnv
from imitate.imitators.guided.learner import Guided
from imitate.imitators.guided.residual import Residual
from imitate.nn.policy import ActorPolicy
from imitate.rl.paired import LEAST_PAIRS, paired, played, wins

__all__ = ["HandOver"]

logger = logging.getLogger(__name__)


class HandOver:
    """Guided learning with the test; takes what `Guided` takes.

    tested  the test is over
    """

    def __init__(
        self,
        config: GuidedConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable],
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.tested = config, False
        kind = Residual if config.residual else Guided
        self.learner: Guided = kind(config, envs=envs, expert=expert, seed=seed, device=device)

    @property
    def policy(self) -> ActorPolicy:
        return self.learner.policy

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
        return self.tested or self.learner.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """An iteration of guided learning, or at the end the test; at most `limit` environment steps."""
        room = self.config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        spare = self._spare()
        if room - spare >= self.least_steps:
            metrics = self.learner.step(room - spare)
            if self.learner.done:  # no test follows
                self._take_kept()
            return metrics
        self.tested = True
        return self._test(room)

    def _take_kept(self) -> None:
        """Hand over the student as it was when it did best, if that is known."""
        if self.learner.kept.found:
            self.policy.load_state_dict(self.learner.kept.best.state_dict())

    def _spare(self) -> int:
        """Steps that the test may take: its share of the run, or what the least number of episodes takes."""
        if not self.config.test:
            return 0
        share = self.config.test * self.config.total_steps
        least = (self._students + self.learner.experts.count) * LEAST_PAIRS * self._length
        return int(min(max(share, least), 0.5 * self.config.total_steps))

    @property
    def _students(self) -> int:
        """The number of students in the test: the last, and the kept one if there is one."""
        return 1 + self.learner.kept.found

    @property
    def _length(self) -> float:
        """The length that an episode of the test may have: those of the run were often shorter."""
        return max(self.learner.length, self.learner.expert_length)

    def _test(self, room: int) -> dict[str, float]:
        """Let students and experts play the same episodes; if an expert is clearly ahead, clone it."""
        learner, sampler = self.learner, self.learner.sampler
        students = [learner.policy, learner.kept.best][: self._students]
        players = [*(student.act for student in students), *learner.experts.asks]
        share = room // len(players)
        pairs = int(share / self._length + 1e-6) if self._length else 0
        if pairs < LEAST_PAIRS:
            logger.warning("%d steps are too few for a test: the student is handed over untested", room)
            self._take_kept()
            return {"test_pairs": 0.0}
        seeds = list(itertools.islice(episode_seeds(draw_seed(learner.seed, learner.iteration, 2)), pairs))
        plays = [played(act, sampler.envs, seeds, share) for act in players]
        sampler.env_steps += sum(int(rollout.steps.sum()) for rollout, _ in plays)
        own, metrics = plays[0][1], {"test_pairs": 0.0}
        if learner.kept.found:
            both = paired(own, plays[1][1], pairs)
            better = both is not None and both[1].mean() > both[0].mean()
            metrics["test_kept"] = float(better)
            if better:
                own = plays[1][1]
                self._take_kept()
        for _, returns in plays[len(students) :]:
            both = paired(returns, own, pairs)
            if both is None:
                logger.warning(
                    "most episodes of the test were cut: the student is not compared with this expert"
                )
                continue
            lost = wins(*both)
            metrics |= {"test_pairs": float(len(both[0])), "test_lost": float(lost)}
            metrics |= {"test_expert": float(both[0].mean()), "test_return": float(both[1].mean())}
            logger.info(
                "in %d paired episodes the student makes %.4g, the expert %.4g: %s is handed over",
                len(both[0]), both[1].mean(), both[0].mean(), "a clone of the expert" if lost else "the student",
            )  # fmt: skip
            if lost:
                learner.clone_alone(self.config.clone_updates)
                break
        learner.restart()
        return metrics

    def state_dict(self) -> dict[str, Any]:
        return self.learner.state_dict() | {"tested": self.tested}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.learner.load_state_dict(state)
        self.tested = state["tested"]
