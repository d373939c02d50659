"""Looks at a policy on a few episodes, while it learns and at the end.

They are outside the budget, choose nothing, and their seeds are those of no validation and no test.
"""

from __future__ import annotations

import logging
from functools import cached_property

from imitate.algorithms import find
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.datasets.trajectory import Policy
from imitate.envs.make import time_limit
from imitate.envs.seeds import Stream, draw_seed
from imitate.errors import Fault
from imitate.nn.policy import ActorPolicy
from imitate.training.experiment import Experiment

__all__ = ["Looks", "look"]

logger = logging.getLogger(__name__)

_EPISODES = 5
_POINTS = 10
_SHARE = 0.25
"""The looks on the way take at most about this share of the budget; otherwise there are fewer episodes, or none."""
_MOST_STEPS = 50_000


def look(policy: Policy, experiment: Experiment, episodes: int = _EPISODES) -> Evaluation:
    """The policy on a few episodes of the run's environment; incomplete if they take more than 50,000 steps."""
    return evaluate(
        policy,
        experiment.env_id,
        episodes=episodes,
        seed=draw_seed(Stream.LOOKS, experiment.seed),
        env_kwargs=experiment.env_kwargs,
        num_envs=episodes,
        max_steps=_MOST_STEPS,
    )


class Looks:
    """A `Snapshot` that gives TensorBoard's curve `evaluation/mean_return`: at every tenth of the budget, for offline
    learners after 1, 2, 4, 8 ... iterations.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.offline = find(experiment.algorithm).offline
        self._calls, self._due = -1, 0

    @cached_property
    def episodes(self) -> int:
        """Episodes of each look; 0 if even one would take too many steps, or if validations give the curve."""
        if 0 < self.experiment.eval_every <= self.experiment.budget / 4:
            return 0
        longest = time_limit(self.experiment.env_id, self.experiment.env_kwargs) or _MOST_STEPS
        return min(int(_SHARE * self.experiment.budget / (_POINTS * longest)), _EPISODES)

    def __call__(self, spent: int, policy: ActorPolicy) -> dict[str, float]:
        self._calls += 1
        position = self._calls if self.offline else spent * _POINTS // self.experiment.budget
        if not self.episodes or position < self._due:
            return {}
        self._due = max(2 * position, 1) if self.offline else position + 1
        try:
            found = look(policy, self.experiment, self.episodes)
        except Fault as fault:  # learning doesn't depend on it
            logger.warning("the policy is not tried out any more on the way: %s", fault)
            self.episodes = 0
            return {}
        return {"evaluation/mean_return": found.mean} if found.complete else {}
