"""The description of a discriminator's network, as a stored reward keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from imitate.configs.shared import Widths

__all__ = ["Architecture", "Kind"]

Kind = Literal["gail", "airl", "dac", "gaifo"]
"""The learner whose network it is: it decides what of a step the reward depends on."""


@dataclass(frozen=True)
class Architecture:
    """A discriminator's network: its kind, the widths of its hidden layers, and their activation."""

    kind: Kind
    hidden: Widths
    activation: Literal["tanh", "relu"]
