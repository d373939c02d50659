"""Carry out a comparison: jobs in parallel processes, one progress display, and on from where it stopped."""

from __future__ import annotations

import json
import logging
import multiprocessing as mp
import os
import queue
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from imitate.compare import work
from imitate.compare.plan import Comparison, Job, jobs
from imitate.compare.results import Result, write_json
from imitate.datasets.environments import make_env
from imitate.datasets.errors import InputError
from imitate.evaluate import TEST_SEED, RandomPolicy
from imitate.experts import load_expert

__all__ = ["execute"]

logger = logging.getLogger(__name__)


def execute(comparison: Comparison, out: Path, *, workers: int | None = None) -> None:
    """Fill the folder `out`, or the rest of it where an earlier call was interrupted.

    A job that fails leaves its error in `errors/` and the others go on; calling again tries it again. Ctrl-C lets
    the runs save their state and then raises KeyboardInterrupt. `workers` defaults to the number of processors.

    Raises InputError where `out` holds something else, an expert or a hyperparameter does not suit, or the budget
    is too small; nothing has been written then.
    """
    check_folder(comparison, out)
    expert = None if comparison.expert is None else load_expert(comparison.expert)
    if expert is not None:
        expert.check_env(comparison.env_id)
    planned = jobs(comparison, out, episode_steps=1)
    for job in planned:
        if job.algorithm != "demos":
            work.experiment(comparison, job)
    references = _references(comparison, out, expert)
    planned = jobs(comparison, out, references["episode_steps"])
    write_json(out / "comparison.json", comparison.to_json())
    write_json(out / "references.json", references)
    with _pool(workers or os.cpu_count() or 1) as pool, logging_redirect_tqdm():
        if comparison.expert is not None:
            pool.film(comparison, out / "videos" / "expert.mp4", None)
        pool.run(comparison, planned, out)
        for name in comparison.algorithms:
            if (run := _typical(comparison, name, out)) is not None:
                pool.film(comparison, out / "videos" / f"{name}.mp4", run)
        pool.finish()


def check_folder(comparison: Comparison, out: Path) -> None:
    """Raise InputError unless `out` is new, empty, or holds this very comparison."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        found = json.loads((out / "comparison.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{out} exists and is no comparison; choose another --out") from error
    wanted = comparison.to_json()
    for name, value in wanted.items():
        if found.get(name) != value:
            raise InputError(
                f"{out} holds another comparison: its {name} is {found.get(name)!r}, not {value!r}; choose another --out"
            )
