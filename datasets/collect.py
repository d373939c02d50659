"""Collecting demonstrations, as `imitate collect` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from tqdm import tqdm

from imitate.datasets.asking import Askable
from imitate.datasets.session import Session
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.savepoint import go_on
from imitate.datasets.storage.schema import DemoInfo, info_from_plain, info_to_plain
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import episode_seeds
from imitate.envs.trust import bare_id
from imitate.envs.vec import VecEnv, check_envs
from imitate.errors import InputError

__all__ = ["OnFailure", "check_same", "collect", "is_complete"]

OnFailure = Literal["stop", "skip"]

_SAME_WHEN_RESUMED = (
    "env_id",
    "env_kwargs",
    "observation_space",
    "action_space",
    "expert_sha256",
    "normalisation_sha256",
    "deterministic",
    "noise",
    "seed",
    "frame_stack",
    "has_actions",
)


def collect(
    policy: Askable,
    envs: VecEnv,
    out: str | Path,
    info: DemoInfo,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    expert: Policy | None = None,
    shard: tuple[int, int] = (0, 1),
    resume: bool = False,
    on_failure: OnFailure = "stop",
    progress: bool = False,
    report: Callable[[int], None] | None = None,
) -> DemoReader:
    """Record episodes of `policy`, which may be a function of observations, in the file `out` and open it.

    info       how to play: seed, deterministic, noise, frame_stack; and whether to keep the actions
    episodes   record this many: numbers 0 .. episodes-1, where number n has the seed `episode_seeds(seed)[n]`
    steps      record at least this many, in whole episodes
    seed       by default that of `info`
    expert     labels the actions of another policy
    shard      (k, K): the k-th of K parts, which has the episodes k, k + K, k + 2K ... and a K-th of `steps`
    resume     if `out` exists, play only the episodes that it lacks
    on_failure   if the environment fails in an episode: stop with the `Fault`, or skip the episode, whose seed is then
               recorded as failed and not tried again
    progress   show a bar on standard error
    report     called with the number of episodes, or steps, that have been recorded

    If interrupted (Ctrl-C, a kill, a full disk), the file keeps every finished episode. A resumed collection with
    `episodes` ends up with the same seeds as an uninterrupted one. The episodes are also equal bit by bit if
    environment and policy are deterministic. (CarRacing keeps its physics world across resets, and the last bit of an
    action may depend on the batch size.)

    Raises InputError if `out` exists and `resume` is not set, if it was collected with other settings, and if the disk
    is full; a `Fault` if the policy or the environment fails, or with `skip` if 20 episodes of each environment in a
    row fail, or all of them.
    """
    check_envs(envs)
    if on_failure not in get_args(OnFailure):
        raise InputError(f"on_failure must be stop or skip, got {on_failure!r}")
    info = info if seed is None else replace(info, seed=seed)
    first = _first_seed(info, episodes, steps)
    out = Path(out)
    resume = resume and out.exists()
    labelled = info.has_actions and (expert is not None or bool(info.noise))
    if resume:
        go_on(out)
        if is_complete(out, info, episodes=episodes, steps=steps, shard=shard):
            return DemoReader(out)
        _check_labels(out, labelled)
    episodes, steps = _part(episodes, steps, shard)
    writer = DemoWriter.resume(out) if resume else DemoWriter(out, info, expert_actions=labelled)
    unit = "episodes" if steps is None else "steps"
    with writer, tqdm(total=steps or episodes, unit=unit, disable=not progress, dynamic_ncols=True) as bar:
        session = Session(
            policy,
            envs,
            writer,
            seeds=lambda: islice(episode_seeds(first, *shard), episodes),
            steps=steps,
            expert=expert,
        )
        bar.update(session.recorded)
        for trajectory in session.play() if on_failure == "stop" else session.play_skipping():
            session.record(trajectory)
            bar.update(session.recorded - bar.n)
            if report is not None:
                report(session.recorded)
    return DemoReader(out)


def _first_seed(info: DemoInfo, episodes: int | None, steps: int | None) -> int:
    """The seed of `info`. Raises InputError unless it has one, and either `episodes` or `steps` is given."""
    amounts = [amount for amount in (episodes, steps) if amount is not None]
    if len(amounts) != 1 or amounts[0] < 1 or info.seed is None:
        raise InputError(
            f"wanted a seed and a number of episodes or of steps, got {info.seed, episodes, steps}"
        )
    return info.seed


def is_complete(
    path: Path,
    info: DemoInfo,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    shard: tuple[int, int] = (0, 1),
) -> bool:
    """True if `collect` with these settings would add nothing to a file. Raises InputError if the file has other
    settings."""
    episodes, steps = _part(episodes, steps, shard)
    with DemoReader(path) as reader:
        check_same(path, reader.info, info)
        over = len(reader) + len(reader.failed_seeds)
        return over >= (episodes or np.inf) or reader.num_steps >= (steps or np.inf)


def _part(episodes: int | None, steps: int | None, shard: tuple[int, int]) -> tuple[int | None, int | None]:
    """The numbers of episodes and steps for one shard, from those for all shards.

    Raises InputError if there is no such shard, or no episode is left for it.
    """
    number, shards = shard
    if number not in range(shards):
        raise InputError(f"shard must be (k, K) with 0 <= k < K, got {shard}")
    if episodes is not None and number >= episodes:
        raise InputError(
            f"shard {number} of {shards} has none of {episodes} episodes, so there is nothing to record: take at most "
            f"{episodes} shards"
        )
    return (
        None if episodes is None else len(range(number, episodes, shards)),
        None if steps is None else -(-steps // shards),
    )


def _check_labels(out: Path, labelled: bool) -> None:
    """Raise InputError if the file has labels and this collection makes none, or the reverse."""
    with DemoReader(out) as reader:
        if reader.has_expert_actions != labelled:
            has, wanted = ("labels", "without") if reader.has_expert_actions else ("no labels", "with")
            raise InputError(
                f"{out} has {has}, and would go on {wanted} an expert that labels: resume as it began or choose "
                "another name"
            )


def check_same(out: Path, old: DemoInfo, new: DemoInfo) -> None:
    """Raise InputError unless a file with `old` can be resumed with the settings `new`."""
    new = info_from_plain(info_to_plain(new), out)  # as a file has it: a tuple in env_kwargs is a list
    for name in _SAME_WHEN_RESUMED:
        was, now = getattr(old, name), getattr(new, name)
        same = bare_id(was) == bare_id(now) if name == "env_id" else was == now
        if name == "expert_sha256" and not now:  # code of yours, a person, or random actions
            name, was, now = "expert", old.expert, new.expert
            same = was == now
        if not same:
            raise InputError(
                f"{out} has {name} {was!r}, not {now!r}: resume with the same or choose another name"
            )
