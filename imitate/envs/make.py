"""Single environments by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import nullcontext
from functools import cache
from importlib import metadata
from typing import Any, ClassVar

import gymnasium as gym

from imitate.envs.trust import bare_id, current_folder, import_typed
from imitate.errors import InputError, did_you_mean, one_line

__all__ = ["FIRE", "Env", "FireFirst", "fires", "is_atari", "make_env", "resolve_env_id", "stacked_frames"]

logger = logging.getLogger(__name__)

Env = gym.Env[Any, Any]

MAX_EPISODE_STEPS = 100_000
"""Of an episode in an environment without a time limit."""
FIRE = 1  # the place of it in the actions of those Atari games that have it


def make_env(
    env_id: str, env_kwargs: Mapping[str, Any] | None = None, *, render_mode: str | None = None
) -> Env:
    """One environment. `module:Env-v0` imports `module` first, if the user typed it (see `imitate.envs.trust`).

    Atari ids get the standard preprocessing (arXiv:1709.06009: skip 4, max of the last two, 84 x 84 grey, 4 frames),
    observations (4, 84, 84) uint8, and FIRE as the first action of every life.

    An environment without a time limit is truncated after MAX_EPISODE_STEPS, with a notice; `max_episode_steps` among
    its keywords gives it another limit.

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
        # The class of `module:Env-v0` may be in another module beside it.
        with current_folder() if ":" in env_id else nullcontext():
            env: Env = gym.make(env_id, disable_env_checker=True, **kwargs)
        if atari:
            env = gym.wrappers.AtariPreprocessing(env, noop_max=30, frame_skip=4, screen_size=84)
            env = FireFirst(env) if fires(env) else env
            env = gym.wrappers.FrameStackObservation(env, stack_size=4)
        elif hasattr(env.unwrapped, "_generate_terrain"):
            env = FreshWorld(env)
        if env.spec is None or env.spec.max_episode_steps is None:
            env = Cut(env, MAX_EPISODE_STEPS)
    except (TypeError, ValueError) as error:
        raise InputError(f"{env_id} does not take {kwargs}: {error}; correct --env-kwargs") from error
    except (gym.error.Error, ImportError) as error:
        raise InputError(f"{env_id} can't be made: {one_line(error)}") from error
    return env


class Cut(gym.wrappers.TimeLimit):
    """The time limit of an environment that has none of its own: without one a good policy is never done."""

    _said: ClassVar[set[str]] = set()  # about which environments; once for each is enough

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        if self._elapsed_steps == MAX_EPISODE_STEPS:
            name = str(self.unwrapped)
            if name not in self._said:
                logger.warning(
                    "%s has no time limit: an episode was cut after %d steps; --env-kwargs "
                    "'{\"max_episode_steps\": N}' gives it another",
                    name,
                    MAX_EPISODE_STEPS,
                )
            self._said.add(name)
        return answer


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

    Raises InputError for an unknown id, naming the nearest known one, and for `module:Env-v0` where the module is
    neither imported already nor one that the user typed (see `imitate.envs.trust`).
    """
    if "NoFrameskip" in env_id or env_id.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
    if ":" in env_id:
        module, _, name = env_id.rpartition(":")
        import_typed(env_id)
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
            logger.warning("environments of %s can't be registered: %s", entry_point.value, one_line(error))


def is_atari(env_id: str) -> bool:
    """Whether a registered id is of the Arcade Learning Environment."""
    entry_point = gym.spec(bare_id(env_id)).entry_point
    return isinstance(entry_point, str) and entry_point.startswith("ale_py")
