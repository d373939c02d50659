"""The protocol between a run and a learner: a mistake in a learner of one's own is told in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from counter import Counter, counter
from gymnasium import spaces

from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.training.checkpoint import CHECKPOINT, Checkpoint
from imitate.training.protocol import check_learner
from imitate.training.run import Run


class Mistaken(Counter):
    """A user's own learner, whose step takes more than its limit, or returns this."""

    def __init__(self, returned: Any = None, *, beyond: int = 0) -> None:
        super().__init__(counter().policy)
        self.returned, self.beyond = returned, beyond

    def step(self, limit: int | None = None) -> Any:
        metrics = super().step(limit)
        self.env_steps += self.beyond
        return metrics if self.beyond else self.returned


def test_a_step_beyond_its_limit_is_refused(tmp_path: Path) -> None:
    """10 steps and 3 more, of 12."""
    with pytest.raises(
        InputError,
        match="step took 13 environment steps, at most 12 were left to it; there was no checkpoint yet",
    ):
        Run(Mistaken(beyond=3), tmp_path, budget=12).finish()
    assert not (tmp_path / CHECKPOINT).exists()  # from which it would go on as if nothing were wrong


def test_a_learner_that_never_counts_its_steps_does_not_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Idle(Mistaken):
        env_steps = property(lambda _: 0, lambda *_: None)  # type: ignore[assignment]

    monkeypatch.setattr("imitate.training.run.MOST_IDLE", 5)
    with pytest.raises(
        InputError, match="took no environment step in 5 iterations: count steps in env_steps"
    ):
        Run(Idle({}), tmp_path, budget=20, num_envs=2).finish()
    assert len((tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()) == 5


def test_a_learner_that_learns_long_before_its_first_step_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pretrained(Counter):
        """Takes 8 gradient steps, one each time, before its first step of the environment."""

        pretrained = 0

        def step(self, limit: int | None = None) -> dict[str, float]:
            if self.pretrained == 8:
                return super().step(limit)
            self.pretrained += 1
            return {}

        def state_dict(self) -> dict[str, Any]:
            return super().state_dict() | {"pretrained": self.pretrained}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            super().load_state_dict(state)
            self.pretrained = state["pretrained"]

    def run(checkpoint: Checkpoint | None = None) -> Run:
        learner = Pretrained(counter().policy)
        return Run(learner, tmp_path, budget=20, num_envs=2, checkpoint=checkpoint)

    monkeypatch.setattr("imitate.training.run.MOST_IDLE", 5)
    with pytest.raises(InputError, match=r"several gradient steps in one step\(\).* were taken: go on with"):
        run().finish()
    assert run(Checkpoint.read(tmp_path)).finish()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [row["iteration"] for row in rows] == list(range(1, 11))
    assert [row["env_steps"] for row in rows] == [0] * 8 + [10, 20]


def without(name: str) -> Any:
    """A learner with all members but this one."""
    members = (
        "policy",
        "env_steps",
        "least_steps",
        "expert_queries",
        "done",
        "step",
        "state_dict",
        "load_state_dict",
    )
    whole = counter()
    return SimpleNamespace(**{each: getattr(whole, each) for each in members if each != name})


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        (without("least_steps"), "SimpleNamespace has no least_steps; wanted policy, env_steps, "),
        (without("state_dict"), "has no state_dict; wanted policy"),
        (
            SimpleNamespace(),
            "has no policy, env_steps, least_steps, expert_queries, done, step, state_dict, load_",
        ),
        (
            SimpleNamespace(**vars(without("step")), step=lambda: {}),
            r"for step\(limit\): too many positional",
        ),
        (
            SimpleNamespace(**vars(without("done")), done=lambda: False),
            "done is a method, wanted true or false",
        ),
        (
            SimpleNamespace(**vars(without("least_steps")), least_steps=None),
            "least_steps is a NoneType, wanted an",
        ),
    ],
)
def test_members_that_a_learner_lacks_are_named(learner: Any, said: str) -> None:
    check_learner(counter())
    with pytest.raises(InputError, match=said):
        check_learner(learner)


def test_counts_that_are_no_ints_are_named(tmp_path: Path) -> None:
    learner = Mistaken()
    learner.returned, learner.expert_queries = {}, np.int64(0)
    with pytest.raises(
        InputError, match="the learner's expert_queries is a int64, wanted an int; there was no"
    ):
        Run(learner, tmp_path, budget=20).finish()


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (None, [1.0], "/best is a list of 1, wanted NoneType as before its first step"),
        ([1], [1, 2], "/best is a list of 2, wanted a list of 1"),
        (0, 0.5, "/best is float, wanted int"),
        (0, -1, "/best is -1, wanted a count"),
    ],
)
def test_a_state_that_changes_its_form_is_refused_after_the_first_step(
    first: Any, then: Any, said: str, tmp_path: Path
) -> None:
    class Changing(Counter):
        def state_dict(self) -> dict[str, Any]:
            return super().state_dict() | {"best": then if self.env_steps else first}

    with pytest.raises(InputError, match=said):
        Run(Changing(counter().policy), tmp_path, budget=50).finish()
    assert not (tmp_path / CHECKPOINT).exists()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "step returned a NoneType, wanted a dict of numbers; 10 steps were taken"),
        ({"length": 2, "q_loss": np.float32(1)}, "returned q_loss as a float32, wanted a float or an int"),
        ({"mean_q": np.zeros(2)}, "returned mean_q as a ndarray"),
        ({"count": -(10**400)}, r"returned count beyond the largest float, 1\.8e308: scale it down"),
        ({1: 0.5}, "returned a metric of the name 1, wanted a text"),
        ({"env_steps": 7}, "returned env_steps, which the run counts: give another name"),
    ],
)
def test_metrics_that_are_no_numbers_are_named(returned: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        Run(Mistaken(returned), tmp_path, budget=20).finish()


@pytest.mark.parametrize("code", [None, 7, "no licence"])
def test_a_step_that_ends_the_program_ends_the_run_as_other_errors_do(code: Any, tmp_path: Path) -> None:
    class Leaving(Counter):
        def step(self, limit: int | None = None) -> dict[str, float]:
            if self.env_steps:
                raise SystemExit(code)
            return super().step(limit)

    said = f"the learner's step called sys.exit({code!r}); 10 steps were taken: go on with"
    with pytest.raises(InputError, match=re.escape(said)):
        Run(Leaving(counter().policy), tmp_path, budget=30).finish()
    assert (tmp_path / CHECKPOINT).exists()


@pytest.mark.parametrize("kept", [np.zeros(2), 1 << 100, {1, 2}])
def test_a_state_that_could_not_be_resumed_is_refused_before_the_first_step(
    kept: Any, tmp_path: Path
) -> None:
    class Forgetful(Counter):
        def state_dict(self) -> dict[str, Any]:
            return super().state_dict() | {"rng": [{"inc": kept}]}

    with pytest.raises(InputError, match=f"the state's /rng/0/inc is of type {type(kept).__name__}, wanted"):
        Run(Forgetful(counter().policy), tmp_path, budget=20)


def test_a_policy_that_would_not_be_loaded_as_it_is_is_refused_before_the_first_step(tmp_path: Path) -> None:
    class Residual(ActorPolicy):
        """It would come back as an ActorPolicy, which acts differently."""

    with pytest.raises(InputError, match="policy is a Residual: a run stores and loads an imitate"):
        Run(Counter(Residual(spaces.Discrete(2), spaces.Discrete(2))), tmp_path, budget=20)
