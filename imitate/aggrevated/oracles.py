"""Where an expert's Q* comes from: its own critic, or fitted Q evaluation."""

from __future__ import annotations

import copy
import logging
from typing import Any

import torch
from gymnasium import spaces

from imitate.aggrevated.config import AggreVaTeDConfig
from imitate.errors import InputError
from imitate.experts.critics import QOracle
from imitate.experts.fqe import FittedQ

__all__ = ["choose_oracle"]

logger = logging.getLogger(__name__)


def choose_oracle(
    expert: Any,
    config: AggreVaTeDConfig,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    seed: int,
    device: torch.device | str = "cpu",
) -> tuple[QOracle | None, FittedQ | None]:
    """The critic that `config.oracle` names, on the device; and the same critic again if it must be learned, else None.

    auto    the expert's own critic (SAC, TQC, TD3, DDPG, DQN, QR-DQN) if it has one, else fqe
    critic  the expert's own critic. Raises InputError if it has none
    fqe     learned during training by fitted Q evaluation; for any expert
    td      no critic, only state values
    """
    own: QOracle | None = getattr(expert, "oracle", None)
    who = f"{getattr(expert, 'source', 'the expert')} ({getattr(expert, 'algorithm', 'a function')})"
    if config.oracle == "critic" and own is None:
        raise InputError(f"oracle 'critic' can't be had: {who} brings no action values; take fqe")
    if config.oracle == "td":
        return None, None
    if own is not None and config.oracle != "fqe":
        logger.info("Q* is the critic that %s brings, discount %g", who, own.gamma)
        moved: Any = copy.deepcopy(own)  # the expert itself stays on its device
        return moved.to(device), None
    fitted = FittedQ(observation_space, action_space, config.fqe, seed=seed, device=device)
    logger.info("Q* of %s is learned online by fitted Q evaluation, discount %g", who, fitted.gamma)
    return fitted, fitted
