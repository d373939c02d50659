"""Runs agents of MuJoCo's tasks v2 to v4 on v5, by mapping each number that they observed to its place today.

HalfCheetah, Hopper, Walker2d, Swimmer, Pusher and InvertedPendulum give the same observations in every version. In the
other tasks, v5 dropped the numbers that were always 0. Ant and Humanoid also observe contact forces. mujoco-py did not
compute them, so agents of v2 and v3 saw zeros, and they get zeros here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from imitate.envs.make import is_mujoco
from imitate.experts.sb3.layers import ONE, ZERO

__all__ = ["Inputs", "on_v5"]

_NO_CONTACT_FORCES = {"include_cfrc_ext_in_observation": False}


@dataclass(frozen=True)
class Inputs:
    """The sources of a policy's inputs.

    columns     for each input of the policy, a column of the environment's observation, or ZERO
    of          sizes of the observations that have these columns
    env_kwargs  keyword arguments of the environment that leave out what the policy did not observe
    """

    columns: tuple[int, ...]
    of: tuple[int, ...]
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def among(self, size: int, *, time: str = "") -> tuple[int, ...] | None:
        """The columns, for observations of `size` numbers; None if those don't have them.

        The remaining time is the last column (`counted`), ONE (`held`), or absent.
        """
        counted = time == "counted"
        if size - counted not in self.of:
            return None
        last = {"counted": (size - 1,), "held": (ONE,)}
        return (*self.columns, *last.get(time, ()))


def on_v5(env_id: str, observed: int | None) -> tuple[str, Inputs | None]:
    """The id under which an agent of `env_id` runs today, and the sources of its `observed` inputs there.

    The sources are None if the inputs are the observation itself, or if nothing is known about them.
    """
    match = re.fullmatch(r"(\w+)-v([2345])", env_id)
    if match is None or not is_mujoco(f"{match[1]}-v5"):
        return env_id, None
    task, version = match[1], int(match[2])
    return f"{task}-v5", _inputs(task, version, observed)


def _inputs(task: str, version: int, observed: int | None) -> Inputs | None:
    match task, observed:
        case "Ant", 27:  # v4 as it is by default, and any without contact forces
            return Inputs(_run(0, 27), (27, 105), _NO_CONTACT_FORCES)
        case "Ant", 111 if version < 4:
            return Inputs((*_run(0, 27), *_zeros(84)), (27, 105), _NO_CONTACT_FORCES)
        case "Ant", 111:  # v5 has no forces on the world's body
            return Inputs((*_run(0, 27), *_zeros(6), *_run(27, 105)), (105,))
        case "Humanoid" | "HumanoidStandup", 376:
            # Positions and velocities; inertias and velocities of the bodies (the world's are 0); forces of the
            # actuators (the root has none).
            moving = (*_run(0, 45), *_zeros(10), *_run(45, 175), *_zeros(6), *_run(175, 253), *_zeros(6))
            moving = (*moving, *_run(253, 270))
            if version < 4:
                return Inputs((*moving, *_zeros(84)), (270, 348), _NO_CONTACT_FORCES)
            return Inputs((*moving, *_zeros(6), *_run(270, 348)), (348,))
        case "Reacher", 11:
            return Inputs((*_run(0, 10), ZERO), (10,))
        case "InvertedDoublePendulum", 11:
            return Inputs((*_run(0, 9), *_zeros(2)), (9,))
    return None


def _run(start: int, stop: int) -> tuple[int, ...]:
    return tuple(range(start, stop))


def _zeros(count: int) -> tuple[int, ...]:
    return (ZERO,) * count
