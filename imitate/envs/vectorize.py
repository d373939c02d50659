"""`make_vec`: vector environments on any backend, all with the interface `VecEnv`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal, get_args

from imitate.envs.atari import is_atari
from imitate.envs.backends import ale, envpool
from imitate.envs.backends.pool import PoolVecEnv
from imitate.envs.backends.processes import ProcessPool
from imitate.envs.make import Env, make_env, resolve_env_id
from imitate.envs.trust import trust, trusted
from imitate.envs.vec import MOST_ENVS, SyncVecEnv, VecEnv
from imitate.errors import InputError, check_whole, did_you_mean, pip_install

__all__ = ["BACKENDS", "Backend", "make_vec", "resolve_backend"]

Backend = Literal["auto", "gymnasium", "async", "envpool", "ale"]
BACKENDS: tuple[str, ...] = get_args(Backend)


def make_vec(
    env_id: str,
    num_envs: int,
    *,
    backend: str = "auto",
    env_kwargs: Mapping[str, Any] | None = None,
    episodic_life: bool = False,
    clip_rewards: bool = False,
) -> VecEnv:
    """Make N environments with the interface `VecEnv`.

    backend        gymnasium: in this process, one after the other; any environment, each episode with its own seed
                   async: the same bytes, one process per environment; faster if a step takes milliseconds
                   envpool: C++, for gymnasium environments that EnvPool also has; needs the extra `envpool`
                   ale: C++, for Atari games
                   auto: ale for Atari, if it takes env_kwargs; envpool for other environments that it has, if it is
                   installed and env_kwargs are empty; else gymnasium
    episodic_life  Atari on ale, for training: the loss of a life is `terminated`, and the game goes on
    clip_rewards   Atari on ale, for training: rewards are replaced by their sign

    Raises InputError for an unknown environment or backend, or if the two do not go together.
    """
    env_id = resolve_env_id(env_id)
    backend = resolve_backend(backend, env_id, env_kwargs)
    check_whole(num_envs=num_envs)
    if not 1 <= num_envs <= MOST_ENVS:
        raise InputError(f"num_envs must be in [1, {MOST_ENVS}], got {num_envs}")
    if backend == "ale":
        games = PoolVecEnv(ale.AlePool(env_id, num_envs, env_kwargs))
        if episodic_life or clip_rewards:
            return ale.TrainingGames(games, episodic_life=episodic_life, clip_rewards=clip_rewards)
        return games
    if episodic_life or clip_rewards:
        raise InputError(
            f"episodic_life and clip_rewards are for Atari on backend ale, not for {env_id} on {backend}; "
            "train with --no-episodic-life --no-clip-rewards"
        )
    if backend == "envpool":
        return PoolVecEnv(envpool.EnvPool(env_id, num_envs))
    if backend == "async":
        return PoolVecEnv(ProcessPool([partial(_make_elsewhere, trusted(), env_id, env_kwargs)] * num_envs))
    return SyncVecEnv([partial(make_env, env_id, env_kwargs)] * num_envs)


def _make_elsewhere(names: Iterable[str], env_id: str, env_kwargs: Mapping[str, Any] | None) -> Env:
    """`make_env` in another process, which trusts the same names as this one."""
    trust(*names)
    return make_env(env_id, env_kwargs)


def resolve_backend(backend: str, env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> str:
    """The backend that `auto` stands for here, or the backend itself. Raises InputError if it lacks the environment."""
    if backend not in BACKENDS:
        raise InputError(
            f"unknown backend {backend!r}{did_you_mean(backend, BACKENDS)}; known: {', '.join(BACKENDS)}"
        )
    env_id = resolve_env_id(env_id)
    if backend == "auto":
        if is_atari(env_id):
            return "ale" if ale.takes(env_kwargs) else "gymnasium"
        return "envpool" if not env_kwargs and envpool.knows(env_id) else "gymnasium"
    if backend == "ale" and not is_atari(env_id):
        raise InputError(f"backend ale is for Atari, not for {env_id}; use auto, gymnasium, async or envpool")
    if backend == "envpool":
        if not envpool.installed():
            raise InputError(f"backend envpool: EnvPool is not installed; {pip_install('envpool')}")
        if env_kwargs:
            raise InputError(f"backend envpool takes no env_kwargs, got {dict(env_kwargs)}; use gymnasium")
        if not envpool.knows(env_id):
            raise InputError(f"EnvPool has no {env_id}, or another one than gymnasium's; use gymnasium")
    return backend
