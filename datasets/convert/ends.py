"""The ends of episodes, in data that have a row a step over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["Ends", "ends_of_flags"]


@dataclass(frozen=True)
class Ends:
    """Of each episode (E,) how many steps it has and how it ended."""

    lengths: Array
    terminated: Array
    truncated: Array

    def flags(self, number: int) -> tuple[bool, bool]:
        return bool(self.terminated[number]), bool(self.truncated[number])


def ends_of_flags(blocks: Iterable[tuple[Array, Array, Array]], most: int) -> Ends:
    """The episodes of steps that come in blocks of terminated, truncated, and of whether an episode ends (n,).

    What follows the last end is an episode too. Raises InputError if there are more than `most`.
    """
    places, flags = [np.array([-1])], [np.zeros((2, 0), bool)]
    steps = count = 0
    final = np.zeros((2, 1), bool)
    for terminated, truncated, ending in blocks:
        at = np.flatnonzero(ending)
        count += len(at)
        if count > most:
            raise InputError(f"it claims {count} episodes or more, which a file of its size can't hold")
        places.append(at + steps)
        flags.append(np.stack([terminated[at], truncated[at]]))
        final = np.stack([terminated[-1:], truncated[-1:]])
        steps += len(ending)
    ends, both = np.concatenate(places), np.concatenate(flags, axis=1)
    if steps and ends[-1] != steps - 1:
        ends, both = np.append(ends, steps - 1), np.concatenate([both, final], axis=1)
    return Ends(np.diff(ends), both[0], both[1])
