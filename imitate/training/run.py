"""The one training loop: budget, logging, validation, best policy, checkpoint, resume, signals.

A checkpoint is a reset point. At a checkpoint an uninterrupted run also loads the state that it has just saved, and the
learner begins new episodes with seeds that follow from that state. So a run that was killed and resumed goes through
the same states as an uninterrupted one, byte for byte, although environments can't be saved. (A replay of pixels is the
exception: it is not saved, so a resumed run fills a new one.) Ctrl-C, SIGTERM and SIGHUP add a checkpoint at the end of
the iteration, so the run goes on from there with new episodes, not as if it had never been interrupted. An exception
saves the state as it is in the middle of the iteration, so that nothing is lost when an environment or an expert fails.
If learning diverges, that state is worth nothing, and the checkpoint before it stays. A second Ctrl-C saves nothing.

If the expert may answer otherwise the second time, a killed run can't be repeated to the byte. Such a run also saves
its state between checkpoints (`save_each`), and goes on without loading it.
"""

from __future__ import annotations

import errno
import logging
import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from imitate.algorithms import Learner
from imitate.datasets.evaluation import Evaluation
from imitate.datasets.storage.writer import DemoWriter
from imitate.errors import DISK_FULL, InputError
from imitate.files import write_json
from imitate.imitators.learned_reward import LearnedReward, LearnsReward, save_reward
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state, save_state
from imitate.nn.stored_policy import save_policy
from imitate.training.checkpoint import CHECKPOINT, Account, Checkpoint, require_finite
from imitate.training.log import append, opened
from imitate.training.process import cpu_seconds, interruptible, keep_freed_memory
from imitate.training.protocol import Unlawful, first_state, restore, take_step

__all__ = ["Progress", "Run", "Snapshot", "Validate"]

logger = logging.getLogger(__name__)

_FEW_EPISODES = 5
"""Episodes of each environment between checkpoints. A checkpoint drops unfinished episodes; if it came more often, long
episodes would hardly ever finish, and learning and logs would be biased towards short ones."""
_FULL = (*DISK_FULL, errno.EROFS)
SAVE_SHARE = 0.05
"""Of the time, for the states that `save_each` saves."""
MOST_IDLE = 10_000
"""Iterations in a row without a step of the environment; a learner that never counts its steps would run for ever.
One that learns so long before its first step loses nothing: a resumed run counts anew."""
_GROWTH = 1.5
"""Reserve for this many times the training episodes' length in a validation."""

Validate = Callable[[ActorPolicy, int], Evaluation]
"""(policy, maximum environment steps) -> Evaluation, which is incomplete if the steps did not suffice."""
Progress = Callable[[int, dict[str, float]], None]
"""(steps of the budget spent, metrics), after each iteration, whose number is the metric `iteration`."""
Snapshot = Callable[[int, ActorPolicy], dict[str, float] | None]
"""(steps of the budget spent, current policy), with 0 before the first iteration and after each, to numbers for
TensorBoard, by name. It follows the latest file of a folder alone, so all numbers go to the run's own."""


class Run:
    """Drives a learner until the budget of environment steps is spent or it is done.

    out               the folder to write: metrics.jsonl, evaluations.jsonl, TensorBoard events, a checkpoint, policy/
                      (the best one by validation, else the last), last_policy/, reward/ (of a learner that learns one),
                      timing.json, finished.json
    budget            demonstration steps, the learner's own and validation steps all count; it is never exceeded
    validate          measures a policy; the one with the best score is kept
    most_validation   maximum environment steps of a validation
    eval_episodes     episodes of a validation
    eval_every, checkpoint_every    in environment steps of the learner (iterations, if it is offline); 0: never
    num_envs          environments whose episodes a checkpoint cuts
    store             demonstrations that the learner adds to; a checkpoint records their number
    save_each         save the state after each iteration, unless it takes too much time; the store's labels are kept
                      when the run is resumed, also those after the last checkpoint
    checkpoint        resume from this one
    until             pause once even the shortest iteration would go past so many steps of the budget; one that has
                      begun is not cut, and schedules follow the budget. The policy and a checkpoint are saved, and a
                      later run goes on from there
    resume_with       the command that resumes the run, for messages
    """

    def __init__(
        self,
        learner: Learner,
        out: str | Path,
        *,
        budget: int,
        demo_steps: int = 0,
        validate: Validate | None = None,
        eval_every: int = 0,
        eval_episodes: int = 1,
        most_validation: float = math.inf,
        checkpoint_every: int = 0,
        num_envs: int = 0,
        store: DemoWriter | None = None,
        save_each: bool = False,
        checkpoint: Checkpoint | None = None,
        progress: Progress | None = None,
        snapshot: Snapshot | None = None,
        until: float = math.inf,
        resume_with: str = "",
    ) -> None:
        self.resume_with = resume_with or f"imitate train --resume {out}"
        self.learner, self.out, self.budget, self.demo_steps = learner, Path(out), budget, demo_steps
        self.validate = validate if eval_every else None
        self.eval_every, self.eval_episodes, self.most_validation = eval_every, eval_episodes, most_validation
        self.checkpoint_every, self.num_envs, self.store = checkpoint_every, num_envs, store
        self.save_each, self._next_save = save_each, 0.0
        self.progress, self.snapshot, self.until = progress, snapshot, until
        self.account = Account(next_validation=eval_every)
        self._idle = 0  # iterations since the last step of the environment
        self._first: Mapping[str, Any] | None = None  # the state before the first step, until it is taken
        if checkpoint is not None:
            self.account = checkpoint.account
            restore(learner, checkpoint.learner, self.out)
        else:
            self._require_enough()
            self._first = first_state(learner)
        self._began = time.monotonic() - self.account.wall_seconds
        self._cpu_began = cpu_seconds() - self.account.cpu_seconds

    @property
    def spent(self) -> int:
        """Steps of the budget spent so far."""
        return self.demo_steps + self.learner.env_steps + self.account.validation_steps

    @property
    def position(self) -> int:
        """The count that `eval_every` and `checkpoint_every` refer to."""
        return self.learner.env_steps or self.account.iterations

    @property
    def _axis(self) -> int:
        """The position on TensorBoard's axis: steps of the budget, or iterations of an offline learner."""
        return self.spent if self.learner.env_steps else self.account.iterations

    def finish(self) -> bool:
        """Drive the learner to the end, or to the pause. Returns False if Ctrl-C ended it early.

        Ctrl-C, SIGTERM and SIGHUP save a checkpoint first; these two then end the process with status 143 or 129.

        Raises InputError if an environment or an expert fails, if the disk is full, or if learning diverges; the
        message says what was kept. Other exceptions and a second Ctrl-C are passed on, with a note on that.
        """
        keep_freed_memory()
        sizes = self.account.metrics_bytes, self.account.evaluations_bytes
        step = self._axis + 1 if self.account.iterations else 0
        with opened(self.out, sizes, step) as self._log, interruptible() as caught:
            try:
                finished = self._drive(caught)
            except FloatingPointError as error:
                raise InputError(f"learning diverged: {error}; {self._kept()}") from error
            except Unlawful as error:
                raise InputError(f"{error}; {self._kept()}") from error
            except InputError as error:
                raise InputError(f"{error}; {self._saved()}") from error
            except OSError as error:
                if error.errno not in _FULL:
                    error.add_note(f"imitate: {self._saved()}")
                    raise
                raise InputError(f"{self.out} can't be written: {error.strerror}; {self._saved()}") from error
            except Exception as error:
                error.add_note(f"imitate: {self._saved()}")
                raise
            except KeyboardInterrupt as error:
                error.add_note(self._kept())
                raise
        if not finished and caught() != signal.SIGINT:
            raise SystemExit(128 + caught())
        return finished

    def write_timing(self) -> None:
        """Write the wall-clock seconds and the processor seconds of this process and its finished children."""
        self._stop_watch()
        times = {"wall_seconds": self.account.wall_seconds, "cpu_seconds": self.account.cpu_seconds}
        write_json(self.out / "timing.json", times)

    def _drive(self, caught: Callable[[], int]) -> bool:
        if not self.account.iterations:
            self._show()
        while not caught():
            limit = self.budget - self.spent - self._reserve()
            if not self.learner.done and limit >= self.learner.least_steps:
                if self.spent + self.learner.least_steps > self.until:
                    self._pause()
                    return True
                self._iterate(limit)
            elif self.validate is not None and not (self.account.closing and self._validated):
                # What was reserved and is not needed goes into learning.
                self.account.closing = True
                if not self._validated:
                    self._run_validation(self.validate)
            else:
                self._close()
                return True
        self._save_checkpoint()
        return False

    @property
    def _validated(self) -> bool:
        return self.account.validated >= self.account.iterations

    def _reserve(self) -> int:
        """Steps to reserve for the last validation; as policies improve, episodes may become longer."""
        if self.validate is None:
            return 0
        if self.account.closing:
            return self.account.last_validation
        estimate = math.ceil(_GROWTH * self.eval_episodes * self.account.episode_steps)
        return int(min(max(estimate, self.account.last_validation), self.most_validation))

    def _iterate(self, limit: int) -> None:
        """One iteration of at most `limit` steps, then validation and checkpoint if due."""
        account, before = self.account, self.learner.env_steps
        if self.num_envs and self._idle >= MOST_IDLE:
            raise InputError(
                f"the learner took no environment step in {MOST_IDLE} iterations: count steps in env_steps, take "
                "several gradient steps in one step(), and be done once there is nothing left to learn"
            )
        metrics = take_step(self.learner, limit, self._first)
        self._first = None
        self._idle = 0 if self.learner.env_steps > before else self._idle + 1
        account.iterations += 1
        if math.isfinite(length := metrics.get("train_length", math.nan)):
            account.episode_steps = length
        counts = {
            "iteration": account.iterations,
            "budget_steps": self.spent,
            "env_steps": self.learner.env_steps,
            "expert_queries": self.learner.expert_queries,
        }
        if taken := sorted(counts.keys() & metrics.keys()):
            raise InputError(
                f"the learner's step returned {taken[0]}, which the run counts: give another name"
            )
        append(self._log.metrics, counts | metrics)
        for name, value in metrics.items():
            if name.endswith("loss") and not math.isfinite(value):
                raise FloatingPointError(f"{name} is {value} in iteration {account.iterations}")
        self._log.show({f"train/{name}": value for name, value in metrics.items()}, self._axis)
        if self.validate is not None and self.position >= account.next_validation:
            account.next_validation = self.position + self.eval_every
            self._run_validation(self.validate)
        self._show()  # before the checkpoint: a run that goes on from it does not come here again
        if self._checkpoint_is_due():
            account.last_checkpoint = self.position
            self._save_checkpoint()
        elif self.save_each and (began := time.monotonic()) > self._next_save:
            self._write_checkpoint()
            self._next_save = time.monotonic() + (time.monotonic() - began) / SAVE_SHARE
        if self.progress is not None:
            self.progress(self.spent, {"iteration": account.iterations} | metrics)

    def _show(self) -> None:
        """Call `snapshot`, whose time is not the run's."""
        if self.snapshot is None:
            return
        began, cpu_began = time.monotonic(), cpu_seconds()
        # Before the first iteration nothing is learned from the demonstrations, whatever they cost.
        shown = self.snapshot(self.spent if self.account.iterations else 0, self.learner.policy)
        self._log.show(shown or {}, self._axis)
        self._began += time.monotonic() - began
        self._cpu_began += cpu_seconds() - cpu_began

    def _run_validation(self, validate: Validate) -> None:
        account, left = self.account, self.budget - self.spent
        account.validated = account.iterations
        if left < self.eval_episodes:
            kept = (
                "it is kept, as there is no other"
                if account.best_score is None
                else "the best one before it is kept"
            )
            logger.info("no steps are left to validate the last policy: %s", kept)
            return
        evaluation = validate(self.learner.policy, left)
        account.last_validation = evaluation.steps
        account.validation_steps += evaluation.steps
        if not evaluation.complete:
            logger.info("the last validation was cut by the budget and chooses nothing")
            return
        # Prefer the later of equals: it has learned from more data. One that a full disk did not take is no best one.
        best = account.best_score is None or evaluation.score >= account.best_score
        if best:
            self._save_policy("policy")
            account.best_score = evaluation.score
        row: dict[str, Any] = {
            "budget_steps": self.spent,
            "env_steps": self.learner.env_steps,
            "steps": evaluation.steps,
            "mean_return": evaluation.mean,
            "std_return": evaluation.std,
            "returns": evaluation.returns.tolist(),
            "best": best,
        }
        shown = {"mean_return": evaluation.mean}
        if evaluation.distance is not None:
            row["distance"] = shown["distance"] = evaluation.distance
        append(self._log.evaluations, row)
        self._log.show({f"validation/{name}": value for name, value in shown.items()}, self._axis)

    def _checkpoint_is_due(self) -> bool:
        """After `checkpoint_every` and a few episodes; if no episode has ended yet, after ten times as many steps."""
        since, length = self.position - self.account.last_checkpoint, self.account.episode_steps
        if not self.checkpoint_every or since < self.checkpoint_every:
            return False
        if length or not self.num_envs:
            return since >= _FEW_EPISODES * length * self.num_envs
        return since >= 10 * self.checkpoint_every

    def _save_checkpoint(self) -> None:
        """Save a checkpoint, and go on from it as a resumed run does."""
        self._write_checkpoint()
        self.learner.load_state_dict(load_state(self.out / CHECKPOINT)["learner"])

    def _write_checkpoint(self) -> None:
        require_finite(self.learner.policy)
        if self.store is not None:
            self.store.sync()
        self.account.metrics_bytes, self.account.evaluations_bytes = self._log.sizes
        self._stop_watch()
        state = {
            "account": asdict(self.account),
            "learner": self.learner.state_dict(),
            "store_episodes": 0 if self.store is None else len(self.store),
        }
        save_state(self.out / CHECKPOINT, state)

    def _require_enough(self) -> None:
        costs = {"the demonstrations": self.demo_steps, "one update of the learner": self.learner.least_steps}
        if self.budget < (least := sum(costs.values())):
            takes = " and ".join(f"{who} ({steps})" for who, steps in costs.items() if steps)
            fewer = " or fewer --demo-episodes" if self.demo_steps else ""
            raise InputError(
                f"a budget of {self.budget} steps is too small for {takes}: give at least --budget {least}{fewer}"
            )

    def _saved(self) -> str:
        """Save a checkpoint after an exception, in the middle of an iteration; returns what is kept.

        No new episodes are begun: the environments may be broken.
        """
        self.account.faults += 1
        try:
            self._write_checkpoint()
        except Exception:  # the first exception is the one to report
            logger.debug("no checkpoint can be saved", exc_info=True)
            return self._kept()
        labels = f", and the labels of {self.store.num_steps} are kept" if self.store else ""
        return f"{self.spent} steps were taken{labels}: go on with `{self.resume_with}`"

    def _kept(self) -> str:
        labels = ""
        # The file of a store without episodes is removed.
        if self.save_each and self.store:
            labels = f"the labels of {self.store.num_steps} steps are kept in {self.store.path}, and "
        if not (self.out / CHECKPOINT).exists():
            return f"{labels}there was no checkpoint yet: `{self.resume_with}` begins anew"
        return f"{labels}the last checkpoint is kept: go on from it with `{self.resume_with}`"

    def _pause(self) -> None:
        if self.account.best_score is None:
            self._save_policy("policy")
        self._save_reward()
        self._save_checkpoint()

    def _close(self) -> None:
        self._save_policy("last_policy")
        self._save_reward()
        if self.account.best_score is None:
            self._save_policy("policy")
        totals = {
            "env_steps": self.learner.env_steps,
            "demo_steps": self.demo_steps,
            "validation_steps": self.account.validation_steps,
            "expert_queries": self.learner.expert_queries,
        }
        self.write_timing()
        write_json(self.out / "finished.json", totals)
        (self.out / CHECKPOINT).unlink(missing_ok=True)
        if self.progress is not None:
            self.progress(self.spent, {})

    def _save_policy(self, name: str) -> None:
        require_finite(self.learner.policy)
        save_policy(self.out / name, self.learner.policy)

    def _save_reward(self) -> None:
        if isinstance(self.learner, LearnsReward):
            save_reward(self.out / "reward", LearnedReward.of(self.learner))

    def _stop_watch(self) -> None:
        self.account.wall_seconds = time.monotonic() - self._began
        self.account.cpu_seconds = cpu_seconds() - self._cpu_began
