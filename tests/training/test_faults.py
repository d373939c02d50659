"""Environments and experts that fail in the middle of a run: nothing labelled is lost, and the run goes on."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from conftest import Identity

from imitate.cli import main
from imitate.datasets import DemoReader, InputError
from imitate.envs.trust import trust
from imitate.imitators.roll_in.teachers import Teachers
from imitate.training.checkpoint import Checkpoint
from imitate.training.execute import execute
from imitate.training.experiment import Experiment


@pytest.fixture(autouse=True)
def typed() -> None:
    """As if the user had named the expert."""
    trust("test_faults:make_expert")


NAMES = f"{__name__}:make_expert"


class Falling(Identity):
    """Identity that raises once, in step `when` of all environments of a test together, or in each episode whose seed
    `bad` divides."""

    when, steps = 0, 0
    error: BaseException = RuntimeError("it fell")

    def __init__(self, bad: int = 0, continuous: bool = False) -> None:
        super().__init__(continuous)
        self.bad = bad

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._seed = seed or 0
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        Falling.steps += 1
        if Falling.steps == Falling.when or (self.bad and self._seed % self.bad == 0 and self._steps == 3):
            raise Falling.error
        return super().step(action)


class Oracle:
    """Names the observation; its answer number `when` is an exception. `asked`: all observations so far."""

    when: float = np.inf
    asked: list[int] = []  # noqa: RUF012

    def act(self, obs: Any, deterministic: bool = True) -> Any:  # noqa: ARG002
        if len(Oracle.asked) + len(obs) > Oracle.when:
            raise ConnectionError("the oracle does not answer")
        Oracle.asked += obs.tolist()
        return obs


def make_expert() -> Oracle:
    return Oracle()


gym.register("Falling-v0", entry_point=Falling)


@pytest.fixture(autouse=True)
def nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name, value in ((Falling, "when", 0), (Falling, "steps", 0), (Oracle, "when", np.inf)):
        monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(Falling, "error", RuntimeError("it fell"))
    monkeypatch.setattr(Oracle, "asked", [])


def experiment(algorithm: str = "dagger", **changes: Any) -> Experiment:
    short = {"updates_per_iteration": 3, "final_updates": 3}
    settings: dict[str, Any] = {
        "dagger": {"iterations": 4} | short,
        "aggrevated": {"iterations": 4, "fqe_updates": 3} | short,
        "aggrevated:aggrevate": {"iterations": 4, "fqe_updates": 3} | short,
        "aggrevate": {"iterations": 4, "fqe_updates": 3} | short,
        "loki": {"aggrevated": {"iterations": 3, "fqe_updates": 3} | short},
        "qdagger": {"learning_starts": 8, "offline_updates": 4, "num_updates": 1},
        "dqn": {"learning_starts": 8, "num_updates": 1},
        "ppo": {"num_steps": 8},
        "a2c": {},
        "reinforce": {},
    }[algorithm]
    run = {"expert": NAMES} if algorithm not in ("dqn", "ppo", "a2c", "reinforce") else {}
    return Experiment.create(
        algorithm,
        "Falling-v0",
        hyperparameters=settings,
        **run | {"budget": 400, "num_envs": 2, "backend": "gymnasium"} | changes,
    )


def labels(run: Path) -> list[list[Any]]:
    """Observations of each piece in the store, whose labels are checked."""
    with DemoReader(run / "aggregated.h5") as store:
        assert all((piece.labels == piece.obs[:-1]).all() for piece in store)
        return [piece.obs.tolist() for piece in store]


@pytest.mark.parametrize(
    ("algorithm", "when"),
    [
        *[("dagger", 3), ("qdagger", 3), ("loki", 40)],
        *[(name, 120) for name in ("dagger", "aggrevated", "aggrevated:aggrevate", "loki", "qdagger")],
        *[(name, 120) for name in ("dqn", "ppo", "a2c", "reinforce")],
    ],
)
def test_an_environment_that_raises_leaves_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, when: int
) -> None:
    monkeypatch.setattr(Falling, "when", when)
    wanted, out = experiment(algorithm, budget=200), tmp_path / "run"
    with pytest.raises(
        InputError, match=r"Falling-v0 raised RuntimeError: it fell \(test_faults.py:\d+\).*seed"
    ):
        execute(wanted, out)
    checkpoint = Checkpoint.read(out)
    assert checkpoint is not None
    before = labels(out) if (out / "aggregated.h5").exists() else []
    assert execute(wanted, out, resume=True)
    if before:
        assert labels(out)[: len(before)] == before


@pytest.mark.parametrize("algorithm", ["dqn", "a2c", "reinforce"])
def test_steps_before_a_failure_are_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    monkeypatch.setattr(Falling, "when", 120)
    wanted, out = experiment(algorithm, budget=200, eval_every=0), tmp_path / "run"
    with pytest.raises(InputError, match="it fell"):
        execute(wanted, out)
    assert execute(wanted, out, resume=True)
    assert 200 < Falling.steps <= 200 + 2  # the failed step of both environments is not counted


def test_what_the_expert_answered_before_it_failed_is_kept_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first iteration the expert acts, two environments at a time: 39 answers are those to 19 steps of both."""
    monkeypatch.setattr(Oracle, "when", 39)
    wanted, out = experiment(), tmp_path / "run"
    with pytest.raises(
        InputError, match=r"make_expert raised ConnectionError.*38 steps were taken, and the labels of 38"
    ):
        execute(wanted, out)
    before = labels(out)
    assert sorted(obs for piece in before for obs in piece[:-1]) == sorted(Oracle.asked)
    monkeypatch.setattr(Oracle, "when", np.inf)
    assert execute(wanted, out, resume=True)
    assert labels(out)[: len(before)] == before
    with DemoReader(out / "aggregated.h5") as store:
        assert store.num_steps == 400


@pytest.mark.parametrize("algorithm", ["dagger", "aggrevated", "aggrevated:aggrevate", "loki", "qdagger"])
def test_a_question_that_the_expert_did_not_answer_is_no_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    monkeypatch.setattr(Oracle, "when", 39)
    wanted, out = experiment(algorithm), tmp_path / "run"
    with pytest.raises(InputError, match=r"make_expert raised ConnectionError"):
        execute(wanted, out)
    monkeypatch.setattr(Oracle, "when", np.inf)
    assert execute(wanted, out, resume=True)
    assert json.loads((out / "finished.json").read_text("utf-8"))["expert_queries"] == len(Oracle.asked)


MIXED = {"iterations": 2, "alpha_schedule": "constant", "alpha_rate": 0.5, "alpha_per": "step"}
"""The learner acts half of the time, in roll-ins of the steps 1 to 200 and 201 to 400."""


@pytest.mark.parametrize("others", [(), (NAMES,)])
def test_the_experts_are_asked_about_all_states_before_the_environment_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Falling, "when", 301)
    # Few gradient steps of the critics that compare them.
    monkeypatch.setattr(Teachers.fit, "__defaults__", (3, 0))
    wanted, out = experiment(other_experts=others).changed(MIXED), tmp_path / "run"
    with pytest.raises(InputError, match=r"RuntimeError: it fell.*300 steps were taken.*labels of 300 are"):
        execute(wanted, out)
    before = labels(out)
    assert others or sorted(obs for piece in before for obs in piece[:-1]) == sorted(Oracle.asked)
    assert execute(wanted, out, resume=True)
    assert labels(out)[: len(before)] == before


def test_steps_that_the_expert_failed_to_label_are_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails once the last roll-in is over. The run must not end without its last fit."""
    monkeypatch.setattr(Oracle, "when", 320)
    wanted, out = experiment().changed(MIXED), tmp_path / "run"
    with pytest.raises(InputError, match="ConnectionError"):
        execute(wanted, out)
    monkeypatch.setattr(Oracle, "when", np.inf)
    assert execute(wanted, out, resume=True)
    with DemoReader(out / "aggregated.h5") as store:
        assert store.num_steps == 399  # of 400: 301 were labelled, and both environments step together
    assert json.loads((out / "metrics.jsonl").read_text("utf-8").splitlines()[-1])["env_steps"] == 399


@pytest.mark.parametrize("asked", [True, False])
def test_answers_within_a_mixed_roll_in_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Only the steps in which the expert acted have a label if it can't be asked, or isn't: Ctrl-C stops at once."""
    monkeypatch.setattr(Falling, "when", 301)
    wanted, out = experiment().changed(MIXED), tmp_path / "run"
    monkeypatch.setattr(Falling, "error", RuntimeError("it fell") if asked else KeyboardInterrupt())
    if asked:
        monkeypatch.setattr(
            Oracle, "when", 270
        )  # not enough for 300 states, enough for those in which it acts
    with pytest.raises(InputError if asked else KeyboardInterrupt, match="it fell" if asked else None):
        execute(wanted, out)
    with DemoReader(out / "aggregated.h5") as store:
        kept = store.num_steps - 200
        assert all((piece.actions == piece.labels).all() for piece in list(store)[-5:])
    assert 30 < kept < 70
    assert len(Oracle.asked) == 200 + kept
    labels(out)


@pytest.mark.parametrize(("algorithm", "bad"), [("dagger", 19), ("aggrevate", 3)])
def test_the_episode_that_failed_does_not_come_again(tmp_path: Path, algorithm: str, bad: int) -> None:
    wanted, out = experiment(algorithm, env_kwargs={"bad": bad}), tmp_path / "run"
    faults = []
    while not faults or len(faults) < 40:
        try:
            assert execute(wanted, out, resume=bool(faults))
            break
        except InputError as error:
            faults.append(str(error).split("seed ")[1].split()[0])
    assert len(set(faults)) == len(faults) > 1  # each in another episode
    assert (out / "finished.json").exists()


class Killed(BaseException):
    """Nothing is saved before it ends the run."""


@pytest.mark.parametrize("checkpoints", [0, 150])
def test_what_was_learned_and_labelled_is_kept_if_the_expert_of_a_killed_run_may_answer_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: int
) -> None:
    monkeypatch.setattr("imitate.training.run.SAVE_SHARE", np.inf)
    wanted, out = experiment(checkpoint_every=checkpoints), tmp_path / "run"

    def kill(spent: int, _metrics: dict[str, float]) -> None:
        if spent >= 300:
            raise Killed

    with pytest.raises(Killed):
        execute(wanted, out, progress=kill)
    before = labels(out)
    rest: list[int] = []
    assert execute(wanted, out, resume=True, progress=lambda spent, _: rest.append(spent))
    assert labels(out)[: len(before)] == before
    assert rest == [400, 400], "no roll-in is played again"


def test_labels_of_another_environment_are_not_taken(tmp_path: Path) -> None:
    wanted, out = experiment(), tmp_path / "run"
    with pytest.raises(Killed):
        execute(wanted, out, progress=lambda *_: (_ for _ in ()).throw(Killed))
    before = (out / "aggregated.h5").read_bytes()
    other = Experiment.create("dagger", "ContinuousIdentity-v0", expert=NAMES, budget=400, num_envs=2)
    with pytest.raises(InputError, match="run with env_id 'Falling-v0', got 'ContinuousIdentity-v0'"):
        execute(other, out, resume=True)
    assert labels(out)
    assert len((out / "aggregated.h5").read_bytes()) >= len(before) // 2


@pytest.mark.parametrize("algorithm", ["dagger", "aggrevate"])
def test_a_full_disk_keeps_what_was_flushed_and_the_rest_is_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    claimed = 0

    def full(path: Path, end: int) -> None:  # noqa: ARG001
        nonlocal claimed
        claimed += 1
        if claimed > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    wanted, out = experiment(algorithm), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("imitate.datasets.storage.writer.RESERVE_BYTES", 0)  # claim space at every flush
        patch.setattr("imitate.datasets.storage.writer.claim", full)
        with pytest.raises(InputError, match="No space left on device"):
            execute(wanted, out)
    before = labels(out)
    assert before
    assert execute(wanted, out, resume=True)
    assert labels(out)[: len(before)] == before
    assert execute(wanted, tmp_path / "undisturbed")
    with (
        DemoReader(out / "aggregated.h5") as store,
        DemoReader(tmp_path / "undisturbed" / "aggregated.h5") as other,
    ):
        assert store.num_steps >= other.num_steps


@pytest.mark.parametrize("saves", [True, False])
def test_labels_that_a_full_disk_did_not_take_are_not_called_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: bool
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("imitate.datasets.storage.writer.RESERVE_BYTES", 0)
    monkeypatch.setattr("imitate.datasets.storage.writer.claim", full)
    if not saves:
        monkeypatch.setattr("imitate.training.run.save_state", full)
    said = "; 0 steps were taken: go on with" if saves else "; there was no checkpoint yet"
    with pytest.raises(InputError, match=f"No space left on device; episodes kept: 0{said}"):
        execute(experiment(), tmp_path / "run")
    assert not (tmp_path / "run" / "aggregated.h5").exists()


def test_two_runs_of_one_folder_in_one_process(tmp_path: Path) -> None:
    """The second is refused while the first is at work, and touches nothing."""
    wanted, out = experiment(), tmp_path / "run"

    def second(spent: int, _metrics: dict[str, float]) -> None:
        if spent == 400:
            return
        before = (out / "aggregated.h5").read_bytes()
        with pytest.raises(InputError, match="training run is at work"):
            execute(wanted, out, resume=True)
        assert (out / "aggregated.h5").read_bytes() == before

    assert execute(wanted, out, progress=second)


def test_the_line_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Oracle, "when", 20)
    monkeypatch.setattr("imitate.experts.expert.Expert.measure", lambda *_, **__: None)
    command = ["train", "dagger", "--env", "Identity-v0", "--expert", NAMES, "--num-envs", "2"]
    command += ["--budget", "40", "--updates-per-iteration", "3"]
    out = tmp_path / "run"
    assert main([*command, "--eval-every", "0", "--out", str(out)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"imitate: the expert {NAMES} raised ConnectionError: the oracle does not answer")
    assert said.endswith(f"labels of 20 are kept: go on with `imitate train --resume {out} --expert {NAMES}`")


def test_a_finished_run_is_said_before_its_expert_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert execute(experiment(), out)
    asked = len(Oracle.asked)
    for command in (
        ["--resume", str(out), "--expert", NAMES],
        ["--config", str(out / "config.json"), "--out", str(out)],
    ):
        assert main(["train", *command]) == 2
        assert "is a finished run" in capsys.readouterr().err
    assert len(Oracle.asked) == asked
