"""DQN solves what it must, the same way every time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.datasets.evaluation import evaluate
from imitate.envs import make_vec
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.nn.q_net import QNet
from imitate.nn.state import load_state, save_state
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.rl.actor import encode
from imitate.rl.dqn import DQN, DQNConfig, dqn_loss, dqn_targets

ALL = {"dueling": True, "n_step": 2, "prioritized": True, "average": 0.9}


class Shades(gym.Env[Any, Any]):
    """Ten steps of grey frames, dark or bright; the reward is 1 for saying which. Cut by its time limit."""

    observation_space = spaces.Box(0, 255, (36, 36), np.uint8)
    action_space = spaces.Discrete(2)

    def _frame(self) -> Any:
        self._bright = int(self.np_random.integers(2))
        return np.full((36, 36), 50 + 150 * self._bright, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self._steps = 0
        return self._frame(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self._bright)
        self._steps += 1
        return self._frame(), reward, False, self._steps == 10, {}


gym.register("Shades-v0", entry_point=lambda: gym.wrappers.FrameStackObservation(Shades(), 2))


def learner(env_id: str = "Identity-v0", seed: int = 0, **options: object) -> DQN:
    rounds = {"num_steps": 1, "num_updates": 2, "rounds_per_iteration": 50, "learning_starts": 200}
    small = {"n_step": 1, "learning_rate": 1e-3, "lr_schedule": "constant", "hidden": (32,)}
    config = DQNConfig(**rounds | small | options)  # type: ignore[arg-type]
    return DQN(config, envs=SyncVecEnv([lambda: make_env(env_id)] * 8), seed=seed)


def weights(dqn: DQN) -> torch.Tensor:
    networks = [*dqn.q_net.parameters(), *dqn.target_net.parameters(), *dqn.policy.parameters()]
    return torch.cat([parameter.detach().flatten() for parameter in networks])


@pytest.mark.parametrize(("double", "wanted"), [(False, [1 + 0.9 * 7, 2]), (True, [1 + 0.9 * 3, 2])])
def test_targets_by_hand(double: bool, wanted: list[float]) -> None:
    def q_net(_obs: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[5.0, 4.0], [0.0, 1.0]])

    def target_net(_obs: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[3.0, 7.0], [8.0, 9.0]])

    batch = {
        "next_obs": torch.zeros(2, 1),
        "returns": torch.tensor([1.0, 2.0]),
        "discounts": torch.tensor([0.9, 0.0]),  # the second one was terminated
    }
    targets = dqn_targets(q_net, target_net, batch, double=double)  # type: ignore[arg-type]
    torch.testing.assert_close(targets, torch.tensor(wanted))


def test_dueling_streams_fold_into_the_policy(tmp_path: Path) -> None:
    space = spaces.Box(-1, 1, (3,), np.float32)
    q_net = QNet(ActorPolicy(space, spaces.Discrete(4), hidden=(8, 7)), dueling=True)
    obs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    q_net.fold()
    save_policy(tmp_path, q_net.policy)
    torch.testing.assert_close(load_policy(tmp_path)(obs).logits, q_net(obs))
    # Q = V + A - mean A: the mean over actions is V, of the first 7 // 2 features
    value = q_net.value(q_net.policy.encoder(obs)[:, :3])
    torch.testing.assert_close(q_net(obs).mean(-1, keepdim=True), value)


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({}, 3_000),
        pytest.param({"double": False, "tau": 0.01, "target_every": 1}, 3_000, marks=pytest.mark.slow),
        pytest.param(ALL, 4_500, marks=pytest.mark.slow),
    ],
)
def test_identity(options: dict[str, object], steps: int) -> None:
    dqn = learner(**{"total_steps": steps, "gamma": 0.9, "target_every": 50, "tau": 1.0} | options)  # type: ignore[arg-type]
    while dqn.env_steps < steps:
        dqn.step()
    assert evaluate(dqn.policy, "Identity-v0", episodes=20).mean == 10


@pytest.mark.parametrize("options", [{}, pytest.param({"bfloat16": True}, marks=pytest.mark.slow)])
def test_pixels(options: dict[str, object]) -> None:
    options |= {"total_steps": 800, "replay_size": 800, "gamma": 0.5, "target_every": 20, "batch_size": 32}
    dqn = learner("Shades-v0", **options)  # type: ignore[arg-type]
    assert dqn.replay.frames.shape == (800, 36, 36)
    while dqn.env_steps < 800:
        dqn.step()
    assert evaluate(dqn.policy, "Shades-v0", episodes=10).mean == 10


def test_bfloat16_changes_values_by_its_rounding_alone() -> None:
    exact, rounded = learner("Shades-v0"), learner("Shades-v0", bfloat16=True)
    obs = torch.randint(256, (64, 2, 36, 36), dtype=torch.uint8)
    values, wanted = rounded.q_net(obs), exact.q_net(obs)
    assert values.dtype == torch.float32
    assert 0 < (values - wanted).abs().max() < 0.02 * wanted.abs().max()
    values.sum().backward()
    assert {parameter.grad.dtype for parameter in rounded.q_net.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("huber", "wanted"), [(1.0, (0.5 * 0.5**2 + (9 - 0.5)) / 2), (100.0, 0.005 * 40.625)]
)
def test_errors_up_to_huber_count_squared(huber: float, wanted: float) -> None:
    """Errors of 0.5 and 9: their squares are 0.25 and 81, 40.625 on average."""
    dqn = learner("CartPole-v1", huber=huber)
    obs = torch.zeros(2, 4)
    values = dqn.q_net(obs)[:, 0].detach()
    batch = {
        "obs": obs,
        "actions": torch.zeros(2, dtype=torch.long),
        "returns": values + torch.tensor([0.5, 9.0]),
        "discounts": torch.zeros(2),
        "next_obs": obs,
    }
    assert float(dqn.update(batch)["q_loss"].mean()) == pytest.approx(wanted, rel=1e-5)


def test_the_loss_by_hand() -> None:
    """Values 1 and 4 of the actions taken, targets 1.5 and 2: errors 0.5 and 2, of Huber's loss 0.125 and 1.5."""
    batch = {"obs": torch.tensor([[1.0, 9.0], [8.0, 4.0]]), "actions": torch.tensor([0, 1])}
    targets = torch.tensor([1.5, 2.0])
    loss, parts = dqn_loss(lambda obs: obs, targets, batch, huber=1.0)
    assert float(loss) == pytest.approx((0.125 + 1.5) / 2)
    assert parts["values"].tolist() == [1.0, 4.0]
    weighted, _ = dqn_loss(lambda obs: obs, targets, batch | {"weights": torch.tensor([1.0, 0.5])}, huber=1.0)
    assert float(weighted) == pytest.approx((0.125 + 0.75) / 2)


def test_epsilon_goes_down_linearly() -> None:
    dqn = learner(total_steps=1_000, exploration_fraction=0.5, epsilon_final=0.1)
    seen = []
    for progress in (0, 0.25, 0.5, 0.9):
        dqn.schedule(progress)
        seen.append(round(dqn.epsilon, 6))
    assert seen == [1.0, 0.55, 0.1, 0.1]


def test_another_learner_can_collect_a_round_change_its_rewards_and_learn_from_it() -> None:
    """SQIL does this."""
    dqn = learner("CartPole-v1", num_steps=30)
    rollout = dqn.collect(limit=24)
    assert rollout.rewards.shape == (3, 8)
    assert len(dqn.replay) == 0
    dqn.replay.add(replace(rollout, rewards=np.full_like(rollout.rewards, 7)))
    samples = dqn.replay.sample(5, np.random.default_rng(0))
    assert samples.returns.tolist() == [7] * 5
    parts = dqn.update(dqn.tensors(samples))
    assert parts["q_loss"].shape == (5,)
    assert dqn.updates == 1
    assert dqn.end_iteration([parts])["mean_q"] == pytest.approx(float(parts["values"].mean()))


def test_the_target_network_follows() -> None:
    dqn = learner(target_every=2, tau=0.25, num_updates=1, rounds_per_iteration=26)
    before = dqn.target_net.policy.output.bias.clone()
    dqn.step()  # 26 rounds of 8 steps: the 25th and 26th learn
    assert dqn.updates == 2
    wanted = before.lerp(dqn.q_net.policy.output.bias, 0.25)
    torch.testing.assert_close(dqn.target_net.policy.output.bias, wanted)


@pytest.mark.parametrize(
    "settings", [{}, {"huber": 0.05}, {"prioritized": True}, {"double": False}, {"layer_norm": True}]
)
def test_the_step_by_hand_is_that_of_autograd(settings: dict[str, Any]) -> None:
    weights = []
    for by_hand in (True, False):
        dqn = learner("CartPole-v1", hidden=(8, 8), rounds_per_iteration=30, **settings)
        assert dqn._nets is not None
        if not by_hand:
            dqn._nets = None
        dqn.step()
        assert dqn.updates > 4
        weights.append(dqn.q_net.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dueling", [False, True])
def test_the_average_is_handed_over_and_does_not_act(dueling: bool) -> None:
    dqn = learner("CartPole-v1", average=0.5, dueling=dueling, rounds_per_iteration=26)
    output = dqn.averaged.value if dueling else dqn.policy.output
    averaged, update = [output.bias.clone()], dqn.update

    def watched(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        parts = update(batch)
        learned = dqn.q_net.value if dueling else dqn.q_net.policy.output
        decay = min(len(averaged) / (9 + len(averaged)), 0.5)  # low at first
        averaged.append(averaged[-1].lerp(learned.bias.detach(), 1 - decay))
        return parts

    dqn.update = watched  # type: ignore[method-assign]
    dqn.step()
    assert len(averaged) == 5
    torch.testing.assert_close(output.bias, averaged[-1])
    assert dqn.policy is not dqn.actor.policy
    obs = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    folded = dqn.policy(torch.from_numpy(obs)).logits
    torch.testing.assert_close(folded, dqn.averaged(encode(dqn.policy, obs)))


@pytest.mark.parametrize("options", [{}, ALL])
def test_same_seed_same_bytes_and_another_seed_other_ones(options: dict[str, object]) -> None:
    runs = [learner("CartPole-v1", seed, **options) for seed in (0, 0, 1)]
    for run in runs:
        run.step()
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(weights(runs[0]), weights(runs[2]))


@pytest.mark.parametrize("options", [{}, ALL])
def test_a_state_that_was_saved_goes_on_in_the_same_bytes(tmp_path: Path, options: dict[str, object]) -> None:
    first = learner("CartPole-v1", replay_size=1_000, **options)
    first.step()
    save_state(tmp_path / "state", first.state_dict())
    state = load_state(tmp_path / "state")
    second = learner("CartPole-v1", replay_size=1_000, **options)
    for run in (first, second):  # a checkpoint is a reset point for the run that goes on, too
        run.load_state_dict(state)
        run.step()
    assert torch.equal(weights(first), weights(second))
    assert first.env_steps == second.env_steps == 800
    assert second.updates == 2 * (2 * 50 - 24)


def test_a_replay_of_pixels_outlives_checkpoints_but_not_the_process() -> None:
    first = learner("Shades-v0", replay_size=1_000, learning_starts=350, batch_size=8)
    first.step()
    state = first.state_dict()
    assert state["replay"] == {}
    second = learner("Shades-v0", replay_size=1_000, learning_starts=350, batch_size=8)
    for run in (first, second):
        run.load_state_dict(state)
        run.step()
    # 50 rounds of 8 steps and 2 updates an iteration: one that begins empty learns in the 7 after 350 steps only.
    assert (first.updates, second.updates) == (2 * 7 + 2 * 50, 2 * 7 + 2 * 7)


def test_atari_learns_from_lives_and_goes_on_with_an_empty_replay() -> None:
    def game() -> DQN:
        envs = make_vec("ALE/Breakout-v5", 2, episodic_life=True, clip_rewards=True)
        config = DQNConfig(
            num_steps=1,
            num_updates=1,
            rounds_per_iteration=60,
            batch_size=4,
            replay_size=1_000,
            learning_starts=110,
        )
        return DQN(config, envs=envs, seed=0)

    first, second = game(), game()
    first.step()
    assert first.updates == 60 - 54
    replay = first.replay
    assert replay.frames.shape == (1_000, 84, 84)
    # 60 steps of 2 games are some lives: each brought the three older frames of its first stack along.
    lives = int(replay.terminated.sum())
    assert lives > 0
    assert replay.written.sum() == 2 * 4 + 120 + 4 * lives
    state = first.state_dict()
    assert state["replay"] == {}
    third = game()
    for run in (second, third):
        run.load_state_dict(state)
        assert len(run.replay) == 0
        run.step()
    assert torch.equal(weights(second), weights(third))
    for run in (first, second, third):
        run.sampler.envs.close()


def test_the_least_that_does_anything_fills_the_replay_until_learning_starts() -> None:
    """Eight environments: 24 rounds make 192 steps, 25 make the 200 with which learning starts."""
    dqn = learner()
    assert dqn.least_steps == 200
    with pytest.raises(InputError, match="takes at least 200 steps, but only 199 are left"):
        dqn.step(199)
    assert learner(learning_starts=193).least_steps == 200
    assert "q_loss" in dqn.step(200)
    assert dqn.least_steps == 8


def test_unsupported_requests_are_refused() -> None:
    with pytest.raises(InputError, match=r"dqn wants discrete actions, got Box.*use ppo"):
        learner("ContinuousIdentity-v0")
    with pytest.raises(
        InputError, match="learning_starts must be at most half of replay_size, got 600 of 1000"
    ):
        DQNConfig(learning_starts=600, replay_size=1_000)
    with pytest.raises(InputError, match="bfloat16 is for pixels, got Discrete"):
        learner(bfloat16=True)
    with pytest.raises(InputError, match="max_grad_norm must be at least 1e-06, got 0"):
        DQNConfig(max_grad_norm=0)
    with pytest.raises(InputError, match="tau must be in"):
        DQNConfig(tau=2)
    with pytest.raises(InputError, match=r"dueling shares the last hidden layer .* 2 units"):
        learner(dueling=True, hidden=(1,))


def test_it_acts_greedily_but_for_epsilon() -> None:
    dqn = learner()
    dqn.values = lambda obs: np.tile(np.float32([0, 1, 0]), (len(obs), 1))  # type: ignore[method-assign]
    dqn.epsilon = 0.3
    _, actions = dqn.choose(np.zeros(30_000, np.int64), np.zeros(30_000, bool))
    np.testing.assert_allclose(np.bincount(actions) / 30_000, [0.1, 0.8, 0.1], atol=0.01)


class Short(gym.Wrapper[Any, Any, Any, Any]):
    """Its actions are of one byte."""

    action_space = spaces.Discrete(2, dtype=np.int8)


@pytest.mark.parametrize("options", [{}, {"dueling": True}])
def test_actions_of_a_small_integer_type_are_learned_from(options: dict[str, Any]) -> None:
    envs = SyncVecEnv([lambda: Short(make_env("CartPole-v1"))] * 2)
    dqn = DQN(DQNConfig(num_steps=1, num_updates=1, learning_starts=20, **options), envs=envs, seed=0)
    while not dqn.updates:
        dqn.step()
    assert dqn.policy.act(np.zeros((1, 4), np.float32)).dtype == np.int8


def test_batches_are_drawn_in_parts() -> None:
    """A million updates a round would take gigabytes at once."""
    dqn, counts = learner(), list[int]()

    def drawn(count: int) -> list[Any]:
        counts.append(count)
        return [{}] * count

    dqn.batches = drawn  # type: ignore[method-assign]
    assert len(list(dqn.drawn(300))) == 300
    assert counts == [128, 128, 44]
