"""Dict observations as rows of structured arrays, Tuple actions as arrays."""

from __future__ import annotations

import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from structured import Knower, Told

from imitate.envs import make_vec
from imitate.envs.fields import Fields, as_dict, as_fields, in_rows, leaves, part_of
from imitate.envs.make import make_env
from imitate.envs.numbers import all_finite
from imitate.envs.spaces import check_plain, check_supported, space_from_json, space_to_json, values_of
from imitate.envs.vec import SyncVecEnv
from imitate.errors import Fault, InputError

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
NESTED = spaces.Dict(
    b=BOX, a=spaces.Dict(image=spaces.Box(0, 255, (2, 2, 3), np.uint8), n=spaces.Discrete(3, start=-1))
)


def test_a_row_has_a_field_for_each_part_sorted_by_name() -> None:
    space = as_fields(NESTED)
    assert isinstance(space, Fields)
    assert space.dtype.names == ("a", "b")
    assert space.shape == ()
    assert [(name, offset) for name, _, offset in leaves(space)] == [("a/image", 0), ("a/n", 12), ("b", 20)]
    assert space.dtype.itemsize == 28
    assert space == NESTED
    assert pickle.loads(pickle.dumps(space)).dtype == space.dtype


def test_parts_are_found_by_name_although_a_dicts_name_has_a_slash() -> None:
    space = Fields({"arm/left": spaces.Dict(wrist=BOX), "arm": spaces.Dict({"base": BOX, "left/tool": BOX})})
    rows = np.zeros(1, space.dtype)
    rows["arm/left"]["wrist"] = [[1, 2]]
    found = {name: part_of(rows, name).tolist() for name, *_ in leaves(space)}
    assert found == {"arm/base": [[0, 0]], "arm/left/tool": [[0, 0]], "arm/left/wrist": [[1, 2]]}


def test_rows_and_dicts_are_each_others_inverse() -> None:
    space = as_fields(NESTED)
    batch = {
        "a": {"image": np.arange(36, dtype=np.uint8).reshape(3, 2, 2, 3), "n": np.array([-1, 0, 1])},
        "b": np.arange(6, dtype=np.float32).reshape(3, 2),
    }
    rows = in_rows(space, batch, (3,))
    assert rows.shape == (3,)
    np.testing.assert_array_equal(rows["a"]["image"], batch["a"]["image"])
    np.testing.assert_equal(as_dict(rows), batch)
    one = in_rows(space, {"a": {"image": batch["a"]["image"][1], "n": 0}, "b": batch["b"][1]})
    assert one == rows[1]
    assert in_rows(space, rows) is rows


def test_a_tuple_of_observations_has_its_places_for_names() -> None:
    blackjack = make_env("Blackjack-v1")
    obs, _ = blackjack.reset(seed=0)
    assert isinstance(blackjack.observation_space, Fields)
    assert tuple(obs.item()) == gym.make("Blackjack-v1").reset(seed=0)[0]


@pytest.mark.parametrize(
    ("part", "values", "said"),
    [
        (spaces.Discrete(3, start=-1), 2, "holds 2, wanted -1 to 1"),
        (spaces.MultiDiscrete([3, 2], start=[5, 0]), [4, 1], "holds 4, wanted 5 to 7"),
        (spaces.MultiDiscrete([3, 2]), [1, 2], "holds 2, wanted 0 to 1"),
        (spaces.MultiDiscrete([128], np.uint8, start=[128]), [100], "holds 100, wanted 128 to 255"),
        (spaces.MultiBinary(2), [0, 2], "holds 2, wanted 0 to 1"),
    ],
)
def test_a_part_outside_its_space_is_named(part: spaces.Space[Any], values: Any, said: str) -> None:
    with pytest.raises(Fault, match=f"^'a' of an observation {said}$"):
        in_rows(as_fields(spaces.Dict(a=part)), {"a": np.array(values)})


def test_bounds_of_a_narrow_type_are_not_added_in_it() -> None:
    part = spaces.MultiDiscrete([128], np.uint8, start=[128])
    assert in_rows(as_fields(spaces.Dict(a=part)), {"a": np.array([200])})["a"] == 200


def test_a_part_without_numbers_is_refused() -> None:
    with pytest.raises(InputError, match=r"observation space .* has no numbers"):
        check_supported(spaces.Dict(a=BOX, b=spaces.Box(0, 1, (0,))), spaces.Discrete(2))


def test_infinity_is_found_in_any_field() -> None:
    rows = np.zeros(2, as_fields(NESTED).dtype)
    assert all_finite(rows)
    rows["b"][1, 0] = np.inf
    assert not all_finite(rows)


@pytest.mark.parametrize(
    "space",
    [
        NESTED,
        spaces.Discrete(3, start=-1),
        spaces.Discrete(3, start=-1, dtype=np.int32),
        spaces.MultiDiscrete([3, 2], start=[5, 0]),
        spaces.MultiDiscrete([[3, 2], [1, 4]], np.int32),
        spaces.MultiBinary(4),
        spaces.MultiBinary([2, 3]),
        spaces.Dict({"": BOX}),
    ],
)
def test_spaces_are_stored_as_json_or_refused(space: spaces.Space[Any]) -> None:
    if "" in getattr(space, "spaces", {}):
        with pytest.raises(InputError, match="names"):
            as_fields(space)
        return
    again = space_from_json(json.loads(json.dumps(space_to_json(as_fields(space)))))
    assert again == space
    assert again.dtype == as_fields(space).dtype


def test_the_type_of_a_discrete_space_is_stored_only_if_it_is_not_int64() -> None:
    plain = {"type": "Discrete", "n": 3, "start": 0}
    assert space_to_json(spaces.Discrete(3)) == plain
    assert space_to_json(spaces.Discrete(3, dtype=np.uint8)) == {**plain, "dtype": "uint8"}
    assert space_from_json(plain) == spaces.Discrete(3)


@pytest.mark.parametrize(
    "data",
    [
        {"type": "Dict", "spaces": {}},
        {"type": "Dict", "spaces": [1]},
        {"type": "Dict", "spaces": {"a": 1}},
        {"type": "Dict"},
        {"type": "MultiBinary", "n": 1 << 40},
        {"type": "MultiBinary", "n": [1 << 20, 1 << 20]},
        {"type": "MultiBinary", "n": -1},
        {"type": "MultiDiscrete", "nvec": [1 << 40], "start": [0], "dtype": "int64"},
        {"type": "MultiDiscrete", "nvec": [3, 0], "start": [0, 0], "dtype": "int64"},
        {"type": "MultiDiscrete", "nvec": [3, 3], "start": [0], "dtype": "int64"},
        {"type": "MultiDiscrete", "nvec": [3], "start": [0], "dtype": "object"},
        {"type": "MultiDiscrete", "nvec": [[3], [3, 4]], "start": [0], "dtype": "int64"},
        {"type": "MultiDiscrete", "nvec": [3], "start": [0], "dtype": "(,,)i4"},
        {"type": "Discrete", "n": 300, "start": 0, "dtype": "int8"},
        *(
            {"type": "Discrete", "n": 3, "start": 0, "dtype": dtype}
            for dtype in ("float32", "bool", "object", "m8", "i4,i4", "(2,)i4", "(,,)i4", "", None)
        ),
    ],
)
def test_malformed_descriptions_are_refused(data: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        space_from_json(data)


def test_a_description_that_is_too_deep_or_too_large_is_refused() -> None:
    data: dict[str, Any] = space_to_json(BOX)
    for _ in range(9):
        data = {"type": "Dict", "spaces": {"a": data}}
    with pytest.raises(InputError, match="deep"):
        space_from_json(data)
    large = space_to_json(spaces.Box(0, 1, (1 << 21,), np.uint8))
    with pytest.raises(InputError, match="numbers, wanted 1 to"):
        space_from_json({"type": "Dict", "spaces": {"a": large, "b": large, "c": large}})


def test_what_is_not_supported_is_named() -> None:
    text = spaces.Dict(words=spaces.Text(4))
    with pytest.raises(InputError, match="Text, of 'words', is not supported"):
        check_supported(text, BOX)
    empty = spaces.Box(0, 1, (0,))
    for name, given in {"observation": (empty, BOX), "action": (BOX, empty)}.items():
        with pytest.raises(InputError, match=f"{name} space .* has no numbers: give it at least one"):
            check_supported(*given)
    with pytest.raises(InputError, match="action space Dict is not supported"):
        check_supported(BOX, spaces.Dict(a=BOX))
    with pytest.raises(InputError, match="must be flat"):
        check_supported(BOX, spaces.MultiBinary([2, 2]))
    with pytest.raises(InputError, match="Tuple of Discrete, Box is not supported"):
        SyncVecEnv([lambda: Strange(spaces.Tuple([spaces.Discrete(2), BOX]))])
    with pytest.raises(InputError, match=r"^PPO does not take Dict or Tuple observations"):
        check_plain("PPO", NESTED, BOX)
    with pytest.raises(
        InputError, match=r"^PPO does not take MultiBinary actions: choose bc or dagger, which do"
    ):
        check_plain("PPO", BOX, spaces.MultiBinary(2))


@pytest.mark.parametrize("name", ["", "a\0b", 1])
def test_a_name_that_no_file_can_hold_says_what_is_wanted(name: Any) -> None:
    with pytest.raises(InputError, match="wanted texts, not empty and without NUL; rename its parts"):
        Fields({name: BOX, "x": BOX})


class Strange(gym.Env[Any, Any]):
    observation_space = BOX

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self.action_space = action_space


def test_a_tuple_action_is_an_array_part_after_part() -> None:
    env = make_env("Told-tuple-v0")
    assert env.action_space == spaces.MultiDiscrete([3, 3], start=[5, 0])
    env.reset(seed=0)
    assert isinstance(env.unwrapped, Told)
    first, second = env.unwrapped.digits
    assert env.step(np.array([first + 5, second]))[1] == 2.0  # the environment gets a tuple that it contains


@pytest.mark.parametrize("backend", ["gymnasium", "async"])
def test_an_expert_of_rows_gets_all_on_every_backend(backend: str) -> None:
    envs = make_vec("Told-tuple-v0", 3, backend=backend)
    obs = envs.reset(range(9))
    for _ in range(12):  # beyond the end of the first episodes
        assert obs.dtype == envs.single_observation_space.dtype
        step = envs.step(Knower().act(obs))
        assert step.rewards.tolist() == [2.0] * 3
        obs = step.obs
    envs.close()


@pytest.mark.parametrize("backend", ["gymnasium", "async"])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"noise": None},
            "'noise' of an observation has shape () and type object: wanted numbers of shape (2, 3)",
        ),
        ({"noise": np.zeros((2, 2))}, "'noise' of an observation has shape (2, 2) and type float64: wanted"),
        ({"noise": 0.0}, "'noise' of an observation has shape () and type float64"),  # it would be broadcast
        ({"goal": [[1], [1, 2]]}, "'goal' of an observation is a list of parts that differ in shape"),
        ({"hand": {"digit": 1}}, "'hand' of an observation has no 'bits': wanted bits, digit"),
        ({}, "an observation has no 'goal': wanted goal, hand, noise"),
    ],
)
def test_a_part_that_an_environment_leaves_out_or_gives_otherwise_is_named(
    backend: str, wrong: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Told.step
    monkeypatch.setattr(
        Told, "step", lambda self, action: (wrong and step(self, action)[0] | wrong, 0.0, False, False, {})
    )
    envs = make_vec("Told-multi-v0", 1, backend=backend)
    obs = envs.reset([7, 8])
    with pytest.raises(Fault) as fault:
        envs.step(Knower().act(obs))
    envs.close()
    assert str(fault.value).startswith(f"the environment Told-multi-v0: {said}")
    assert fault.value.seed == 7


def test_both_backends_give_the_same_bytes() -> None:
    plays = []
    for backend in ("gymnasium", "async"):
        envs = make_vec("Told-multi-v0", 2, backend=backend)
        obs = [envs.reset(range(9))]
        obs += [envs.step(Knower().act(obs[-1])).obs for _ in range(11)]
        plays.append(np.stack(obs).tobytes())
        envs.close()
    assert plays[0] == plays[1]


def test_values_of_discrete_spaces() -> None:
    assert values_of(spaces.Discrete(3, start=2)) == (2, 3)
    assert values_of(BOX) is None
    first, count = values_of(spaces.MultiBinary(2)) or ((), ())
    assert (first.tolist(), count.tolist()) == ([0, 0], [2, 2])
