"""Places an SB3 agent in its environment, as that is registered today."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gymnasium import spaces
from torch import Tensor

from imitate.datasets.storage.contain import check_env
from imitate.envs.answers import spaces_of
from imitate.envs.make import resolve_env_id
from imitate.errors import InputError, one_line
from imitate.experts.sb3.goals import seen_of_goals
from imitate.experts.sb3.layers import ONE, ZERO
from imitate.experts.sb3.mujoco import Inputs, on_v5
from imitate.experts.sb3.networks import PolicySpec
from imitate.experts.sb3.vecnormalize import Normalisation
from imitate.experts.sb3.zoo_options import wrappers_of
from imitate.experts.sources import Found

__all__ = [
    "Agent",
    "Asked",
    "Place",
    "Spaces",
    "differences_of",
    "place_agent",
    "spaces_here",
    "trained_spaces",
]

logger = logging.getLogger(__name__)

Spaces = tuple[spaces.Space[Any], spaces.Space[Any]]


@dataclass(frozen=True)
class Agent:
    """An SB3 agent as data, from a zip or from a folder that a zip was converted to.

    observation_space, action_space   as stored; None if a zip's pickles hold something else
    spec            makes the PolicySpec for an observation space, an action space and columns
    normalisation   reads the statistics, if there are any, for the keys of Dict observations
    normalised_by   the file of the statistics; empty if there is none
    was_normalised  a zip says that it was trained under VecNormalize
    """

    sha256: str
    observation_space: spaces.Space[Any] | None
    action_space: spaces.Space[Any] | None
    tensors: Mapping[str, Tensor]
    gamma: float | None
    spec: Callable[[spaces.Space[Any], spaces.Space[Any], tuple[int, ...] | None], PolicySpec]
    normalisation: Callable[[Sequence[str]], Normalisation | None]
    normalised_by: str
    was_normalised: bool = False


@dataclass(frozen=True)
class Asked:
    """The arguments of `load_expert`."""

    spec: str
    env_id: str | None
    env_kwargs: Mapping[str, Any] | None
    vecnormalize: str | None


@dataclass(frozen=True)
class Place:
    """An agent's environment today, and how the agent observes it.

    env       the environment's spaces; None if the agent can't be run here, for this `reason`
    adapted   the spaces that the environment must have for this agent
    trained   the spaces that its networks were made for
    keys      the names of its observations in the archive, if these are a Dict
    columns   the sources of its inputs; None: observations as they are
    current   today's id of the environment that it was trained on
    """

    env_id: str
    env_kwargs: dict[str, Any]
    env: Spaces | None
    reason: str
    adapted: Spaces
    trained: Spaces
    keys: list[str]
    columns: tuple[int, ...] | None
    current: str


def place_agent(agent: Agent, found: Found, asked: Asked, *, time_feature: bool) -> Place:
    """Find the agent's environment. Raises InputError if the agent is for another one."""
    stored_id = asked.env_id or found.env_id or ""
    trained_id = found.env_id or stored_id
    current, inputs = on_v5(trained_id, _observed(agent, time_feature))
    env_id = asked.env_id or current
    at_home = env_id == current
    env_kwargs = {**(inputs.env_kwargs if inputs and at_home else {}), **found.env_kwargs}
    if asked.env_kwargs is not None:
        env_kwargs = dict(asked.env_kwargs)
    typed = asked.env_kwargs is not None or not found.env_kwargs
    env_id, env, reason = spaces_here(env_id, env_kwargs, typed=typed)
    at_home = env_id == current
    trained = trained_spaces(agent, env, asked.spec, env_id)
    keys = list(trained[0].spaces) if isinstance(trained[0], spaces.Dict) else []
    time = "" if not time_feature else "counted" if env_kwargs.get("time_feature") else "held"
    columns, adapted = _inputs(inputs if at_home else None, trained, env, time)
    if env is not None and (seen := seen_of_goals(trained[0], env[0])) is not None:
        trained, adapted = (seen, trained[1]), (env[0], trained[1])
    if at_home and current != trained_id:
        logger.warning(
            "%s was trained on %s and runs on %s%s", asked.spec, trained_id, current, _said(columns)
        )
    if env is not None and (differences := differences_of(adapted, env)):
        env, reason = None, _why_unlike(found, asked, stored_id, env_id, differences)
    return Place(env_id, env_kwargs, env, reason, adapted, trained, keys, columns, current)


def _why_unlike(found: Found, asked: Asked, stored_id: str, env_id: str, differences: str) -> str:
    """The cause of the differences between an agent and its environment. Raises InputError if there is none."""
    wrapped = wrappers_of(found.config)
    if not wrapped and stored_id == env_id:
        raise InputError(f"{asked.spec} is not for {env_id}: {differences}")
    cause = f"it was trained with {', '.join(wrapped)}" if wrapped else f"{env_id} is not like {stored_id}"
    return f"{cause}: {differences}"


def spaces_here(
    env_id: str, env_kwargs: Mapping[str, Any], *, typed: bool = False
) -> tuple[str, Spaces | None, str]:
    """The registered id and the environment's spaces; if it can't be made here, None for the spaces and the reason.

    typed   whether the user chose the keywords; those from a file are tried in a child process first
    """
    try:
        env_id = resolve_env_id(env_id)
        if not typed:
            check_env(env_id, env_kwargs)
        return env_id, spaces_of(env_id, env_kwargs), ""
    except Exception as error:  # a foreign environment, with keywords from a file
        return env_id, None, one_line(error)[:300]


def trained_spaces(agent: Agent, env: Spaces | None, source: str, env_id: str) -> Spaces:
    """The spaces that are stored with the agent, or the environment's where they are unreadable."""
    stored = [agent.observation_space, agent.action_space]
    observations, actions = stored if env is None else (stored[0] or env[0], stored[1] or env[1])
    if observations is None or actions is None:
        raise InputError(
            f"the spaces in {source} are unreadable as data, and {env_id} is not here to tell them"
        )
    return observations, actions


def _observed(agent: Agent, time_feature: bool) -> int | None:
    """The number of values that the policy observes besides the remaining time; None if it is unknown or not a flat
    Box."""
    space = agent.observation_space
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        return None
    return int(space.shape[0]) - time_feature


def _inputs(
    inputs: Inputs | None, trained: Spaces, env: Spaces | None, time: str
) -> tuple[tuple[int, ...] | None, Spaces]:
    """The sources of the policy's inputs (None: observations as they are), and the spaces the environment must have.

    `time` is "counted", "held" (at 1), or "" if the policy does not observe it.
    """
    if inputs is not None and env is not None and isinstance(env[0], spaces.Box) and len(env[0].shape) == 1:
        columns = inputs.among(env[0].shape[0], time=time)
        if columns is not None:
            return columns, (env[0], trained[1])
    if time == "held":
        return (*range(spaces.flatdim(trained[0]) - 1), ONE), _without_time_feature(trained)
    return None, trained


def _said(columns: tuple[int, ...] | None) -> str:
    zeros = 0 if columns is None else columns.count(ZERO)
    return f", where {zeros} of its {len(columns or ())} inputs are 0" if zeros else ""


def _without_time_feature(trained: Spaces) -> Spaces:
    space, actions = trained
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return spaces.Box(space.low[:-1], space.high[:-1], dtype=space.low.dtype.type), actions
    return trained


def _alike(trained: spaces.Space[Any], env: spaces.Space[Any]) -> bool:
    """True if kind and size are the same. Bounds may differ, since they changed between versions that are otherwise the
    same."""
    if isinstance(trained, spaces.Dict) and isinstance(env, spaces.Dict):
        return set(trained) == set(env) and all(_alike(part, env[name]) for name, part in trained.items())
    if isinstance(trained, spaces.Discrete) and isinstance(env, spaces.Discrete):
        return int(trained.n) == int(env.n)
    if isinstance(trained, spaces.Box) and isinstance(env, spaces.Box):
        channels_first = (*env.shape[2:], *env.shape[:2]) if len(env.shape) == 3 else env.shape
        return trained.shape in (env.shape, channels_first)
    return type(trained) is type(env) and trained.shape == env.shape


def differences_of(trained: Spaces, env: Spaces) -> str:
    """The differences of the spaces in words; empty if they are alike."""
    pairs = zip(("observes", "acts in"), trained, env, strict=True)
    return ", ".join(f"it {verb} {a}, not {b}" for verb, a, b in pairs if not _alike(a, b))
