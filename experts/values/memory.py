"""The data of fitted Q evaluation: all steps so far, in memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array

__all__ = ["Memory", "experts_steps"]


class Memory:
    """Steps of trajectories on a device, in order.

    gamma   discount
    n_step  maximum number of rewards that a sample sums before it bootstraps

    Each piece stores its observations (T + 1, ...) once, each with the expert's action there, so that a step's label
    also serves as the label of the previous step's successor.
    """

    def __init__(self, device: torch.device, *, gamma: float, n_step: int) -> None:
        self.pieces = 0
        self._device = device
        self._ahead = torch.arange(n_step, device=device)
        self._discounts = gamma ** torch.arange(n_step + 1, device=device)
        self._new: list[dict[str, Tensor]] = []
        self._columns: dict[str, Tensor] = {}
        self._rows = self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, piece: Trajectory, last_label: Tensor) -> None:
        """`last_label` (1, ...) is the expert's action at the piece's last observation."""
        terminated = np.zeros(len(piece), bool)
        terminated[-1] = piece.terminated
        arrays = {
            "obs": piece.obs,
            # Index of a step's observation; the next one is its successor's.
            "row": self._rows + np.arange(len(piece)),
            "actions": piece.actions,
            "rewards": piece.rewards,
            "terminated": terminated,
            "experts": experts_steps(piece),
        }
        new = {name: torch.from_numpy(np.array(array)).to(self._device) for name, array in arrays.items()}
        labels = torch.cat([torch.from_numpy(np.array(piece.labels)), last_label.cpu()])
        new["labels"] = labels.to(self._device)
        self._new.append(new)
        self._rows += len(piece.obs)
        self._count += len(piece)
        self.pieces += 1

    def batch(self, steps: Tensor) -> dict[str, Tensor]:
        """The batch of these steps (B,), for `FittedQ.update`.

        A sample begins with its own action and continues while the expert acts, for at most `n_step` steps: `rewards`
        is the discounted sum of the rewards on the way, and `next_obs` the state at its end.
        """
        self._merge()
        columns, steps = self._columns, steps.to(self._device)
        count = (1 + columns["experts"][steps]).clamp(max=len(self._ahead))  # (B,) steps that a sample takes
        last, row = steps + count - 1, columns["row"][steps]
        ahead = torch.minimum(steps[:, None] + self._ahead, last[:, None])  # (B, n)
        taken = self._ahead < count[:, None]
        rewards = (columns["rewards"][ahead] * self._discounts[:-1] * taken).sum(1)
        return {
            "obs": columns["obs"][row],
            "actions": columns["actions"][steps],
            "rewards": rewards,
            "discounts": self._discounts[count],
            "terminated": columns["terminated"][last],
            "next_obs": columns["obs"][row + count],
            "next_actions": columns["labels"][row + count],
        }

    def last(self, count: int) -> tuple[Tensor, Tensor]:
        """Observations and the expert's actions (B, ...) of the last `count` steps."""
        self._merge()
        row = self._columns["row"][-count:]
        return self._columns["obs"][row], self._columns["labels"][row]

    def states(self) -> Tensor:
        """All observations (R, ...), final ones of pieces included."""
        self._merge()
        return self._columns["obs"]

    def relabel(self, labels: Tensor) -> None:
        """Replace the expert's actions (R, ...) at `states`."""
        self._merge()
        self._columns["labels"] = labels

    def _merge(self) -> None:
        if self._new:
            pieces = [self._columns, *self._new] if self._columns else self._new
            self._columns = {name: torch.cat([piece[name] for piece in pieces]) for name in self._new[0]}
            self._new = []


def experts_steps(piece: Trajectory) -> Array:
    """The number of steps (T,) in a row that the expert acts after each step, until another policy acts or the piece
    ends."""
    own = (piece.actions == piece.labels).reshape(len(piece), -1).all(1)
    others = np.append(np.flatnonzero(~own), len(piece))  # steps of others, and the end
    after = np.arange(1, len(piece) + 1)
    counts: Array = others[np.searchsorted(others, after)] - after
    return counts
