"""The loop of a run: budgets hold, the best policy is kept, interrupted and diverging runs keep their checkpoint."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counter import Counter, counter
from gymnasium import spaces
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from imitate.datasets.evaluation import Evaluation
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import save_state
from imitate.nn.stored_policy import load_policy
from imitate.training.checkpoint import Checkpoint
from imitate.training.log import continued
from imitate.training.run import Run


def best_at_40(policy: ActorPolicy, max_steps: int) -> Evaluation:
    """7 steps, if there are as many; the best policy is that of 40 steps of training."""
    progress = policy.output.bias[0].item()
    if max_steps < 7:
        return Evaluation(np.array([]), np.array([], int), complete=False, dropped_steps=max_steps)
    return Evaluation(np.array([-abs(progress - 40)]), np.array([7]))


def test_demonstrations_training_and_validation_share_the_budget_and_the_best_policy_is_kept(
    tmp_path: Path,
) -> None:
    run = Run(counter(), tmp_path, budget=151, demo_steps=20, validate=best_at_40, eval_every=20)
    assert run.finish()
    totals = json.loads((tmp_path / "finished.json").read_text("utf-8"))
    # 20 demonstrated, 96 trained, 5 validations of 7: the last iteration is cut to 6, so that all of 151 is spent.
    assert totals == {"env_steps": 96, "demo_steps": 20, "validation_steps": 35, "expert_queries": 0}
    assert load_policy(tmp_path).output.bias[0].item() == 40
    assert load_policy(tmp_path / "last_policy").output.bias[0].item() == 96
    rows = [json.loads(line) for line in (tmp_path / "evaluations.jsonl").read_text("utf-8").splitlines()]
    assert [row["budget_steps"] for row in rows] == [47, 74, 101, 128, 151]
    assert [row["best"] for row in rows] == [True, True, False, False, False]


@pytest.mark.parametrize("budget", range(2, 60))
def test_no_budget_is_exceeded(tmp_path: Path, budget: int) -> None:
    Run(counter(2.0), tmp_path, budget=budget, validate=best_at_40, eval_every=15).finish()
    totals = json.loads((tmp_path / "finished.json").read_text("utf-8"))
    spent = totals["env_steps"] + totals["validation_steps"]
    assert (
        budget - 7 - Counter.least_steps < spent <= budget
    )  # what is left pays for no update and its validation


def test_a_budget_too_small_for_one_update_is_refused_with_the_least_that_works(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one update of the learner \(2\): give at least --budget 22"):
        Run(counter(), tmp_path, budget=21, demo_steps=20)


def test_a_policy_that_was_never_validated_is_not_said_to_be_the_best(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The budget is one iteration."""
    caplog.set_level(logging.INFO)
    Run(counter(), tmp_path, budget=10, validate=best_at_40, eval_every=40).finish()
    assert "no steps are left to validate the last policy: it is kept, as there is no other" in caplog.text
    assert load_policy(tmp_path).output.bias[0].item() == 10


def test_a_policy_that_a_full_disk_did_not_take_is_not_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    settings: dict[str, Any] = {"budget": 100, "validate": best_at_40, "eval_every": 40}
    with monkeypatch.context() as patch:
        patch.setattr("imitate.training.run.save_policy", full)
        with pytest.raises(InputError, match="No space left on device; 47 steps"):
            Run(counter(), tmp_path, **settings).finish()
    assert Run(counter(), tmp_path, checkpoint=Checkpoint.read(tmp_path), **settings).finish()
    assert load_policy(tmp_path).output.bias[0].item() == 80


def test_a_validation_that_the_budget_cuts_chooses_nothing(tmp_path: Path) -> None:
    """Nothing is known of what it costs before the first, so that 5 steps are left for it."""
    Run(counter(), tmp_path, budget=45, validate=best_at_40, eval_every=40).finish()
    assert (tmp_path / "evaluations.jsonl").read_text("utf-8") == ""
    assert json.loads((tmp_path / "finished.json").read_text("utf-8"))["validation_steps"] == 5
    assert load_policy(tmp_path).output.bias[0].item() == 40  # the last


def test_the_last_validation_is_paid_for_before_any_was_seen(tmp_path: Path) -> None:
    """Two training episodes take 8 steps: half as much again is kept back, of which 7 are used. The 5 that are left
    would not do for another update and its validation."""
    Run(counter(4.0), tmp_path, budget=45, validate=best_at_40, eval_every=1_000, eval_episodes=2).finish()
    totals = json.loads((tmp_path / "finished.json").read_text("utf-8"))
    assert (totals["env_steps"], totals["validation_steps"]) == (33, 7)
    assert len((tmp_path / "evaluations.jsonl").read_text("utf-8").splitlines()) == 1


@pytest.mark.skipif(os.name != "posix", reason="of POSIX signals")
@pytest.mark.usefixtures("at_a_terminal")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", None), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_an_interrupted_run_saves_and_resuming_finishes_it(
    tmp_path: Path, name: str, status: int | None
) -> None:
    learner = counter()

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        if learner.env_steps == 30:
            signal.raise_signal(getattr(signal, name))

    run = Run(learner, tmp_path, budget=100, progress=interrupt)
    if status is None:
        assert not run.finish()
    else:
        with pytest.raises(SystemExit) as ended:
            run.finish()
        assert ended.value.code == status
    fresh = counter()
    assert Run(fresh, tmp_path, budget=100, checkpoint=Checkpoint.read(tmp_path)).finish()
    assert fresh.env_steps == 100
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["env_steps"] for row in rows] == list(range(10, 101, 10))


@pytest.mark.parametrize("later", [signal.SIGINT, signal.SIGTERM])
def test_another_signal_after_the_first_does_not_keep_a_run_from_saving(
    tmp_path: Path, later: signal.Signals
) -> None:
    """A worker of a comparison gets SIGTERM from a batch system and SIGINT from the comparison, in any order."""
    learner = counter()

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        for number in ({signal.SIGINT, signal.SIGTERM} - {later}).pop(), later:
            signal.raise_signal(number)

    with contextlib.suppress(SystemExit):
        Run(learner, tmp_path, budget=100, progress=interrupt).finish()
    assert Checkpoint.read(tmp_path) is not None


def test_a_run_leaves_alone_signals_that_are_not_handled_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a program that embeds Python: such a handler can't be put back."""
    put: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(signal, "getsignal", lambda _: None)
        patch.setattr(signal, "signal", lambda *given: put.append(given))
        assert Run(counter(), tmp_path, budget=20).finish()
    assert put == []


def interrupted(folder: Path) -> None:
    """A run of 30 steps with a checkpoint."""
    learner = counter(5.0)

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        if learner.env_steps == 30:
            signal.raise_signal(signal.SIGINT)

    Run(learner, folder, budget=100, progress=interrupt).finish()


def curves(folder: Path) -> dict[str, list[int]]:
    """The steps of TensorBoard's points."""
    events = EventAccumulator(str(folder))
    events.Reload()
    return {name: [point.step for point in events.Scalars(name)] for name in events.Tags()["scalars"]}


def killed_after(folder: Path, steps: int, checkpoint: Checkpoint | None = None) -> None:
    """A run of 100 steps that begins or goes on, and is killed after so many without another checkpoint."""
    learner = counter(5.0)

    def kill(_spent: int, _metrics: dict[str, float]) -> None:
        if learner.env_steps == steps:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        Run(
            learner,
            folder,
            budget=100,
            checkpoint=checkpoint,
            progress=kill,
            snapshot=lambda *_: {"look": 1.0},
        ).finish()


def test_a_resumed_run_shows_each_point_once(tmp_path: Path) -> None:
    """It goes on behind its checkpoint, after 30 steps, or from the beginning."""
    killed_after(tmp_path, 20)
    assert curves(tmp_path)["look"] == [0, 10, 20]
    interrupted(tmp_path)
    killed_after(tmp_path, 50, Checkpoint.read(tmp_path))
    killed_after(tmp_path, 100, Checkpoint.read(tmp_path))
    assert curves(tmp_path) == {"train/train_length": [*range(10, 101, 10)], "look": [*range(40, 101, 10)]}


def test_the_curves_of_an_offline_run_count_iterations(tmp_path: Path) -> None:
    """1,000 demonstrated steps are no iterations."""

    class Offline(Counter):
        least_steps, iterations = 0, 0

        @property
        def done(self) -> bool:
            return self.iterations == 6

        def step(self, limit: int | None = None) -> dict[str, float]:  # noqa: ARG002
            self.iterations += 1
            return {"loss": 1.0}

        def state_dict(self) -> dict[str, Any]:
            return {"iterations": self.iterations}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.iterations = state["iterations"]

    def run(**given: Any) -> Run:
        learner = Offline(counter().policy)
        return Run(
            learner, tmp_path, budget=5_000, demo_steps=1_000, validate=best_at_40, eval_every=2, **given
        )

    def interrupt(_spent: int, _metrics: dict[str, float]) -> None:
        if first.account.iterations == 3:
            signal.raise_signal(signal.SIGINT)

    first = run(progress=interrupt)
    assert not first.finish()
    assert run(checkpoint=Checkpoint.read(tmp_path)).finish()
    assert curves(tmp_path) == {"train/loss": [1, 2, 3, 4, 5, 6], "validation/mean_return": [2, 4, 6]}


def test_a_length_that_is_not_known_leaves_the_checkpoint_whole(tmp_path: Path) -> None:
    """The mean of no episode is NaN, and a learner of a user's own may return it."""
    Run(counter(float("nan")), tmp_path, budget=50, validate=best_at_40, eval_every=20, until=30).finish()
    checkpoint = Checkpoint.read(tmp_path)
    assert checkpoint is not None
    assert checkpoint.account.episode_steps == 0


def test_metrics_shorter_than_at_the_checkpoint_keep_their_whole_lines(tmp_path: Path) -> None:
    interrupted(tmp_path)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    Run(counter(), tmp_path, budget=100, checkpoint=Checkpoint.read(tmp_path)).finish()
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [row["env_steps"] for row in rows] == [10, 20, *range(40, 101, 10)]


def test_a_checkpoint_that_claims_more_metrics_than_memory_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"{}\n{")
    with continued(path, 1 << 52):
        pass
    assert path.read_bytes() == b"{}\n"


def test_a_run_writes_no_rows_through_a_link(tmp_path: Path) -> None:
    """A folder that somebody sent may hold a link to any file of the user's, or to one that is not there yet."""
    (tmp_path / "own").write_text("own\n")
    for target in ("own", "none"):
        out = tmp_path / f"to-{target}"
        out.mkdir()
        (out / "metrics.jsonl").symlink_to(tmp_path / target)
        with pytest.raises(InputError, match=r"metrics\.jsonl is a link"):
            Run(counter(), out, budget=100).finish()
    assert (tmp_path / "own").read_text() == "own\n"
    assert not (tmp_path / "none").exists()


def test_a_checkpoint_waits_until_a_few_episodes_have_ended(tmp_path: Path) -> None:
    """Episodes of 6 steps in 4 environments: 5 of each are 120 steps. Closer together, none would reach its end."""
    learner = counter(6.0)
    Run(learner, tmp_path, budget=400, checkpoint_every=10, num_envs=4).finish()
    assert learner.restarts == [120, 240, 360]


def test_learning_that_diverges_is_one_line_and_the_good_checkpoint_is_kept(tmp_path: Path) -> None:
    class Diverging(Counter):
        def step(self, limit: int | None = None) -> dict[str, float]:
            super().step(limit)
            return {"value_loss": float("nan") if self.env_steps == 50 else 1.0}

    learner = Diverging(counter().policy)
    with pytest.raises(
        InputError, match=r"value_loss is nan in iteration 5; the last checkpoint is kept: .*--resume"
    ):
        Run(learner, tmp_path, budget=100, checkpoint_every=20).finish()
    checkpoint = Checkpoint.read(tmp_path)
    assert checkpoint is not None
    assert checkpoint.learner["env_steps"] == 40


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path) -> None:
    class Diverging(Counter):
        def step(self, limit: int | None = None) -> dict[str, float]:
            metrics = super().step(limit)
            if self.env_steps == 40:
                self.policy.output.weight.data.fill_(float("inf"))
            return metrics

    with pytest.raises(InputError, match=r"output.weight is not finite"):
        Run(Diverging(counter().policy), tmp_path, budget=100, checkpoint_every=20).finish()
    checkpoint = Checkpoint.read(tmp_path)
    assert checkpoint is not None
    assert checkpoint.learner["env_steps"] == 20
    assert not (tmp_path / "policy").exists()


def test_whatever_is_raised_the_state_is_saved_and_a_note_says_so(tmp_path: Path) -> None:
    class Broken(Counter):
        def step(self, limit: int | None = None) -> dict[str, float]:
            if self.env_steps == 30:
                raise ZeroDivisionError("a mistake of ours")
            return super().step(limit)

    with pytest.raises(ZeroDivisionError) as raised:
        Run(Broken(counter().policy), tmp_path, budget=100, checkpoint_every=20).finish()
    (note,) = raised.value.__notes__
    assert note == f"imitate: 30 steps were taken: go on with `imitate train --resume {tmp_path}`"
    checkpoint = Checkpoint.read(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.learner["env_steps"], checkpoint.account.faults) == (30, 1)


def test_a_damaged_checkpoint_is_one_line(tmp_path: Path) -> None:
    save_state(tmp_path / "checkpoint.safetensors", {"account": {"iterations": "many"}, "learner": {}})
    with pytest.raises(InputError, match=r"checkpoint.safetensors is damaged: .*iterations"):
        Checkpoint.read(tmp_path)
    good = {"account": {}, "learner": {"env_stops": 3}, "store_episodes": 0}
    save_state(tmp_path / "checkpoint.safetensors", good)
    with pytest.raises(InputError, match="does not fit this learner"):
        Run(counter(), tmp_path, budget=100, checkpoint=Checkpoint.read(tmp_path))


def test_snapshots_are_taken_before_the_first_iteration_and_after_each(tmp_path: Path) -> None:
    seen: list[int] = []
    Run(counter(), tmp_path, budget=35, snapshot=lambda spent, _policy: seen.append(spent)).finish()
    assert seen == [0, 10, 20, 30, 35]


def test_time_is_of_the_clock_and_of_the_processor(tmp_path: Path) -> None:
    Run(counter(), tmp_path, budget=100).finish()
    times = json.loads((tmp_path / "timing.json").read_text("utf-8"))
    assert set(times) == {"wall_seconds", "cpu_seconds"}
    assert 0 < times["cpu_seconds"] < 60


def test_the_time_of_snapshots_is_not_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only snapshots move."""
    clock = [0.0]
    monkeypatch.setattr("imitate.training.run.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("imitate.training.run.cpu_seconds", lambda: 2 * clock[0])

    def snapshot(_spent: int, _policy: ActorPolicy) -> None:
        clock[0] += 100

    Run(counter(), tmp_path, budget=35, snapshot=snapshot).finish()
    assert clock == [500]
    assert json.loads((tmp_path / "timing.json").read_text("utf-8")) == {"wall_seconds": 0, "cpu_seconds": 0}


def test_a_paused_run_is_resumed_with_the_same_schedule(tmp_path: Path) -> None:
    """It pauses before an update of the fewest steps, 2, would take it past 31, and keeps its policy. The learner's
    limit was what is left of the budget, not of the pause."""
    limits: list[int | None] = []

    class Limited(Counter):
        def step(self, limit: int | None = None) -> dict[str, float]:
            limits.append(limit)
            return super().step(limit)

    def limited() -> Limited:
        return Limited(ActorPolicy(spaces.Discrete(2), spaces.Discrete(2)))

    assert Run(limited(), tmp_path, budget=60, until=31).finish()
    assert not (tmp_path / "finished.json").exists()
    assert load_policy(tmp_path).output.bias[0].item() == 30
    assert limits == [60, 50, 40]
    checkpoint = Checkpoint.read(tmp_path)
    assert Run(limited(), tmp_path, budget=60, until=60, checkpoint=checkpoint).finish()
    assert limits == [60, 50, 40, 30, 20, 10]
    assert json.loads((tmp_path / "finished.json").read_text("utf-8"))["env_steps"] == 60
