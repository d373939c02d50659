"""RPO is PPO with a perturbed mean, in the update and, if asked for, while acting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from imitate.datasets.evaluation import evaluate
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.networks import ValueNet
from imitate.nn.policy import ActorPolicy
from imitate.rl.ppo import PPO, PPOConfig, perturbation, ppo_loss
from imitate.training.experiment import Experiment


def learner(env_id: str = "ContinuousIdentity-v0", seed: int = 0, **options: object) -> PPO:
    config = PPOConfig(**{"num_steps": 64, "learning_rate": 3e-3, "log_std_init": -0.5} | options)  # type: ignore[arg-type]
    return PPO(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 8), seed=seed)


def weights(ppo: PPO) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in ppo.policy.parameters()])


def test_the_mean_is_moved_in_the_log_probability_of_the_update() -> None:
    env = make_env("ContinuousIdentity-v0")
    policy = ActorPolicy(env.observation_space, env.action_space, hidden=())
    torch.nn.init.zeros_(policy.output.weight)
    torch.nn.init.zeros_(policy.output.bias)  # N(0, 1) everywhere
    value_net = ValueNet(env.observation_space, (4,), "tanh")
    batch = {
        "obs": torch.zeros(2, 1),
        "raw_actions": torch.tensor([[1.0], [1.0]]),
        "log_probs": torch.full((2,), -0.5 - 0.5 * math.log(2 * math.pi)),
        "advantages": torch.tensor([1.0, 2.0]),
        "returns": torch.zeros(2),
        "values": torch.zeros(2),
        "perturbation": torch.tensor([[0.0], [0.5]]),
    }
    _, parts = ppo_loss(policy, value_net, batch, PPOConfig(standardize_advantages=False), torch.tensor(0.2))
    # log N(1; .5, 1) - log N(1; 0, 1) = -.125 + .5
    torch.testing.assert_close(parts["ratio"].log(), torch.tensor([0.0, 0.375]))
    assert parts["log_ratio"].tolist() == [0.0, 0.0]  # the policy itself has not moved


def test_target_kl_sees_how_far_the_policy_moved_not_the_perturbation() -> None:
    """At learning rate 0 the policy stays where it is, so all epochs are made; they ended after the first."""
    rpo = learner(rpo_alpha=0.5, target_kl=1e-3, learning_rate=0.0, num_epochs=3, batch_size=512)
    steps: list[None] = []
    optimize = rpo.optimizer.step
    rpo.optimizer.step = lambda loss: (steps.append(None), optimize(loss))[1]  # type: ignore[method-assign,func-returns-value]
    metrics = rpo.step()
    assert len(steps) == 3
    assert abs(metrics["approx_kl"]) < 1e-6
    assert metrics["clip_fraction"] > 0.1  # the perturbation moved the ratios


def test_the_perturbation_is_uniform() -> None:
    draws = perturbation(torch.zeros(20_000, 2), 0.7, torch.Generator().manual_seed(0))
    assert draws.abs().max() <= 0.7
    assert abs(draws.mean()) < 0.01
    assert abs(draws.std() - 0.7 / math.sqrt(3)) < 0.01
    assert abs(torch.corrcoef(draws.T)[0, 1]) < 0.03


def test_the_schedule_is_linear() -> None:
    config = PPOConfig(rpo_alpha=0.7, rpo_alpha_final=0.05)
    assert [round(config.rpo_alpha_at(progress), 3) for progress in (0.0, 0.5, 1.0)] == [0.7, 0.375, 0.05]
    assert PPOConfig(rpo_alpha=0.7).rpo_alpha_at(1.0) == 0.7


def test_alpha_is_logged() -> None:
    rpo = learner(rpo_alpha=0.7, rpo_alpha_final=0.1, total_steps=1_024, num_steps=64)
    assert [rpo.step()["rpo_alpha"] for _ in range(2)] == pytest.approx([0.7, 0.4])
    assert "rpo_alpha" not in learner().step()


def test_a_perturbed_rollout_has_the_log_probabilities_of_the_perturbed_mean() -> None:
    """Mean 0 before the noise and sigma e^-3. The metric `entropy` is minus the mean log-probability that acted."""
    rpo = learner(rpo_alpha=2.0, rpo_in_rollout=True, log_std_init=-3.0, hidden=())
    torch.nn.init.zeros_(rpo.policy.output.weight)
    rollout = rpo.collect()
    moves = np.stack(rpo.moves)
    assert moves.std() == pytest.approx(2 / math.sqrt(3), rel=0.1)
    z = (rollout.actions - moves) / math.exp(-3)
    assert z.std() == pytest.approx(1.0, rel=0.1)
    log_probs = -0.5 * z**2 + 3 - 0.5 * math.log(2 * math.pi)
    assert rpo.update(rollout, 0.0)["entropy"] == pytest.approx(-log_probs.mean(), rel=1e-4)
    with pytest.raises(InputError, match="rpo_in_rollout perturbs by rpo_alpha, which is 0"):
        PPOConfig(rpo_in_rollout=True)


@pytest.mark.parametrize("in_rollout", [False, True])
def test_a_policy_that_stays_the_same_has_no_kl(in_rollout: bool) -> None:
    """The perturbation moves the mean in updates and rollouts, but not the policy itself."""
    metrics = learner(rpo_alpha=0.5, rpo_in_rollout=in_rollout, learning_rate=0.0).step()
    assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["clip_fraction"] > 0.1


def test_alpha_zero_is_ppo_and_alpha_is_felt() -> None:
    runs = [learner(**options) for options in ({}, {"rpo_alpha_final": 0.0}, {"rpo_alpha": 0.5})]
    for run in runs:
        run.step()
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(weights(runs[0]), weights(runs[2]))


@pytest.mark.parametrize(
    ("head", "steps"), [("clipped", 4_500), pytest.param("squashed", 8_000, marks=pytest.mark.slow)]
)
def test_identity(head: str, steps: int) -> None:
    rpo = learner(rpo_alpha=0.3, rpo_alpha_final=0.05, total_steps=steps, gamma=0.5, head=head)
    while rpo.env_steps < steps:
        rpo.step()
    assert evaluate(rpo.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.5  # random: about -16


def test_it_is_an_algorithm_of_its_own_name_and_refuses_what_it_cannot_do() -> None:
    settings = Experiment.create("rpo", "Pendulum-v1").hyperparameters
    assert settings["rpo_alpha"] == 0.3
    with pytest.raises(InputError, match="rpo_alpha moves the mean of a Gaussian, but actions are Discrete"):
        learner("Identity-v0", rpo_alpha=0.5)
    with pytest.raises(InputError, match="rpo_alpha must be at least 0, got -1"):
        PPOConfig(rpo_alpha=-1)
    with pytest.raises(InputError, match="rpo_alpha must be at least 0, got nan"):
        PPOConfig(rpo_alpha=math.nan)
    with pytest.raises(InputError, match="rpo_alpha_final must be at least 0, got -1"):
        PPOConfig(rpo_alpha_final=-1)
