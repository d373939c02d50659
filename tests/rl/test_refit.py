"""Fine-tuning of policies whose tanh is saturated."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import pytest
import torch

from imitate import PPO, PPOConfig, evaluate
from imitate.configs.shared import Head
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.refit import refit, with_head

ENV = "ContinuousIdentity-v0"  # the best return of an episode is 0; always the largest action makes about -43


def saturated(bias: float = 12.0, head: Head = "squashed") -> ActorPolicy:
    """A policy that does the same everywhere; by default it plays its upper bound."""
    env = gym.make(ENV)
    with seeded(0):
        policy = ActorPolicy(env.observation_space, env.action_space, head=head, log_std_init=-1.0)
    torch.nn.init.zeros_(policy.output.weight)
    torch.nn.init.constant_(policy.output.bias, bias)
    return policy


def learner(policy: ActorPolicy, **settings: object) -> PPO:
    config = PPOConfig(**{"total_steps": 12_000, "num_steps": 128, "learning_rate": 3e-3} | settings)  # type: ignore[arg-type]
    return PPO(config, envs=SyncVecEnv([lambda: make_env(ENV)] * 8), seed=0, policy=policy)


def trained(ppo: PPO) -> float:
    while not ppo.done:
        ppo.step()
    return evaluate(ppo.policy, ENV, episodes=20).mean


@pytest.fixture
def short_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit takes 500 updates, not 2,000."""
    monkeypatch.setattr("imitate.rl.fit_by_play._UPDATES", 500)


@pytest.mark.usefixtures("short_fit")
def test_reinforcement_moves_a_policy_that_was_saturated() -> None:
    short = {"total_steps": 4_000, "gamma": 0.5, "num_epochs": 5}
    assert trained(learner(saturated(), head="squashed", **short)) < -20  # as it was: no gradient leads back
    assert trained(learner(saturated(), **short)) > -10


@pytest.mark.usefixtures("short_fit")
def test_the_fitted_policy_acts_as_the_given_one_and_explores_as_much() -> None:
    imitator = saturated(0.5)
    ppo = learner(imitator, num_steps=32)
    assert ppo.policy.head == "clipped"
    metrics = ppo.step()
    assert metrics["refit_loss"] < 1e-4
    assert ppo.env_steps == 1_200  # a tenth of the run
    obs = torch.linspace(-1, 1, 9)[:, None].numpy()
    assert abs(ppo.policy.act(obs) - imitator.act(obs)).max() < 0.05
    assert torch.equal(ppo.policy.log_std.detach(), torch.tensor([-1.0]))
    assert "value_loss" in ppo.step()


def test_the_step_size_of_a_fit_falls_to_0(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []

    class Noting(Adam):
        def step(self, loss: torch.Tensor) -> None:
            rates.append(self.learning_rate)
            super().step(loss)

    monkeypatch.setattr("imitate.nn.refit.Adam", Noting)
    refit(saturated(), saturated(0.5), [torch.zeros(2, 1)] * 4, 4)
    assert rates == pytest.approx([1e-3, 7.5e-4, 5e-4, 2.5e-4])


@pytest.mark.parametrize(("head", "bias"), [("clipped", 0.5), ("squashed", math.atanh(0.5))])
@pytest.mark.parametrize(("other", "at_bound"), [("clipped", 1.5), ("squashed", 12.0)])
def test_a_fit_is_to_what_the_imitator_does(head: Head, bias: float, other: Head, at_bound: float) -> None:
    """The policy acts 0.5 and the imitator 1, its bound: (1 - 0.5)^2."""
    loss = refit(saturated(bias, head), saturated(at_bound, other), [torch.zeros(2, 1)], 1)
    assert loss.item() == pytest.approx(0.25)


def test_all_but_the_head_is_kept() -> None:
    env = gym.make(ENV)
    kept: dict[str, Any] = {
        "hidden": (8,),
        "activation": "relu",
        "normalize_obs": True,
        "layer_norm": True,
    }
    given = ActorPolicy(env.observation_space, env.action_space, head="squashed", **kept)
    obs = torch.linspace(1, 5, 9)[:, None]
    given.encoder.observe(obs)
    made = [with_head(given, "clipped", seed=seed, log_std_init=-2.0) for seed in (0, 0, 1)]
    for new in made:
        assert torch.equal(new.encoder(new.encoder.prepare(obs)), given.encoder(given.encoder.prepare(obs)))
        assert new.log_std.tolist() == [-2.0]
    first, again, other = (new.output.weight for new in made)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_deviation_that_depends_on_the_state_is_left_behind() -> None:
    """SAC's may be 1 where nothing is at stake, so the new one begins where the config says."""
    env = gym.make(ENV)
    given = ActorPolicy(env.observation_space, env.action_space, head="squashed", state_std=True)
    ppo = learner(given, log_std_init=-2.0)
    assert ppo.policy.log_std.tolist() == [-2.0]


@pytest.mark.slow
def test_a_squashed_policy_is_fitted_through_its_tanh() -> None:
    env = gym.make(ENV)
    given = ActorPolicy(env.observation_space, env.action_space, head="clipped", log_std_init=-1.0)
    torch.nn.init.zeros_(given.output.weight)
    torch.nn.init.constant_(given.output.bias, 0.8)
    ppo = learner(given, head="squashed")
    assert ppo.step()["refit_loss"] < 1e-4
    obs = torch.linspace(-1, 1, 9)[:, None].numpy()
    assert abs(ppo.policy.act(obs) - given.act(obs)).max() < 0.05


def test_a_state_from_before_or_after_the_fit_goes_on_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitate.rl.fit_by_play._UPDATES", 50)
    for steps in (0, 1, 3):
        first, second = (learner(saturated(0.5), num_steps=32, num_epochs=2) for _ in range(2))
        for _ in range(steps):
            first.step()
        second.load_state_dict(first.state_dict())
        first.load_state_dict(first.state_dict())
        for _ in range(2):
            assert first.step() == second.step()


def test_a_failure_before_the_fit_leaves_it_to_the_resumed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps before it are counted, so they do not say that the policy has been fitted."""

    def failing(*_: object) -> float:
        raise RuntimeError

    monkeypatch.setattr("imitate.rl.fit_by_play._UPDATES", 50)
    first, second = (learner(saturated(0.5), num_steps=32, num_epochs=2) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr("imitate.rl.fit_by_play.refit", failing)
        with pytest.raises(RuntimeError):
            first.step()
    assert first.env_steps > 0
    second.load_state_dict(first.state_dict())
    assert "refit_loss" in second.step()
    assert "refit_loss" not in second.step()


def test_a_state_of_another_head_is_refused() -> None:
    state = learner(saturated(), head="squashed").state_dict()
    with pytest.raises(InputError, match="another head"):
        learner(saturated()).load_state_dict(state)


def test_a_head_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="does not fit"):
        learner(saturated(), head="categorical")


def test_a_policy_that_also_predicts_its_deviation_can_be_given() -> None:
    env = gym.make(ENV)
    imitator = ActorPolicy(env.observation_space, env.action_space, head="squashed", state_std=True)
    fitted = with_head(imitator, "clipped", seed=0)
    assert float(fitted.log_std.detach()) == 0.0
    obs = torch.linspace(-1, 1, 64)[:, None]
    assert float(refit(fitted, imitator, [obs] * 500, 500)) < 1e-4
