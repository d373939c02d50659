"""The robot arm that reaches for a point, and its inverse kinematics."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_allclose, assert_array_equal

from imitate.datasets.evaluation import evaluate
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.tasks.reach_arm import HIGH_GOAL, LOW_GOAL, READY, TOLERANCE, ReachArm
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.inverse_kinematics import hand_and_jacobian

ARM = "imitate/ReachArm-v0"


@pytest.fixture
def arm() -> Any:
    env = ReachArm()
    yield env
    env.close()


def play(env: gym.Env[Any, Any], seed: int, actions: Array) -> list[Any]:
    return [env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)]


def pose(arm: ReachArm, angles: Any) -> Array:
    """The hand's position at these angles."""
    for joint, angle in enumerate(angles):
        pybullet.resetJointState(arm.body, joint, angle, physicsClientId=arm.world.client)
    obs: Array = arm.step(np.zeros(7))[0]
    return obs[14:17]


@pytest.mark.parametrize("goal_dict", [False, True])
def test_it_is_an_environment_as_gymnasium_wants_it(goal_dict: bool) -> None:
    env = gym.make(ARM, goal_dict=goal_dict, render_mode="rgb_array").unwrapped
    check_env(env)
    env.close()


def test_the_hand_at_poses_that_can_be_added_up(arm: ReachArm) -> None:
    """The links' lengths, from the URDF: 0.333 to the shoulder, 0.316 to the elbow, 0.384 to the wrist, 0.107 + 0.105
    from there to the fingertips; the elbow is 0.0825 off the axis, the flange 0.088."""
    arm.reset(seed=0)
    # All joints at 0: upright, and the hand hangs down beside the wrist.
    assert_allclose(pose(arm, [0] * 7), (0.088, 0, 0.333 + 0.316 + 0.384 - 0.212), atol=2e-3)
    # The base turned to the left: x becomes y.
    assert_allclose(pose(arm, [np.pi / 2, *[0] * 6]), (0, 0.088, 0.821), atol=2e-3)
    # Bent forward by a right angle at the elbow, hand pointing down (joint 6 at 90 degrees, as the forearm is level).
    bent = [0, 0, 0, -np.pi / 2, 0, np.pi / 2, 0]
    x, z = 0.0825 + 0.384 + 0.088, 0.333 + 0.316 + 0.0825 - 0.212
    assert_allclose(pose(arm, bent), (x, 0, z), atol=2e-3)


def test_the_jacobian_is_pybullets(arm: ReachArm) -> None:
    obs, _ = arm.reset(seed=4)
    hand, jacobian = hand_and_jacobian(obs[None, :7])
    assert_allclose(hand[0], obs[14:17], atol=1e-6)
    joints = [*obs[:7].tolist(), 0.0, 0.0]  # and the fingers
    zero = [0.0] * 9
    linear, _ = pybullet.calculateJacobian(
        arm.body, 11, (0, 0, 0), joints, zero, zero, physicsClientId=arm.world.client
    )
    assert_allclose(jacobian[0], np.array(linear)[:, :7], atol=1e-6)


def test_a_joint_turns_at_the_speed_of_the_action(arm: ReachArm) -> None:
    """0.5 rad/s for 1 s turn the base by half a radian, less what it takes to get under way; others hold still."""
    before, *_, after = play(arm, 0, np.tile([0.5, 0, 0, 0, 0, 0, 0], (20, 1)))
    assert_allclose((after - before)[:7], [0.5, 0, 0, 0, 0, 0, 0], atol=0.02)
    assert_allclose(after[7:14], [0.5, 0, 0, 0, 0, 0, 0], atol=0.02)
    faster = play(arm, 0, np.tile([7.0, 0, 0, 0, 0, 0, 0], (20, 1)))[-1]
    assert_allclose(faster[7], 1.0, atol=0.02)  # clipped


def test_rewards_by_hand() -> None:
    """A 3-4-5 triangle of centimetres, and the edge of the tolerance."""
    goal, near = np.array([0.5, 0.1, 0.3]), TOLERANCE - 1e-6
    hands = goal + np.array([(0, 0, 0), (0.03, 0.04, 0), (near, 0, 0), (0, 0, TOLERANCE + 1e-6)])
    dense, sparse = ReachArm(), ReachArm("sparse")
    goals = np.broadcast_to(goal, hands.shape)
    assert_allclose(dense.compute_reward(hands, goals, {}), [0, -0.05, -TOLERANCE, -TOLERANCE], atol=2e-6)
    assert_array_equal(sparse.compute_reward(hands, goals, {}), [0, -1, 0, -1])
    for env in (dense, sparse):
        obs, _ = env.reset(seed=1)
        assert (obs[17:] >= LOW_GOAL).all()
        assert (obs[17:] <= HIGH_GOAL).all()
        assert_allclose(obs[:7], READY, atol=0.1 + 1e-6)
        for goal_at, wanted in ((obs[14:17], True), (obs[14:17] + 0.1, False)):
            env.goal = goal_at.astype(np.float64)
            after, reward, terminated, truncated, info = env.step(np.zeros(7))
            distance = np.linalg.norm(after[14:17] - after[17:])
            assert info == {"is_success": wanted}
            assert reward == pytest.approx(-distance if env is dense else wanted - 1, abs=1e-6)
            assert not terminated
            assert not truncated
        env.close()


def test_success_ends_no_episode_and_the_time_limit_truncates_it() -> None:
    """The expert has to stay where it has arrived."""
    env, expert = make_env(ARM, {"reward": "sparse"}), load_expert(ARM)
    obs, _ = env.reset(seed=2)
    rewards, ended = [], False
    while not ended:
        obs, reward, terminated, truncated, info = env.step(expert.act(obs))
        assert not terminated
        assert info["is_success"] == (reward == 0)
        rewards.append(reward)
        ended = truncated
    arrived = rewards.index(0.0)
    assert 0 < arrived < 30
    assert rewards == [-1.0] * arrived + [0.0] * (50 - arrived)
    env.close()


def test_equal_seeds_and_actions_give_equal_bytes_whatever_was_played_before_or_beside() -> None:
    rng = np.random.default_rng(0)
    actions, others = rng.uniform(-1, 1, (2, 30, 7))
    fresh, used, beside = ReachArm(), ReachArm(), ReachArm(render_mode="rgb_array")
    expected = play(fresh, 7, actions)
    for seed in range(2):
        play(used, seed, others)
    used.reset(seed=7)
    beside.reset(seed=7)
    for action, other, obs in zip(actions, others, expected[1:], strict=True):
        beside.step(other)
        assert_array_equal(used.step(action)[0], obs)
    assert beside.render() is not None
    assert_array_equal(play(beside, 7, actions), expected)
    assert not np.array_equal(play(used, 8, actions)[0], expected[0])
    for env in (fresh, used, beside):
        env.close()


def test_the_dict_form_holds_the_same_numbers() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (10, 7))
    flat, parts = ReachArm(), ReachArm(goal_dict=True)
    for row, obs in zip(play(flat, 3, actions), play(parts, 3, actions), strict=True):
        assert_array_equal(row, np.append(obs["observation"], obs["desired_goal"]))
        assert_array_equal(row[14:17], obs["achieved_goal"])
        assert row in flat.observation_space
        assert obs in parts.observation_space
    for env in (flat, parts):
        env.close()


def test_observations_stay_in_their_space_at_the_joints_limits(arm: ReachArm) -> None:
    for sign in (-1.0, 1.0):
        for obs in play(arm, 0, np.full((120, 7), sign)):
            assert obs in arm.observation_space


@pytest.mark.parametrize("action", [np.zeros(6), np.full(7, np.nan), 0.0])
def test_invalid_actions_are_refused(arm: ReachArm, action: Any) -> None:
    arm.reset(seed=0)
    with pytest.raises(gym.error.InvalidAction, match="wanted 7 joint velocities"):
        arm.step(action)


def test_mistakes_in_its_settings_are_named() -> None:
    with pytest.raises(InputError, match="reward must be dense or sparse, got 'spare'"):
        make_env(ARM, {"reward": "spare"})


@pytest.mark.parametrize("settings", [{}, {"goal_dict": True}, {"time_feature": True}])
def test_its_expert_reaches_every_goal(settings: dict[str, Any]) -> None:
    expert = load_expert(ARM, env_kwargs=settings)
    assert expert.reproducible
    sparse = {"reward": "sparse"} | settings
    returns = evaluate(expert, ARM, episodes=4, num_envs=4, env_kwargs=sparse).returns
    assert (returns > -30).all()
    with pytest.raises(InputError, match="is not for Pendulum-v1"):
        load_expert(ARM, env_id="Pendulum-v1")
