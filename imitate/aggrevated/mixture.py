"""Roll-ins by a mixture of expert and learner (arXiv:1011.0686): who acts is drawn by step, segment or episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from imitate.envs.spaces import Array

__all__ = ["Mixture", "Per"]

Per = Literal["step", "segment", "episode"]
Ask = Callable[[Array], Array]


class Mixture:
    """A `Chooser` for `num_envs` environments. Set `alpha`, the expert's share, before each roll-in.

    per         how long whoever was drawn goes on: a step; a segment, which ends at a step with probability
                `switch`; an episode
    turns       (T, N) of the roll-in so far: the expert acted
    """

    def __init__(self, expert: Ask, learner: Ask, num_envs: int, per: Per, switch: float) -> None:
        self._expert, self._learner = expert, learner
        self._switch = {"step": 1.0, "segment": switch, "episode": 0.0}[per]
        self._experts_turn = np.zeros(num_envs, bool)
        self._turns: list[Array] = []
        self.alpha = 1.0

    def restart(self, rng: np.random.Generator) -> None:
        """Draw from `rng` from here on."""
        self._rng = rng

    def begin(self, alpha: float) -> None:
        """A new roll-in, with this share of the expert."""
        self.alpha, self._turns = alpha, []

    @property
    def turns(self) -> Array:
        return np.stack(self._turns)

    def __call__(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        redrawn = begun | (self._rng.random(len(begun)) < self._switch)
        self._experts_turn = np.where(redrawn, self._rng.random(len(begun)) < self.alpha, self._experts_turn)
        actions = self._learner(obs)
        if self._experts_turn.any():
            actions[self._experts_turn] = self._expert(obs[self._experts_turn])
        self._turns.append(self._experts_turn)
        return actions, actions
