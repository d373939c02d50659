"""Sends the curves of a run to Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imitate.errors import InputError, pip_install
from imitate.training.experiment import Experiment

__all__ = ["sent"]


@contextmanager
def sent(experiment: Experiment, out: Path) -> Iterator[None]:
    """Inside the block, all that is written for TensorBoard also goes to a run there, whose name is that of the folder.

    wandb's own variables, such as WANDB_PROJECT and WANDB_MODE, count. Raises InputError if wandb isn't installed.
    """
    try:
        import wandb
    except ImportError as error:
        raise InputError(f"--wandb needs Weights & Biases: {pip_install('wandb')}") from error
    out.parent.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=None if "WANDB_PROJECT" in os.environ else "imitate",
        name=out.name,
        dir=str(out.parent),
        config=experiment.to_json(),
        sync_tensorboard=True,
    )
    try:
        yield
    except BaseException:
        run.finish(exit_code=1)
        raise
    run.finish()
