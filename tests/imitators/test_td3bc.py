"""TD3+BC: its gradient against autograd, and that it is better than the actions that were recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.configs.td3bc import TD3BCConfig
from imitate.datasets.collect import collect
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.td3bc import TD3BC, actor_gradient
from imitate.rl.batches import Batch, batch_of
from imitate.rl.continuous import critic_loss, soft_targets
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

SMALL: dict[str, Any] = {
    "max_updates": 600, "batch_size": 64, "hidden": (32, 32), "learning_rate": 3e-3, "gamma": 0.5,
    "updates_per_iteration": 150,
}  # fmt: skip


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 episodes of 10 random actions, worth -17 on average; the best possible is 0."""
    return random_actions(tmp_path_factory.mktemp("demos") / "demos.h5", "ContinuousIdentity-v0")


def random_actions(path: Path, env_id: str) -> Path:
    env = make_env(env_id)
    info = DemoInfo(env_id, env.observation_space, env.action_space, seed=0)
    envs = SyncVecEnv([lambda: make_env(env_id)] * 4)
    collect(RandomPolicy(env.action_space), envs, path, info, episodes=100).close()
    return path


def test_the_policys_gradient_is_autograds() -> None:
    torch.manual_seed(0)
    outputs, actions, slopes = torch.randn(5, 2, requires_grad=True), torch.rand(5, 2), torch.randn(5, 2)
    values = (outputs.tanh() * slopes).sum(-1)  # linear in the actions
    loss = -0.3 * values.mean() + (outputs.tanh() - actions).square().mean()
    found, cloning = actor_gradient(outputs.detach(), actions, slopes, 0.3)
    torch.testing.assert_close(found, torch.autograd.grad(loss, outputs)[0])
    assert float(cloning) == pytest.approx(float((outputs.tanh() - actions).square().mean().detach()))


def test_the_gradient_by_hand() -> None:
    """Action 0 of one dimension, recorded 0.5: cloning slopes by 2 (0 - 0.5), and twice the value's slope is taken."""
    found, cloning = actor_gradient(torch.zeros(1, 1), torch.tensor([[0.5]]), torch.tensor([[3.0]]), 2.0)
    assert found.item() == pytest.approx(-1.0 - 6.0)
    assert float(cloning) == 0.25


def test_rewards_make_it_better_than_what_was_recorded(demos: Path) -> None:
    with DemoReader(demos) as reader:
        returns = {}
        for alpha in (0.0, 10.0):
            learner = TD3BC(TD3BCConfig(**SMALL, alpha=alpha), demos=reader, seed=0)
            while not learner.done:
                metrics = learner.step()
            assert {"q_loss", "mean_q", "cloning_loss", "progress"} <= metrics.keys()
            returns[alpha] = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
        assert reader.returns.mean() < -10
    assert returns[10.0] > -5
    assert returns[10.0] > returns[0.0] + 2


@pytest.mark.parametrize("layer_norm", [True, False])
def test_layer_norm_bounds_values_far_from_the_record(demos: Path, layer_norm: bool) -> None:
    """Recorded actions are at most 1; without layer norm the value of 1,000 is extrapolated in a straight line."""
    with DemoReader(demos) as reader:
        learner = TD3BC(TD3BCConfig(**SMALL, layer_norm=layer_norm), demos=reader, seed=0)
        learner.step()
    inputs = torch.zeros(1, 2)
    near, far = (
        float(learner.critics.online.values(inputs + torch.tensor([0.0, action])).detach().abs().max())
        for action in (1.0, 1_000.0)
    )
    assert (far < 10 * near) == layer_norm


def test_observations_are_standardised_by_the_record(demos: Path) -> None:
    with DemoReader(demos) as reader:
        learner = TD3BC(TD3BCConfig(**SMALL), demos=reader, seed=0, episodes=np.arange(3))
        seen = np.concatenate([reader[index].obs[:-1] for index in range(3)])
    assert learner.policy.encoder.moments is not None
    assert float(learner.policy.encoder.moments.mean) == pytest.approx(float(seen.mean()), abs=1e-5)


def test_a_run_takes_no_steps(demos: Path, tmp_path: Path) -> None:
    settings = SMALL | {"max_updates": 20, "updates_per_iteration": 10}
    execute(
        Experiment.create("td3bc", "ContinuousIdentity-v0", demos=demos, hyperparameters=settings),
        tmp_path / "run",
    )
    assert '"env_steps": 0' in (tmp_path / "run" / "finished.json").read_text("utf-8")


def test_recordings_without_rewards_are_refused(tmp_path: Path) -> None:
    """Conversions fill what is missing with zeros, which would be learned from like any reward."""
    env = make_env("ContinuousIdentity-v0")
    info = DemoInfo("ContinuousIdentity-v0", env.observation_space, env.action_space)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        obs, actions = np.zeros((4, 1), np.float32), np.zeros((3, 1), np.float32)
        writer.append(Trajectory(obs, actions, np.zeros(3, np.float32), terminated=False, truncated=True))
    with (
        DemoReader(tmp_path / "demos.h5") as reader,
        pytest.raises(InputError, match="all 0: td3bc learns from rewards; use bc"),
    ):
        TD3BC(TD3BCConfig(**SMALL), demos=reader, seed=0)


def test_it_learns_from_the_actions_that_were_rewarded_not_from_their_labels(tmp_path: Path) -> None:
    """Noise changes what is executed, and leaves the labels clean: rewards and successors belong to the first."""
    env = make_env("ContinuousIdentity-v0")
    info = DemoInfo("ContinuousIdentity-v0", env.observation_space, env.action_space)
    with DemoWriter(tmp_path / "demos.h5", info, expert_actions=True) as writer:
        obs, executed = np.zeros((4, 1), np.float32), np.full((3, 1), 1.0, np.float32)  # of at most 2
        labels, rewards = np.zeros((3, 1), np.float32), np.ones(3, np.float32)
        writer.append(
            Trajectory(obs, executed, rewards, terminated=False, truncated=True, expert_actions=labels)
        )
    with DemoReader(tmp_path / "demos.h5") as reader:
        learner = TD3BC(TD3BCConfig(**SMALL), demos=reader, seed=0)
    assert set(learner.replay.sample(8, np.random.default_rng(0)).actions.flatten().tolist()) == {0.5}


def test_discrete_actions_are_refused(tmp_path: Path) -> None:
    with (
        DemoReader(random_actions(tmp_path / "demos.h5", "Identity-v0")) as reader,
        pytest.raises(InputError, match=r"td3bc wants vectors and continuous actions, .* use bc"),
    ):
        TD3BC(TD3BCConfig(), demos=reader, seed=0)


def test_observations_of_several_parts_are_refused(tmp_path: Path) -> None:
    space = spaces.MultiDiscrete([3, 2])
    info = DemoInfo("Parts-v0", space, spaces.Box(-1.0, 1.0, (1,), np.float32))
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(
            Trajectory(np.zeros((3, 2), np.int64), np.zeros((2, 1), np.float32), np.ones(2), True, False)
        )
    with (
        DemoReader(tmp_path / "demos.h5") as reader,
        pytest.raises(InputError, match="td3bc"),
    ):
        TD3BC(TD3BCConfig(), demos=reader, seed=0)


def test_values_weigh_alpha_divided_by_their_size(demos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of 1 and -5 have the mean size 3."""
    with DemoReader(demos) as reader:
        learner = TD3BC(TD3BCConfig(**SMALL, alpha=3.0), demos=reader, seed=0)
    weights: list[float] = []

    def noted(*given: Any) -> Any:
        weights.append(float(given[-1]))
        return actor_gradient(*given)

    monkeypatch.setattr(learner.critics, "slope", lambda *_: (torch.tensor([1.0, -5.0]), torch.zeros(2, 1)))
    monkeypatch.setattr("imitate.imitators.td3bc.actor_gradient", noted)
    with torch.no_grad():
        learner.improve(torch.zeros(2, 1), torch.zeros(2, 1))
    assert weights == [1.0]


def learner_and_batch(demos: Path, **settings: Any) -> tuple[TD3BC, Batch]:
    with DemoReader(demos) as reader:
        learner = TD3BC(TD3BCConfig(**SMALL | settings), demos=reader, seed=0)
    learner.generator = torch.Generator().manual_seed(0)
    return learner, batch_of(learner.replay.sample(8, np.random.default_rng(0)), learner.policy)


def test_targets_go_a_quarter_of_the_way_to_what_they_follow(demos: Path) -> None:
    learner, batch = learner_and_batch(demos, tau=0.25, actor_every=1)
    followed = (
        (learner.target_policy, learner.policy_net.stack),
        (learner.critics.target, learner.critics.online),
    )
    before = [[each.detach().clone() for each in target.parameters()] for target, _ in followed]
    learner.update(batch)
    for (target, online), were in zip(followed, before, strict=True):
        for now, was, new in zip(target.parameters(), were, online.parameters(), strict=True):
            assert not torch.equal(was, new)
            torch.testing.assert_close(now, was.lerp(new, 0.25))


def test_targets_are_of_the_target_policy(demos: Path) -> None:
    """It does nothing, where the policy itself plays its bound; without noise."""
    learner, batch = learner_and_batch(demos, target_noise=0.0)
    with torch.no_grad():
        learner.policy.output.bias.fill_(5.0)
        for parameter in learner.target_policy.parameters():
            parameter.zero_()
        following = learner.critics.of_target(batch["next_obs"], torch.zeros_like(batch["actions"]))
        outputs = learner.critics.online(torch.cat([batch["obs"], batch["actions"]], -1))[0]
    wanted, _ = critic_loss(outputs, soft_targets(following, 0.0, batch))
    torch.testing.assert_close(learner.update(batch)["q_loss"], wanted)


@pytest.mark.parametrize(("every", "improves"), [(1, [True, True, True]), (3, [False, False, True])])
def test_the_policy_waits_for_the_critics(demos: Path, every: int, improves: list[bool]) -> None:
    learner, batch = learner_and_batch(demos, actor_every=every)
    assert ["cloning_loss" in learner.update(batch) for _ in range(3)] == improves
