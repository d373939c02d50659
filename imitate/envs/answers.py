"""Checks the answers of environments, whose code may come from anybody."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.envs.make import Env, make_env
from imitate.envs.numbers import all_finite, misfit
from imitate.envs.spaces import Array, Space
from imitate.errors import Fault, InputError, raised

__all__ = ["Answering", "Checked", "closing_env", "spaces_of"]

logger = logging.getLogger(__name__)

_STEP = "(observation, reward, terminated, truncated, info)"
_WANTED = {"reward": "a real number", "terminated": "True or False", "truncated": "True or False"}


class Answering:
    """An environment whose answers have the right form.

    Each call raises a `Fault` with the episode's seed if the environment raises anything except KeyboardInterrupt and
    InputError, or if it returns a tuple of another form, a reward that is not a number, a flag that is not boolean, an
    observation whose shape is not its space's or that has floats instead of whole numbers, or NaN and infinity. Other
    values are checked only of Discrete observations.

    env   the environment itself, for callers that use its `step` and then `check` or `blame`
    """

    def __init__(self, env: Env) -> None:
        self.env = env
        space = env.observation_space
        self._shape = space.shape or ()
        self._discrete = space if isinstance(space, spaces.Discrete) else None
        self._seed: int | None = None
        self._steps = 0  # of the episode

    def reset(self, seed: int | None) -> tuple[Any, dict[str, Any]]:
        self._seed, self._steps = seed, 0
        try:
            answer = self.env.reset(seed=seed)
        except BaseException as error:
            self._raised(error, "reset must return (observation, info)")
        if not isinstance(answer, tuple) or len(answer) != 2:
            self._fail(f"returned {_form(answer)} from reset, wanted (observation, info)")
        self.check(answer[0])
        self.check_finite(answer[0], 0.0, 0)
        return answer

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        answer: Any = None
        self._steps += 1
        try:
            answer = self.env.step(action)
            obs, reward, terminated, truncated, info = answer
            number, ended, cut = float(reward), bool(terminated), bool(truncated)
        except BaseException as error:
            self.blame(error, answer)
        self.check_kinds(reward, terminated, truncated)
        self.check(obs)
        self.check_finite(obs, number, self._steps)
        return obs, number, ended, cut, info

    def picture(self) -> Array:
        """The rendered frame (H, W, 3) uint8; whole numbers of another type are cast."""
        try:
            frame: Any = self.env.render()
        except BaseException as error:
            self._raised(error, "render must return a picture")
        if not (isinstance(frame, np.ndarray) and frame.ndim == 3 and frame.shape[2] == 3):
            got = f"shape {frame.shape}" if isinstance(frame, np.ndarray) else type(frame).__name__
            self._fail(f"has a render() that gave {got}, wanted one picture of shape (height, width, 3)")
        if frame.dtype.kind not in "iu" or frame.min(initial=0) < 0 or frame.max(initial=0) > 255:
            wanted = "wanted uint8, 0 to 255 (cast it; multiply a picture in [0, 1] by 255 first)"
            self._fail(f"has a render() that gave a picture of {frame.dtype}, {wanted}")
        return frame.astype(np.uint8, copy=False)

    def close(self) -> None:
        """Close the environment. If it raises, a warning says so: an earlier failure is the one to report."""
        try:
            self.env.close()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.warning("%s", raised(f"close() of the environment {self._name}", error))

    def check(self, obs: Any) -> None:
        """Raise a `Fault` unless the observation has its space's shape and, for Discrete, is one of its numbers."""
        discrete = self._discrete
        if discrete is None or not isinstance(obs, int | float | np.number):  # those have the shape ()
            try:
                array: Array | None = np.asarray(obs)
            except (TypeError, ValueError):  # rows of different lengths
                array = None
            if array is None or array.shape != self._shape or array.dtype.kind not in "fiubV":
                self._fail(f"returned {_form(obs)} as observation, its space is {self.env.observation_space}")
            if discrete is None and (wrong := misfit(array, self.env.observation_space)):
                self._fail(f"returned an observation that {wrong}")
        if discrete is not None and (obs % 1 or not 0 <= obs - discrete.start < discrete.n):
            self._fail(f"returned {obs} as observation, its space is {discrete}")

    def check_kinds(self, reward: Any, terminated: Any, truncated: Any) -> None:
        """Raise a `Fault` unless the reward is a number and both flags are boolean, or whole numbers."""
        for name, got, kinds in (
            ("reward", reward, "biuf"),
            ("terminated", terminated, "biu"),
            ("truncated", truncated, "biu"),
        ):
            if np.asarray(got).dtype.kind not in kinds:
                self._fail(f"returned {got!r} as {name}, wanted {_WANTED[name]}")

    def check_finite(self, obs: Any, reward: float, step: int) -> None:
        """Raise a `Fault` if the observation or the reward of a step, or of the reset (0), holds NaN or infinity."""
        for name, got in (("an observation", obs), ("a reward", reward)):
            if not all_finite(np.asarray(got)):
                place = f"in step {step}" if step else "from reset"
                self._fail(f"returned {name} that holds NaN or infinity {place}")

    def blame(self, error: BaseException, answer: Any) -> NoReturn:
        """Raise a `Fault` for an `error` in the caller's frame: `step` raised it, or its `answer` can't be used."""
        trace = error.__traceback__
        if isinstance(error, KeyboardInterrupt) or (trace is not None and trace.tb_next is not None):
            self._raised(error, f"step must return {_STEP}")
        if isinstance(answer, tuple) and len(answer) == 5:
            self.check(answer[0])
            for name, got in zip(_WANTED, answer[1:4], strict=True):
                if not isinstance(got, int | float | np.generic):
                    self._fail(f"returned {_form(got)} as {name}, wanted {_WANTED[name]}")
        self._fail(f"returned {_form(answer)} from step, wanted {_STEP}")

    def _raised(self, error: BaseException, wanted: str) -> NoReturn:
        """Raise a `Fault` for an error of the environment; the message has `wanted` if a wrapper could not unpack its
        answer."""
        if isinstance(error, Fault) and error.seed is None:  # of a part of a Dict, where no episode is known
            self._fault(f"the environment {self._name}: {error}", error)
        if isinstance(error, InputError | KeyboardInterrupt):
            raise error
        fault = raised(f"the environment {self._name}", error)
        hint = f": {wanted}" if "unpack" in str(error) else ""
        self._fault(f"{fault}{hint}", error)

    def _fail(self, what: str) -> NoReturn:
        self._fault(f"the environment {self._name} {what}", None)

    def _fault(self, message: str, cause: BaseException | None) -> NoReturn:
        episode = "" if self._seed is None else f", in the episode with seed {self._seed}"
        fault = Fault(message + episode)
        fault.seed = self._seed
        raise fault from cause

    @property
    def _name(self) -> str:
        return self.env.spec.id if self.env.spec is not None else type(self.env.unwrapped).__name__


class Checked(gym.Wrapper[Any, Any, Any, Any]):
    """A Gymnasium environment with the checks of `Answering`, for code that steps it without a `VecEnv`. `render` must
    return one picture."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self._answering = Answering(env)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[Any, dict[str, Any]]:
        return self._answering.reset(seed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self._answering.step(action)

    def render(self) -> Any:
        return self._answering.picture()

    def close(self) -> None:
        self._answering.close()


@contextmanager
def closing_env(env: Env) -> Iterator[Env]:
    """Yield the environment, and close it as `Answering` does."""
    answering = Answering(env)
    try:
        yield env
    finally:
        answering.close()


def spaces_of(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> tuple[Space, Space]:
    """The spaces of observations and actions of `make_env`. Raises InputError as that does."""
    with closing_env(make_env(env_id, env_kwargs)) as env:
        return env.observation_space, env.action_space


def _form(answer: Any) -> str:
    """The types in an answer, without its values."""
    if isinstance(answer, tuple):
        return f"({', '.join(map(_form, answer))})"
    if isinstance(answer, np.ndarray):
        return f"an array {answer.shape} of {answer.dtype}"
    return type(answer).__name__
