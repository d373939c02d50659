"""Single environments by name, and the vector environment whose every episode is seeded on its own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.datasets.errors import InputError, did_you_mean
from imitate.datasets.trajectory import Array

__all__ = [
    "FIRE",
    "FireFirst",
    "Step",
    "SyncVecEnv",
    "VecEnv",
    "check_supported",
    "episode_seeds",
    "fires",
    "is_atari",
    "make_env",
    "resolve_env_id",
    "space_from_json",
    "space_to_json",
    "stacked_frames",
]

logger = logging.getLogger(__name__)

Env = gym.Env[Any, Any]
Space = spaces.Space[Any]

FIRE = 1  # the place of it in the actions of those Atari games that have it


class Step(NamedTuple):
    """One step of N environments; an environment whose episode ended has been reset already.

    obs         (N, *obs_shape) to act on next: a fresh episode's first observation where the last one ended
    rewards     (N,) float32
    terminated  (N,) bool: the task ended
    truncated   (N,) bool: cut by the time limit
    final_obs   (N, *obs_shape) the true successor of the action, before any reset
    """

    obs: Array
    rewards: Array
    terminated: Array
    truncated: Array
    final_obs: Array


class VecEnv(Protocol):
    """N environments side by side. Where `seeds` runs dry an environment idles: `running` is False for it,
    its rewards are 0 and its flags False."""

    num_envs: int
    single_observation_space: Space
    single_action_space: Space
    running: Array  # (N,) bool
    seeds: Array  # (N,) int64, of each environment's current episode

    def reset(self, seeds: Iterable[int]) -> Array:
        """Begin N episodes, dropping those in flight; one seed is drawn whenever an episode begins."""
        ...

    def step(self, actions: Array) -> Step: ...

    def close(self) -> None: ...


class SyncVecEnv:
    """Gymnasium environments stepped in turn. Faster than `gymnasium.vector.SyncVectorEnv` for small
    environments, and episodes can be repeated one by one, since each is reset with a seed of its own."""

    def __init__(self, env_fns: Sequence[Callable[[], Env]]) -> None:
        if not env_fns:
            raise InputError("num_envs must be at least 1, got 0")
        self._envs = [make() for make in env_fns]
        self.num_envs = len(self._envs)
        self.single_observation_space = self._envs[0].observation_space
        self.single_action_space = self._envs[0].action_space
        check_supported(self.single_observation_space, self.single_action_space)
        self.running = np.zeros(self.num_envs, bool)
        self.seeds = np.zeros(self.num_envs, np.int64)
        self._seeds: Iterator[int] = iter(())
        shape, dtype = self.single_observation_space.shape, self.single_observation_space.dtype
        self._obs = np.zeros((self.num_envs, *(shape or ())), dtype)

    def reset(self, seeds: Iterable[int]) -> Array:
        self._seeds = iter(seeds)
        for index in range(self.num_envs):
            self._begin_episode(index, self._obs)
        return self._obs.copy()

    def step(self, actions: Array) -> Step:
        final_obs = self._obs.copy()
        rewards = np.zeros(self.num_envs, np.float32)
        terminated = np.zeros(self.num_envs, bool)
        truncated = np.zeros(self.num_envs, bool)
        for index, env in enumerate(self._envs):
            if self.running[index]:
                final_obs[index], rewards[index], terminated[index], truncated[index], _ = env.step(
                    actions[index]
                )
        obs = final_obs.copy()
        for index in np.flatnonzero(terminated | truncated).tolist():
            self._begin_episode(index, obs)
        self._obs = obs
        return Step(obs, rewards, terminated, truncated, final_obs)

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _begin_episode(self, index: int, obs: Array) -> None:
        seed = next(self._seeds, None)
        self.running[index] = seed is not None
        if seed is not None:
            self.seeds[index] = seed
            obs[index] = self._envs[index].reset(seed=seed)[0]


def episode_seeds(seed: int, start: int = 0) -> Iterator[int]:
    """Endless 31-bit seeds, one an episode; the n-th depends on `seed` and n alone, so any episode of a
    collection can be played again by itself. `start` skips the first ones."""
    if seed < 0:
        raise InputError(f"a seed must be at least 0, got {seed}")
    for n in itertools.count(start):
        yield int(np.random.SeedSequence((seed, n)).generate_state(1)[0] >> 1)


def make_env(
    env_id: str, env_kwargs: Mapping[str, Any] | None = None, *, render_mode: str | None = None
) -> Env:
    """One environment. `module:Env-v0` imports `module` first; Atari ids get the standard preprocessing
    (arXiv:1709.06009: skip 4, max of the last two, 84 x 84 grey, 4 frames), observations (4, 84, 84) uint8, and
    FIRE as the first action of every life.

    Raises InputError for an unknown id, keywords that the environment does not take, or a missing package.
    """
    env_id = resolve_env_id(env_id)
    kwargs = dict(env_kwargs or {})
    atari = is_atari(env_id)
    if atari:
        kwargs |= {"frameskip": 1}
        kwargs.setdefault("repeat_action_probability", 0.0)
    if render_mode is not None:  # not every environment takes the keyword
        kwargs["render_mode"] = render_mode
    try:
        env: Env = gym.make(env_id, disable_env_checker=True, **kwargs)
        if atari:
            env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84)
            env = FireFirst(env) if fires(env) else env
            env = gym.wrappers.FrameStackObservation(env, stack_size=4)
        elif hasattr(env.unwrapped, "_generate_terrain"):
            env = FreshWorld(env)
    except TypeError as error:
        raise InputError(f"{env_id} does not take {kwargs}: {error}; correct --env-kwargs") from error
    except (gym.error.Error, ImportError) as error:
        raise InputError(f"{env_id} can't be made: {_one_line(error)}") from error
    return env


class FreshWorld(gym.Wrapper[Any, Any, Any, Any]):
    """BipedalWalker with a new physics world in every episode, as LunarLander has since gymnasium#728: in a used one
    Box2D goes on from what earlier episodes left, and seed and actions do not decide what happens."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        walker: Any = self.unwrapped
        walker._destroy()
        walker.world = type(walker.world)()
        return super().reset(seed=seed, options=options)


class FireFirst(gym.Wrapper[Any, Any, Any, Any]):
    """The first action of every life is FIRE, whatever was chosen: some games wait for it, and a greedy policy that
    never chooses it waits for ever. Unlike SB3's FireResetEnv it takes the place of a step, not an extra one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        answer = self.env.reset(seed=seed, options=options)
        self._lives, self._fire = self._lives_left(), True
        return answer

    def step(self, action: Any) -> Any:
        answer = self.env.step(FIRE if self._fire else action)
        before, self._lives = self._lives, self._lives_left()
        self._fire = self._lives < before
        return answer

    def _lives_left(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]


def fires(env: Env) -> bool:
    """Whether an Atari game is one of those that have the action FIRE, beside NOOP and another."""
    meanings = env.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    return len(meanings) >= 3 and meanings[FIRE] == "FIRE"


def stacked_frames(env: Env) -> int:
    """How many frames an observation of the environment stacks; 1 where it is not a stack."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, gym.wrappers.FrameStackObservation):
            return int(env.stack_size)
        env = env.env
    return 1


def resolve_env_id(env_id: str) -> str:
    """The registered id for `env_id`; an old version that is gone gives the newest one, with a notice.

    Raises InputError for an unknown id, naming the nearest known one.
    """
    if "NoFrameskip" in env_id or env_id.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
    if ":" in env_id:
        module, _, name = env_id.partition(":")
        try:
            __import__(module)
        except Exception as error:  # whatever the module does wrong; the traceback is kept as the cause
            raise InputError(
                f"module {module!r} of environment {env_id!r} can't be imported: {error}"
            ) from error
        return f"{module}:{resolve_env_id(name)}"
    if env_id not in gym.registry:
        _load_plugins()
    if env_id in gym.registry:
        return env_id
    base, _, version = env_id.rpartition("-v")
    newer = [
        spec
        for spec in gym.registry.values()
        if version.isdigit() and spec.id.startswith(f"{base}-v") and (spec.version or 0) > int(version)
    ]
    if not newer:
        raise InputError(f"unknown environment {env_id!r}{did_you_mean(env_id, gym.registry)}")
    newest = max(newer, key=lambda spec: spec.version or 0).id
    logger.warning("%s is not in gymnasium %s any more: using %s", env_id, gym.__version__, newest)
    return newest


@cache
def _load_plugins() -> None:
    """Import what installed packages declare in the entry point group `gymnasium.envs`, ours among them: that registers
    their environments. Gymnasium did so itself until 1.0."""
    for entry_point in metadata.entry_points(group="gymnasium.envs"):
        try:
            plugin = entry_point.load()
            if callable(plugin):
                plugin()
        except Exception as error:  # somebody else's package: ours goes on without it
            logger.warning("environments of %s can't be registered: %s", entry_point.value, _one_line(error))


def check_supported(observation_space: Space, action_space: Space) -> None:
    """Raise InputError, naming the space, unless observations are a Box or Discrete and actions are Discrete or
    a bounded, flat Box of floats."""
    if not isinstance(observation_space, spaces.Box | spaces.Discrete):
        raise InputError(
            f"observation space {_name(observation_space)} is not supported: wanted Box or Discrete; "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    if isinstance(action_space, spaces.Discrete):
        return
    if not isinstance(action_space, spaces.Box):
        raise InputError(
            f"action space {_name(action_space)} is not supported: wanted Discrete or Box; wrap the environment"
        )
    if len(action_space.shape) != 1 or action_space.dtype.kind != "f" or not action_space.is_bounded():
        raise InputError(
            f"action space {action_space} is not supported: a Box of actions must be flat, of floats and bounded; "
            "wrap the environment, e.g. with gymnasium.wrappers.RescaleAction"
        )


def space_to_json(space: Space) -> dict[str, Any]:
    """A Box or Discrete space as plain data; bounds are one number where all are equal."""
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        low, high = _compact(space.low), _compact(space.high)
        return {
            "type": "Box",
            "low": low,
            "high": high,
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise InputError(f"space {_name(space)} can't be stored: wanted Box or Discrete")


def space_from_json(data: Mapping[str, Any]) -> Space:
    """The space that `space_to_json` described. Raises InputError where the description is not one."""
    try:
        if data["type"] == "Discrete":
            return spaces.Discrete(int(data["n"]), start=int(data["start"]))
        shape, dtype = tuple(data["shape"]), np.dtype(data["dtype"])
        low, high = (np.broadcast_to(np.asarray(data[key], dtype), shape) for key in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not the description of a space: {_one_line(error)}") from error


def _compact(bounds: Array) -> Any:
    # Strict JSON has no infinity, but NumPy reads it from text.
    plain = np.where(np.isinf(bounds), bounds.astype(str).astype(object), bounds.astype(object))
    return plain.flat[0] if (bounds == bounds.flat[0]).all() else plain.tolist()


def _name(space: Space) -> str:
    return type(space).__name__


def is_atari(env_id: str) -> bool:
    """Whether a registered id is of the Arcade Learning Environment."""
    entry_point = gym.spec(env_id.rpartition(":")[2]).entry_point
    return isinstance(entry_point, str) and entry_point.startswith("ale_py")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
