"""The standard deviation of on-policy learners: learned, fixed, or an output of the network."""

from __future__ import annotations

import math

import pytest
import torch

from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.rl.a2c import A2C, A2CConfig
from imitate.rl.on_policy import OnPolicy
from imitate.rl.ppo import PPO, PPOConfig
from imitate.rl.reinforce import REINFORCE, REINFORCEConfig

CONTINUOUS = "ContinuousIdentity-v0"
LEARNERS = ((PPO, PPOConfig), (A2C, A2CConfig), (REINFORCE, REINFORCEConfig))


def learner(algorithm: int = 0, env_id: str = CONTINUOUS, **options: object) -> OnPolicy:
    made, config = LEARNERS[algorithm]
    envs = SyncVecEnv([lambda: make_env(env_id)] * 4)
    return made(config(log_std_init=0.5, ent_coef=0.1, **options), envs=envs, seed=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", range(3))
def test_a_fixed_deviation_has_no_gradient_and_stays(algorithm: int) -> None:
    """The entropy bonus would raise it, as it does for the learned one."""
    found = {}
    for std in ("learned", "fixed"):
        run = learner(algorithm, std=std)
        before = run.policy.output.weight.detach().clone()
        run.step()  # type: ignore[attr-defined]
        assert not torch.equal(run.policy.output.weight, before)
        found[std] = float(run.policy.log_std.detach())
        assert run.policy.log_std.requires_grad == (std == "learned")
    assert found["fixed"] == 0.5
    assert found["learned"] != 0.5


@pytest.mark.parametrize("algorithm", range(3))
def test_a_deviation_of_the_state_is_an_output_that_learns(algorithm: int) -> None:
    run = learner(algorithm, std="state", hidden=())
    weight, bias = run.policy.output.weight, run.policy.output.bias
    assert bias.tolist() == [0.0, 0.5]  # mean, log standard deviation
    before = weight.detach().clone()
    run.step()  # type: ignore[attr-defined]
    assert not torch.equal(weight[1], before[1])


def test_log_prob_of_a_deviation_of_the_state_by_hand() -> None:
    """Mean 0 and log std s: log N(1; 0, e^s) = -e^(-2s) / 2 - s - log(2 pi) / 2."""
    run = learner(std="state", hidden=())
    with torch.no_grad():
        run.policy.output.weight.copy_(torch.tensor([[0.0], [1.0]]))
        run.policy.output.bias.zero_()
    log_probs = run.policy(torch.tensor([[0.0], [0.5]])).log_prob(torch.ones(2, 1))
    wanted = [-0.5 * math.exp(-2 * s) - s - 0.5 * math.log(2 * math.pi) for s in (0.0, 0.5)]
    assert log_probs.tolist() == pytest.approx(wanted, rel=1e-5)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="std 'fixed' is for a Gaussian, but actions are Discrete"):
        learner(env_id="Identity-v0", std="fixed")
    envs = SyncVecEnv([lambda: make_env(CONTINUOUS)])
    policy = ActorPolicy(envs.single_observation_space, envs.single_action_space)
    with pytest.raises(InputError, match="'state' does not fit the given policy, whose deviation is a param"):
        PPO(PPOConfig(std="state"), envs=envs, seed=0, policy=policy)
