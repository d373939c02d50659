"""AggreVaTeD on problems that a reader can solve by hand, and on CartPole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import Bowl, ChainOracle, chain_expert, learning, trained

from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.values.fqe import FQEConfig

CHAIN = {
    "total_steps": 480,
    "iterations": 4,
    "updates_per_iteration": 80,
    "learning_rate": 1e-2,
    "hidden": (8,),
}


@pytest.fixture(scope="module")
def misled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A learner on the chain whose critic has it the wrong way round."""
    folder = tmp_path_factory.mktemp("misled")
    return trained(folder, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0), **CHAIN)


def test_all_mistakes_are_not_equal(misled: Any, tmp_path: Path) -> None:
    """A policy that can't be right in both states is wrong in the rarer one under DAgger's loss (10 mistakes of 10 in
    30 steps), and in the cheaper one under AggreVaTeD's (20 mistakes of 1)."""
    aggrevated = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), beta=0.0, **CHAIN)
    mixed = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), **CHAIN)
    returns = [evaluate(m.policy, "TwoStateChain-v0", episodes=1).mean for m in (misled, aggrevated, mixed)]
    assert returns == [-100.0, -20.0, -20.0]


def test_a_critic_that_has_it_the_wrong_way_round_costs_nothing(misled: Any, tmp_path: Path) -> None:
    assert misled.metrics["gate"] < 0.1
    assert misled.metrics["policy_loss"] == 0.0
    given = (tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0))
    with learning(
        *given, beta=0.0, **CHAIN
    ) as without_beta:  # nothing but DAgger's loss is left to learn from
        before = without_beta.policy.output.weight.clone()
        without_beta.step()
        assert not torch.equal(without_beta.policy.output.weight, before)
    believed = trained(
        tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0), gate=0.0, beta=0.0, **CHAIN
    )
    assert (
        evaluate(believed.policy, "TwoStateChain-v0", episodes=1).mean == -100.0
    )  # it takes the worse mistake


def test_a_target_passes_a_poor_expert_and_cloning_does_not(tmp_path: Path) -> None:
    """The expert is off by 0.5 in every step: 10 * 0.5^2 = 2.5 an episode."""
    expert: Callable[[Array], Array] = lambda obs: obs + 0.5  # noqa: E731
    base: dict[str, Any] = {
        "total_steps": 480,
        "iterations": 6,
        "updates_per_iteration": 40,
        "learning_rate": 1e-2,
    }
    means = []
    for delta in (0.0, 0.5):
        learner = trained(tmp_path, "ContinuousIdentity-v0", expert, Bowl(), delta=delta, **base)
        means.append(evaluate(learner.policy, "ContinuousIdentity-v0", episodes=10).mean)
    assert means[0] == pytest.approx(-2.5, abs=0.4)
    assert means[1] > -0.6


CARTPOLE = {"total_steps": 800, "iterations": 8, "updates_per_iteration": 100, "learning_rate": 3e-3}


def test_cartpole_within_800_steps_from_the_experts_own_critic(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1")
    learner = trained(tmp_path, "CartPole-v1", expert, expert.oracle, **CARTPOLE)
    assert evaluate(learner.policy, "CartPole-v1", episodes=4).mean >= 450


@pytest.mark.slow
def test_cartpole_within_800_steps_from_a_critic_learned_along_the_way(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1:ppo")
    learner = trained(tmp_path, "CartPole-v1", expert, fqe_updates=100, **CARTPOLE)
    assert evaluate(learner.policy, "CartPole-v1", episodes=10).mean >= 450


def test_a_v_only_expert_weighs_executed_actions(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1:ppo")
    fields: dict[str, Any] = {
        "total_steps": 400,
        "iterations": 2,
        "updates_per_iteration": 20,
        "alpha_rate": 0.0,
    }
    learner = trained(tmp_path, "CartPole-v1", expert, td=True, **fields)
    assert learner.config.estimator == "executed"
    assert np.isfinite(learner.metrics["policy_loss"])
    with pytest.raises(InputError, match="td, which values executed actions only"):
        trained(tmp_path, "CartPole-v1", expert, td=True, estimator="exact")


def test_the_critics_settings_are_those_of_the_config() -> None:
    of_a_preset = AggreVaTeDConfig(fqe={"hidden": [8], "gamma": 0.9})  # type: ignore[arg-type]
    assert of_a_preset.fqe == FQEConfig(hidden=(8,), gamma=0.9)
    with pytest.raises(InputError, match="tau must be in"):
        AggreVaTeDConfig(fqe={"tau": 2.0})  # type: ignore[arg-type]
