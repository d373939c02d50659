"""Collecting demonstrations, as `imitate collect` does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from gymnasium.spaces import Box
from tqdm import tqdm

from imitate.datasets import play
from imitate.datasets.asking import Askable, acting
from imitate.datasets.noise import ActionNoise
from imitate.datasets.storage.fit import outside
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.savepoint import go_on
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.seeds import episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.trust import bare_id
from imitate.envs.vec import VecEnv, check_envs
from imitate.errors import Fault, InputError

__all__ = ["OnFailure", "check_same", "collect", "is_complete"]

logger = logging.getLogger(__name__)

OnFailure = Literal["stop", "skip"]

_MOST_IN_A_ROW = 20  # failures of each environment; with more, the cause is not single episodes

_SAME_WHEN_RESUMED = (
    "env_id",
    "env_kwargs",
    "observation_space",
    "action_space",
    "expert_sha256",
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
    environment and policy are deterministic (Box2D keeps state across resets, and the last bit of an action may depend
    on the batch size).

    Raises InputError if `out` exists and `resume` is not set, if it was collected with other settings, and if the disk
    is full; a `Fault` if the policy or the environment fails, or with `skip` if 20 episodes
    of each environment in a row fail, or all of them.
    """
    check_envs(envs)
    if on_failure not in get_args(OnFailure):
        raise InputError(f"on_failure must be stop or skip, got {on_failure!r}")
    info = info if seed is None else replace(info, seed=seed)
    first = _first_seed(info, episodes, steps)
    out = Path(out)
    resume = resume and out.exists()
    if resume:
        go_on(out)
        if is_complete(out, info, episodes=episodes, steps=steps, shard=shard):
            return DemoReader(out)
    episodes, steps = _part(episodes, steps, shard)
    labelled = expert is not None or bool(info.noise)
    noise = ActionNoise(info.noise, info.action_space, envs.num_envs) if info.noise else None
    writer = DemoWriter.resume(out) if resume else DemoWriter(out, info, expert_actions=labelled)
    over = Counter[int](writer.failed_seeds)

    def begin() -> Iterator[Trajectory]:
        watched = _Watched(policy, envs, writer)
        seeds = _without(islice(episode_seeds(first, *shard), episodes), over)
        return play.episodes(
            watched,
            envs,
            seeds if steps is None else watched.until(steps, seeds),
            deterministic=info.deterministic,
            expert=expert,
            noise=noise,
            frame_stack=info.frame_stack,
        )

    skipped: list[Fault] = []

    def skip(seed: int, fault: Fault) -> None:
        writer.fail(seed)
        over[seed] += 1
        skipped.append(fault)

    def recorded() -> int:
        return len(writer) if steps is None else writer.num_steps

    unit = "episodes" if steps is None else "steps"
    with writer, tqdm(total=steps or episodes, unit=unit, disable=not progress, dynamic_ncols=True) as bar:
        bar.update(recorded())
        over.update(writer.reader().table["seed"].tolist())
        most = _MOST_IN_A_ROW * envs.num_envs  # all begin again after a failure
        strays = False
        for trajectory in begin() if on_failure == "stop" else _skipping(begin, skip, most):
            writer.append(trajectory)  # which checks that it fits `info`
            strays = strays or _warn_if_it_strays(trajectory, info)
            over[int(trajectory.info["seed"])] += 1
            bar.update(recorded() - bar.n)
            if report is not None:
                report(recorded())
        if skipped and not len(writer):
            raise Fault(f"all {len(skipped)} episodes failed; the last time {skipped[-1]}") from skipped[-1]
    return DemoReader(out)


def _warn_if_it_strays(episode: Trajectory, info: DemoInfo) -> bool:
    """Warn if an observation of the episode leaves the bounds of its Box; returns whether one does."""
    space = info.observation_space
    if not isinstance(space, Box) or space.dtype.kind != "f" or not outside(space, episode.obs).any():
        return False
    logger.warning(
        "%s gives observations outside its observation_space, as in the episode with seed %d: they are recorded as "
        "they are",
        info.env_id,
        episode.info["seed"],
    )
    return True


def _first_seed(info: DemoInfo, episodes: int | None, steps: int | None) -> int:
    """The seed of `info`. Raises InputError unless it has one, and either `episodes` or `steps` is given."""
    amounts = [amount for amount in (episodes, steps) if amount is not None]
    if len(amounts) != 1 or amounts[0] < 1 or info.seed is None:
        raise InputError(
            f"wanted a seed and a number of episodes or of steps, got {info.seed, episodes, steps}"
        )
    return info.seed


def _skipping(
    begin: Callable[[], Iterator[Trajectory]], skip: Callable[[int, Fault], None], most: int
) -> Iterator[Trajectory]:
    """The trajectories of `begin()`. If an episode fails, `skip` gets its seed, and `begin` is called again.

    Raises a `Fault` that belongs to no episode, and one if `most` episodes in a row fail.
    """
    in_a_row = 0
    while True:
        try:
            for trajectory in begin():
                in_a_row = 0
                yield trajectory
            return
        except Fault as fault:
            in_a_row += 1
            if fault.seed is None:
                raise
            if in_a_row >= most:
                raise Fault(f"{in_a_row} episodes in a row failed; the last time {fault}") from fault
            logger.warning("%s: it is skipped", fault)
            skip(fault.seed, fault)


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


class _Watched:
    """The policy, wrapped to count steps and to flush the file while episodes, which may take minutes, are running."""

    def __init__(self, policy: Askable, envs: VecEnv, writer: DemoWriter) -> None:
        self._act = acting(policy)  # which gives a user's code copies, and not what is recorded
        self.source: str = getattr(policy, "source", "")  # names it in messages
        self.action_space = getattr(policy, "action_space", envs.single_action_space)
        self.observation_space = getattr(policy, "observation_space", envs.single_observation_space)
        self._envs = envs
        self._writer = writer
        self._steps = writer.num_steps  # recorded, or in unfinished episodes

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        self._steps += int(np.count_nonzero(self._envs.running))
        self._writer.flush_due()
        actions: Array = self._act(obs, deterministic)
        return actions

    def until(self, steps: int, seeds: Iterable[int]) -> Iterator[int]:
        """Seeds while fewer than `steps` steps are recorded or in unfinished episodes.

        Every episode that was begun is played to its end and recorded. The decision to begin another depends only on
        the past, so by Wald's identity means over episodes are unbiased; cutting at `steps` would lose long episodes.
        """
        for seed in seeds:
            if self._steps >= steps:
                return
            yield seed


def _without(seeds: Iterable[int], recorded: Counter[int]) -> Iterator[int]:
    """The seeds without the recorded ones, each removed as often as it was recorded (31-bit seeds can repeat)."""
    left = recorded.copy()
    for seed in seeds:
        if left[seed]:
            left[seed] -= 1
        else:
            yield seed


def check_same(out: Path, old: DemoInfo, new: DemoInfo) -> None:
    """Raise InputError unless a file with `old` can be resumed with the settings `new`."""
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
