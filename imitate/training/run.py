"""The one training loop: budget, logging, validation, best policy, checkpoint, resume, Ctrl-C.

A checkpoint is a reset point. An uninterrupted run, too, puts the state it has just saved back into the learner,
which begins new episodes with seeds that follow from that state. So a run that was killed and resumed goes through
the same states as one that was not, byte for byte, although environments can't be saved.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from torch.utils.tensorboard import SummaryWriter

from imitate.algorithms import Learner
from imitate.datasets.evaluation import Evaluation
from imitate.files import write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state, save_state
from imitate.nn.stored_policy import save_policy

__all__ = ["CHECKPOINT", "Progress", "Validate", "keep_freed_memory", "train"]

CHECKPOINT = "checkpoint.safetensors"
Validate = Callable[[ActorPolicy], Evaluation]
Progress = Callable[[int, dict[str, float]], None]


@dataclass
class _Account:
    """Where a run stands; all of it is in the checkpoint."""

    iterations: int = 0
    validation_steps: int = 0
    dearest_iteration: int = 0
    dearest_validation: int = 0
    next_validation: int = 0
    next_checkpoint: int = 0
    best_mean: float | None = None
    metrics_bytes: int = 0
    evaluations_bytes: int = 0


def train(
    learner: Learner,
    out: Path,
    *,
    budget: int,
    demo_steps: int = 0,
    validate: Validate | None = None,
    eval_every: int = 0,
    checkpoint_every: int = 0,
    resume: bool = False,
    progress: Progress | None = None,
) -> bool:
    """Call `learner.step()` until the budget of environment steps is spent or the learner is done.

    budget            demonstration steps, the learner's own and validation steps all count
    validate          measures a policy; the best one by its mean return is kept in `policy/`, else the last
    eval_every, checkpoint_every    in environment steps of the learner (its iterations where it takes none)

    Returns False where Ctrl-C ended it early, after a checkpoint. Writes metrics.jsonl, evaluations.jsonl,
    TensorBoard events, checkpoint.safetensors, policy/ and last_policy/ to `out`.
    """
    keep_freed_memory()
    account = _Account(next_validation=eval_every, next_checkpoint=checkpoint_every)
    wall_seconds = 0.0
    if resume and (out / CHECKPOINT).exists():
        state = load_state(out / CHECKPOINT)
        account = _Account(**state["account"])
        learner.load_state_dict(state["learner"])
        wall_seconds = json.loads((out / "timing.json").read_text())["wall_seconds"]
    begin = time.monotonic() - wall_seconds

    def spent() -> int:
        return demo_steps + learner.env_steps + account.validation_steps

    def position() -> int:
        return learner.env_steps or account.iterations

    def affordable() -> bool:
        # The budget holds: room is kept for one more iteration and for a validation after it.
        return spent() + account.dearest_iteration + account.dearest_validation <= budget

    with (
        _continued(out / "metrics.jsonl", account.metrics_bytes) as metrics_file,
        _continued(out / "evaluations.jsonl", account.evaluations_bytes) as evaluations_file,
        SummaryWriter(str(out), purge_step=spent() or None) as board,
        _interruptible() as interrupted,
    ):

        def run_validation() -> None:
            assert validate is not None
            evaluation = validate(learner.policy)
            steps = int(evaluation.lengths.sum())
            account.validation_steps += steps
            account.dearest_validation = max(account.dearest_validation, steps)
            # Of equals the later one: it has learned from more.
            best = account.best_mean is None or evaluation.mean >= account.best_mean
            if best:
                account.best_mean = evaluation.mean
                save_policy(out / "policy", learner.policy)
            row = {
                "budget_steps": spent(),
                "env_steps": learner.env_steps,
                "mean_return": evaluation.mean,
                "std_return": evaluation.std,
                "returns": evaluation.returns.tolist(),
                "best": best,
            }
            account.evaluations_bytes += _append(evaluations_file, row)
            board.add_scalar("validation/mean_return", evaluation.mean, spent())

        def checkpoint() -> None:
            write_json(out / "timing.json", {"wall_seconds": time.monotonic() - begin})
            save_state(out / CHECKPOINT, {"account": asdict(account), "learner": learner.state_dict()})
            learner.load_state_dict(load_state(out / CHECKPOINT)["learner"])

        validated = -1
        while affordable() and not learner.done and not interrupted():
            before = learner.env_steps
            metrics = learner.step()
            account.iterations += 1
            account.dearest_iteration = max(account.dearest_iteration, learner.env_steps - before)
            counts = {
                "iteration": account.iterations,
                "budget_steps": spent(),
                "env_steps": learner.env_steps,
            }
            row = counts | {"expert_queries": learner.expert_queries} | metrics
            account.metrics_bytes += _append(metrics_file, row)
            for name, value in metrics.items():
                board.add_scalar(f"train/{name}", value, spent() if learner.env_steps else account.iterations)
            if eval_every and position() >= account.next_validation:
                account.next_validation = position() + eval_every
                run_validation()
                validated = account.iterations
            if checkpoint_every and position() >= account.next_checkpoint:
                account.next_checkpoint = position() + checkpoint_every
                checkpoint()
            if progress is not None:
                progress(spent(), metrics)

        if interrupted():
            checkpoint()
            return False
        if eval_every and validated != account.iterations:
            run_validation()
        save_policy(out / "last_policy", learner.policy)
        if account.best_mean is None:
            save_policy(out / "policy", learner.policy)
        totals = {
            "env_steps": learner.env_steps,
            "demo_steps": demo_steps,
            "validation_steps": account.validation_steps,
            "expert_queries": learner.expert_queries,
        }
        write_json(out / "timing.json", {"wall_seconds": time.monotonic() - begin})
        write_json(out / "finished.json", totals)
        (out / CHECKPOINT).unlink(missing_ok=True)
        if progress is not None:
            progress(spent(), {})
    return True


@contextmanager
def _continued(path: Path, size: int) -> Iterator[IO[str]]:
    """Open for appending, without what was written after the checkpoint."""
    path.touch()
    with path.open("r+", encoding="utf-8") as file:
        file.truncate(size)
        file.seek(size)
        yield file


def _append(file: IO[str], row: dict[str, Any]) -> int:
    line = json.dumps(row) + "\n"
    file.write(line)
    file.flush()
    return len(line)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C ends the loop after the iteration in progress; a second one ends the program at once."""
    seen = False

    def handle(_signum: int, _frame: Any) -> None:
        nonlocal seen
        seen = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = signal.signal(signal.SIGINT, handle)
    except ValueError:  # only the main thread may set handlers: elsewhere Ctrl-C is the caller's
        yield lambda: False
        return
    try:
        yield lambda: seen
    finally:
        signal.signal(signal.SIGINT, before)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory() -> None:
    """Have glibc keep up to 256 MB of what this process frees, and map single blocks from 32 MB on only.

    By default it gives blocks of 128 KB, a minibatch of 256 in a layer of 128, back to the system and gets them anew,
    page by page: a quarter of the time of AggreVaTeD's updates. Other C libraries are left as they are.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, 256 << 20)
        mallopt(_MMAP_THRESHOLD, 32 << 20)
