"""Hyperparameters of guided learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from imitate.configs.tqc import TQCConfig
from imitate.errors import InputError, check_range

__all__ = ["GuidedConfig"]


@dataclass(frozen=True)
class GuidedConfig(TQCConfig):
    """Hyperparameters of guided learning: TQC's, and those of the expert's part."""

    MAIN: ClassVar[tuple[str, ...]] = (
        "learning_starts", "offline_updates", "guidance_fraction", "cloning", "cloning_fraction",
        "updates_per_step", "batch_size", "learning_rate", "gamma", "n_step", "hidden",
    )  # fmt: skip

    batch_size: int = 256
    """Samples in a gradient step."""
    learning_starts: int = 5_000
    """Steps of the expert's episodes before the first gradient step."""
    offline_updates: int = 5_000
    """Gradient steps on the expert's steps before the student acts."""
    guidance_fraction: float = 0.5
    """Share of the run during which the critics may choose the expert's action; afterwards the student is alone."""
    jump_start: float = 0.0
    """Share of an expert's episode that it takes at the start of each one; falls to 0 until it retires (JSRL)."""
    residual: float = 0.0
    """Largest correction that the student adds to the expert's action, where 1 is half the range of actions; 0: it acts
    alone. A clone of the sum is handed over. Then jump_start, cloning and average have no part, and guidance_fraction
    only says when the step size begins to fall."""
    cloning: float = 1.0
    """Weight of cloning at the start; at 1 it pulls as hard as the critics where an action is 0.5 from the expert's."""
    cloning_fraction: float = 0.5
    """Share of the run over which the weight of cloning falls to 0."""
    ent_coef_init: float = 0.1
    """Weight of the entropy at the start, if it adapts."""
    greedy_share: float = 0.25
    """Share of the episodes, once the expert has retired, that the averaged policy plays without noise. It is kept as
    it was when these went best; the test, if there is one, chooses between that policy and the last."""
    test: float = 0.05
    """Share of the steps for the test at the end; 0: the student is handed over untested."""
    clone_updates: int = 20_000
    """Gradient steps of the clone that is handed over if the expert wins the test."""
    average: float = 0.9995
    """Decay of the moving average of weights that is handed over."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays from the expert's retirement to 0 at the end of the run."""
    quantiles: int = 8
    """Quantiles of the return that each critic predicts."""
    dropped: int = 1
    """Quantiles of each critic, the highest of all together, that a target leaves out."""
    layer_norm: bool = True
    """Normalise the critics' hidden layers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "offline_updates", "cloning")
        check_range(self, 1, math.inf, "clone_updates")
        check_range(
            self, 0, 1, "guidance_fraction", "jump_start", "cloning_fraction", "greedy_share", "average"
        )
        check_range(self, 0, 0.5, "test")
        check_range(self, 0, 2, "residual")
        if self.actor_every != 1:
            raise InputError(
                f"the student of guided learns in every gradient step, got actor_every {self.actor_every}: leave it out"
            )
        asked = max(self.guidance_fraction, self.cloning_fraction if self.cloning else 0.0)
        after = math.ceil((1.0 - asked) * self.total_steps)
        if self.test and not self.residual and self.replay_size < after:
            raise InputError(
                f"replay_size {self.replay_size} forgets what the expert was asked before the test, which may need a "
                f"clone of it; give more than {after}, or --test 0"
            )
        if self.learning_starts >= self.total_steps:
            raise InputError(
                f"learning_starts must be less than total_steps, got {self.learning_starts} of {self.total_steps}: "
                "give a larger budget, or fewer learning_starts"
            )
