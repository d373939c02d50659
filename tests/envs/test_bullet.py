"""The environments in PyBullet: their physics, their seeds, and that they are found."""

from __future__ import annotations

import gc
import runpy
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from importlib import resources
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pybullet
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_allclose, assert_array_equal

from imitate.cli import main
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.media.video import record_video
from imitate.training.experiment import Experiment

CART_POLE, PLATE = "imitate/BulletCartPole-v0", "imitate/BalancingPlate-v0"
UNDAMPED = "imitate/BalancingPlateUndamped-v0"
each = pytest.mark.parametrize("env_id", [CART_POLE, PLATE, UNDAMPED])


class PushTowardsTheFall:
    """obs: x, x', angle, angle'. The pole is let fall a little towards the middle of the rail."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return (obs @ np.float32([0.3, 0.065, 1.0, 0.11]) > 0).astype(np.int64)


def play(env: gym.Env[Any, Any], seed: int, actions: Array) -> Array:
    observations = [env.reset(seed=seed)[0]]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        assert reward == 1.0
        observations.append(obs)
        if terminated or truncated:
            break
    return np.stack(observations)


@each
def test_they_are_environments_as_gymnasium_wants_them(env_id: str) -> None:
    env = make_env(env_id, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize(
    "code",
    [
        "gym.make('imitate.envs:ENV')",
        "__import__('imitate.datasets', fromlist=['']).make_env('ENV')",
    ],
)
def test_they_are_found_by_name(code: str) -> None:
    code = f"import gymnasium as gym; env = {code.replace('ENV', PLATE)}; print(env.spec.max_episode_steps)"
    assert subprocess.check_output([sys.executable, "-c", code], stderr=subprocess.DEVNULL) == b"2000\n"


def test_registering_environments_imports_no_torch_pybullet_or_cv2() -> None:
    code = "import sys, imitate.envs.registration; print(sorted({'torch', 'pybullet', 'cv2'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"[]\n"


@each
def test_equal_seeds_and_actions_give_equal_bytes_whatever_was_played_before(env_id: str) -> None:
    rng = np.random.default_rng(0)
    used, fresh, beside = make_env(env_id), make_env(env_id), make_env(env_id)
    actions = rng.integers(used.action_space.n, size=400)
    for seed in range(5):
        play(used, seed, rng.integers(used.action_space.n, size=400))
    beside.reset(seed=1)
    expected = play(fresh, 7, actions)
    beside.step(actions[0])
    assert_array_equal(play(used, 7, actions), expected)
    assert_array_equal(play(fresh, 7, actions), expected)
    assert not np.array_equal(play(fresh, 8, actions)[0], expected[0])
    for env in (used, fresh, beside):
        env.close()


@each
def test_observations_stay_in_their_space(env_id: str) -> None:
    env = make_env(env_id)
    for seed in range(5):
        space, rng = env.observation_space, np.random.default_rng(seed)
        for obs in play(env, seed, rng.integers(env.action_space.n, size=2000)):
            assert obs in space
    env.close()


def test_the_cart_gets_its_push_less_the_friction() -> None:
    """With the pole upright: 1.1 kg dv = (50 - 20) N / 20 s; the pole falls back as a rod hinged at the cart does."""
    env = make_env(CART_POLE).unwrapped
    env.reset(seed=0)
    for joint in (0, 1):
        pybullet.resetJointState(env.body, joint, 0.0, 0.0, physicsClientId=env.world.client)
    obs, *_ = env.step(1)
    # Rod of mass m, length l about its end: (M + m) a - m l/2 w' = F, m l^2/3 w' = m l/2 a  =>  w' = 3 a / (2 l)
    acceleration = 30.0 / (1.1 - 0.1 * 3 / 4)
    assert_allclose(obs[1], acceleration / 20, rtol=1e-3)
    assert_allclose(obs[3], -1.5 * acceleration / 20, rtol=1e-2)
    env.close()


def test_friction_is_the_motor_that_pybullet_leaves_on_unasked() -> None:
    ours, bare = make_env(CART_POLE).unwrapped, make_env(CART_POLE).unwrapped
    bare.body = bare.world.load("cart_pole.urdf")
    pybullet.setJointMotorControl2(
        bare.body, 1, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=bare.world.client
    )
    actions = np.array([1, 0, 0, 1])
    assert_array_equal(play(ours, 3, actions), play(bare, 3, actions))


def test_the_cart_pole_can_be_held_and_is_not_held_by_chance() -> None:
    assert_array_equal(evaluate(PushTowardsTheFall(), CART_POLE, episodes=5).returns, 500.0)
    assert evaluate(RandomPolicy(make_env(CART_POLE).action_space), CART_POLE, episodes=20).mean < 20


def test_the_plate_is_solvable_and_not_by_chance() -> None:
    """The linear feedback of the example holds the ball for all of the 2,000 steps, random actions for 200 to 300."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "04_balancing_plate.py"))
    result = evaluate(example["LinearFeedback"](), PLATE, episodes=4, num_envs=4)
    assert_array_equal(result.returns, 2000.0)
    random = evaluate(RandomPolicy(make_env(PLATE).action_space), PLATE, episodes=20)
    assert 200 < random.mean < 300
    assert random.lengths.max() < 400


class PositionsAndTilt:
    """The signs of a linear feedback of the ball and the two angles: all that is observed."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        x, y, _, vx, vy, _, about_x, about_y = obs.T
        turn_x = 2 * y + vy - 16 * about_x > 0
        turn_y = 2 * x + vx + 16 * about_y < 0
        return 2 * turn_x.astype(np.int64) + turn_y


def test_the_undamped_plate_is_hard() -> None:
    """Random actions held 205 to 291 steps on the plate that this one is after, a linear feedback 1,400 to 1,770."""
    random = evaluate(RandomPolicy(make_env(UNDAMPED).action_space), UNDAMPED, episodes=20)
    assert 205 < random.mean < 291
    assert random.lengths.max() < 400
    fed_back = evaluate(PositionsAndTilt(), UNDAMPED, episodes=8)
    assert 1_400 < fed_back.mean < 1_770


class PositionsTiltAndRates:
    """The signs of a linear feedback of everything, the plate's angular velocities included."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        x, y, _, vx, vy, _, about_x, about_y, rate_x, rate_y = obs.T
        turn_x = 2 * y + 2 * vy - 12 * about_x - 12 * rate_x > 0
        turn_y = 2 * x + 2 * vx + 12 * about_y + 12 * rate_y < 0
        return 2 * turn_x.astype(np.int64) + turn_y


def test_rates_are_what_the_notebooks_plate_lacked() -> None:
    """Random actions hold some 300 steps; a feedback with the plate's angular velocities all of 2,000."""
    kwargs = {"plate": "notebook", "observe_rates": True}
    env = make_env(PLATE, kwargs)
    random = evaluate(RandomPolicy(env.action_space), PLATE, env_kwargs=kwargs, episodes=20)
    assert 250 < random.mean < 350
    fed_back = evaluate(PositionsTiltAndRates(), PLATE, env_kwargs=kwargs, episodes=4)
    assert_array_equal(fed_back.returns, 2000.0)


def test_observed_rates_are_the_change_of_the_angles() -> None:
    env = make_env(PLATE, {"observe_rates": True})
    *_, last, after = play(env, 0, np.full(50, 3))
    assert last.shape == (10,)
    assert_allclose((after[6:8] - last[6:8]) * 100, after[8:], rtol=1e-3, atol=1e-4)
    assert env.observation_space.contains(after)


def test_without_friction_a_push_has_its_whole_force() -> None:
    """(M + m) a - m 3 a / 4 = F with F = 10 N."""
    env = make_env(CART_POLE, {"force": 10.0, "friction": 0.0}).unwrapped
    env.reset(seed=0)
    for joint in (0, 1):
        pybullet.resetJointState(env.body, joint, 0.0, 0.0, physicsClientId=env.world.client)
    obs, *_ = env.step(1)
    assert_allclose(obs[1], 10.0 / (1.1 - 0.1 * 3 / 4) / 20, rtol=1e-3)
    env.close()
    for friction in (-1.0, np.nan):
        with pytest.raises(InputError, match="force must be above 0 and friction at least 0"):
            make_env(CART_POLE, {"friction": friction})


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        (PLATE, "observe_rates"),
        ("imitate/ReachArm-v0", "goal_dict"),
        ("imitate/PixelCartPole-v0", "line"),
    ],
)
def test_switches_are_true_or_false(env_id: str, name: str) -> None:
    """The text "false" would count as true, and three times two rates would widen the space."""
    for value in ("false", 3):
        with pytest.raises(InputError, match=f"{name} must be true or false, got {value!r}"):
            make_env(env_id, {name: value})


def test_a_plate_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="plate must be one of damped, undamped, notebook, got 'icy'"):
        make_env(PLATE, {"plate": "icy"})


@pytest.mark.parametrize(("action", "ball"), [(0, (-1, +1)), (1, (+1, +1)), (2, (-1, -1)), (3, (+1, -1))])
def test_the_ball_rolls_where_the_plate_is_tilted(action: int, ball: tuple[int, int]) -> None:
    env = make_env(PLATE)
    begin, *_, end = play(env, 0, np.full(100, action))
    assert tuple(np.sign(end[:2] - begin[:2])) == ball
    assert tuple(np.sign(end[6:])) == (-ball[1], ball[0])
    env.close()


def test_a_ball_that_fell_ends_the_episode() -> None:
    env = make_env(PLATE)
    observations = play(env, 0, np.full(500, 3))
    assert len(observations) < 200
    assert observations[-1, 2] < 1.0 <= observations[-2, 2]  # z in units of 10 cm
    env.close()


@each
def test_invalid_actions_are_refused(env_id: str) -> None:
    env = make_env(env_id)
    env.reset(seed=0)
    for action in (-1, 4, 0.5, None):
        with pytest.raises(gym.error.InvalidAction, match=f"action {action!r} is not one of 0 to"):
            env.step(action)
    env.close()


@each
def test_closing_twice_is_no_mistake_and_a_closed_world_is_not_somebody_elses(env_id: str) -> None:
    env = make_env(env_id)
    env.reset(seed=0)
    env.close()
    env.close()
    other = make_env(env_id)  # gets the number of the connection that is free again
    other.reset(seed=0)
    with pytest.raises(pybullet.error, match="Not connected"):
        env.step(0)
    other.close()


def test_worlds_that_are_forgotten_close_themselves() -> None:
    env = make_env(CART_POLE).unwrapped  # a process has room for 1,024
    client = env.world.client
    assert pybullet.isConnected(physicsClientId=client)
    del env
    gc.collect()
    assert not pybullet.isConnected(physicsClientId=client)


@each
def test_films_need_no_display(env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    env = make_env(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    begin = env.render()
    assert begin.dtype == np.uint8
    assert begin.std() > 10  # something is to be seen
    for _ in range(40):
        env.step(1)
    assert (env.render() != begin).any()
    env.close()
    record_video(RandomPolicy(env.action_space), env_id, tmp_path / "film.mp4", max_steps=10)
    assert (tmp_path / "film.mp4").stat().st_size > 1_000


@pytest.mark.parametrize("name", ["cart_pole.urdf", "balancing_plate.urdf", "balancing_plate_undamped.urdf"])
def test_the_descriptions_are_well_formed(name: str) -> None:
    root = ElementTree.fromstring((resources.files("imitate.envs.tasks") / name).read_text("utf-8"))
    links = {link.attrib["name"] for link in root.iter("link")}
    children = [joint.find("child").attrib["link"] for joint in root.iter("joint")]  # type: ignore[union-attr]
    assert len(children) == len(set(children)) == len(links) - 1  # a tree
    assert set(children) < links


def test_the_command_line_takes_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    options = "--seed 0 --budget 400 --num-envs 2 --num-episodes 4 --eval-every 0 --checkpoint-every 0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert main(["train", "reinforce", "--env", CART_POLE, *options.split(), "--out", str(run)]) == 0
    assert Experiment.read(run / "config.json").env_id == CART_POLE
    assert main(["evaluate", str(run), "--episodes", "2", "--video", str(tmp_path / "film.mp4")]) == 0
    assert (tmp_path / "film.mp4").exists()
    assert (
        main(["train", "reinforce", "--env", "imitate/BulletCartPol-v0", "--out", str(tmp_path / "x")]) == 2
    )
    assert f"did you mean '{CART_POLE}'?" in capsys.readouterr().err
