"""PPO's gradients by hand are those of autograd, and it takes them wherever its networks allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.rl import ppo as module
from imitate.rl.ppo import PPO, PPOConfig

DISCRETE, CONTINUOUS = "Identity-v0", "ContinuousIdentity-v0"


def learner(env_id: str, **options: Any) -> PPO:
    config = PPOConfig(
        **{"num_steps": 8, "hidden": (7, 5), "log_std_init": -0.5, "max_grad_norm": 1e9} | options
    )
    found = PPO(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 4), seed=0)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():  # orthogonal weights and a small last layer leave some slopes at 0
        for parameter in (*found.policy.parameters(), *found.value_net.parameters()):
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return found


def batch_for(ppo: PPO, size: int = 32) -> dict[str, Tensor]:
    """Samples of which some ratios and values lie beyond the clip on either side."""
    generator = torch.Generator().manual_seed(1)
    policy, draw = ppo.policy, lambda *shape: torch.randn(*shape, generator=generator)
    obs = draw(size, policy.encoder.inputs)
    distribution = policy(obs)
    actions = distribution.sample(generator)
    if isinstance(policy.action_space, spaces.Box):
        actions = 2.0 * actions
    batch = {
        "obs": obs,
        "raw_actions": actions,
        "log_probs": distribution.log_prob(actions) + 0.4 * draw(size),
    }
    batch["values"] = ppo.value_net(obs) + 0.3 * draw(size)
    batch |= {"advantages": draw(size), "returns": draw(size), "clip_coef": torch.tensor(0.2)}
    return {name: column.detach() for name, column in batch.items()}


def gradient(ppo: PPO, batch: dict[str, Tensor]) -> Tensor:
    """The gradient that the optimiser is given for this batch."""
    taken: list[Tensor] = []
    ppo.optimizer.descend = lambda _loss=0.0: taken.append(ppo.optimizer._gradient.clone())  # type: ignore[method-assign]
    ppo._descend(batch)
    return taken[0]


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        (DISCRETE, {}),
        (DISCRETE, {"ent_coef": 0.1, "activation": "relu"}),
        (DISCRETE, {"clip_value": True, "standardize_advantages": False, "hidden": ()}),
        (CONTINUOUS, {"head": "clipped"}),
        (CONTINUOUS, {"head": "clipped", "ent_coef": 0.1, "clip_value": True}),
        (CONTINUOUS, {"head": "squashed", "ent_coef": 0.1}),
        (CONTINUOUS, {"head": "squashed", "std": "state", "ent_coef": 0.1}),
        (CONTINUOUS, {"head": "clipped", "std": "fixed"}),
        (CONTINUOUS, {"head": "clipped", "rpo_alpha": 0.5, "ent_coef": 0.1}),
    ],
)
def test_gradients_are_those_of_autograd(env_id: str, options: dict[str, Any]) -> None:
    ppo = learner(env_id, **options)
    batch = batch_for(ppo)
    if ppo.config.rpo_alpha:
        noise = torch.Generator().manual_seed(2)
        batch["perturbation"] = module.perturbation(batch["raw_actions"], ppo.config.rpo_alpha, noise)
        batch["unmoved"] = batch["log_probs"] + 0.1
    assert ppo.stacks is not None
    ppo.optimizer._gradient.fill_(7.0)
    if ppo.config.std == "fixed":
        assert ppo.policy.log_std.grad is not None
        ppo.policy.log_std.grad.zero_()
    mine = gradient(ppo, batch)
    ppo.stacks = None
    wanted = gradient(ppo, batch)
    assert wanted.abs().max() > 0.01
    torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-6)


def test_clipping_is_in_the_batch() -> None:
    """Otherwise the comparison above would show nothing of it."""
    ppo = learner(DISCRETE, clip_value=True, standardize_advantages=False)
    batch = batch_for(ppo)
    _, parts = module.ppo_loss(ppo.policy, ppo.value_net, batch, ppo.config, batch["clip_coef"])
    clipped = parts["surrogate"] < parts["ratio"] * parts["advantages"]
    assert 3 < clipped.sum() < 29
    changed = (ppo.value_net(batch["obs"]) - batch["values"]).abs() > 0.2
    assert 3 < changed.sum() < 29


def test_a_run_by_hand_is_that_of_autograd() -> None:
    """Up to rounding, through several updates."""
    weights = []
    config = PPOConfig(num_steps=16, num_epochs=3, batch_size=32)
    for by_hand in (True, False):
        ppo = PPO(config, envs=SyncVecEnv([lambda: make_env(DISCRETE)] * 4), seed=0)
        if not by_hand:
            ppo.stacks = None
        metrics = [ppo.step() for _ in range(2)]
        weights.append(torch.cat([weight.detach().flatten() for weight in ppo.policy.parameters()]))
        assert metrics[1]["approx_kl"] > 0
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-4)


def test_pixels_go_through_autograd() -> None:
    envs = SyncVecEnv([lambda: make_env(DISCRETE)] * 2)
    envs.single_observation_space = spaces.Box(0, 255, (1, 36, 36), np.uint8)
    assert PPO(PPOConfig(num_steps=8), envs=envs, seed=0).stacks is None


def test_frozen_layers_stay_as_they_are() -> None:
    given = PPO(PPOConfig(num_steps=8), envs=SyncVecEnv([lambda: make_env(DISCRETE)] * 4), seed=0).policy
    given.encoder.requires_grad_(requires_grad=False)
    before = {
        name: weight.clone() for name, weight in given.state_dict().items() if name.startswith("encoder.net")
    }
    PPO(
        PPOConfig(num_steps=8), envs=SyncVecEnv([lambda: make_env(DISCRETE)] * 4), seed=0, policy=given
    ).step()
    for name, weight in before.items():
        assert torch.equal(given.state_dict()[name], weight)
