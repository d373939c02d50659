"""Roll-ins by a mixture of expert and learner (arXiv:1011.0686): who acts is drawn by step, segment or episode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from imitate.configs.dagger import Per, Schedule
from imitate.envs.spaces import Array

__all__ = ["Mixture", "mixing_coefficient"]

Act = Callable[[Array], Array]


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
    """A `Chooser` for `num_envs` environments.

    expert   a function from observations (N, *obs_shape) to actions (N, *action_shape)
    per      how long a drawn actor acts: for a step, for a segment (which ends at each step with probability
             `switch`) or for an episode
    live     ask the expert in every state, also where the learner acts
    alpha    the expert's share, set by `begin`
    turns    (T, N) for the roll-in so far: True where the expert acted
    """

    def __init__(self, expert: Act, num_envs: int, per: Per, switch: float, live: bool) -> None:
        self._expert, self._live = expert, live
        self._switch = {"step": 1.0, "segment": switch, "episode": 0.0}[per]
        self._experts_turn = np.zeros(num_envs, bool)
        self._turns: list[Array] = []
        self.alpha = 1.0

    def restart(self, rng: np.random.Generator) -> None:
        """Use this generator from now on."""
        self._rng = rng

    def begin(self, learner: Act, alpha: float) -> None:
        """Begin a new roll-in of this learner, a function as `expert` is, with this share of the expert."""
        self._learner, self.alpha, self._turns = learner, alpha, []

    @property
    def turns(self) -> Array:
        return np.stack(self._turns)

    def __call__(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        redrawn = begun | (self._rng.random(len(begun)) < self._switch)
        self._experts_turn = np.where(redrawn, self._rng.random(len(begun)) < self.alpha, self._experts_turn)
        actions = self._learner(obs)
        asked = self._experts_turn | self._live
        if asked.any():
            answers = self._expert(obs[asked])
            actions[self._experts_turn] = answers[self._experts_turn[asked]]
        self._turns.append(self._experts_turn)
        return actions, actions
