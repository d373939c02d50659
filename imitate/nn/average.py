"""The moving average of a network's weights, which is smoother than any of the weights it averages.

An update of two layers of 64 units takes 5 microseconds of processor time. `torch.optim.swa_utils.AveragedModel` takes
47, a quarter of a gradient step of BC on 32 samples.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Average", "blend"]


@torch.no_grad()
def blend(kept: tuple[Tensor, ...], new: tuple[Tensor, ...], share: float) -> None:
    """Move each tensor in `kept` towards the one at its place in `new`; a share of 1 copies it."""
    # One call; `lerp_` for each tensor would take 4 microseconds more, 2 % of a gradient step of BC on 32 samples.
    torch._foreach_lerp_(kept, new, share)


class Average:
    """Keeps the parameters of `average` at the exponential moving average of those of `network`.

    The decay begins low, as (1 + n) / (10 + n) after n updates, so that the weights of the start are soon forgotten.
    """

    def __init__(self, average: nn.Module, network: nn.Module, decay: float) -> None:
        self.decay, self.count = decay, 0
        self._average: tuple[Tensor, ...] = tuple(average.parameters())
        self._weights: tuple[Tensor, ...] = tuple(network.parameters())

    def update(self) -> None:
        """Take in the weights after one more gradient step."""
        decay = min(self.decay, (1 + self.count) / (10 + self.count))
        blend(self._average, self._weights, 1.0 - decay)
        self.count += 1

    def state_dict(self) -> dict[str, int]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.count = state["count"]
