"""DQN, SAC and TD3: numbers that were computed by hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from imitate.configs.sac import SACConfig
from imitate.configs.td3 import TD3Config
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.rl.continuous import critic_loss
from imitate.rl.dqn import DQN, DQNConfig
from imitate.rl.replay import Samples
from imitate.rl.sac import SAC, Temperature, least_value
from imitate.rl.td3 import TD3


def dqn_of(**settings: Any) -> DQN:
    config = DQNConfig(**{"hidden": (8,), "learning_starts": 8} | settings)
    return DQN(config, envs=SyncVecEnv([lambda: make_env("CartPole-v1")] * 2), seed=0)


def actor_critic(kind: Any, config: Any, demos: DemoReader | None = None, **settings: Any) -> Any:
    base = {"learning_starts": 10, "hidden": (16, 16), "batch_size": 8, "replay_size": 1_000}
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")] * 2)
    return kind(config(**base | settings), envs=envs, seed=0, demos=demos)


def batch_of(size: int = 6) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "obs": torch.randn(size, 1, generator=draw), "next_obs": torch.randn(size, 1, generator=draw),
        "actions": torch.rand(size, 1, generator=draw) * 2 - 1, "returns": torch.randn(size, generator=draw),
        "discounts": torch.full((size,), 0.9),
    }  # fmt: skip


@pytest.mark.parametrize("by_hand", [True, False])
def test_the_target_network_values_the_next_state(by_hand: bool) -> None:
    """It says 3 and 7 everywhere: 1 + 0.9 * 7, and 2 where the episode ended."""
    dqn = dqn_of(double=False)
    if not by_hand:
        dqn._nets = None
    with torch.no_grad():
        for parameter in dqn.target_net.parameters():
            parameter.zero_()
        dqn.target_net.policy.output.bias.copy_(torch.tensor([3.0, 7.0]))
    batch = {
        "obs": torch.randn(2, 4), "next_obs": torch.randn(2, 4), "actions": torch.tensor([0, 1]),
        "returns": torch.tensor([1.0, 2.0]), "discounts": torch.tensor([0.9, 0.0]),
    }  # fmt: skip
    assert dqn.update(batch)["targets"].tolist() == pytest.approx([7.3, 2.0])


def test_priorities_and_weights_by_hand() -> None:
    """Errors 4 and 1 to the power of 1/2 are the priorities; probabilities 1/2 and 1/4 weigh sqrt(1/2) and 1."""
    dqn = dqn_of(prioritized=True, priority_alpha=0.5)
    dqn.priority_beta = 0.5
    zeros, pair = np.zeros((2, 4), np.float32), np.zeros(2, np.float32)
    samples = Samples(zeros, np.array([0, 1]), pair, pair, zeros, np.array([7, 3]), np.float32([0.5, 0.25]))
    given: list[Any] = []

    def update(batch: Any) -> Any:
        given.append(batch["weights"].tolist())
        return {"values": torch.tensor([1.0, 5.0]), "targets": torch.tensor([5.0, 4.0])}

    dqn.update = update  # type: ignore[method-assign]
    replay: Any = SimpleNamespace(
        sample=lambda *_: samples,
        prioritize=lambda slots, priorities: given.append((slots.tolist(), priorities.tolist())),
    )
    dqn._learn_by_priority(replay)
    assert given[0] == pytest.approx([0.5**0.5, 1.0])
    assert given[1] == ([7, 3], pytest.approx([2.0, 1.0], abs=1e-4))


def test_importance_weights_reach_their_full_exponent_at_the_end() -> None:
    dqn, seen = dqn_of(prioritized=True, priority_beta=0.4), []
    for progress in (0.0, 0.5, 1.0):
        dqn.schedule(progress)
        seen.append(dqn.priority_beta)
    assert seen == pytest.approx([0.4, 0.7, 1.0])


def test_the_policy_climbs_the_critics_and_not_their_target() -> None:
    critics = actor_critic(SAC, SACConfig).critics
    for parameter in critics.target.parameters():
        parameter.zero_()
    batch = batch_of()
    values, slopes = critics.slope(batch["obs"], batch["actions"], least_value)
    actions = batch["actions"].clone().requires_grad_()
    wanted = critics.online.values(torch.cat([batch["obs"], actions], -1)).amin(0)[:, 0]
    torch.testing.assert_close(values, wanted.detach())
    torch.testing.assert_close(slopes, torch.autograd.grad(wanted.sum(), actions)[0])
    assert slopes.abs().min() > 0


def test_td3s_targets_are_of_the_target_policy() -> None:
    """It does nothing, where the policy itself plays its bound; without noise."""
    learner, batch = actor_critic(TD3, TD3Config), batch_of()
    with torch.no_grad():
        learner.policy.output.bias.fill_(5.0)
        for parameter in learner.target_policy.parameters():
            parameter.zero_()
        values = learner.critics.of_target(batch["next_obs"], torch.zeros(6, 1)).amin(0)[:, 0]
        targets = (batch["returns"] + 0.9 * values)[:, None]
        outputs = learner.critics.online(torch.cat([batch["obs"], batch["actions"]], -1))[0]
        wanted, _ = critic_loss(outputs, targets)
        found = learner._descend(batch | {"noise": torch.zeros(1, 6, 1)}, improves=False)["q_loss"]
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_acts_in_the_critics_gradient_steps(kind: Any, config: Any, dropout: float) -> None:
    learner, batch = actor_critic(kind, config, dropout=dropout), batch_of()
    before = learner.critics.online(torch.cat([batch["obs"], batch["actions"]], -1))[0].mean()
    assert torch.equal(learner.update(batch)["mean_q"], before) == (not dropout)


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
def test_the_step_size_falls_linearly(kind: Any, config: Any) -> None:
    learner = actor_critic(kind, config, lr_schedule="linear", learning_rate=1e-3)
    for progress, rate in ((0.0, 1e-3), (0.25, 7.5e-4), (1.0, 0.0)):
        learner.schedule(progress)
        assert learner.critics.optimizer.learning_rate == pytest.approx(rate)
        assert learner.policy_net.optimizer.learning_rate == pytest.approx(rate)


def test_the_default_target_of_the_entropy_is_minus_one_a_dimension() -> None:
    assert Temperature(SACConfig(), 3, torch.device("cpu")).target == -3.0


def test_sac_improves_by_noise_that_its_targets_did_not_use() -> None:
    """The next actions take the first draw, zeros, and those that the policy improves the second, ones."""
    learner = actor_critic(SAC, SACConfig)
    given: list[torch.Tensor] = []

    def improve(_: Any, noise: torch.Tensor) -> dict[str, torch.Tensor]:
        given.append(noise)
        return {}

    learner.improve = improve
    with torch.no_grad():
        noise = torch.stack([torch.zeros(6, 1), torch.ones(6, 1)])
        learner._descend(batch_of() | {"noise": noise}, improves=True)
    assert torch.equal(given[0], torch.ones(6, 1))


def test_the_step_size_of_dqn_falls_until_the_end_and_not_until_exploration_does() -> None:
    dqn = dqn_of(lr_schedule="linear", learning_rate=1e-3, exploration_fraction=0.5)
    for progress, rate in ((0.0, 1e-3), (0.25, 7.5e-4), (1.0, 0.0)):
        dqn.schedule(progress)
        assert dqn.optimizer.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize(("log_std", "rises"), [(-5.0, True), (-0.5, False)])
def test_the_temperature_follows_the_policys_own_entropy(log_std: float, rises: bool) -> None:
    """The target is -1. With a deviation of e^-5 the entropy is about -3.6, with e^-0.5 it is above 0."""
    learner = actor_critic(SAC, SACConfig)
    with torch.no_grad():
        learner.policy.output.weight.zero_()
        learner.policy.output.bias.copy_(torch.tensor([0.0, log_std]))
        before = float(learner.temperature.now)
        learner.improve(torch.zeros(64, 1), torch.randn(64, 1, generator=torch.Generator().manual_seed(0)))
    assert (float(learner.temperature.now) > before) == rises


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
def test_targets_go_a_quarter_of_the_way_to_what_they_follow(kind: Any, config: Any) -> None:
    learner = actor_critic(kind, config, tau=0.25, learning_rate=1e-2, actor_every=1)
    while not learner.ready:
        learner.replay.add(learner.collect())
    followed = [(learner.critics.target, learner.critics.online)]
    followed += [(learner.target_policy, learner.policy_net.stack)] if kind is TD3 else []
    before = [[each.detach().clone() for each in target.parameters()] for target, _ in followed]
    learner.update(learner.batches(1)[0])
    for (target, online), were in zip(followed, before, strict=True):
        for now, was, new in zip(target.parameters(), were, online.parameters(), strict=True):
            assert not torch.equal(was, new)
            torch.testing.assert_close(now, was.lerp(new, 0.25))


@pytest.mark.parametrize(("kind", "config"), [(SAC, SACConfig), (TD3, TD3Config)])
def test_demonstrations_sum_as_many_rewards_as_the_learner_and_no_lower_ones(
    kind: Any, config: Any, tmp_path: Path
) -> None:
    """Rewards -9, 2 and 4 with discount 1/2, of which -9 counts as -1: -1 + 1 + 1, 2 + 2 and 4."""
    env = make_env("ContinuousIdentity-v0")
    info = DemoInfo("ContinuousIdentity-v0", env.observation_space, env.action_space)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        obs, actions = np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32)
        rewards = np.float32([-9, 2, 4])
        writer.append(Trajectory(obs, actions, rewards, terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as demos:
        learner = actor_critic(kind, config, demos, n_step=3, gamma=0.5, least_reward=-1.0)
    samples = learner.demos.sample(100, np.random.default_rng(0))
    assert set(samples.returns.tolist()) == {1.0, 4.0}
    assert not samples.discounts.any()
    assert (learner.replay.n_step, learner.replay.gamma, learner.replay.least_reward) == (3, 0.5, -1.0)
