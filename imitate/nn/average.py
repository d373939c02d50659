"""The moving average of a network's weights, which is smoother than any of the weights it averages."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Average"]


class Average:
    """Keeps the parameters of `average` at the exponential moving average of those of `network`.

    The decay begins low, as (1 + n) / (10 + n) after n updates, so that the weights of the start are soon forgotten.
    """

    def __init__(self, average: nn.Module, network: nn.Module, decay: float) -> None:
        self.decay, self.count = decay, 0
        self._average: list[Tensor] = list(average.parameters())
        self._weights: list[Tensor] = list(network.parameters())

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after one more gradient step."""
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        torch._foreach_lerp_(self._average, self._weights, 1.0 - decay)
        self.count += 1

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]
