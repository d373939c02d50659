"""Environments whose answers are none: one line that names the environment and the episode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitate.envs.answers import Checked, closing_env
from imitate.envs.backends.pool import PoolVecEnv
from imitate.envs.backends.processes import ProcessPool
from imitate.envs.structured import structured
from imitate.envs.vec import SyncVecEnv, VecEnv
from imitate.errors import Fault, InputError

OBS = np.zeros(4, np.float32)


class Odd(gym.Env[Any, Any]):
    """Answers to reset and step as it is told; an exception is raised."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, begin: Any, then: Any) -> None:
        self._begin, self._then = begin, then

    def reset(self, **_: Any) -> Any:
        return self._answer(self._begin)

    def step(self, action: Any) -> Any:  # noqa: ARG002
        return self._answer(self._then)

    def _answer(self, answer: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer


def in_processes(make: list[Callable[[], Any]]) -> VecEnv:
    return PoolVecEnv(ProcessPool(make))


RESET = "wanted \\(observation, info\\)"
STEP = "from step, wanted \\(observation, reward, terminated, truncated, info\\)"
SPACE = "as observation, its space is Box"


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize(
    ("begin", "then", "message"),
    [
        ((OBS, {}), KeyError("two\nlines"), r"raised KeyError: 'two\\nlines' \(test_answers.py:\d+\)"),
        ((OBS, {}), FloatingPointError("overflow"), "raised FloatingPointError: overflow"),
        (RuntimeError("no simulator"), None, "raised RuntimeError: no simulator"),
        (GeneratorExit(), None, "raised GeneratorExit"),
        ((OBS, {}), SystemExit("stopped"), "raised SystemExit: stopped"),
        (OBS, None, RESET),
        (OBS[:2], None, RESET),  # a tuple of two if it is unpacked
        ((0.5, {}), None, f"returned float {SPACE}"),
        ((OBS, {}), (OBS, 1.0, False, {}), STEP),
        ((OBS, {}), None, f"returned NoneType {STEP}"),
        ((OBS, {}), (OBS, None, False, False, {}), "returned NoneType as reward, wanted a real number"),
        (
            (OBS, {}),
            (OBS, np.ones(1), False, False, {}),
            r"an array \(1,\) of float64 as reward, wanted a real number",
        ),
        (
            (OBS, {}),
            (OBS, 1.0, np.zeros(2), False, {}),
            r"an array \(2,\) of float64 as terminated, wanted True or",
        ),
        ((OBS, {}), (OBS, "1", False, False, {}), "returned '1' as reward, wanted a real number"),
        ((OBS, {}), (OBS, 1.0, "no", False, {}), "returned 'no' as terminated, wanted True or False"),
        ((OBS, {}), (OBS, 1.0, False, None, {}), "returned None as truncated, wanted True or False"),
        ((OBS, {}), (OBS, 1.0, 0.5, False, {}), "returned 0.5 as terminated, wanted True or False"),
        ((OBS, {}), (0.5, 1.0, False, False, {}), f"returned float {SPACE}"),
        ((OBS, {}), (OBS[:1], 1.0, False, False, {}), SPACE),
        ((OBS, {}), (OBS[:3], 1.0, False, False, {}), SPACE),
        ((OBS, {}), ([0.0, [1.0], 2.0, 3.0], 1.0, False, False, {}), SPACE),
        ((OBS, {}), ("left", 1.0, False, False, {}), SPACE),
    ],
)
def test_the_environment_is_named(
    vector: Callable[..., VecEnv], begin: Any, then: Any, message: str, recwarn: pytest.WarningsRecorder
) -> None:
    envs = vector([partial(Odd, begin, then)])

    def play() -> None:
        envs.reset([7])
        envs.step(np.zeros(1, int))

    with (
        closing(envs),
        pytest.raises(Fault, match=rf"^the environment Odd .*{message}.*with seed 7$") as fault,
    ):
        play()
    assert fault.value.seed == 7
    assert not recwarn


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize(
    "infos",
    [
        ({"path": np.zeros(2)}, {"path": np.zeros(3)}),
        ({"goal": 3}, {"goal": None}),
        ({"cost": lambda: 0}, {}),
    ],
)
def test_the_info_may_hold_anything(vector: Callable[..., VecEnv], infos: tuple[dict[str, Any], ...]) -> None:
    """Nobody reads it, so processes neither send nor merge it."""
    make = [partial(Odd, (OBS, info), (OBS, 1.0, True, False, info)) for info in infos]
    with closing(vector(make)) as envs:
        assert envs.reset([7, 8, 9, 10]).shape == (2, 4)
        assert envs.step(np.zeros(2, int)).terminated.all()


def test_ctrl_c_is_no_fault_of_the_environment() -> None:
    envs = SyncVecEnv([partial(Odd, (OBS, {}), KeyboardInterrupt())])
    envs.reset([7])
    with pytest.raises(KeyboardInterrupt):
        envs.step(np.zeros(1, int))
    with pytest.raises(KeyboardInterrupt):
        Checked(Odd(KeyboardInterrupt(), None)).reset()


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize("reward", [1, np.float32(1), np.array(1.0), np.int64(1), True])
@pytest.mark.parametrize("ended", [True, np.True_, 1, np.int8(1), np.array(True)])
def test_numbers_and_flags_of_other_widths_are_taken(
    vector: Callable[..., VecEnv], reward: Any, ended: Any
) -> None:
    with closing(vector([partial(Odd, (OBS, {}), (OBS, reward, ended, False, {}))])) as envs:
        envs.reset([7])
        step = envs.step(np.zeros(1, int))
    assert (step.rewards.tolist(), step.terminated.tolist()) == ([1.0], [True])


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize("odd", [0, 4, 2.5, np.array(4), np.float32(1.5)])
def test_a_discrete_observation_is_one_of_its_space(vector: Callable[..., VecEnv], odd: Any) -> None:
    def make() -> gym.Env[Any, Any]:
        env = Odd((3, {}), (odd, 1.0, False, False, {}))
        env.observation_space = spaces.Discrete(3, start=1)  # type: ignore[assignment]
        return env

    with closing(vector([make])) as envs:
        assert envs.reset([7]).tolist() == [3]
        with pytest.raises(
            Fault, match=rf"Odd returned {odd} as observation, its space is Discrete\(3, start=1\)"
        ):
            envs.step(np.zeros(1, int))


def _camera(name: str, of: str) -> gym.Env[Any, Any]:
    """Its first observation is black, the next ones are floats in [0, 1]."""
    black = np.zeros((3, 2), np.uint8) if of == "image" else np.zeros(6, np.uint8)
    space: spaces.Space[Any] = spaces.Box(0, 255, black.shape, np.uint8)
    given = black, np.ones(black.shape, np.float32)
    if of == "part":
        space, given = spaces.Dict({name: space}), tuple({name: one} for one in given)  # type: ignore[assignment]
    env = Odd((given[0], {}), (given[1], 1.0, False, False, {}))
    env.observation_space = space  # type: ignore[assignment]
    return structured(env)


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize("of", ["image", "bytes", "part"])
def test_floats_are_no_bytes(vector: Callable[..., VecEnv], of: str) -> None:
    """A picture in [0, 1] would be recorded as black."""
    name = "'wrist' of an observation" if of == "part" else "an observation that"
    with closing(vector([partial(_camera, "wrist", of)])) as envs:
        envs.reset([7])
        wanted = rf"environment Odd.* {name} is float32, wanted uint8 \(cast it; multiply .* with seed 7$"
        with pytest.raises(Fault, match=wanted) as fault:
            envs.step(np.zeros(1, int))
    assert fault.value.seed == 7


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool, np.int16])
def test_a_film_of_other_numbers_than_bytes_would_be_black(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    white = np.full((2, 4, 3), 256 if dtype is np.int16 else 1, dtype)
    monkeypatch.setattr(Odd, "render", lambda _: white)
    env = Checked(Odd((OBS, {}), None))
    env.reset(seed=7)
    wanted = rf"Odd has a render\(\) that gave a picture of {white.dtype}, wanted uint8, 0 to 255 \(cast it; "
    with pytest.raises(Fault, match=rf"{wanted}multiply .* with seed 7$"):
        env.render()


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_picture_of_whole_numbers_is_one_of_bytes(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Odd, "render", lambda _: np.full((2, 4, 3), 255, dtype))
    picture = Checked(Odd((OBS, {}), None)).render()
    assert (picture.dtype, picture.min()) == (np.uint8, 255)


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
@pytest.mark.parametrize(
    ("obs", "reward", "said"),
    [
        (OBS * np.nan, 1.0, "an observation"),
        (np.array([0, 0, np.inf, 0]), 1.0, "an observation"),
        (OBS, np.nan, "a reward"),
        (OBS, -np.inf, "a reward"),
    ],
)
def test_nan_is_found_in_its_step(vector: Callable[..., VecEnv], obs: Any, reward: float, said: str) -> None:
    steps: list[Any] = [(OBS, 1.0, False, False, {}), (obs, reward, False, False, {})]
    with closing(vector([partial(Odd, (OBS, {}), step) for step in steps])) as envs:
        envs.reset([7, 8])
        wanted = f"^the environment Odd returned {said} that holds NaN or infinity in step 1, .* with seed 8$"
        with pytest.raises(Fault, match=wanted) as fault:
            envs.step(np.zeros(2, int))
    assert fault.value.seed == 8


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize(("first", "reward"), [(OBS, 1e300), (np.array([0.0, 0, 1e300, 0]), 1.0)])
def test_what_float32_does_not_hold_is_infinity(first: Any, reward: float) -> None:
    envs = SyncVecEnv([partial(Odd, (first, {}), (OBS, reward, False, False, {}))])

    def play() -> None:
        envs.reset([7])
        envs.step(np.zeros(1, int))

    with pytest.raises(Fault, match=r"holds NaN or infinity .* with seed 7$"):
        play()


class Pooled:
    """Two environments elsewhere, as in C++, that nobody has checked; the second one gives NaN."""

    num_envs = 2
    single_observation_space: spaces.Space[Any] = Odd.observation_space
    single_action_space: spaces.Space[Any] = Odd.action_space

    def begin(self, seeds: list[int]) -> Any:  # noqa: ARG002
        return np.zeros((2, 4), np.float32)

    def step(self, actions: Any) -> Any:  # noqa: ARG002
        no = np.zeros(2, bool)
        return np.stack([OBS, OBS * np.nan]), np.array([0, np.nan], np.float32), no, no.copy()

    def begin_again(self, which: Any, seeds: list[int]) -> Any:  # noqa: ARG002
        return np.zeros((len(which), 4), np.float32)

    def close(self) -> None: ...


def test_nan_of_a_pool_has_its_seed_and_an_idle_environment_may_give_it() -> None:
    envs = PoolVecEnv(Pooled())
    envs.reset([7, 8])
    with pytest.raises(Fault, match=r"an environment returned NaN or infinity, .* with seed 8$") as fault:
        envs.step(np.zeros(2, int))
    assert fault.value.seed == 8
    envs.reset([7])
    assert np.isfinite(envs.step(np.zeros(2, int)).obs).all()


@pytest.mark.parametrize("number", [0, np.int64(1), 2.0, 1.5])
def test_several_numbers_may_be_floats_if_they_are_whole(number: float) -> None:
    env = Odd((np.array([0, number]), {}), None)
    env.observation_space = spaces.MultiDiscrete([3, 3])  # type: ignore[assignment]
    with closing(SyncVecEnv([lambda: env])) as envs:
        if number % 1:
            with pytest.raises(Fault, match=r"returned an observation that holds 1\.5: wanted whole numbers"):
                envs.reset([7])
        else:
            assert envs.reset([7]).tolist() == [[0, number]]


@pytest.mark.parametrize(
    ("begin", "then", "message"),
    [
        (OBS, None, RESET),
        ((OBS, {}), (OBS, 1.0, False, {}), STEP),
        ((OBS, {}), (0.5, 1.0, False, False, {}), f"returned float {SPACE}"),
    ],
)
def test_an_environment_in_other_loops_is_named_too(begin: Any, then: Any, message: str) -> None:
    """In Stable-Baselines3's loops, which reset without a seed, no episode can be named."""
    env = Checked(Odd(begin, then))

    def play(seed: int | None) -> None:
        env.reset(seed=seed)
        env.step(0)

    with pytest.raises(Fault, match=rf"^the environment Odd .*{message}.*, in the episode with seed 7$"):
        play(7)
    with pytest.raises(Fault, match=rf"^the environment Odd .*{message}") as fault:
        play(None)
    assert "seed" not in str(fault.value)


def test_what_numpy_makes_an_observation_of_is_one() -> None:
    envs = SyncVecEnv(
        [partial(Odd, ([0, 0, 0, 0], {}), (OBS.astype(np.float64), np.float32(1), 0, np.True_, {}))]
    )
    assert envs.reset([7, 8]).tolist() == [[0, 0, 0, 0]]
    step = envs.step(np.zeros(1, int))
    assert (step.rewards.tolist(), step.terminated.tolist(), step.truncated.tolist()) == (
        [1],
        [False],
        [True],
    )
    assert step.obs.dtype == np.float32


def _stuck(action_space: spaces.Space[Any]) -> gym.Env[Any, Any]:
    """Its close raises."""
    env = Odd((OBS, {}), (OBS, 1.0, False, False, {}))
    env.action_space = action_space  # type: ignore[assignment]
    env.close = lambda: env._answer(OSError("no arm"))  # type: ignore[method-assign]
    return env


@pytest.mark.parametrize("vector", [SyncVecEnv, in_processes])
def test_an_environment_that_can_not_be_closed_is_a_warning(
    vector: Callable[..., VecEnv], caplog: pytest.LogCaptureFixture
) -> None:
    with closing(vector([partial(_stuck, spaces.Discrete(2))])) as envs:
        assert envs.reset([7]).shape == (1, 4)
    (said,) = caplog.messages
    assert said.startswith("close() of the environment Odd raised OSError: no arm")


def test_a_close_that_fails_hides_no_earlier_failure() -> None:
    with pytest.raises(InputError, match="must have the same spaces"):
        SyncVecEnv([partial(_stuck, spaces.Discrete(2)), partial(_stuck, spaces.Discrete(3))])
    with pytest.raises(KeyError, match="first"), closing_env(_stuck(spaces.Discrete(2))):
        raise KeyError("first")


def test_too_few_open_files_are_one_line_with_the_remedy() -> None:
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (60, before[1]))
    try:
        with pytest.raises(
            InputError, match=r"100 processes.*Too many open files.*`ulimit -n 556`, take fewer --num-envs"
        ):
            in_processes([partial(Odd, (OBS, {}), None)] * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
