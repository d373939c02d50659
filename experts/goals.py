"""Agents of Hindsight Experience Replay (arXiv:1707.01495) from SB3 before 1.1, on today's Dict observations."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

__all__ = ["SEEN", "seen_of_goals"]

SEEN = ("observation", "desired_goal")
"""What such a policy saw of a goal environment, in one array and in this order."""


def seen_of_goals(
    trained: spaces.Space[Any], env: spaces.Space[Any] | None
) -> tuple[spaces.Space[Any], bool]:
    """The space of a policy's inputs, and whether they are parts of the environment's observation.

    For a policy of one array on a goal environment these are the parts that it saw of the Dict; else its own space.
    """
    if not isinstance(trained, spaces.Box) or not isinstance(env, spaces.Dict) or not set(SEEN) <= set(env):
        return trained, False
    parts = [(name, env[name]) for name in SEEN]
    if any(not isinstance(part, spaces.Box) for _, part in parts):
        return trained, False
    seen = spaces.Dict(parts)
    return (seen, True) if trained.shape == (spaces.flatdim(seen),) else (trained, False)
