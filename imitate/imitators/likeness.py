"""The distance of a policy's episodes from demonstrations: a test of imitators that sees no reward.

It is the energy distance (Szekely and Rizzo 2013) between the policy's pairs of observation and action and the
expert's. With x, x' drawn from one side and y, y' from the other,

    2 E|x - y| - E|x - x'| - E|y - y'|

is never negative, and 0 only if both are distributed alike. Nothing is fitted, so no demonstration has to be held out
for it; the discriminator of another network would want fresh ones, and they are few. The likelihood of held-out pairs
would not see the states that the policy leads itself into, where imitators fail.

A terminated episode enters an absorbing state, which is one more point, weighted by the share of discounted time spent
there. It is about twice as far from all others as two of the expert's points. So falling early is far from an expert
that never falls, and hovering from one that lands; if it were near, a policy that balances where the expert never was
could be farther away than one that falls beside it. This distance was chosen on seeds 10 to 14 of SQIL and IQ-Learn on
CartPole, Acrobot and LunarLander.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.datasets.edit import shown
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.numbers import indicators
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.imitators.absorbing import absorbed_share
from imitate.rl.rollout import Rollout

__all__ = ["Likeness", "energy_distance"]

_MOST = 2_000  # points of each side: all pairs of points are compared
_GAMMA = 0.99  # of the time in the absorbing state


def energy_distance(x: Tensor, y: Tensor, x_weights: Tensor, y_weights: Tensor) -> float:
    """Energy distance of points x (B, F) and y (C, F) with weights (B,) and (C,) that sum up to 1."""

    def mean(a: Tensor, b: Tensor, a_weights: Tensor, b_weights: Tensor) -> Tensor:
        exact = "donot_use_mm_for_euclid_dist"  # products lose the digits of small distances
        return a_weights @ torch.cdist(a, b, compute_mode=exact) @ b_weights

    between = mean(x, y, x_weights, y_weights)
    return float(2 * between - mean(x, x, x_weights, x_weights) - mean(y, y, y_weights, y_weights))


class Likeness:
    """Compares rollouts with demonstrations; `episodes` are indices of these, by default all; `every` n-th step counts.

    pairs   only so many of these count, drawn by the seed as for the learner

    Raises InputError unless observations and actions are vectors or numbers.
    """

    def __init__(
        self,
        demos: DemoReader,
        episodes: Array | None = None,
        *,
        every: int = 1,
        pairs: int | None = None,
        seed: int = 0,
    ) -> None:
        info = demos.info
        self.spaces = (info.observation_space, *((info.action_space,) if info.has_actions else ()))
        for space in self.spaces:
            if not isinstance(space, spaces.Discrete) and len(space.shape or (0, 0)) != 1:
                raise InputError(
                    f"the distance from demonstrations is for vectors and numbers, got {space}: "
                    "add --eval-every 0, which keeps the last policy, or --validate-by return; in a comparison give "
                    "--keep-closest False"
                )
        table = demos.table if episodes is None else demos.table[episodes]
        if pairs is not None:
            demos, episodes = shown(demos, episodes, every=every, pairs=pairs, seed=seed)
            every = 1
        chosen = range(len(demos)) if episodes is None else episodes.tolist()
        recorded = [demos[index] for index in chosen]
        obs = np.concatenate([each.obs[:-1:every] for each in recorded])
        points = self._columns(obs, np.concatenate([each.labels[::every] for each in recorded]))
        self.mean, std = points.mean(0), points.std(0, correction=0)
        self.std = torch.where(std > 1e-6, std, 1.0)
        # Terminations count as often as the steps that are shown.
        terminations = int(table["terminated"].sum()) * len(points) / int(table["length"].sum())
        self.points, self.weights = self._weighted(points, terminations)

    def distance(self, rollout: Rollout) -> float:
        """Energy distance from a rollout's steps, whose actions are the environment's, to the demonstrations."""
        points = self._columns(rollout.obs[rollout.steps], rollout.actions[rollout.steps])
        points, weights = self._weighted(points, int(rollout.terminated.sum()))
        return energy_distance(points, self.points, weights, self.weights)

    def _columns(self, obs: Array, actions: Array) -> Tensor:
        """Observations and, if those of the demonstrations are known, actions (B, F), numbers as one-hot vectors."""
        both = zip(self.spaces, (obs, actions), strict=False)
        return torch.cat([_one_hot(space, values) for space, values in both], -1)

    def _weighted(self, points: Tensor, terminations: float) -> tuple[Tensor, Tensor]:
        """At most 2,000 of the points, standardised, beside the absorbing state (B + 1, F + 1); their weights."""
        absorbed = absorbed_share(len(points), terminations, _GAMMA)
        chosen = np.linspace(0, len(points) - 1, min(len(points), _MOST)).round().astype(np.int64)
        scaled = (points[chosen] - self.mean) / self.std
        alive = torch.nn.functional.pad(scaled, (0, 1, 0, 1))
        # Two points with variance 1 in each of F columns have a mean squared distance of 2 F.
        alive[-1, -1] = 2.0 * math.sqrt(2.0 * scaled.shape[1])
        weights = torch.full((len(alive),), (1 - absorbed) / len(chosen))
        weights[-1] = absorbed
        return alive, weights


def _one_hot(space: spaces.Space[Any], values: Array) -> Tensor:
    if isinstance(space, spaces.Discrete):
        values = indicators(values, int(space.start), int(space.n), np.float32)
    return torch.from_numpy(values.astype(np.float32))
