"""A replay that is sampled in proportion to priority (arXiv:1511.05952)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from imitate.envs.spaces import Array
from imitate.rl.replay import Replay

__all__ = ["PrioritizedReplay", "SumTree", "importance_weights"]


def importance_weights(probabilities: Array, beta: float) -> Array:
    """Weights (B,) of the losses of samples with these probabilities (B,) up to a constant factor.

    They are (1 / (size P))^beta, divided by their maximum, so the size cancels (arXiv:1511.05952, section 3.4).
    """
    weights: Array = (probabilities / probabilities.min()) ** np.float32(-beta)
    return weights


class PrioritizedReplay(Replay):
    """A replay in which new steps get the highest priority so far."""

    @cached_property
    def tree(self) -> SumTree:
        """The priorities of all slots; 0 where no step can be sampled."""
        return SumTree(len(self.acted))

    def prioritize(self, slots: Array, priorities: Array) -> None:
        """Set the priorities (B,) of the samples from `slots`."""
        self.tree.set(slots, priorities)

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        return self.tree.draw(size, rng)

    def mark(self, slots: Array, *, acted: bool) -> None:
        super().mark(slots, acted=acted)
        self.tree.set(slots.ravel(), np.full(slots.size, self.tree.highest if acted else 0.0))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | self.tree.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.tree.load_state_dict(state)

    def clear(self) -> None:
        super().clear()
        self.tree.clear()


class SumTree:
    """Samples indices in proportion to their values: a binary tree in which each node is the sum of its children."""

    def __init__(self, size: int) -> None:
        self.levels = max(size - 1, 1).bit_length()
        self.leaves = 1 << self.levels  # leaf i is at leaves + i, the children of i at 2 i and 2 i + 1
        self.sums = np.zeros(2 * self.leaves)
        self.highest = 1.0

    def set(self, indices: Array, values: Array) -> None:
        """Set the values at these indices; if one appears twice, the last value counts."""
        nodes = indices + self.leaves
        self.sums[nodes] = values
        self.highest = max(self.highest, float(values.max(initial=0.0)))
        for _ in range(self.levels):
            nodes = nodes >> 1
            self.sums[nodes] = self.sums[2 * nodes] + self.sums[2 * nodes + 1]

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Stratified sample: indices, one from each of `size` equal parts of the total, and their probabilities."""
        total = self.sums[1]
        mass = (np.arange(size) + rng.random(size)) * (total / size)
        nodes = np.ones(size, np.int64)
        for _ in range(self.levels):
            left = self.sums[2 * nodes]
            # Never enter a branch of sum 0, even if rounding errors leave some mass for it.
            right = (mass >= left) & (self.sums[2 * nodes + 1] > 0)
            mass = np.where(right, mass - left, mass)
            nodes = 2 * nodes + right
        return nodes - self.leaves, (self.sums[nodes] / total).astype(np.float32)

    def clear(self) -> None:
        self.sums[:] = 0.0
        self.highest = 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"sums": torch.from_numpy(self.sums), "highest": self.highest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sums[:] = state["sums"].numpy()
        self.highest = state["highest"]
