"""The description of a discriminator's network, as a stored reward keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

__all__ = ["Architecture", "Kind"]

Kind = Literal["gail", "airl", "dac", "gaifo"]
"""The learner whose network it is: it decides what of a step the reward depends on."""


@dataclass(frozen=True)
class Architecture:
    """A discriminator's network: its kind, the widths of its hidden layers, and their activation."""

    kind: Kind
    hidden: Annotated[tuple[Annotated[int, Meta(ge=1)], ...], Meta(max_length=64)]
    activation: Literal["tanh", "relu"]
