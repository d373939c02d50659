"""Generative adversarial imitation from observation, GAIfO (arXiv:1807.06158): from demonstrations without actions.

The discriminator sees a transition (s, s') in place of (s, a), so it needs no action of the expert. The rest is `dac`:
SAC with a replay, the regularised discriminator, and the reward computed anew for each batch.

Departures. The paper's learner is TRPO. The discriminator sees s and the standardised change s' - s, which say the same
as s and s': in one step of a simulation s' hardly differs from s, and a small network would see s twice. SAC learns
from its own half of each batch only, as it would want the expert's actions for the other.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.dac import DACConfig
from imitate.configs.gaifo import GAIfOConfig
from imitate.imitators.architecture import Kind
from imitate.imitators.dac import DAC, PairNet
from imitate.imitators.noisy import warn_of_noise
from imitate.nn.networks import Encoder
from imitate.nn.normalize import RunningMoments
from imitate.rl.batches import Batch
from imitate.rl.handed import takes

__all__ = ["ChangeNet", "GAIfO", "GAIfOConfig"]


class ChangeNet(PairNet):
    """Logit of "this transition is the expert's", from prepared observations (B, F) and their successors."""

    kind: ClassVar[Kind] = "gaifo"

    def __init__(self, space: spaces.Space[Any], _actions: int, config: DACConfig) -> None:
        observations = Encoder(space, (), "relu", normalize=False).inputs
        super().__init__(space, observations, config)
        self.changes = RunningMoments((observations,))

    def observe(self, batch: Batch) -> None:
        super().observe(batch)
        self.changes.update(batch["next_obs"] - batch["obs"])

    def prepare(self, batch: Batch) -> Tensor:
        """Inputs (B, 2 F) of `forward`."""
        changes = self.changes(batch["next_obs"] - batch["obs"])
        return torch.cat([self.moments(batch["obs"]), changes], -1)


class GAIfO(DAC):
    """GAIfO on vector environments, from demonstrations in memory; takes the arguments of `DAC`."""

    config: GAIfOConfig
    network = ChangeNet

    @takes(GAIfOConfig)
    def __init__(self, config: GAIfOConfig, **handed: Any) -> None:
        super().__init__(config, **handed)
        warn_of_noise(handed["demos"], "gaifo", "use bc or gail, which learn from actions")
        assert self.demos is not None
        frames, ends = self.demos.frames, np.flatnonzero(self.demos.terminated)
        # Formats without final observations repeat the last one: that change of 0 is not the expert's.
        still = (frames[ends + 1] == frames[ends]).all(tuple(range(1, frames.ndim)))
        if len(self.demos) > np.count_nonzero(still):
            self.demos.mark(ends[still], acted=False)
