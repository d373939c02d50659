"""Several teachers, each right in a part of the states: the imitator is better than the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from handwritten import Balancer

from imitate.aggrevated.learner import AggreVaTeD, AggreVaTeDConfig
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts.values.fqe import FQEConfig
from imitate.imitators.dagger import DAgger, DAggerConfig
from imitate.imitators.roll_in.teachers import Teachers
from imitate.nn.state import load_state, save_state

SMALL: dict[str, Any] = {
    **{"total_steps": 1_600, "iterations": 4, "updates_per_iteration": 20, "final_updates": 200},
    **{"learning_rate": 5e-3, "hidden": (32,)},
}
FEW = SMALL | {"updates_per_iteration": 5}


@dataclass
class Teacher:
    """A policy from a function of observations."""

    function: Callable[[Array], Array]

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return self.function(obs)


@pytest.fixture
def short_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """DAgger fits its critics for 100 updates an iteration, not 500."""
    monkeypatch.setattr(Teachers.fit, "__defaults__", (100, 0))


# On Identity-v0 an episode of 10 is worth 3.3 to the first and 6.7 to the second, 10 to both together.
NAMES_ZERO = Teacher(lambda obs: np.zeros_like(obs))
BLIND_TO_ZERO = Teacher(lambda obs: np.where(obs == 0, 1, obs))
# On ContinuousIdentity-v0 each loses 1 a step in half of the states: -5 an episode, together 0.
RIGHT_BELOW = Teacher(lambda obs: obs + (obs > 0))
RIGHT_ABOVE = Teacher(lambda obs: obs - (obs <= 0))


@contextmanager
def learning(path: Path, learner: Any, config: Any, env_id: str, teachers: list[Teacher]) -> Iterator[Any]:
    envs = SyncVecEnv([lambda: make_env(env_id)] * 8)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space)
    with DemoWriter(path, info, expert_actions=True) as store:
        yield learner(config, envs=envs, expert=teachers, store=store, seed=0)


@pytest.mark.usefixtures("short_fits")
@pytest.mark.parametrize("learner", [DAgger, pytest.param(AggreVaTeD, marks=pytest.mark.slow)])
def test_the_imitator_is_better_than_the_best_of_its_teachers(tmp_path: Path, learner: Any) -> None:
    """Discrete."""
    config = DAggerConfig(**SMALL) if learner is DAgger else AggreVaTeDConfig(**SMALL, fqe_updates=100)
    with learning(tmp_path / "s.h5", learner, config, "Identity-v0", [NAMES_ZERO, BLIND_TO_ZERO]) as student:
        while not student.done:
            metrics = student.step()
    assert evaluate(student.policy, "Identity-v0", episodes=20).mean > 9.5
    assert metrics["labels_1"] == pytest.approx(1 / 3, abs=0.1)
    assert metrics["labels_2"] == pytest.approx(2 / 3, abs=0.1)


def half(side: int) -> Teacher:
    """Balances CartPole while the pole leans to this side (-1 or 1), otherwise makes it fall."""
    balancer = Balancer()
    return Teacher(lambda obs: np.where(obs[:, 2] * side > 0, balancer.act(obs), int(side > 0)))


@pytest.mark.slow
def test_teachers_that_fall_at_once_teach_to_balance_for_long(tmp_path: Path) -> None:
    """Each is right on one side of the pole."""
    teachers = [half(-1), half(1)]
    config = DAggerConfig(total_steps=8_000, iterations=8, final_updates=2_000)
    with learning(tmp_path / "s.h5", DAgger, config, "CartPole-v1", teachers) as student:
        while not student.done:
            student.step()
    alone = [evaluate(teacher, "CartPole-v1", episodes=20).mean for teacher in teachers]
    assert max(alone) < 20
    assert evaluate(student.policy, "CartPole-v1", episodes=20).mean > 100


@pytest.mark.slow
def test_with_continuous_actions_too(tmp_path: Path) -> None:
    teachers = [RIGHT_BELOW, RIGHT_ABOVE]
    fqe = FQEConfig(gamma=0.5, hidden=(64, 64))
    config = AggreVaTeDConfig(**SMALL, fqe_updates=60, delta=0.1, fqe=fqe)
    with learning(tmp_path / "s.h5", AggreVaTeD, config, "ContinuousIdentity-v0", teachers) as student:
        while not student.done:
            student.step()
    assert evaluate(student.policy, "ContinuousIdentity-v0", episodes=20).mean > -1.5


@pytest.mark.usefixtures("short_fits")
def test_each_teacher_is_asked_once_in_every_state(tmp_path: Path) -> None:
    config = DAggerConfig(**SMALL)
    with learning(tmp_path / "s.h5", DAgger, config, "Identity-v0", [NAMES_ZERO, BLIND_TO_ZERO]) as student:
        metrics = student.step()
        # 400 steps of 8 environments are 40 episodes, none terminated: 40 final observations need an action too.
        assert student.env_steps == 400
        assert (metrics["queries_1"], metrics["queries_2"]) == (440, 440)
        assert student.expert_queries == 880


@pytest.mark.usefixtures("short_fits")
def test_labels_are_of_the_teachers_that_the_fitted_critic_prefers(tmp_path: Path) -> None:
    teachers = [NAMES_ZERO, BLIND_TO_ZERO]
    with learning(tmp_path / "s.h5", DAgger, DAggerConfig(**FEW), "Identity-v0", teachers) as student:
        student.step()
        critic, obs = student.roll_in.teacher.critic, torch.arange(3)
        zero, other = (critic.q(obs, torch.from_numpy(each.act(obs.numpy()))) for each in teachers)
        preferred = torch.where(zero >= other, 0, torch.tensor([1, 1, 2]))
        states, labels = critic.memory.last(len(critic.memory))
        assert torch.equal(labels, preferred[states])


@pytest.mark.usefixtures("short_fits")
def test_the_critic_goes_on_from_the_state_in_which_a_piece_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 15 steps, 10 are an episode and 5 are cut off. The first teacher names the last state of both."""
    config, followed = DAggerConfig(**FEW | {"total_steps": 480}), []
    names = Teacher(lambda obs: obs)
    with learning(tmp_path / "s.h5", DAgger, config, "Identity-v0", [names, NAMES_ZERO]) as student:
        critic = student.roll_in.teacher.critic
        take_in = critic.take_in

        def noting(pieces: Any, act: Any) -> None:
            followed.extend((len(piece), piece.obs[-1], act(piece.obs[-1:])) for piece in pieces)
            take_in(pieces, act)

        monkeypatch.setattr(critic, "take_in", noting)
        student.step()
    assert sorted(length for length, *_ in followed) == [5] * 8 + [10] * 8
    assert all(last == action for _, last, action in followed)


def test_a_fit_takes_as_many_updates_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teachers = [NAMES_ZERO, BLIND_TO_ZERO]
    monkeypatch.setattr(Teachers.fit, "__defaults__", (1, 0))
    with learning(tmp_path / "s.h5", DAgger, DAggerConfig(**FEW), "Identity-v0", teachers) as student:
        student.step()
        source, taken = student.roll_in.teacher, []
        monkeypatch.setattr(source.critic, "fit", lambda updates, *_, **__: taken.append(updates) or 0.0)
        source.fit(np.random.default_rng(0), 250)
    assert taken == [100, 100, 50]


def test_a_question_that_one_teacher_does_not_answer_is_no_query(tmp_path: Path) -> None:
    def fail(obs: Array) -> Array:
        raise ConnectionError(f"no answer to {len(obs)}")

    teachers = [NAMES_ZERO, Teacher(fail)]
    with learning(tmp_path / "s.h5", DAgger, DAggerConfig(**SMALL), "Identity-v0", teachers) as student:
        with pytest.raises(InputError, match="no answer to 400"):
            student.step()
        assert student.expert_queries == 0


def test_the_action_of_highest_value_is_taken(tmp_path: Path) -> None:
    """A critic that is constant in the state."""
    with learning(
        tmp_path / "s.h5", DAgger, DAggerConfig(), "Identity-v0", [NAMES_ZERO, BLIND_TO_ZERO]
    ) as student:
        teachers = student.roll_in.teacher
        with torch.no_grad():
            teachers.critic.twins.weights[-1].zero_()
            teachers.critic.twins.biases[-1].copy_(torch.tensor([5.0, 2.0, 6.0]))
        teachers.begin(2)
        # The first always says 0, worth 5. The second says 1, 1 and 2, worth 2, 2 and 6.
        assert teachers.act(np.array([0, 1, 2])).tolist() == [0, 0, 2]
        for leader, expected in ((0, [0, 0, 0]), (1, [1, 1, 2])):
            teachers.begin(leader)
            assert teachers.act(np.array([0, 1, 2])).tolist() == expected


@pytest.mark.parametrize("learner", [DAgger, AggreVaTeD])
def test_a_checkpoint_goes_on_to_the_byte(
    tmp_path: Path, learner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Teachers.fit, "__defaults__", (20, 0))
    config = DAggerConfig(**FEW) if learner is DAgger else AggreVaTeDConfig(**FEW, fqe_updates=20)
    teachers = [NAMES_ZERO, BLIND_TO_ZERO]
    with learning(tmp_path / "s.h5", learner, config, "Identity-v0", teachers) as student:
        student.step()
        student.step()
        student.roll_in.store.flush()
        save_state(tmp_path / "state", student.state_dict())
        student.load_state_dict(load_state(tmp_path / "state"))
        kept = len(student.roll_in.store)
        student.step()
        expected, queries = student.state_dict(), student.expert_queries
    envs = SyncVecEnv([lambda: make_env("Identity-v0")] * 8)
    with DemoWriter.resume(tmp_path / "s.h5", episodes=kept) as store:
        other = learner(config, envs=envs, expert=teachers, store=store, seed=0)
        other.load_state_dict(load_state(tmp_path / "state"))
        other.step()
        assert other.expert_queries == queries
        for name, tensor in expected["policy"].items():
            assert torch.equal(tensor, other.state_dict()["policy"][name])


def test_one_teacher_is_not_several_and_critics_must_be_comparable(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="at least 2"),
        learning(tmp_path / "1.h5", DAgger, DAggerConfig(**SMALL), "Identity-v0", [NAMES_ZERO]),
    ):
        pass
    config = AggreVaTeDConfig(**SMALL, oracle="critic")
    with (
        pytest.raises(InputError, match="compared by fitted Q"),
        learning(tmp_path / "2.h5", AggreVaTeD, config, "Identity-v0", [NAMES_ZERO, BLIND_TO_ZERO]),
    ):
        pass
