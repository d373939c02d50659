"""What a run is given, checked against its environment before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from gymnasium.spaces import Discrete

from imitate.datasets.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.trust import bare_id
from imitate.errors import InputError
from imitate.experts import Expert
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy

__all__ = ["check_demos", "check_expert", "check_widths", "initial_policy"]


def check_demos(demos: DemoReader, env_id: str) -> None:
    """Raise InputError unless the demonstrations are of this environment, and of the spaces it has today."""
    if bare_id(demos.info.env_id) != bare_id(env_id):
        raise InputError(
            f"the demonstrations are of {demos.info.env_id}, not of {env_id}; record some with `imitate collect`"
        )
    with closing(make_env(env_id, demos.info.env_kwargs)) as env:
        for name in ("observation_space", "action_space"):
            recorded, now = getattr(demos.info, name), getattr(env, name)
            if recorded != now:
                raise InputError(
                    f"the demonstrations' {name} is {recorded}, that of {env_id} is {now}; record them again"
                )


def check_expert(actor: Expert | ActorPolicy, name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError unless the expert (or policy) takes the environment's observations and gives its actions."""
    with closing(make_env(env_id, env_kwargs)) as env:
        for space in ("observation_space", "action_space"):
            has, wanted = _shape(getattr(actor, space)), _shape(getattr(env, space))
            if has != wanted:
                raise InputError(f"{name} has {space} {has}, that of {env_id} is {wanted}; choose another")


def initial_policy(run: str, env_id: str, env_kwargs: Mapping[str, Any]) -> ActorPolicy:
    """The policy of a run, to start from. Raises InputError where it is of other spaces than the environment's."""
    policy = load_policy(run)
    with closing(make_env(env_id, env_kwargs)) as env:
        if (policy.observation_space, policy.action_space) != (env.observation_space, env.action_space):
            raise InputError(f"the policy of {run} has other spaces than {env_id}; start from another run")
    return policy.train()


def check_widths(run: str, hyperparameters: Mapping[str, Any]) -> None:
    """Raise InputError where these hyperparameters ask for another network than that of the run to start from."""
    has = load_policy(run).architecture
    for name in ("hidden", "activation", "head"):
        wanted = hyperparameters.get(name)
        wanted = list(wanted) if isinstance(wanted, tuple) else wanted
        if wanted is not None and wanted != has[name]:
            raise InputError(
                f"--{name} {wanted}, but the policy of {run} has {name} {has[name]}: leave it out, or start anew"
            )


def _shape(space: Any) -> str:
    return (
        str(space) if isinstance(space, Discrete) else f"{type(space).__name__}{space.shape} of {space.dtype}"
    )
