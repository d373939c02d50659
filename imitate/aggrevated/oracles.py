"""The source of an expert's Q*: its own critic, or fitted Q evaluation."""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.datasets.storage.writer import DemoWriter
from imitate.errors import InputError
from imitate.experts.values.critics import QOracle
from imitate.experts.values.fqe import FittedQ
from imitate.imitators.roll_in.teachers import Teacher, Teachers

__all__ = ["choose_oracle"]

logger = logging.getLogger(__name__)


def choose_oracle(
    expert: Any,
    config: AggreVaTeDConfig,
    store: DemoWriter,
    *,
    seed: int,
    device: torch.device | str,
    given: QOracle | None = None,
) -> tuple[QOracle | None, Teacher | Teachers]:
    """The critic that `config.oracle` names, on the device, or the `given` one; and the expert as a source of labels,
    which learns the critic if it must be learned.

    auto    the expert's own critic (SAC, TQC, TD3, DDPG, DQN, QR-DQN) if it has one, else fqe
    critic  the expert's own critic. Raises InputError if it has none
    fqe     learned during training by fitted Q evaluation; for any expert
    Several experts always have a critic that is learned. Raises InputError if another one is named. A ready source of
    labels stays as it is, with the given critic or none.
    """
    if isinstance(expert, Teacher | Teachers):
        return given, expert
    if isinstance(expert, Sequence):
        if given is None and config.oracle not in ("auto", "fqe"):
            raise InputError(
                f"several experts are compared by fitted Q, not by oracle {config.oracle!r}: use fqe"
            )
        teachers = Teachers(expert, store, config.fqe, seed=seed, device=device)
        return (teachers.critic if given is None else given), teachers
    if given is not None:
        return given, Teacher(expert, store)
    own: QOracle | None = getattr(expert, "oracle", None)
    who = f"{getattr(expert, 'source', 'the expert')} ({getattr(expert, 'algorithm', 'a function')})"
    if config.oracle == "critic" and own is None:
        raise InputError(f"oracle 'critic' can't be had: {who} brings no action values; take fqe")
    if own is not None and config.oracle != "fqe":
        logger.info("Q* is the critic that %s brings, discount %g", who, own.gamma)
        if isinstance(own, nn.Module):
            own = copy.deepcopy(own).to(device)  # the expert itself stays on its device
        return own, Teacher(expert, store)
    info = store.info
    fitted = FittedQ(info.observation_space, info.action_space, config.fqe, seed=seed, device=device)
    logger.info("Q* of %s is learned online by fitted Q evaluation, discount %g", who, fitted.gamma)
    return fitted, Teacher(expert, store, fitted)
