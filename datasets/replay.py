"""Replays recorded actions, to check that the environment still behaves as it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.answers import Checked
from imitate.envs.fields import Array
from imitate.envs.make import Env, make_env
from imitate.envs.spaces import kind
from imitate.errors import InputError

__all__ = ["Difference", "again", "first_difference", "replay"]


@dataclass(frozen=True)
class Difference:
    """The first difference of a replayed episode from its recording.

    step   number of the action after which it differs; -1: at the reset
    what   "obs", "reward", "terminated", "truncated"
    most   the largest difference of a number; NaN if shapes differ
    """

    episode: int
    step: int
    what: str
    most: float

    def __str__(self) -> str:
        where = "at its reset" if self.step < 0 else f"after the action of step {self.step}"
        return f"episode {self.episode}: {self.what} differs {where}, by {self.most:.3g}"


def replay(
    reader: DemoReader, episodes: range | None = None, env_id: str | None = None
) -> Iterator[Difference | None]:
    """The first difference of each episode, or None. `env_id` is the recording's by default, and names its module if a
    module registers it.

    Raises InputError if the environment is not installed or has other spaces, or if an episode has no seed.
    """
    info = reader.info
    env_id = env_id or info.env_id
    check_env(env_id, info.env_kwargs)
    with closing(Checked(make_env(env_id, info.env_kwargs))) as env:
        for space in ("observation_space", "action_space"):
            has, wanted = kind(getattr(info, space)), kind(getattr(env, space))
            if has != wanted:
                raise InputError(
                    f"the recording's {space} is {has}, that of {env_id} is {wanted}: replay the recording that "
                    "it was converted from, or record it again"
                )
        for number in range(len(reader)) if episodes is None else episodes:
            yield first_difference(env, reader, number)


def first_difference(env: Env, reader: DemoReader, number: int) -> Difference | None:
    """The first difference of one episode, compared to the last bit. Raises InputError if the episode's seed is
    unknown.

    A file that is not a collection may hold episodes that were cut. There it is no difference if the environment goes
    on after the last step of a truncated episode.
    """
    may_be_cut = reader.info.seed is None
    steps = zip(again(env, reader, number), _recorded(reader, number), strict=True)
    for step, (now, was) in enumerate(steps, start=-1):
        for what, one, other in zip(("obs", "reward", "terminated", "truncated"), now, was, strict=True):
            a, b = np.asarray(one), np.asarray(other)
            cut = what == "truncated" and was[3] and may_be_cut
            if not (cut or np.array_equal(a, b)):
                return Difference(number, step, what, _most(a, b))
    return None


def again(env: Env, reader: DemoReader, number: int) -> Iterator[tuple[Any, np.float32, bool, bool]]:
    """Yield observation, reward and flags, as they are recorded, after the reset and after each recorded action. Raises
    InputError if actions or seed are unknown."""
    if not reader.info.has_actions:
        raise InputError("the actions of these demonstrations are unknown: they can't be taken again")
    seed = int(reader.table["seed"][number])
    if seed < 0:
        raise InputError(f"episode {number} has no seed, so its beginning is not known: it can't be replayed")
    dtype = reader.info.observation_space.dtype
    yield np.asarray(env.reset(seed=seed)[0], dtype), np.float32(0), False, False
    for action in chain.from_iterable(piece.actions for piece in reader.pieces(number)):
        obs, reward, terminated, truncated, _ = env.step(action)
        yield np.asarray(obs, dtype), np.float32(reward), bool(terminated), bool(truncated)


def _recorded(reader: DemoReader, number: int) -> Iterator[tuple[Any, np.float32, bool, bool]]:
    left = int(reader.table["length"][number])
    for piece in reader.pieces(number):
        if left == reader.table["length"][number]:
            yield piece.obs[0], np.float32(0), False, False
        for obs, reward in zip(piece.obs[1:], piece.rewards, strict=True):
            left -= 1
            yield obs, reward, piece.terminated and not left, piece.truncated and not left


def _most(a: Array, b: Array) -> float:
    if a.dtype.names is not None:
        return max(_most(a[name], b[name]) for name in a.dtype.names)
    return float(np.abs(a.astype(np.float64) - b).max()) if a.shape == b.shape else np.nan
