"""Agents of Hindsight Experience Replay (arXiv:1707.01495) from SB3 before 1.1, on today's Dict observations."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

__all__ = ["seen_of_goals"]

_SEEN = ("observation", "desired_goal")  # in one array, in this order


def seen_of_goals(trained: spaces.Space[Any], env: spaces.Space[Any]) -> spaces.Dict | None:
    """The parts of a goal environment's observations that the policy saw as one array; None for any other policy or
    environment."""
    if not isinstance(trained, spaces.Box) or not isinstance(env, spaces.Dict) or not set(_SEEN) <= set(env):
        return None
    if any(not isinstance(env[name], spaces.Box) for name in _SEEN):
        return None
    seen = spaces.Dict([(name, env[name]) for name in _SEEN])
    return seen if trained.shape == (spaces.flatdim(seen),) else None
