"""The student as it was when its own episodes went best, because off-policy learners swing.

Once the expert has retired, some episodes are played by the policy that would be handed over, without noise. Their
steps are learned from like all others, so they cost nothing.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from imitate.envs.spaces import Array
from imitate.nn.policy import ActorPolicy
from imitate.rl.actor import Actor
from imitate.rl.rollout import Rollout

__all__ = ["Kept"]

_EPISODES = 3  # a score is their mean: one may be lucky


class Kept:
    """Plays episodes of a policy without noise, and keeps its weights when the latest three have gone best.

    best    the policy as it was then, if `found`: three have ended
    score   their mean return; `latest` are the returns of the last three, NaN before
    greedy  (N,) bool: the episode of this environment is the policy's own
    """

    def __init__(self, policy: ActorPolicy, num_envs: int, share: float) -> None:
        self.policy, self.share, self.best = policy, share, copy.deepcopy(policy)
        self.score, self.latest = -np.inf, [np.nan] * _EPISODES
        self._actor = Actor(policy)
        self.begin(num_envs)

    @property
    def found(self) -> bool:
        """True once three episodes without noise have ended."""
        return self.score > -np.inf

    def begin(self, num_envs: int) -> None:
        """Begin new episodes in all environments."""
        self.greedy, self._sums = np.zeros(num_envs, bool), np.zeros(num_envs)
        self._rows: list[Array] = []

    def choose(self, obs: Array, unit: Array, begun: Array, rng: np.random.Generator) -> Array:
        """Actions (N, D) in [-1, 1]: the policy's own in its episodes, elsewhere `unit`."""
        self.greedy = np.where(begun, rng.random(len(obs)) < self.share, self.greedy)
        if not self.greedy.any():
            return unit
        mean = np.split(self._actor.outputs(obs), 2, -1)[0]
        return np.where(self.greedy[:, None], np.tanh(mean), unit)

    def note(self) -> None:
        """Remember whose step was chosen."""
        self._rows.append(self.greedy.copy())

    def score_episodes(self, rollout: Rollout) -> None:
        """Add a round's rewards, and keep the policy if its episodes have never gone better."""
        rows, self._rows = self._rows, []
        for greedy, rewards, done in zip(rows, rollout.rewards, rollout.done, strict=True):
            self._sums += rewards
            for played in self._sums[done & greedy]:
                self.latest = [*self.latest, float(played)][-_EPISODES:]
                if np.mean(self.latest) > self.score:  # False while one is missing
                    self.score = float(np.mean(self.latest))
                    self.best.load_state_dict(self.policy.state_dict())
            self._sums[done] = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best.state_dict(), "score": self.score, "latest": self.latest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best.load_state_dict(state["best"])
        self.score, self.latest = state["score"], state["latest"]
