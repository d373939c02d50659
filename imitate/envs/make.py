"""Single environments by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, ClassVar

import gymnasium as gym

from imitate.envs.atari import frame_skip, is_atari, preprocessed, rewards_hits, settings
from imitate.envs.bullet_robots import RobotWorlds, is_bullet_robot, remedy
from imitate.envs.robotics import NEEDS, is_robotics, needs_mujoco_py
from imitate.envs.selected import Selected
from imitate.envs.structured import structured
from imitate.envs.time_feature import TimeFeature
from imitate.envs.trust import bare_id, current_folder, import_env
from imitate.errors import InputError, check_switches, did_you_mean, one_line, raised

__all__ = [
    "MAX_EPISODE_STEPS",
    "Env",
    "check_id",
    "is_installed",
    "is_mujoco",
    "load_plugins",
    "make_env",
    "resolve_env_id",
    "stacked_frames",
    "time_limit",
]

logger = logging.getLogger(__name__)

_OLD_GYM = ("GymV21Environment-v0", "GymV26Environment-v0")
"""With shimmy installed, these import the module that their keyword `env_id` names, and a file may hold keywords."""

Env = gym.Env[Any, Any]

MAX_EPISODE_STEPS = 100_000
"""Length at which an episode is cut if the environment has no time limit."""


def time_limit(env_id: str, env_kwargs: Mapping[str, Any] | None) -> int | None:
    """Steps after which an environment truncates its episodes, or None."""
    chosen: int | None = (env_kwargs or {}).get("max_episode_steps")
    return chosen or gym.spec(bare_id(env_id)).max_episode_steps


def make_env(
    env_id: str, env_kwargs: Mapping[str, Any] | None = None, *, render_mode: str | None = None
) -> Env:
    """One environment. `module:Env-v0` imports `module` first, if the user typed it (see `imitate.envs.trust`).

    Atari ids get the standard preprocessing with observations (4, 84, 84) uint8 (see `imitate.envs.atari`); the id
    decides about sticky actions, the keyword `frame_skip` about skipped frames, and `reward="paddle_hits"` makes Pong
    and Breakout pay for strokes instead of points (`imitate.envs.paddle_hits`). For other environments the keyword
    `time_feature=True` appends the remaining time to observations (`imitate.envs.time_feature`), and
    `obs_keys=[...]` takes these of a Dict's observations, in one array (`imitate.envs.selected`).

    Without a time limit, episodes are truncated after MAX_EPISODE_STEPS, with a notice; the keyword `max_episode_steps`
    sets another limit, in steps of the agent also where each takes several frames.

    Dict observations come as rows of structured arrays and Tuple actions go as arrays (`imitate.envs.structured`).

    Raises InputError for an unknown id, keywords that the environment does not take, or a missing package.
    """
    env_id = resolve_env_id(env_id)
    atari = is_atari(env_id)
    kwargs = settings(env_id, env_kwargs) if atari else dict(env_kwargs or {})
    time_feature = not atari and kwargs.pop("time_feature", False)
    check_switches(time_feature=time_feature)
    obs_keys = None if atari else kwargs.pop("obs_keys", None)
    limit = kwargs.get("max_episode_steps", gym.spec(bare_id(env_id)).max_episode_steps)
    if limit is not None and (type(limit) is bool or not isinstance(limit, int) or limit < 1):
        raise InputError(
            f"{env_id} has max_episode_steps {limit!r}: wanted a whole number above 0; correct --env-kwargs or its "
            "registration"
        )
    # A game is cut after steps of the agent: the emulator would count frames and no-ops, so it gets no limit, -1.
    steps = kwargs.pop("max_episode_steps", None) if atari else None
    unlimited = {} if steps is None else {"max_episode_steps": -1}
    if render_mode is not None:  # not every environment takes the keyword
        kwargs["render_mode"] = render_mode
    if is_mujoco(env_id):
        _log_mujocos_warnings()
    try:
        with current_folder(env_id):
            env: Env = gym.make(bare_id(env_id), disable_env_checker=True, **_unshared(kwargs), **unlimited)
        if atari:
            env = preprocessed(env, frame_skip(env_kwargs), paddle_hits=rewards_hits(env_kwargs))
            env = env if steps is None else gym.wrappers.TimeLimit(env, steps)
        elif _is_walker(env):
            env = FreshWorld(env)
        elif is_bullet_robot(bare_id(env_id)):
            env = RobotWorlds(env)
        if time_feature:  # before the cut, which is no time limit of the task
            env = TimeFeature(env)
        if env.spec is None or env.spec.max_episode_steps is None:
            env = Cut(env, MAX_EPISODE_STEPS)
        env = structured(env)
        if obs_keys is not None:
            env = Selected(env, obs_keys)
    except (InputError, KeyboardInterrupt):
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{env_id} does not take {kwargs}: {error}; correct --env-kwargs") from error
    except (gym.error.Error, ImportError) as error:
        raise InputError(f"{env_id} can't be made: {one_line(error)}") from error
    except MemoryError:  # raised by the limit under which a file's keywords are tried
        raise
    except BaseException as error:  # a driver may raise SystemExit
        if isinstance(error, AssertionError) and is_robotics(env_id):
            raise InputError(f"{env_id} can't be made: {NEEDS}") from error
        raise raised(f"{env_id} can't be made: it", error) from error
    return env


def _unshared(value: Any) -> Any:
    """Dicts and lists are copied, at any depth: an environment may empty those that it is given, and the next one gets
    the same. Anything else stays what it is, such as a simulator's client."""
    if type(value) is dict:
        return {name: _unshared(part) for name, part in value.items()}
    return [_unshared(part) for part in value] if type(value) is list else value


class Cut(gym.wrappers.TimeLimit):
    """A time limit for environments that have none, in which a good policy might never end."""

    _said: ClassVar[set[str]] = set()  # environments that were announced; once is enough

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
    """BipedalWalker with a new physics world in every episode, as in LunarLander since gymnasium#728. A used world
    keeps traces of earlier episodes, so seed and actions alone would not determine what happens."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        walker: Any = self.unwrapped
        walker._destroy()
        walker.world = type(walker.world)()
        return super().reset(seed=seed, options=options)


_OBS_UNTOUCHED: tuple[type[gym.Wrapper[Any, Any, Any, Any]], ...] = (
    gym.Wrapper,
    gym.ActionWrapper,
    gym.RewardWrapper,
    gym.wrappers.HumanRendering,
    gym.wrappers.NormalizeReward,
    gym.wrappers.OrderEnforcing,
    gym.wrappers.PassiveEnvChecker,
    gym.wrappers.RecordEpisodeStatistics,
    gym.wrappers.RecordVideo,
    gym.wrappers.RenderCollection,
    gym.wrappers.StickyAction,
    gym.wrappers.TimeLimit,
    Cut,
    FreshWorld,
    RobotWorlds,
)
"""Wrappers that return the observations of the environment below as they are. Their subclasses may not."""


def stacked_frames(env: Env) -> int:
    """The number of frames stacked in an observation; 1 if it is not a stack, or if a wrapper above the stack isn't
    known to leave observations as they are."""
    steps, resets = {each.step for each in _OBS_UNTOUCHED}, {each.reset for each in _OBS_UNTOUCHED}
    while isinstance(env, gym.Wrapper) and type(env).step in steps and type(env).reset in resets:
        env = env.env
    # Stacks of a Dict have no shape, and those of single numbers no frames.
    if type(env) is not gym.wrappers.FrameStackObservation or len(env.observation_space.shape or ()) < 2:
        return 1
    return int(env.stack_size)


def check_id(env_id: object) -> None:
    """Raise InputError for what is no id, such as an environment."""
    if not isinstance(env_id, str):
        raise InputError(
            f"an environment is named by its id, got a {type(env_id).__name__}: gym.register gives one of yours an id"
        )


def resolve_env_id(env_id: str) -> str:
    """The registered id for `env_id`; a version that was removed is replaced by the newest one, with a notice.

    Raises InputError for an unknown id, naming the nearest known one, for `module:Env-v0` if the user did not type the
    module and the environment isn't registered yet (see `imitate.envs.trust`), and for shimmy's ids of the old gym.
    """
    check_id(env_id)
    if bare_id(env_id) in _OLD_GYM:
        raise InputError(
            f"{env_id} imports the module that its keywords name, which may be a file's: register the environment in a "
            "module of yours, and give --env MODULE:ENV"
        )
    if "NoFrameskip" in env_id or env_id.startswith("ALE/"):
        import ale_py

        gym.register_envs(ale_py)
    if ":" in env_id:
        module, _, name = env_id.rpartition(":")
        import_env(env_id)
        try:
            return f"{module}:{resolve_env_id(name)}"
        except InputError as error:
            near = did_you_mean(name, gym.registry)
            raise InputError(f"{module} registers no environment {name!r}{near}") from error
    if env_id not in gym.registry:
        load_plugins()
    if env_id in gym.registry and not _only_raises(env_id):
        return env_id
    base, _, version = env_id.rpartition("-v")
    newer = [
        spec
        for spec in gym.registry.values()
        if version.isdecimal() and spec.id.startswith(f"{base}-v") and (spec.version or 0) > int(version)
    ]
    if not newer:
        wanted = remedy(env_id) or (
            f"{did_you_mean(env_id, gym.registry)}: `imitate envs` lists those here, and "
            "MODULE:ENV imports the module that registers one of yours"
        )
        raise InputError(f"unknown environment {env_id!r}{wanted}")
    newest = max(newer, key=lambda spec: spec.version or 0).id
    logger.warning("%s is not in gymnasium %s any more: using %s", env_id, gym.__version__, newest)
    return newest


def is_installed(env_id: str) -> bool:
    """True if the environment is known here, under this id or a newer version's."""
    try:
        resolve_env_id(env_id)
    except InputError:
        return False
    return True


def _is_walker(env: Env) -> bool:
    """True for BipedalWalker and classes derived from it; asked without importing Box2D, which may be missing."""
    return any(
        each.__module__ == "gymnasium.envs.box2d.bipedal_walker" for each in type(env.unwrapped).__mro__
    )


def is_mujoco(env_id: str) -> bool:
    """True if the id is one of gymnasium's MuJoCo tasks."""
    spec = gym.registry.get(env_id)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.envs.mujoco")


@cache
def _log_mujocos_warnings() -> None:
    """Log each warning once. MuJoCo itself prints them for every environment and writes MUJOCO_LOG.TXT."""
    with suppress(ImportError):  # gymnasium says how to install it
        import mujoco

        mujoco.set_mju_user_warning(_log_once)


@cache
def _log_once(warning: str) -> None:
    # The deprecation concerns gymnasium's own model files.
    logger.log(logging.INFO if "deprecated" in warning else logging.WARNING, "MuJoCo: %s", warning)


def _only_raises(env_id: str) -> bool:
    """True if the id is registered only to report its removal, as MuJoCo's v2 and v3 are, or if it needs mujoco-py."""
    removed = getattr(gym.spec(env_id).entry_point, "__name__", "") == "_raise_mujoco_py_error"
    return removed or needs_mujoco_py(env_id)


@cache
def load_plugins() -> None:
    """Register the environments of installed packages, including ours, by importing their entry points
    `gymnasium.envs`; Gymnasium did this itself until 1.0. Two packages without entry points are imported too."""
    loads = {each.value: each.load for each in metadata.entry_points(group="gymnasium.envs")}
    others = (
        name for name in ("gymnasium_robotics", "pybullet_envs_gymnasium") if find_spec(name) is not None
    )
    loads |= {name: partial(import_module, name) for name in others}
    for name, load in loads.items():
        try:
            plugin = load()
            if callable(plugin):
                plugin()
        except Exception as error:  # a foreign package, which we can do without
            logger.warning("environments of %s can't be registered: %s", name, one_line(error))
