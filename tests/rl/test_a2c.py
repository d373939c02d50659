"""A2C solves what it must, the same way every time."""

from __future__ import annotations

import math

import pytest
import torch

from imitate.datasets.evaluation import evaluate
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.distributions import Categorical
from imitate.rl.a2c import A2C, A2CConfig, a2c_loss


def learner(env_id: str = "Identity-v0", seed: int = 0, **options: object) -> A2C:
    config = A2CConfig(**{"learning_rate": 3e-3} | options)  # type: ignore[arg-type]
    return A2C(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 8), seed=seed)


def test_the_loss_by_hand() -> None:
    # Both actions have probability 1/2; values 1 and 2, advantages 3 and -1: targets 4 and 1.
    loss, parts = a2c_loss(
        Categorical(torch.zeros(2, 2)),
        torch.tensor([1.0, 2.0]),
        torch.tensor([0, 1]),
        torch.tensor([3.0, -1.0]),
        A2CConfig(ent_coef=0.1, vf_coef=0.5),
    )
    log_two = math.log(2)
    assert float(parts["policy_loss"]) == pytest.approx(log_two * (3 - 1) / 2)
    assert float(parts["value_loss"]) == pytest.approx((3**2 + 1**2) / 2)
    assert float(loss) == pytest.approx(log_two + 0.5 * 5 - 0.1 * log_two)


def test_identity_discrete() -> None:
    a2c = learner(total_steps=10_000)
    while a2c.env_steps < 10_000:
        metrics = a2c.step()
    assert evaluate(a2c.policy, "Identity-v0", episodes=20).mean == 10
    assert metrics["learning_rate"] < 0.05 * 3e-3  # the schedule has arrived


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(it, marks=pytest.mark.slow)
            for it in ({"head": "squashed"}, {"normalize_rewards": True})
        ),
    ],
)
def test_identity_continuous(options: dict[str, object]) -> None:
    short = {"total_steps": 8_000, "learning_rate": 7e-3, "gamma": 0.5, "gae_lambda": 0.9}
    a2c = learner("ContinuousIdentity-v0", **short, log_std_init=-0.5, **options)
    while a2c.env_steps < 8_000:
        a2c.step()
    assert evaluate(a2c.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.5  # random: about -16


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="max_grad_norm must be at least 1e-06, got 0"):
        A2CConfig(max_grad_norm=0)
    with pytest.raises(InputError, match=r"ent_coef must be at least 0, got -0\.1"):
        A2CConfig(ent_coef=-0.1)
    with pytest.raises(InputError, match="num_steps must be at least 1, got 0"):
        A2CConfig(num_steps=0)
    with pytest.raises(InputError, match="gamma must be in"):
        A2CConfig(gamma=1.5)
