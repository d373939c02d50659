"""Losses of the variants, the metrics of the gate and the schedules of LOKI, by hand."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from problems import Same, learning, trained
from test_loki import IMITATION
from test_loki import learning as loki

from imitate.aggrevated.gate import CLOSED, Gate, compared
from imitate.experts import load_expert
from imitate.nn.distributions import Categorical


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


def test_the_schedules_of_reinforcement_run_over_its_own_steps(tmp_path: Path) -> None:
    short = IMITATION | {"updates_per_iteration": 5, "final_updates": 5}
    with loki(tmp_path / "store.h5", total_steps=5_600, aggrevated=short) as learner:
        while not learner.imitation.done:
            learner.step()
        learner.step()
        assert learner.ppo is not None
        assert learner.ppo.config.total_steps == 5_600 - learner.imitation.env_steps
