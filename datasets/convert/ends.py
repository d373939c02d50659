"""Finds the ends of episodes in data with one row per step over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from imitate.envs.numbers import Array, all_finite
from imitate.errors import InputError

__all__ = ["Ends", "as_flags", "ends_of_flags"]


def as_flags(numbers: Array, name: str) -> Array:
    """Numbers (...) as flags, which are set if they are not 0. Raises InputError for NaN and infinity."""
    if not all_finite(numbers):
        raise InputError(
            f"{name} hold NaN or infinity, wanted 0 or 1 for each step: correct them, or drop the episode"
        )
    return numbers.astype(bool)


@dataclass(frozen=True)
class Ends:
    """Lengths (E,) of the episodes, and flags (E,) for how they ended."""

    lengths: Array
    terminated: Array
    truncated: Array

    def flags(self, number: int) -> tuple[bool, bool]:
        return bool(self.terminated[number]), bool(self.truncated[number])


def ends_of_flags(blocks: Iterable[tuple[Array, Array, Array]], most: int) -> Ends:
    """The ends of episodes, from blocks (n,) of three flags: terminated, truncated, and whether an episode ends.

    Steps after the last end form an episode too. Raises InputError if there are more than `most` episodes.
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
