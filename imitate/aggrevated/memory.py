"""The data of fitted Q evaluation: all steps so far, in memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from imitate.datasets.trajectory import Trajectory

__all__ = ["Memory"]


class Memory:
    """Steps of trajectories on a device, in order.

    Each piece stores its observations (T + 1, ...) once, each with the expert's action there, so that a step's label
    also serves as the label of the previous step's successor.
    """

    def __init__(self, device: torch.device) -> None:
        self.pieces = 0
        self._device = device
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
            "row": self._rows
            + np.arange(len(piece)),  # index of a step's observation; its successor's is the next one
            "actions": piece.actions,
            "rewards": piece.rewards,
            "terminated": terminated,
        }
        new = {name: torch.from_numpy(np.array(array)).to(self._device) for name, array in arrays.items()}
        new["labels"] = torch.cat([torch.from_numpy(np.array(piece.labels)), last_label.cpu()]).to(
            self._device
        )
        self._new.append(new)
        self._rows += len(piece.obs)
        self._count += len(piece)
        self.pieces += 1

    def batch(self, steps: Tensor) -> dict[str, Tensor]:
        """The batch of these steps (B,), for `FittedQ.update`."""
        self._merge()
        columns, steps = self._columns, steps.to(self._device)
        row = columns["row"][steps]
        own = {name: columns[name][steps] for name in ("actions", "rewards", "terminated")}
        return own | {
            "obs": columns["obs"][row],
            "next_obs": columns["obs"][row + 1],
            "next_actions": columns["labels"][row + 1],
        }

    def last(self, count: int) -> tuple[Tensor, Tensor]:
        """Observations and the expert's actions (B, ...) of the last `count` steps."""
        self._merge()
        row = self._columns["row"][-count:]
        return self._columns["obs"][row], self._columns["labels"][row]

    def _merge(self) -> None:
        if self._new:
            pieces = [self._columns, *self._new] if self._columns else self._new
            self._columns = {name: torch.cat([piece[name] for piece in pieces]) for name in self._new[0]}
            self._new = []
