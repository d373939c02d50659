"""REINFORCE solves what it must, the same way every time."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from imitate.datasets.evaluation import evaluate
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.distributions import Categorical
from imitate.nn.state import load_state, save_state
from imitate.rl.reinforce import REINFORCE, REINFORCEConfig, reinforce_loss
from imitate.rl.rollout import Rollout, whole_episodes


def envs(env_id: str, count: int = 8) -> SyncVecEnv:
    return SyncVecEnv([lambda: make_env(env_id)] * count)


def learner(env_id: str = "Identity-v0", seed: int = 0, **options: object) -> REINFORCE:
    return REINFORCE(REINFORCEConfig(**options), envs=envs(env_id), seed=seed)  # type: ignore[arg-type]


def weights(reinforce: REINFORCE) -> torch.Tensor:
    networks = [*reinforce.policy.parameters(), *reinforce.value_net.parameters()]
    return torch.cat([parameter.detach().flatten() for parameter in networks])


def test_the_loss_by_hand() -> None:
    # Both actions have probability 1/2, log -log 2; weights 3 and -1; entropy log 2.
    loss = reinforce_loss(
        Categorical(torch.zeros(2, 2)), torch.tensor([0, 1]), torch.tensor([3.0, -1.0]), ent_coef=0.1
    )
    assert float(loss) == pytest.approx(math.log(2) * (3 - 1) / 2 - 0.1 * math.log(2))


def test_one_whole_episode_for_each_seed() -> None:
    def left(obs: Array, _begun: Array) -> tuple[Array, Array]:
        return np.zeros(len(obs), np.int64), np.zeros(len(obs), np.int64)

    rollout = whole_episodes(envs("CartPole-v1", 3), left, itertools.islice(episode_seeds(0), 5))
    wanted = []
    for seed in itertools.islice(episode_seeds(0), 5):  # the same episodes, by hand
        env = make_env("CartPole-v1")
        env.reset(seed=seed)
        wanted.append(next(t for t in itertools.count(1) if env.step(0)[2]))
    running = rollout.steps
    assert running.sum() == sum(wanted) == rollout.rewards.sum()
    assert len(rollout.ends) == len(rollout.end_obs) == 5
    assert not rollout.done[~running].any()
    assert (np.abs(rollout.end_obs[:, 2]) > 0.2095).all()  # the pole has fallen in all of them


def test_episodes_that_the_limit_cut_do_not_count() -> None:
    learner = REINFORCE(REINFORCEConfig(num_episodes=2), envs=envs("CartPole-v1", 2), seed=0)
    assert "train_return" not in learner.step(6)  # three steps of each, and no pole falls so soon
    metrics = learner.step()
    assert metrics["train_return"] == metrics["train_length"] > 5


def two_steps(*, truncated: bool) -> Rollout:
    end = np.array([[False], [True]])
    return Rollout(
        obs=np.float32([[[0.1]], [[0.2]]]),
        actions=np.zeros((2, 1, 1), np.float32),
        rewards=np.float32([[1], [1]]),
        terminated=end & (not truncated),
        truncated=end & truncated,
        ends=np.array([[1, 0]]),
        end_obs=np.float32([[0.8]]),
        last_obs=np.float32([[0.8]]),
    )


@pytest.mark.parametrize(
    ("truncated", "baseline", "wanted"),
    [
        (False, True, [1.5, 1]),  # g = .5: 1 + .5, 1
        (True, True, [1.7, 1.4]),  # the baseline, V(s) = s, knows what the time limit cut off
        (True, False, [1.5, 1]),
    ],
)
def test_returns_by_hand(truncated: bool, baseline: bool, wanted: list[float]) -> None:
    reinforce = learner("ContinuousIdentity-v0", gamma=0.5, baseline=baseline)
    reinforce.value_net = torch.nn.Flatten(0)  # type: ignore[assignment]
    np.testing.assert_allclose(reinforce.returns(two_steps(truncated=truncated))[:, 0], wanted, rtol=1e-6)


def test_the_baseline_is_in_the_units_of_returns() -> None:
    """It learns standardised returns: with mean 3 and deviation 2 the value of the end, 0.8, is 4.6."""
    reinforce = learner("ContinuousIdentity-v0", gamma=0.5)
    reinforce.value_net = torch.nn.Flatten(0)  # type: ignore[assignment]
    reinforce.return_moments.mean.fill_(3.0)
    reinforce.return_moments.var.fill_(4.0)
    returns = reinforce.returns(two_steps(truncated=True))[:, 0]
    np.testing.assert_allclose(returns, [1 + 0.5 * 3.3, 1 + 0.5 * 4.6], rtol=1e-6)


def test_the_baseline_learns_the_same_whatever_the_unit_of_rewards() -> None:
    """Its targets are standardised returns, also where these are a millionth."""
    losses = []
    for unit in (1.0, 1e-6):
        rollout = two_steps(truncated=False)
        rollout.rewards[:] *= unit
        losses.append(learner("ContinuousIdentity-v0", gamma=0.5).update(rollout, 0.0)["value_loss"])
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


def test_returns_whose_squares_overflow_are_refused() -> None:
    """Divided by an infinite deviation, all weights would be 0."""
    rollout = two_steps(truncated=False)
    rollout.rewards[:] *= 1e20
    with pytest.raises(FloatingPointError, match="scale the rewards down"):
        learner("ContinuousIdentity-v0").update(rollout, 0.0)


def test_returns_as_the_baseline_expects_them_teach_the_policy_nothing() -> None:
    """V(0.1) = 1.5 and V(0.2) = 1, which are the returns."""
    reinforce = learner(
        "ContinuousIdentity-v0", gamma=0.5, hidden=(), normalize_obs=False, standardize_returns=False
    )
    with torch.no_grad():
        reinforce.value_net.output.weight.fill_(-5.0)
        reinforce.value_net.output.bias.fill_(2.0)
    found = reinforce.update(two_steps(truncated=False), 0.0)
    assert (found["policy_loss"], found["explained_variance"]) == pytest.approx((0.0, 1.0), abs=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"baseline": False}, pytest.param({"batch_size": 40, "ent_coef": 0.001}, marks=pytest.mark.slow)],
)
def test_identity_discrete(options: dict[str, object]) -> None:
    reinforce = learner(total_steps=3_000, num_episodes=8, gamma=0.5, learning_rate=1e-2, **options)
    while reinforce.env_steps < 3_000:
        reinforce.step()
    assert evaluate(reinforce.policy, "Identity-v0", episodes=20).mean == 10


@pytest.mark.parametrize(
    ("steps", "options"), [(5_000, {}), pytest.param(10_000, {"head": "squashed"}, marks=pytest.mark.slow)]
)
def test_identity_continuous(steps: int, options: dict[str, object]) -> None:
    reinforce = learner(
        "ContinuousIdentity-v0",
        total_steps=steps,
        num_episodes=8,
        gamma=0.0,
        learning_rate=1e-2,
        log_std_init=-0.5,
        **options,
    )
    while reinforce.env_steps < steps:
        reinforce.step()
    assert evaluate(reinforce.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.5  # random: about -16


def test_a_state_that_was_saved_goes_on_in_the_same_bytes(tmp_path: Path) -> None:
    first = learner("CartPole-v1", normalize_obs=True)
    first.step()
    save_state(tmp_path / "state", first.state_dict())
    second = learner("CartPole-v1", normalize_obs=True)
    second.load_state_dict(load_state(tmp_path / "state"))
    for run in (first, second):  # every iteration is a reset point: the first need not load its state
        run.step()
    assert torch.equal(weights(first), weights(second))
    assert first.env_steps == second.env_steps


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="max_grad_norm must be at least 1e-06, got 0"):
        REINFORCEConfig(max_grad_norm=0)
    with pytest.raises(InputError, match=r"ent_coef must be at least 0, got -0\.1"):
        REINFORCEConfig(ent_coef=-0.1)
    with pytest.raises(InputError, match="num_episodes must be at least 1, got 0"):
        REINFORCEConfig(num_episodes=0)
    with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
        REINFORCEConfig(batch_size=0)


def test_no_episode_has_ended_before_the_first_rollout() -> None:
    assert learner().pop_episodes() == {}
