"""Playing the episodes that a file of demonstrations lacks, and recording them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Box

from imitate.datasets import play
from imitate.datasets.asking import Askable, acting
from imitate.datasets.noise import ActionNoise
from imitate.datasets.storage.fit import outside
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import Fault

__all__ = ["Session"]

logger = logging.getLogger(__name__)

_MOST_IN_A_ROW = 20  # failures of each environment; with more, the cause is not single episodes


@dataclass
class Session:
    """Episodes of a policy that are played and recorded, until a number of them or of steps is reached.

    seeds    gives the seeds of all episodes, those in the file included
    steps    play on until so many steps are recorded, in whole episodes; None: until the seeds end
    expert   labels the actions of another policy
    """

    policy: Askable
    envs: VecEnv
    writer: DemoWriter
    seeds: Callable[[], Iterator[int]]
    steps: int | None
    expert: Policy | None

    def __post_init__(self) -> None:
        info, recorded = self.writer.info, self.writer.reader().table["seed"].tolist()
        self._noise = ActionNoise(info.noise, info.action_space, self.envs.num_envs) if info.noise else None
        self._over = Counter[int]((*recorded, *self.writer.failed_seeds))
        self._strays = False

    @property
    def recorded(self) -> int:
        """Episodes in the file, or steps if they are counted."""
        return len(self.writer) if self.steps is None else self.writer.num_steps

    def play(self) -> Iterator[Trajectory]:
        """The episodes that the file lacks. Raises a `Fault` if the policy or the environment fails."""
        info, watched = self.writer.info, _Watched(self.policy, self.envs, self.writer)
        seeds = _without(self.seeds(), self._over)
        return play.episodes(
            watched,
            self.envs,
            seeds if self.steps is None else watched.until(self.steps, seeds),
            deterministic=info.deterministic,
            expert=self.expert,
            noise=self._noise,
            frame_stack=info.frame_stack,
        )

    def play_skipping(self) -> Iterator[Trajectory]:
        """`play`, but an episode that fails is noted in the file, and the rest begin anew.

        Raises a `Fault` that belongs to no episode, and one if 20 episodes of each environment in a row fail, or all.
        """
        most = _MOST_IN_A_ROW * self.envs.num_envs  # all begin again after a failure
        skipped, in_a_row = list[Fault](), 0
        while True:
            try:
                for trajectory in self.play():
                    in_a_row = 0
                    yield trajectory
                break
            except Fault as fault:
                if fault.seed is None:
                    raise
                in_a_row += 1
                if in_a_row >= most:
                    raise Fault(f"{in_a_row} episodes in a row failed; the last time {fault}") from fault
                logger.warning("%s: it is skipped", fault)
                self.writer.fail(fault.seed)
                self._over[fault.seed] += 1
                skipped.append(fault)
        if skipped and not len(self.writer):
            raise Fault(f"all {len(skipped)} episodes failed; the last time {skipped[-1]}") from skipped[-1]

    def record(self, trajectory: Trajectory) -> None:
        """Append an episode to the file. Raises InputError if it doesn't fit what the file says of itself."""
        self.writer.append(trajectory)
        self._over[int(trajectory.info["seed"])] += 1
        self._strays = self._strays or self._warn_if_it_strays(trajectory)

    def _warn_if_it_strays(self, episode: Trajectory) -> bool:
        """Warn if an observation of the episode leaves the bounds of its Box; returns whether one does."""
        space = self.writer.info.observation_space
        if not isinstance(space, Box) or space.dtype.kind != "f" or not outside(space, episode.obs).any():
            return False
        logger.warning(
            "%s gives observations outside its observation_space, as in the episode with seed %d: they are recorded as "
            "they are",
            self.writer.info.env_id,
            episode.info["seed"],
        )
        return True


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

        Every episode that was begun is played to its end and recorded; cutting at `steps` would lose long episodes. The
        decision to begin another depends only on the past, so by Wald's identity the sum over episodes is expected to
        be the mean times the expected number of episodes. Long ones still end a collection earlier: for few episodes
        their share is a little too large.
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
