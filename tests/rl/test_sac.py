"""SAC and TQC: losses worked out by hand, and learning."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.configs.sac import SACConfig
from imitate.configs.tqc import TQCConfig
from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.distributions import Gaussian
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.rl.continuous import Graded, critic_loss, soft_targets
from imitate.rl.sac import SAC, actor_gradient, least_value
from imitate.rl.tqc import TQC, mean_value, quantile_loss, truncated_targets


def envs_of(env_id: str = "ContinuousIdentity-v0", count: int = 2) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def small(**settings: object) -> SACConfig:
    base: dict[str, object] = {
        "total_steps": 1_000, "learning_starts": 100, "hidden": (32, 32), "batch_size": 64, "replay_size": 10_000,
        "rounds_per_iteration": 8, "learning_rate": 3e-3,
    }  # fmt: skip
    return SACConfig(**base | settings)  # type: ignore[arg-type]


def test_soft_targets_by_hand() -> None:
    """The least critic is 2 and 5; 1 + 0.9 * (2 + 0.5) = 3.25; the second episode ended: 7."""
    outputs = torch.tensor([[[2.0], [6.0]], [[3.0], [5.0]]])
    batch = {"returns": torch.tensor([1.0, 7.0]), "discounts": torch.tensor([0.9, 0.0])}
    assert soft_targets(outputs, torch.tensor([0.5, 0.5]), batch).tolist() == [[3.25], [7.0]]


def test_critic_loss_by_hand() -> None:
    """0.5 * mean(1, 9) + 0.5 * mean(4, 0) = 2.5 + 1."""
    outputs = torch.tensor([[[1.0], [3.0]], [[2.0], [0.0]]])
    assert float(critic_loss(outputs, torch.zeros(2, 1))[0]) == 3.5


def test_the_least_critic_counts() -> None:
    values, gradient = least_value(torch.tensor([[[1.0], [3.0]], [[2.0], [0.0]]]))
    assert values.tolist() == [1.0, 0.0]
    assert gradient.flatten(1).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "function",
    [
        lambda outputs: critic_loss(outputs[..., :1], torch.ones(6, 1)),
        lambda outputs: least_value(outputs[..., :1]),
        lambda outputs: quantile_loss(outputs, torch.linspace(-3, 3, 24).view(6, 4)),
        mean_value,
    ],
)
def test_gradients_by_hand_are_those_of_autograd(function: Graded) -> None:
    outputs = (2.0 * torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))).requires_grad_()
    value, gradient = function(outputs)
    (wanted,) = torch.autograd.grad(value.sum(), outputs)
    torch.testing.assert_close(gradient, wanted[..., : gradient.shape[-1]], rtol=1e-5, atol=1e-7)


def test_the_actor_climbs_the_slope() -> None:
    """At mean 0 without noise tanh has slope 1: the gradient by the mean is minus the slope over the batch."""
    gradient = actor_gradient(
        Gaussian(torch.zeros(4, 1), torch.zeros(4, 1), True), torch.zeros(4, 1), torch.full((4, 1), 2.0), 0.0
    )
    torch.testing.assert_close(gradient, torch.tensor([[-0.5, 0.0]] * 4))


def test_the_actors_gradient_is_that_of_its_loss() -> None:
    """It has no gradient by a log standard deviation that was clamped, at -10 or at 2."""
    generator = torch.Generator().manual_seed(0)
    outputs, noise, slopes = (torch.randn(8, n, generator=generator, dtype=torch.float64) for n in (6, 3, 3))
    outputs[0, 3], outputs[1, 4] = -12.0, 2.5
    outputs.requires_grad_()
    mean, log_std = outputs.chunk(2, -1)
    distribution = Gaussian(mean, log_std.clamp(-10.0, 2.0), squashed=True)
    raw = mean + distribution.log_std.exp() * noise
    loss = (0.3 * distribution.log_prob(raw) - (slopes * raw.tanh()).sum(-1)).mean()
    (wanted,) = torch.autograd.grad(loss, outputs)
    found = actor_gradient(distribution, noise, slopes, 0.3)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    assert found[0, 3] == found[1, 4] == 0.0


def test_truncated_targets_by_hand() -> None:
    """The two highest of 1 .. 6 are left out; 10 + 0.5 * (q + 1)."""
    outputs = torch.tensor([[[6.0, 1.0, 3.0]], [[2.0, 5.0, 4.0]]])
    batch = {"returns": torch.tensor([10.0]), "discounts": torch.tensor([0.5])}
    targets = truncated_targets(outputs, torch.tensor([1.0]), batch, dropped=1)
    assert targets.tolist() == [[11.0, 11.5, 12.0, 12.5]]


def test_quantile_loss_by_hand() -> None:
    """Levels 0.25 and 0.75; errors 3 and -2 beyond the threshold: 0.25 * 2.5 and 0.25 * 1.5, on average 0.5."""
    outputs, targets = torch.tensor([[[0.0, 5.0]]]), torch.tensor([[3.0]])
    assert float(quantile_loss(outputs, targets)[0]) == 0.5


def test_quantiles_of_known_returns_are_learned() -> None:
    """The median of returns 0, 0, 0, 8 is 0, and the quantile at 7/8 is 8."""
    quantiles = torch.full((1, 1, 4), 4.0)
    targets = torch.tensor([[0.0, 0.0, 0.0, 8.0]])
    for _ in range(2_000):
        quantiles -= 0.5 * quantile_loss(quantiles, targets)[1]
    lowest, *_, highest = quantiles.flatten().tolist()
    assert abs(lowest) < 0.3
    assert highest > 7


@pytest.mark.parametrize(
    "kind",
    [
        "sac",
        pytest.param("sac with layer norm and dropout", marks=pytest.mark.slow),
        pytest.param("tqc", marks=pytest.mark.slow),
    ],
)
def test_the_identity_is_learned(kind: str) -> None:
    """The best return is 0, random actions make -17."""
    if kind == "tqc":
        settings = vars(small()) | {"quantiles": 5, "dropped": 1}
        learner = TQC(TQCConfig(**settings), envs=envs_of(), seed=3)
    else:
        extra = {"layer_norm": True, "dropout": 0.01} if "norm" in kind else {}
        learner = SAC(small(**extra), envs=envs_of(), seed=3)
    while not learner.done:
        metrics = learner.step()
    assert metrics["train_return"] > -1.0
    assert learner.updates == learner.env_steps - 100
    obs = np.linspace(-0.9, 0.9, 7, dtype=np.float32)[:, None]
    np.testing.assert_allclose(learner.policy.act(obs), obs, atol=0.25)


def test_updates_per_step_may_be_a_fraction() -> None:
    learner = SAC(small(updates_per_step=0.25, total_steps=500), envs=envs_of(), seed=0)
    while not learner.done:
        learner.step()
    assert learner.updates == (learner.env_steps - 100) // 4


@pytest.mark.parametrize(
    ("per_step", "count", "least", "updates"),
    [(1.0, 1, 101, 1), (1.0, 2, 102, 2), (1.0, 3, 102, 2), (0.1, 2, 110, 1), (0.0, 2, 100, 0)],
)
def test_the_least_steps_end_with_the_first_update(
    per_step: float, count: int, least: int, updates: int
) -> None:
    """Learning starts after 100 steps, and the first update is due a step later, or ten if each takes ten steps."""
    learner = SAC(small(updates_per_step=per_step), envs=envs_of(count=count), seed=0)
    with pytest.raises(InputError, match=f"takes at least {least} steps, but only {least - 1} are left"):
        learner.step(least - 1)
    learner.replay.add(learner.collect(limit=count))
    assert learner.least_steps == least - count
    while learner.env_steps < least - count:
        learner.replay.add(learner.collect(least - count - learner.env_steps))
    assert not learner.learn()
    assert learner.least_steps == count
    learner.step(count)
    assert learner.updates == updates
    assert learner.least_steps == count


def test_updates_that_are_never_due_are_counted_without_an_overflow() -> None:
    assert SAC(small(updates_per_step=1e-310), envs=envs_of(), seed=0).least_steps > 1e8


def test_the_temperature_falls_while_entropy_is_above_its_target() -> None:
    learner = SAC(small(), envs=envs_of(), seed=0)
    before = learner.temperature.now
    learner.temperature.adapt(torch.full((8,), 0.0))  # entropy 0, the target is -1
    assert learner.temperature.now < before
    assert math.isclose(SAC(small(ent_coef=0.2), envs=envs_of(), seed=0).temperature.now, 0.2)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ent_coef": -0.1}, r"ent_coef must be at least 0, got -0\.1"),
        ({"ent_coef_init": 0.0}, r"ent_coef_init must be above 0, got 0\.0"),
        ({"ent_coef_init": math.nan}, "ent_coef_init must be above 0, got nan"),
        ({"ent_coef": 0.2, "target_entropy": -1.0}, "leave one of them out"),
    ],
)
def test_a_temperature_that_cannot_be_used_is_refused(settings: dict[str, float], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        small(**settings)


def test_a_stored_policy_acts_and_values_alike(tmp_path: Path) -> None:
    learner = SAC(small(), envs=envs_of(), seed=0)
    save_policy(tmp_path, learner.policy)
    loaded, obs = load_policy(tmp_path), np.float32([[0.1], [-0.4]])
    np.testing.assert_array_equal(loaded.act(obs), learner.policy.act(obs))
    assert loaded.critic is not None
    inputs = torch.zeros(3, 2)
    assert torch.equal(loaded.critic(inputs)[0], learner.critics.online(inputs)[0])


def test_discrete_actions_are_refused() -> None:
    with pytest.raises(InputError, match=r"^sac wants continuous actions"):
        SAC(small(), envs=envs_of("CartPole-v1"), seed=0)
    with pytest.raises(InputError, match=r"^tqc wants continuous actions"):
        TQC(TQCConfig(), envs=envs_of("CartPole-v1"), seed=0)


def test_demonstrations_without_rewards_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    envs = envs_of()
    info = DemoInfo("ContinuousIdentity-v0", envs.single_observation_space, envs.single_action_space)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        obs, actions = np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32)
        writer.append(Trajectory(obs, actions, np.zeros(3, np.float32), terminated=False, truncated=True))
    with DemoReader(tmp_path / "demos.h5") as demos:
        SAC(small(), envs=envs, seed=0, demos=demos)
        with pytest.raises(InputError, match=r"half of a batch .* batch_size must be at least 2, got 1"):
            SAC(small(batch_size=1), envs=envs, seed=0, demos=demos)
    assert "the rewards of these demonstrations are all 0" in caplog.text


def test_half_of_a_batch_are_demonstrations(tmp_path: Path) -> None:
    """Their rewards are 7, which the environment never gives; the actions that were executed are stored in [-1, 1]."""
    envs = envs_of()
    info = DemoInfo("ContinuousIdentity-v0", envs.single_observation_space, envs.single_action_space)
    with DemoWriter(tmp_path / "demos.h5", info, expert_actions=True) as writer:
        obs, actions = np.zeros((4, 1), np.float32), np.full((3, 1), 1.0, np.float32)
        ends: dict[str, Any] = {"terminated": False, "truncated": True, "expert_actions": -actions}
        writer.append(Trajectory(obs, actions, np.full(3, 7, np.float32), **ends))
    with DemoReader(tmp_path / "demos.h5") as demos:
        learner = SAC(small(total_steps=300), envs=envs, seed=0, demos=demos)
    assert learner.demos is not None
    seen: list[dict[str, torch.Tensor]] = []
    update = learner.update

    def watched(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        seen.append(batch)
        return update(batch)

    learner.update = watched  # type: ignore[method-assign]
    learner.step()
    assert seen
    for batch in seen:
        demonstrated = batch["returns"] == 7
        assert int(demonstrated.sum()) == 32
        assert set(batch["actions"][demonstrated].flatten().tolist()) == {0.5}  # 1 of 2


def test_the_bootstrap_is_of_the_next_states_and_counts_their_entropy() -> None:
    learner = SAC(small(ent_coef=0.5), envs=envs_of(), seed=0)
    batch = {
        "obs": torch.zeros(4, 1),
        "next_obs": torch.tensor([[0.1], [0.5], [-0.5], [0.9]]),
        "actions": torch.zeros(4, 1),
        "returns": torch.arange(4.0),
        "discounts": torch.tensor([0.9, 0.9, 0.9, 0.0]),
        "noise": torch.randn(2, 4, 1, generator=torch.Generator().manual_seed(0)),
    }
    given: list[Any] = []
    learner.reading = replace(
        learner.reading, loss=lambda outputs, targets: given.append(targets) or critic_loss(outputs, targets)
    )
    with torch.no_grad():
        mean, log_std = learner.policy_net.outputs(batch["next_obs"]).chunk(2, -1)
        raw = mean + log_std.exp() * batch["noise"][0]
        log_probs = Gaussian(mean, log_std, squashed=True).log_prob(raw)
        values = learner.critics.of_target(batch["next_obs"], raw.tanh()).amin(0)[:, 0]
        learner._descend(batch, improves=False)
    wanted = batch["returns"] + batch["discounts"] * (values - 0.5 * log_probs)
    torch.testing.assert_close(given[0][:, 0], wanted)


def test_the_actor_waits_for_the_critics() -> None:
    learner = SAC(small(actor_every=3), envs=envs_of(), seed=0)
    while not learner.ready:
        learner.replay.add(learner.collect())
    (batch,) = learner.batches(1)
    assert ["value" in learner.update(batch) for _ in range(3)] == [False, False, True]
