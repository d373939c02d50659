"""Derives named streams of seeds from one seed; the streams never share an episode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from enum import IntEnum
from numbers import Integral

import numpy as np

from imitate.errors import InputError

__all__ = ["TEST_SEED", "Stream", "check_seed", "draw_seed", "episode_seed", "episode_seeds"]

TEST_SEED = 20_000
"""Seed of the test episodes, the same for every policy. `draw_seed` practically never returns so small a number."""


class Stream(IntEnum):
    """Purposes of a run's seeds. The values are unlikely to be chosen as seeds by a user."""

    VALIDATION = 0x9E3779B1
    CURVES = 0x85EBCA77
    DEMONSTRATIONS = 0xC2B2AE3D
    CRITIC_CHECK = 0x27D4EB2F
    LOOKS = 0x165667B1
    VERDICT = 0xD3A2646C
    FILMS = 0xFD7046C5


def draw_seed(*entropy: int) -> int:
    """A 63-bit seed of these numbers, such as `draw_seed(Stream.VALIDATION, seed)`.

    Zeros at the end don't count: (5,) and (5, 0) give one seed. Raises InputError for what is no seed.
    """
    for number in entropy:
        check_seed(number)
    return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))


def check_seed(seed: object) -> None:
    """Raise InputError for a seed that NumPy's and torch's generators don't accept."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 1 << 64:
        raise InputError(f"a seed must be a whole number from 0 to 2**64 - 1, got {seed!r}")


def episode_seed(seed: object) -> int:
    """The seed of an episode as an int. Raises InputError unless it is a whole number below 2**63."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 1 << 63:
        raise InputError(f"the seed of an episode must be a whole number from 0 to 2**63 - 1, got {seed!r}")
    return int(seed)


def episode_seeds(seed: int, start: int = 0, stride: int = 1) -> Iterator[int]:
    """Endless 31-bit seeds, one per episode: numbers start, start + stride, start + 2 * stride ...

    The n-th depends on `seed` and n alone, so any episode can be repeated on its own.
    """
    check_seed(seed)
    for n in itertools.count(start, stride):
        yield int(np.random.SeedSequence((seed, n)).generate_state(1)[0] >> 1)
