"""`OffPolicy` gives a learner its batches, budget and state, also for continuous actions and with demonstrations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from imitate.configs.sac import SACConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy
from imitate.rl.batches import means, replay_of
from imitate.rl.off_policy import OffPolicy
from imitate.rl.replay import Replay
from imitate.rl.rollout import Rollout

GAMMA = 0.5


@dataclass(frozen=True)
class Settings:
    total_steps: int = 40
    num_steps: int = 4
    rounds_per_iteration: int = 10
    batch_size: int = 6
    replay_size: int = 100
    learning_starts: int = 20
    gamma: float = GAMMA
    n_step: int = 2


class Random(OffPolicy):
    """Acts at random and learns nothing; keeps the progress of each round, and the steps at which it could learn."""

    parts = ("policy",)

    def __init__(self, seed: int = 0, settings: Settings = Settings(), length: int | None = None) -> None:
        kwargs = {} if length is None else {"max_episode_steps": length}
        envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0", kwargs)] * 2)
        policy = ActorPolicy(envs.single_observation_space, envs.single_action_space)
        super().__init__(settings, policy, envs=envs, seed=seed, device=torch.device("cpu"))
        self.progresses: list[float] = []

    def schedule(self, progress: float) -> None:
        self.progresses.append(progress)

    def learn(self) -> list[dict[str, Tensor]]:
        return [{"steps": torch.tensor(self.env_steps), "due": torch.tensor(self.updates_due(0.5))}]

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        return {f"{name} {n}": float(x) for n, found in enumerate(history) for name, x in found.items()}

    def choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        actions = self.rng.uniform(-1, 1, (len(obs), 1)).astype(np.float32)
        return actions, actions


def demonstration(learner: OffPolicy) -> Replay:
    """One episode: three steps of reward 8 that end in the goal."""
    obs, actions = np.float32([[0.0], [0.1], [0.2], [0.3]]), np.float32([[0.7], [0.8], [0.9]])
    trajectory = Trajectory(obs, actions, np.full(3, 8, np.float32), terminated=True, truncated=False)
    episode = Rollout.of_episode(trajectory, actions, trajectory.rewards)
    envs = learner.sampler.envs
    spaces = envs.single_observation_space, envs.single_action_space
    return Replay.of_episodes([episode], *spaces, gamma=GAMMA, n_step=2)


@pytest.mark.parametrize(("terminated", "kept"), [(False, [0, 3, 6, 9]), (True, [0, 3, 6, 9, 10])])
def test_single_steps_of_demonstrations_keep_their_successors(
    tmp_path: Path, terminated: bool, kept: list[int]
) -> None:
    obs, actions = np.linspace(-1, 1, 12, dtype=np.float32)[:, None], np.zeros((11, 1), np.float32)
    env, learner = make_env("ContinuousIdentity-v0"), Random()
    rewards = np.arange(11, dtype=np.float32)
    with DemoWriter(
        tmp_path / "demos.h5", DemoInfo("E-v0", env.observation_space, env.action_space)
    ) as writer:
        writer.append(Trajectory(obs, actions, rewards, terminated=terminated, truncated=not terminated))
    with DemoReader(tmp_path / "demos.h5") as demos:
        replay = replay_of(demos, None, learner.policy, gamma=GAMMA, every=3)
    assert len(replay) == len(kept)
    samples = replay.sample(200, np.random.default_rng(0))
    steps = samples.returns.astype(int)
    assert sorted(set(steps)) == kept
    np.testing.assert_array_equal(samples.obs, obs[steps])
    np.testing.assert_array_equal(samples.next_obs, obs[steps + 1])
    np.testing.assert_array_equal(samples.discounts == 0, terminated & (steps == 10))


@pytest.mark.parametrize(("executed", "wanted"), [(False, {-1.0, 0.25}), (True, {0.5})])
def test_the_chosen_demonstrations_give_what_is_to_be_imitated_or_what_was_executed(
    tmp_path: Path, executed: bool, wanted: set[float]
) -> None:
    """Actions are in units of 2. The second episode executed 1, and its labels are 0.5 and -2."""
    env, ends = make_env("ContinuousIdentity-v0"), {"terminated": False, "truncated": True}
    info = DemoInfo("E-v0", env.observation_space, env.action_space)
    obs, rewards = np.zeros((3, 1), np.float32), np.zeros(2, np.float32)
    with DemoWriter(tmp_path / "demos.h5", info, expert_actions=True) as writer:
        for taken, labels in (([[2], [2]], [[2], [2]]), ([[1], [1]], [[0.5], [-2]])):
            given = np.float32(taken), rewards
            writer.append(Trajectory(obs, *given, **ends, expert_actions=np.float32(labels)))
    with DemoReader(tmp_path / "demos.h5") as demos:
        replay = replay_of(demos, np.array([1]), Random().policy, gamma=GAMMA, executed=executed)
    assert len(replay) == 2
    assert set(replay.sample(50, np.random.default_rng(0)).actions[:, 0].tolist()) == wanted


def test_a_batch_has_an_equal_share_of_each_replay() -> None:
    learner = Random()
    learner.demos = demonstration(learner)
    learner.replay.add(learner.collect())
    batches = learner.batches(50)
    assert len(batches) == 50
    assert all(batch["actions"].shape == (6, 1) for batch in batches)
    obs, actions, returns, discounts = (
        torch.cat([batch[name][:3] for batch in batches]).squeeze()
        for name in ("obs", "actions", "returns", "discounts")
    )
    torch.testing.assert_close(actions, obs + 0.7)
    # Two rewards and the value of the state after them; the last step has one reward and the end.
    wanted = {0.7: (8 + GAMMA * 8, GAMMA**2), 0.8: (8 + GAMMA * 8, 0.0), 0.9: (8.0, 0.0)}
    for action, (its_return, discount) in wanted.items():
        rows = (actions - action).abs() < 1e-6
        assert rows.any()
        assert set(returns[rows].tolist()) == {its_return}
        assert set(discounts[rows].tolist()) == {discount}
    assert (
        torch.cat([batch["returns"][3:] for batch in batches]) <= 0
    ).all()  # the learner's own, minus errors


def test_it_is_ready_once_learning_starts_and_done_at_its_total() -> None:
    learner = Random()
    assert learner.least_steps == 20
    with pytest.raises(InputError, match="takes at least 20 steps, but only 19 are left"):
        learner.step(19)
    metrics = learner.step(38)
    # Eight steps a round; after four of them six steps are left, three of each environment.
    assert learner.env_steps == 38
    assert learner.progresses == pytest.approx([0, 8 / 38, 16 / 38, 24 / 38, 32 / 38])
    # It learns once there are 20 steps; half a gradient step is due for each one after these.
    assert metrics == {"steps 0": 24, "due 0": 2, "steps 1": 32, "due 1": 6, "steps 2": 38, "due 2": 9}
    assert learner.least_steps == 2
    assert not learner.done
    learner.collect(2)
    assert learner.done


def test_a_full_replay_is_enough_to_learn_from() -> None:
    """Episodes of one step take two rows each, so of 42 rows in two rings only 20 have an action, and 21 are asked."""
    learner = Random(settings=Settings(replay_size=42, learning_starts=21), length=1)
    for steps, ready, least in ((8, False, 14), (16, False, 6), (20, True, 2), (20, True, 2)):
        learner.replay.add(learner.collect())
        assert (len(learner.replay), learner.ready, learner.least_steps) == (steps, ready, least)


def test_a_state_brings_back_replay_counts_and_random_numbers() -> None:
    first, second = Random(), Random()
    first.replay.add(first.collect())
    first.iteration, first.updates = 3, 5
    for run in (first, second):  # a checkpoint is a reset point for the run that goes on, too
        run.load_state_dict(first.state_dict())
    assert (second.iteration, second.updates, second.env_steps) == (3, 5, 8)
    np.testing.assert_array_equal(first.collect().actions, second.collect().actions)
    for a, b in zip(first.batches(2), second.batches(2), strict=True):
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert torch.equal(*(torch.rand(3, generator=run.generator) for run in (first, second)))


def test_a_mean_is_over_the_gradient_steps_that_have_the_metric() -> None:
    """The policy improves in some steps only, and not always in the last one."""
    history = [{"q_loss": torch.tensor(1.0), "value": torch.tensor(4.0)}, {"q_loss": torch.tensor(2.0)}]
    assert means(history) == {"q_loss": 1.5, "value": 4.0}
    assert means([]) == {}


@pytest.mark.parametrize("field", ["least_reward", "target_entropy"])
def test_settings_that_are_no_numbers_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} must be"):
        SACConfig(**{field: math.nan})
