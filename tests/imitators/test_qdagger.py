"""QDagger: the distillation loss and its weight by hand, and that the student begins at the teacher and passes it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.datasets.evaluation import evaluate
from imitate.envs import make_vec
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.imitators.qdagger import QDagger, QDaggerConfig, distillation_loss
from imitate.nn.state import load_state, save_state

SMALL: dict[str, Any] = {
    **{"gamma": 0.5, "learning_starts": 100, "rounds_per_iteration": 25, "hidden": (32,), "num_updates": 4},
    **{"num_steps": 1, "n_step": 1, "learning_rate": 1e-3, "lr_schedule": "constant", "huber": 1.0},
    **{"total_steps": 4_000, "offline_updates": 400},
}


def blind_to_two(obs: Array) -> Array:
    """Names the observations 0 and 1, and 0 for 2: 6.7 of 10 an episode."""
    return np.where(obs == 2, 0, obs)


def learner(expert: Any = blind_to_two, **fields: Any) -> QDagger:
    envs = SyncVecEnv([lambda: make_env("Identity-v0")] * 8)
    return QDagger(QDaggerConfig(**SMALL | fields), envs=envs, expert=expert, seed=0)


def test_the_distillation_loss_by_hand() -> None:
    logits = torch.tensor([[0.0, math.log(3.0)]]).repeat(3, 1)  # the student's probabilities are 1/4 and 3/4
    teacher = torch.tensor([[1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    expected = [math.log(4.0), 0.0, 0.5 * math.log(2.0) + 0.5 * math.log(2.0 / 3.0)]
    assert distillation_loss(logits, teacher).tolist() == pytest.approx(expected, abs=1e-6)


def test_the_teachers_loss_is_weighted_and_its_temperature_divides_the_values() -> None:
    """Values 0 and 2 log 3 at temperature 2 are probabilities 1/4 and 3/4: half of log 4."""
    teacher = learner().teacher
    teacher.weight = 0.5
    q_net: Any = lambda _: torch.tensor([[0.0, 2 * math.log(3)]])  # noqa: E731
    batch = {
        "obs": torch.zeros(1, 1), "teacher": torch.tensor([[1.0, 0.0]]), "temperature": torch.tensor([2.0]),
    }  # fmt: skip
    assert float(teacher.loss(q_net, batch)) == pytest.approx(0.5 * math.log(4))


def test_the_weight_falls_as_the_student_nears_the_teacher() -> None:
    student = learner(distill_coef=2.0, total_steps=4_000)
    assert student.weight == 2.0
    student.teacher_return = -100.0
    student.judge(math.nan, 400)
    assert student.weight == 2.0  # nothing is known of the student yet
    student.judge(-300.0, 400)
    assert student.weight == 2.0  # the lowest so far
    student.judge(200.0, 400)  # three tenths of it are believed: -300 + 0.3 * 500
    assert (student.student_return, student.weight) == (-150.0, 0.5)
    student.judge(200.0, 400)
    assert student.weight == 0.0
    student.judge(-245.0, 400)  # -45 + 0.3 * -200
    assert student.weight == pytest.approx(2.0 * 5 / 200)  # it begins again


def test_a_student_who_begins_level_keeps_its_teacher_for_a_tenth_of_the_run() -> None:
    student = learner(distill_coef=1.0, total_steps=4_000)
    student.teacher_return = 10.0
    weights = []
    for _ in range(5):
        student.judge(10.0, 100)
        weights.append(student.weight)
    assert weights == pytest.approx([0.75, 0.5, 0.25, 0.0, 0.0])


def test_the_weight_falls_with_the_run_if_no_episode_of_the_teacher_ended() -> None:
    student = learner(distill_coef=2.0, total_steps=400)
    weights = []
    for steps in (100, 200, 400, 500):
        student.dqn.sampler.env_steps = steps
        student.judge(-300.0, 100)
        weights.append(student.weight)
    assert math.isnan(student.teacher_return)
    assert weights == [1.5, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_the_offline_phase_has_the_whole_step_size(schedule: str) -> None:
    """A schedule that ends at 0 begins with it."""
    student = learner(lr_schedule=schedule)
    metrics = student.step()
    assert (metrics["epsilon"], metrics["learning_rate"]) == (0.05, 1e-3)
    assert evaluate(student.policy, "Identity-v0", episodes=20).mean == pytest.approx(6.7, abs=0.6)


def test_temperatures_are_in_units_of_the_teachers_spread() -> None:
    class Critic:
        reward_scale = 10.0

        def q_all(self, obs: torch.Tensor) -> torch.Tensor:
            return torch.tensor([[1.0, 2.0, 3.0]]).repeat(len(obs), 1)  # standard deviation 1, 10 of reward

    class WithCritic:
        oracle = Critic()

        def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
            return blind_to_two(obs)

    student = learner(WithCritic(), temperature=0.5, offline_updates=0)
    student.step()
    (batch,) = student.dqn.batches(1)
    assert batch["temperature"].tolist() == [5.0] * 64
    expected = torch.tensor([2.0, 4.0, 6.0]).softmax(0)
    assert torch.allclose(batch["teacher"], expected.repeat(64, 1))


def test_offline_it_becomes_the_teacher_and_online_better() -> None:
    student = learner()
    metrics = student.step()
    assert student.env_steps == 400
    assert metrics["distill_coef"] == 1.0
    assert evaluate(student.policy, "Identity-v0", episodes=20).mean == pytest.approx(6.7, abs=0.6)
    while not student.done:
        metrics = student.step(4_000 - student.env_steps)
    assert student.env_steps == 4_000
    assert metrics["distill_coef"] == 0.0
    queries = student.expert_queries
    student.dqn.learn()
    assert student.expert_queries == queries  # plain DQN asks nobody
    assert evaluate(student.policy, "Identity-v0", episodes=20).mean == 10


def test_only_episodes_that_the_student_began_are_its_own() -> None:
    """The teacher leaves episodes of ten steps after five; the student takes nine."""
    student = learner(teacher_steps=8 * 15, offline_updates=0, rounds_per_iteration=9)
    assert student.step()["train_length"] == 10
    assert "train_length" not in student.step()
    assert math.isnan(student.student_return)


@pytest.mark.slow
def test_it_learns_cartpole_from_a_q_network(zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(zoo))
    expert = load_expert("zoo:dqn/CartPole-v1")
    envs = make_vec("CartPole-v1", 8)
    config = QDaggerConfig(total_steps=8_000, offline_updates=1_500, learning_rate=1e-3, hidden=(64,))
    student = QDagger(config, envs=envs, expert=expert, seed=0)
    while not student.done:
        student.step(8_000 - student.env_steps)
    assert evaluate(student.policy, "CartPole-v1", episodes=20).mean >= 475


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_checkpoint_of_either_phase_goes_on(tmp_path: Path, steps: int) -> None:
    ends = []
    for _ in range(2):
        student = learner(offline_updates=20)
        for _ in range(steps):
            student.step()
        save_state(tmp_path / "state", student.state_dict())
        student = learner(offline_updates=20)
        student.load_state_dict(load_state(tmp_path / "state"))
        student.step()
        assert student.taught
        ends.append((student.env_steps, student.expert_queries, student.policy.output.weight.clone()))
    assert ends[0][:2] == ends[1][:2]
    assert torch.equal(ends[0][2], ends[1][2])


def test_what_cannot_work_is_refused() -> None:
    for given in ({"temperature": 0.0}, {"teacher_steps": 0}, {"distill_coef": -1.0}):
        with pytest.raises(InputError, match=next(iter(given))):
            QDaggerConfig(**given)  # type: ignore[arg-type]
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")])
    with pytest.raises(InputError, match=r"qdagger wants discrete actions, got Box.*; use guided"):
        QDagger(QDaggerConfig(), envs=envs, expert=blind_to_two, seed=0)


@pytest.mark.parametrize(("teacher_steps", "known"), [(72, False), (80, True)])
def test_a_teacher_whose_return_is_unknown_is_named(
    teacher_steps: int, caplog: pytest.LogCaptureFixture, *, known: bool
) -> None:
    """Its eight episodes take ten steps each."""
    student = learner(teacher_steps=teacher_steps, offline_updates=4)
    student.step()
    assert math.isnan(student.teacher_return) is not known
    assert ("no episode of the expert ended in its 72 steps" in caplog.text) is not known
