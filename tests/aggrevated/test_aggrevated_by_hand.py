"""AggreVaTeD and LOKI: gates, targets and values that were computed by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from problems import Bowl, Same, learning, trained
from test_loki import SHORT
from test_loki import learning as loki
from test_trial import Beside
from torch import Tensor

from imitate.aggrevated.gate import CLOSED, Gate, compared, measure_gate
from imitate.aggrevated.gradients import exact, target
from imitate.aggrevated.variants.executed import Executed, LearnersValue
from imitate.aggrevated.variants.scene import Scene
from imitate.experts import load_expert
from imitate.experts.values.fqe import FittedQ
from imitate.imitators.cloning import new_policy
from imitate.imitators.dagger import DAggerConfig
from imitate.imitators.roll_in.student import Student
from imitate.nn.distributions import Categorical, Gaussian
from imitate.rl.paired import played
from imitate.rl.rollout import Rollout


def test_the_gate_by_hand() -> None:
    """The expert's action is worth 1; of eight random ones seven are worth 0 and one 16, on average 2. The differences
    are 1 and 15: (7 * 1 + 15) / 8 = 2.75."""
    worth = iter([1.0, *[0.0] * 7, 16.0])
    oracle: Any = SimpleNamespace(heads=lambda *_: torch.tensor([[next(worth)]]), greedy=False)
    zeros = torch.zeros(1, 1)
    found = measure_gate(oracle, zeros, zeros, spaces.Box(-1, 1, (1,)), np.random.default_rng(0))
    assert (found.gap.tolist(), found.openness, found.open) == ([2.75], 0.0, False)


@pytest.mark.parametrize(("threshold", "is_open"), [(0.75, True), (0.76, False)])
def test_the_gate_of_two_heads_and_two_states_by_hand(threshold: float, is_open: bool) -> None:
    """The first head rates the expert's actions 1 and 1 and random ones 0, so its gap is 1. The second rates them 1
    and 5 and random ones 2, so its gap is (1 + 3) / 2. Three of four are worth more than random ones."""
    worth = iter([[[1.0, 1.0], [1.0, 5.0]], *[[[0.0, 0.0], [2.0, 2.0]]] * 8])
    oracle: Any = SimpleNamespace(heads=lambda *_: torch.tensor(next(worth)), greedy=False)
    zeros, box = torch.zeros(2, 1), spaces.Box(-1, 1, (1,))
    found = measure_gate(oracle, zeros, zeros, box, np.random.default_rng(0), threshold)
    assert (found.gap.tolist(), found.openness, found.open) == ([1.0, 2.0], 0.75, is_open)


def test_a_critic_to_which_all_actions_are_alike_puts_none_above_others() -> None:
    oracle: Any = SimpleNamespace(heads=lambda *_: torch.ones(1, 2), greedy=False)
    zeros = torch.zeros(2, 1)
    found = measure_gate(oracle, zeros, zeros, spaces.Box(-1, 1, (1,)), np.random.default_rng(0))
    assert (found.openness, found.open) == (0.0, False)
    # Advantages are divided by it.
    assert found.gap.item() > 0


def test_advantages_of_discrete_actions_are_in_gaps() -> None:
    """Values 1 and 3, of which the policy takes each half of the time, in gaps of 4: -1/4 and 1/4. The gradient is
    minus the probability times these."""
    logits = torch.zeros(1, 2, requires_grad=True)
    critic: Any = SimpleNamespace(q_all=lambda _: torch.tensor([[1.0, 3.0]]))
    loss = exact(critic, Gate(torch.tensor([4.0]), 1.0, True), Categorical(logits), torch.zeros(1, 1))
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    assert gradient.tolist() == [[0.125, -0.125]]


def test_a_target_is_in_gaps_and_in_the_actors_units() -> None:
    """The value rises by 0.4 a unit of the environment's actions, which are 0 to 4: by 0.8 a unit of the actor's. In
    gaps of 4 that is 0.2, and the step is 0.2 / (2 beta)."""
    actor = new_policy(DAggerConfig(), spaces.Box(-1, 1, (1,)), spaces.Box(0, 4, (1,)), seed=0)
    critic: Any = SimpleNamespace(heads=lambda _, actions: 0.4 * actions.sum(-1).reshape(1, -1))
    zeros = torch.zeros(3, 1)
    distribution = Gaussian(zeros, torch.tensor([-1.0]), squashed=True)
    found = target(
        critic, Gate(torch.tensor([4.0]), 1.0, True), actor, distribution, zeros, zeros,
        beta=1.0, delta=0.5, search=False, generator=torch.Generator(),
    )  # fmt: skip
    np.testing.assert_allclose(found, np.full((3, 1), 0.1), rtol=1e-5)


def test_a_fitted_critic_does_not_learn_from_the_states_that_judge_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each iteration brings 40 states, of which half judge."""
    held: list[int] = []
    probes: list[Tensor] = []

    def judge(_critic: Any, obs: Tensor, *_: Any) -> tuple[Gate, dict[str, float]]:
        probes.append(obs)
        return CLOSED, {}

    monkeypatch.setattr("imitate.aggrevated.learner.judge_critic", judge)
    monkeypatch.setattr(FittedQ, "fit", lambda *_, held_out=0: held.append(held_out) or 0.0)
    fields: dict[str, Any] = {
        "total_steps": 80,
        "iterations": 2,
        "updates_per_iteration": 1,
        "fqe_updates": 1,
    }
    with learning(tmp_path, "ContinuousIdentity-v0", np.copy, "fqe", trial=0.0, **fields) as learner:
        for _ in range(2):
            learner.step()
            critic = learner.learner.critic
            assert isinstance(critic, FittedQ)
            assert torch.equal(probes.pop(), critic.memory.last(20)[0])
    assert held == [20, 20]


@pytest.mark.parametrize(("batches", "means"), [(2, {"loss": 3.0, "updates": 2.0}), (0, {"updates": 0.0})])
def test_means_are_over_the_updates_that_were_taken(batches: int, means: dict[str, float]) -> None:
    box = spaces.Box(-1, 1, (1,))
    student = Student(DAggerConfig(), new_policy(DAggerConfig(), box, box, seed=0))
    zeros = torch.zeros(1, 1)
    losses = [torch.full((1, 1), 2.0), torch.full((1, 1), 4.0)]

    def loss(distribution: Any, obs: Tensor, labels: Tensor) -> tuple[Tensor, dict[str, Tensor]]:  # noqa: ARG001
        return distribution.mean.square(), {"loss": labels}

    assert student.fit(loss, [(zeros, each) for each in losses[:batches]], 5) == means


def test_the_last_of_four_steps_has_a_quarter_of_the_learning_rate() -> None:
    box, config = spaces.Box(-1, 1, (1,)), DAggerConfig(learning_rate=1e-3)
    student = Student(config, new_policy(config, box, box, seed=0))
    zeros = torch.zeros(1, 1)
    student.fit(lambda distribution, *_: (distribution.mean.square(), {}), [(zeros, zeros)] * 4, 4)
    assert student.optimizer.learning_rate == pytest.approx(1e-3 / 4)


def test_the_trial_takes_its_share_of_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of 3,000 steps are 600: 30 episodes of ten steps of each of the two, which may have a third of the 1,200
    that are left."""
    limits: list[int] = []

    def limited(*arguments: Any) -> Any:
        limits.append(arguments[-1])
        return played(*arguments)

    monkeypatch.setattr("imitate.aggrevated.trial.played", limited)
    fields: dict[str, Any] = {
        "total_steps": 3_000,
        "iterations": 10,
        "updates_per_iteration": 1,
        "final_updates": 1,
    }
    metrics: dict[str, float] = {}
    with learning(tmp_path, "ContinuousIdentity-v0", np.copy, Bowl(), **fields) as learner:
        while "trial_pairs" not in metrics:
            before = learner.env_steps
            metrics = learner.step()
    assert metrics["trial_pairs"] == 30.0
    assert before == 1_800
    assert limits == [400, 400]


def rollout_of(rewards: Any, obs: Any, last_obs: Any = (0, 0), *, end_obs: Any = (), **ends: Any) -> Rollout:
    """T steps of two environments, none of which ends unless said otherwise."""
    rewards = np.array(rewards, np.float32)
    flags = {"terminated": np.zeros(rewards.shape, bool), "truncated": np.zeros(rewards.shape, bool)} | ends
    shown, ended, last = (np.array(each, np.float32)[..., None] for each in (obs, end_obs, last_obs))
    return Rollout(
        shown, np.zeros((*rewards.shape, 1), np.float32), rewards, **flags,
        ends=np.argwhere(flags["terminated"] | flags["truncated"]), end_obs=ended, last_obs=last,
    )  # fmt: skip


def test_only_the_learners_executed_actions_have_a_ratio() -> None:
    """Steps t of environments n have the observation 10 n + t. The expert acted in steps 0 and 1 of environment 0 and
    in step 2 of environment 1."""
    actor = new_policy(DAggerConfig(), spaces.Box(0, 20, (1,)), spaces.Box(-1, 1, (1,)), seed=0)
    config: Any = SimpleNamespace(importance="ratio", normalisation="none", batch_size=200)
    scene: Any = SimpleNamespace(actor=actor, config=config, critic=object())
    executed = Executed(scene, None, spaces.Box(0, 20, (1,)), 0)
    executed._advantages = lambda _, steps, *__: steps.obs[:, 0]  # type: ignore[method-assign]
    rollout = rollout_of(np.zeros((3, 2)), [[0, 10], [1, 11], [2, 12]])
    turns = np.array([[True, False], [True, False], [False, True]])
    labels = np.zeros((3, 2, 1), np.float32)
    gate, rng = Gate(torch.ones(1), 1.0, True), np.random.default_rng(0)
    ((obs, *_, advantages),) = executed.minibatches(rollout, labels, turns, gate, 1, rng)
    assert set(obs[:, 0].tolist()) == {2.0, 10.0, 11.0}
    assert torch.equal(advantages, obs[:, 0])


def test_executed_actions_are_compared_by_the_value_that_rates_them() -> None:
    """Two critics rate every action 1 and 3, so q, their minimum, is 1 of all: no action is better than others."""
    config: Any = SimpleNamespace(samples=2, normalisation="baseline")
    oracle: Any = SimpleNamespace(
        q=lambda _, actions: torch.ones(len(actions)),
        heads=lambda _, actions: torch.tensor([[1.0], [3.0]]).expand(2, len(actions)),
    )
    box = spaces.Box(-1, 1, (1,))
    actor = new_policy(DAggerConfig(), box, box, seed=0)
    scene = Scene(oracle, actor, config, torch.Generator())
    steps: Any = SimpleNamespace(obs=torch.zeros(3, 1), actions=torch.zeros(3, 1))
    gate, rollout = Gate(torch.ones(1), 1.0, True), rollout_of(np.zeros((1, 3)), np.zeros((1, 3)))
    found = Executed(scene, None, box, 0)._advantages(rollout, steps, gate, np.random.default_rng(0))
    assert found.tolist() == [0.0, 0.0, 0.0]


def test_the_learners_value_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """V(s) = s before the fit, environment by environment: 1, 2 and 3, 4. It is fitted to returns in the critic's
    units, in which rewards of 4 are 2; the discount is 1/2. Environment 0 terminates in its second step: 2 + 2 / 2
    and 2. The time limit ends the first step of environment 1 in 6, and 8 follows on its second: 2 + 6 / 2 and
    2 + 8 / 2."""
    value = LearnersValue(spaces.Box(-9, 9, (1,)), lambda obs: obs, seed=0)
    value.net = Itself()  # type: ignore[assignment]
    rollout = rollout_of(
        [[4, 4], [4, 4]], [[1, 3], [2, 4]], [7, 8], end_obs=[6, 7],
        terminated=np.array([[False, False], [True, False]]), truncated=np.array([[False, True], [False, False]]),
    )  # fmt: skip
    targets: list[Any] = []
    loss = torch.nn.functional.mse_loss
    monkeypatch.setattr(
        torch.nn.functional, "mse_loss", lambda x, y: targets.append(sorted(y.tolist())) or loss(x, y)
    )
    assert value.fit(rollout, 0.5, 2.0, np.random.default_rng(0)).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert targets[0] == [2.0, 3.0, 5.0, 6.0]


class Itself(torch.nn.Module):
    """V(s) = s, until it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.output = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.output.weight)
        torch.nn.init.zeros_(self.output.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(x).squeeze(-1)  # type: ignore[no-any-return]


def test_the_warm_start_is_in_ppos_unit_of_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PPO's values are the expert's, divided by the scale of its rewards."""
    monkeypatch.setattr("imitate.aggrevated.loki.VALUE_UPDATES", 20)
    with loki(tmp_path / "store.h5", total_steps=5_600, guidance=1.0, aggrevated=SHORT) as learner:
        while not learner.imitation.done:
            learner.step()
        ppo, experts_value = learner._reinforcement(learner._blank())
        assert experts_value is not None
        learner._warm_start(ppo, experts_value)
        assert ppo.scaler is not None
        assert ppo.scaler.moments.count == learner.imitation.learner.roll_in.store.num_steps
        assert float(experts_value.scale) == pytest.approx(ppo.scaler.scale)
        obs = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
        with torch.no_grad():
            wanted = ppo.value(obs) * ppo.scaler.scale
        np.testing.assert_allclose(experts_value(obs), wanted, rtol=1e-5)


def test_the_states_of_the_trial_have_the_experts_labels(tmp_path: Path) -> None:
    """The expert names what it observes; the critic is wrong, so DAgger wins and learns from the trial's episodes."""
    fields: dict[str, Any] = {"total_steps": 1_500, "iterations": 10, "updates_per_iteration": 30}
    with learning(tmp_path, "ContinuousIdentity-v0", np.copy, Beside(), **fields) as learner:
        while learner.learner.trusted:
            learner.step()
        for piece in learner.learner.roll_in.store.reader():
            np.testing.assert_allclose(piece.labels, piece.obs[:-1], atol=1e-6)
        assert learner.learner.roll_in.store.num_steps == learner.env_steps


def test_differences_of_values_are_used_without_a_critic_to_judge(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "total_steps": 400,
        "iterations": 2,
        "updates_per_iteration": 5,
        "alpha_rate": 0.0,
    }
    learner = trained(tmp_path, "CartPole-v1", load_expert("CartPole-v1:ppo"), td=True, **fields)
    assert learner.metrics["policy_loss"] != 0.0


def test_the_entropy_bonus_of_a_variant_by_hand(tmp_path: Path) -> None:
    """Three equal probabilities: log 3 of cloning, minus half of an entropy of log 3."""
    with learning(
        tmp_path, "Identity-v0", np.copy, Same(), beta=1.0, ent_coef=0.5, total_steps=80
    ) as learner:
        labels = torch.tensor([0, 2])
        loss, _ = learner.loss(CLOSED, Categorical(torch.zeros(2, 3)), torch.zeros(2, 1), labels)
    assert loss.tolist() == pytest.approx([0.5 * math.log(3)] * 2)


def test_the_learners_advantage_is_in_gaps() -> None:
    """Its actions are worth 3, the expert's 1: 2 of gaps of 4."""
    oracle: Any = SimpleNamespace(heads=lambda _, actions: actions[None, :, 0])
    found = compared(
        oracle,
        Gate(torch.tensor([4.0]), 0.5, True),
        torch.zeros(2, 1),
        torch.ones(2, 1),
        torch.full((2, 1), 3.0),
    )
    assert found == {"q_expert": 1.0, "q_learner": 3.0, "advantage": 0.5, "gate": 0.5}


def test_each_heads_advantage_is_in_its_own_gaps() -> None:
    """The learner's actions are worth 1 more to the first head and 4 more to the second, 1 and 2 gaps."""
    oracle: Any = SimpleNamespace(heads=lambda _, actions: torch.tensor([[1.0], [4.0]]) * actions[:, 0])
    gate = Gate(torch.tensor([1.0, 2.0]), math.nan, True)
    found = compared(oracle, gate, torch.zeros(2, 1), torch.ones(2, 1), torch.full((2, 1), 2.0))
    assert found == {"q_expert": 2.5, "q_learner": 5.0, "advantage": 1.5}


def test_the_schedules_of_reinforcement_run_over_its_own_steps(tmp_path: Path) -> None:
    with loki(tmp_path / "store.h5", total_steps=5_600, aggrevated=SHORT) as learner:
        while not learner.imitation.done:
            learner.step()
        learner.step()
        assert learner.ppo is not None
        assert learner.ppo.config.total_steps == 5_600 - learner.imitation.env_steps
