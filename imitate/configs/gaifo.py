"""Hyperparameters of GAIfO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from imitate.configs.dac import DACConfig
from imitate.errors import InputError

__all__ = ["GAIfOConfig"]


@dataclass(frozen=True)
class GAIfOConfig(DACConfig):
    """Hyperparameters of GAIfO: those of DAC, with two other defaults."""

    MAIN: ClassVar[tuple[str, ...]] = DACConfig.MAIN
    WITHOUT_ACTIONS: ClassVar[bool] = True

    layer_norm: bool = False
    """Normalise the critics' hidden layers. False, as the critics learn from no pairs of the expert."""
    mix_demos: bool = False
    """False, as the expert's actions are unknown: SAC learns from its own half of a batch only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mix_demos:
            raise InputError(
                "gaifo knows no actions of the expert, from which SAC could learn: leave mix_demos out"
            )
