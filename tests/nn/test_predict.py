"""`predict` as Stable-Baselines3's tools call it, and what it answers to observations that can't be right."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from structured import Told

from imitate.envs.fields import Array, as_fields, batch_of
from imitate.errors import InputError
from imitate.experts.load import load_expert
from imitate.nn.numpy_policy import NumpyPolicy
from imitate.nn.policy import ActorPolicy


def made(name: str) -> gym.Env[Any, Any]:
    return Told(picture=True) if name == "Told" else gym.make(name)  # SB3 has no Dict in a Dict


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Told"])
@pytest.mark.parametrize("num_envs", [None, 1, 3])
@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_stable_baselines_evaluates_a_policy(name: str, num_envs: int | None) -> None:
    """Discrete, Box and MultiDiscrete actions; Box and Dict observations; a plain environment and vector ones."""
    env: Any = made(name)
    policy = ActorPolicy(env.observation_space, env.action_space)
    if num_envs is not None:
        env = make_vec_env(lambda: made(name), num_envs)
    _, lengths = evaluate_policy(policy, env, n_eval_episodes=3, return_episode_rewards=True)
    assert len(lengths) == 3
    assert {"Told": {10}, "Pendulum-v1": {200}}.get(name, set(lengths)) == set(lengths)


def dicts(count: int) -> tuple[ActorPolicy, list[dict[str, Any]]]:
    env = Told()
    return ActorPolicy(env.observation_space, env.action_space), [
        env.reset(seed=seed)[0] for seed in range(count)
    ]


def stacked(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        name: stacked([part[name] for part in parts])
        if isinstance(value, dict)
        else np.stack([part[name] for part in parts])
        for name, value in parts[0].items()
    }


@pytest.mark.parametrize("count", [1, 3])
def test_a_batch_of_dicts_gives_an_action_for_each(count: int) -> None:
    policy, obs = dicts(count)
    actions, state = policy.predict(stacked(obs), state="kept", episode_start=np.ones(count, bool))
    assert state == "kept"
    assert actions.shape == (count, 2)
    np.testing.assert_array_equal(actions, [policy.predict(one)[0] for one in obs])


def test_what_is_no_observation_is_said_and_gives_no_action() -> None:
    policy, (obs, other) = dicts(2)
    for wrong, said in (
        (
            {name: value for name, value in obs.items() if name != "goal"},
            "no 'goal': wanted goal, hand, noise",
        ),
        (obs | {"hand": {"digit": 1}}, "no 'bits'"),
        (obs | {"goal": np.zeros(2)}, r"'goal' of an observation has shape \(2,\)"),
        (obs | {"goal": np.array([np.nan])}, "NaN"),
        (stacked([obs, other]) | {"goal": np.zeros((3, 1))}, "differ in N"),
        (np.zeros(3), "is a ndarray: wanted a dict with goal, hand, noise"),
        ([obs, other], "an observation is a list: wanted a dict with goal, hand, noise"),
        (
            obs | {"hand": np.zeros(1)},
            "'hand' of an observation is a ndarray: wanted a dict with bits, digit",
        ),
        (
            obs | {"depth": np.zeros(1)},
            "an observation has 'depth', which its space lacks: wanted goal, hand",
        ),
        (
            obs | {"hand": obs["hand"] | {"toes": 1}},
            "'hand' of an observation has 'toes', which its space lacks",
        ),
        (
            obs | {"goal": [[1.0], [1.0, 2.0]]},
            "'goal' of an observation is a list of parts that differ in shape",
        ),
    ):
        with pytest.raises(InputError, match=said):
            policy.predict(wrong)
    plain = ActorPolicy(spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(2))
    for wrong, said in (
        ([0.0, np.nan, 0.0], "NaN"),
        (np.full((2, 3), np.inf), "infinite"),
        (np.zeros(4), r"wanted numbers of shape \(3,\) or \(N, 3\)"),
        (np.zeros((2, 2, 3)), "wanted numbers of shape"),
        (["a", "b", "c"], "wanted numbers"),
        (
            [[0.0, 1.0, 2.0], [0.0]],
            "an observation is a list of parts that differ in shape: wanted one array$",
        ),
        (
            (np.zeros(3), {}),
            r"is a tuple of parts that differ in shape.*; of env.reset\(\), take the first part",
        ),
    ):
        with pytest.raises(InputError, match=said):
            plain.predict(wrong)
    numbered = ActorPolicy(spaces.Discrete(5, start=1), spaces.Discrete(2))
    for number in (0, 6, -3):
        with pytest.raises(InputError, match=f"an observation holds {number}, wanted 1 to 5"):
            numbered.predict(np.array([1, number]))
    with pytest.raises(InputError, match="an observation holds 9, wanted 1 to 3"):
        policy.predict(obs | {"hand": obs["hand"] | {"digit": 9}})
    with pytest.raises(InputError, match=r"holds 1\.5: wanted whole numbers of Discrete"):
        numbered.predict(np.array([1.0, 1.5]))
    with pytest.raises(InputError, match=r"'digit' of an observation holds 1\.5"):
        policy.predict(obs | {"hand": obs["hand"] | {"digit": 1.5}})


@pytest.mark.parametrize("spec", ["CartPole-v1:ppo", "random"])
def test_an_expert_refuses_what_is_no_observation_too(spec: str) -> None:
    expert = load_expert(spec, env_id="CartPole-v1")
    for wrong, said in (
        ([0.0, np.nan, 0.0, 0.0], "NaN"),
        (np.full((2, 4), np.inf), "infinite"),
        (np.zeros(3), r"wanted numbers of shape \(4,\) or \(N, 4\)"),
        (np.zeros((2, 2, 4)), "wanted numbers of shape"),
        (["a", "b", "c", "d"], "wanted numbers"),
        ((np.zeros(4), {}), r"of env.reset\(\), take the first part"),
    ):
        with pytest.raises(InputError, match=said):
            expert.predict(wrong)


def test_rows_are_taken_by_their_names() -> None:
    space = as_fields(spaces.Dict(left=spaces.Box(-1.0, 1.0), right=spaces.Box(-1.0, 1.0)))
    wide = np.array([(0.5, -0.5)], [("right", np.float64, (1,)), ("left", np.float64, (1,))])
    rows, single = batch_of(space, wide)
    assert (rows["left"].item(), rows["right"].item(), single) == (-0.5, 0.5, False)
    for names, said in (("lift", "no 'left': wanted left, right"), ("left", "no 'right'")):
        with pytest.raises(InputError, match=said):
            batch_of(space, np.zeros(1, [(names, np.float32, (1,)), ("other", np.float32, (1,))]))


@pytest.mark.parametrize("shade", [0.5, 1.0])
def test_a_picture_of_floats_is_refused(shade: float) -> None:
    """As bytes, a picture that was divided by 255 would be black, and a 1.0 in it nearly so."""
    camera, actions = spaces.Box(0, 255, (40, 40, 3), np.uint8), spaces.Discrete(2)
    picture = np.full(camera.shape, shade, np.float32)
    wanted = (
        r"an observation is float32, wanted uint8 \(cast it; multiply a picture in \[0, 1\] by 255 first\)"
    )
    with pytest.raises(InputError, match=f"^{wanted}"):
        ActorPolicy(camera, actions).act(picture)
    with pytest.raises(InputError, match=f"^'camera' of {wanted}"):
        ActorPolicy(spaces.Dict(camera=camera), actions).predict({"camera": picture})


def test_whole_numbers_that_a_byte_does_not_hold_are_refused() -> None:
    """300 would become 44."""
    camera = spaces.Box(0, 255, (40, 40, 3), np.uint8)
    for wrong in (300, -1):
        with pytest.raises(InputError, match=rf"holds {wrong}: wanted uint8, 0 to 255$"):
            ActorPolicy(camera, spaces.Discrete(2)).act(np.full(camera.shape, wrong))


def test_whole_numbers_of_other_widths_are_taken() -> None:
    space = as_fields(
        spaces.Dict(
            camera=spaces.Box(0, 255, (2,), np.uint8), kind=spaces.Discrete(3), at=spaces.Box(0, 9, ())
        )
    )
    rows, _ = batch_of(space, {"camera": [7, 255], "kind": 2.0, "at": np.int64(4)})
    assert rows["camera"].tolist() == [[7, 255]]
    assert (rows["kind"], rows["at"]) == (2, 4)


def laid_out(obs: Array) -> dict[str, Array]:
    """The same numbers (N, ...) as views and types that torch does not take as they are."""
    fixed = obs.copy()
    fixed.flags.writeable = False
    return {
        "reversed": obs[::-1].copy()[::-1],
        "read-only": fixed,
        "big-endian": obs.astype(obs.dtype.newbyteorder(">")),
        "long": obs.astype(np.longdouble),
        "by columns": np.asfortranarray(obs),
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("space", [spaces.Box(-1, 1, (3,)), spaces.Discrete(4, start=1)])
def test_arrays_are_taken_however_they_lie_in_memory(space: spaces.Space[Any]) -> None:
    policy = ActorPolicy(space, spaces.Discrete(9))
    expert = load_expert("CartPole-v1:ppo")
    space.seed(0)
    obs = np.stack([np.asarray(space.sample()) for _ in range(40)])
    states = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    for name, given in laid_out(obs).items():
        for each in (policy, NumpyPolicy(policy)):
            np.testing.assert_array_equal(each.act(given), policy.act(obs), name)
    for name, given in laid_out(states).items():
        np.testing.assert_array_equal(expert.act(given), expert.act(states), name)
