"""Roll-ins by a mixture of expert and learner (arXiv:1011.0686): who acts is drawn by step, segment or episode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from imitate.datasets.trajectory import Policy
from imitate.envs.spaces import Array
from imitate.rl.rollout import Rollout

__all__ = ["Mixture", "Per", "Schedule", "mixing_coefficient"]

Per = Literal["step", "segment", "episode"]
Schedule = Literal["linear", "exponential", "inverse", "constant"]
Ask = Callable[[Array], Array]


def mixing_coefficient(schedule: Schedule, rate: float, iteration: int) -> float:
    """The expert's share, in [0, 1], in the roll-in of iteration 0, 1, ..."""
    match schedule:
        case "linear":
            return max(0.0, 1.0 - rate * iteration)
        case "exponential":
            return float(rate**iteration)
        case "inverse":
            return 1.0 / (iteration + 1)
        case "constant":
            return rate


class Mixture:
    """A `Chooser` for `num_envs` environments that also asks the expert for labels and counts the queries.

    expert   a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape); one whose `live`
             is true is asked about every state while it lasts, because it can't be shown the state again
    learner  such a function
    per      how long a drawn actor acts: for a step, for a segment (which ends at each step with probability
             `switch`) or for an episode
    alpha    the expert's share, set by `begin`
    queries  states that the expert was asked about
    turns    (T, N) for the roll-in so far: True where the expert acted
    """

    def __init__(
        self, expert: Policy | Ask, learner: Ask, num_envs: int, per: Per, switch: float = 0.0
    ) -> None:
        self._expert = partial(expert.act, deterministic=True) if hasattr(expert, "act") else expert
        self._live: bool = getattr(expert, "live", False)
        self._learner = learner
        self._switch = {"step": 1.0, "segment": switch, "episode": 0.0}[per]
        self._experts_turn = np.zeros(num_envs, bool)
        self._turns: list[Array] = []
        self._labels: list[Array] = []
        self.alpha, self.queries = 1.0, 0

    def restart(self, rng: np.random.Generator) -> None:
        """Use this generator from now on."""
        self._rng = rng

    def begin(self, alpha: float) -> None:
        """Begin a new roll-in with this share of the expert."""
        self.alpha, self._turns, self._labels = alpha, [], []

    def ask(self, obs: Array) -> Array:
        """The expert's deterministic actions (N, *action_shape) at observations (N, *obs_shape)."""
        self.queries += len(obs)
        return np.asarray(self._expert(obs))

    @property
    def turns(self) -> Array:
        return np.stack(self._turns)

    def labels(self, rollout: Rollout) -> Array:
        """The expert's actions (T, N, *action_shape) in the roll-in. An expert that is not live is asked only where the
        learner acted."""
        if self._live:
            return np.stack(self._labels)
        labels, learners = rollout.actions.copy(), ~self.turns
        if learners.any():
            labels[learners] = self.ask(rollout.obs[learners])
        return labels

    def __call__(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        redrawn = begun | (self._rng.random(len(begun)) < self._switch)
        self._experts_turn = np.where(redrawn, self._rng.random(len(begun)) < self.alpha, self._experts_turn)
        actions = self._learner(obs)
        if self._live:
            self._labels.append(self.ask(obs))
            actions[self._experts_turn] = self._labels[-1][self._experts_turn]
        elif self._experts_turn.any():
            actions[self._experts_turn] = self.ask(obs[self._experts_turn])
        self._turns.append(self._experts_turn)
        return actions, actions
