"""Lets policies play the episodes of a search: validation and test. Each is done once and kept on disk."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import Stream, draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.experts import Expert
from imitate.improvement.episodes import Played, play
from imitate.improvement.journal import Journal
from imitate.improvement.plan import MOST_CHOICE, MOST_TEST, MOST_VALIDATION, Plan
from imitate.improvement.snapshots import hand_over
from imitate.improvement.teacher import Watched
from imitate.nn.stored_policy import load_policy
from imitate.rl.paired import LEAST_PAIRS

__all__ = ["Study"]

logger = logging.getLogger(__name__)


class Study:
    """A search in the folder `out`: snapshots/ has the policies at the rungs, runs/ the learners' runs."""

    def __init__(self, journal: Journal, expert: Expert, out: Path) -> None:
        self.journal, self.expert, self.out = journal, expert, out
        self.task = journal.task

    def measure_expert(self, room: float = 0.0) -> Played:
        """Let the expert play three validation episodes, and in later calls as many as fit into `room` steps.

        The journal is only written by later calls, so that a budget that turns out too small leaves nothing behind.

        Raises InputError if the budget does not last for three.
        """
        played, seeds = self.journal.expert or Played(), self._seeds(Stream.VALIDATION, MOST_VALIDATION)
        if not played.seeds:
            watched = Watched(self.expert)
            played = self._play(watched, seeds[:LEAST_PAIRS], 0.0)
            if len(played.seeds) < LEAST_PAIRS:
                raise InputError(
                    f"a budget of {self.task.budget} steps is too small: {LEAST_PAIRS} episodes of the expert take "
                    "more; give a larger --budget, or end episodes with --env-kwargs '{\"max_episode_steps\": N}'"
                )
            self.journal.expert, self.journal.trusted = played, watched.trusted(self.seed(Stream.VALIDATION))
            return played
        if len(played.seeds) == LEAST_PAIRS and room - played.steps >= played.steps:
            played += self._play(self.expert, seeds[LEAST_PAIRS:], room - played.steps)
        self.journal.expert = played
        self.keep()
        return played

    def validate(self, learner: str, plan: Plan) -> None:
        """Let the learner's snapshots that have not been validated play the validation episodes."""
        for place, snapshot in enumerate(self.journal.snapshots):
            if snapshot.learner == learner and not snapshot.validation.seeds:
                seeds = self._seeds(Stream.VALIDATION, MOST_VALIDATION)
                played = self._validate(place, seeds, plan.validation)
                count = len(played.seeds)
                logger.info("%s: %.4g in %d validation episodes", snapshot.name, played.mean, count)

    def validate_finalists(self, names: Sequence[str], plan: Plan) -> list[str]:
        """Let each of these snapshots play validation episodes up to one common number, unless it has played more;
        returns the names."""
        journal = self.journal
        if not journal.finalists:
            more = len(names) * plan.choice / sum(journal.length(name) for name in names)
            before = [len(journal.snapshot(name).validation.seeds) for name in names]
            journal.finalists, journal.final = list(names), min(int(min(before) + more), MOST_CHOICE)
            self.keep()
        seeds = self._seeds(Stream.VALIDATION, journal.final)
        for name in journal.finalists:
            snapshot = journal.snapshot(name)
            if missing := seeds[len(snapshot.validation.seeds) :]:
                played = self._validate(journal.snapshots.index(snapshot), missing, journal.left)
                logger.info("%s: %.4g in validation", name, played.mean)
        return journal.finalists

    def _validate(self, place: int, seeds: Sequence[int], room: float) -> Played:
        """Let the snapshot at this place play these validation episodes too; returns all that it has played.

        policy/ is the best policy so far.
        """
        snapshot = self.journal.snapshots[place]
        played = snapshot.validation + self._play(self.policy(snapshot.name), seeds, room)
        self.journal.snapshots[place] = replace(snapshot, validation=played)
        if names := self.journal.by_mean():
            self.hand_over(names[0])
        self.keep()
        return played

    def test(self, players: Sequence[str], stage: int = 0, *, keep: float = 0.0) -> None:
        """Let the expert (`expert`) and snapshots play the same episodes of the test, or in stage 1 more of them.

        keep   share of the steps left that later players may need; it decides, at the first call of a stage, how many
               episodes it has
        """
        journal = self.journal
        if len(journal.counts) == stage:
            so_far = journal.counts[-1] if journal.counts else 0
            each = sum(journal.length(player) for player in players)
            more = int((1.0 - keep) * journal.left / each)
            journal.counts.append(max(min(so_far + more, MOST_TEST), LEAST_PAIRS))
            self.keep()
        seeds = self._seeds(Stream.VERDICT, journal.counts[stage])
        for player in players:
            before = journal.tests.get(player, Played())
            if len(before.seeds) < len(seeds):
                policy = self.expert if player == "expert" else self.policy(player)
                journal.tests[player] = before + self._play(policy, seeds[len(before.seeds) :], journal.left)
                self.keep()

    def policy(self, snapshot: str) -> Policy:
        return load_policy(self.out / "snapshots" / snapshot)

    def hand_over(self, snapshot: str) -> None:
        hand_over(self.out / "snapshots" / snapshot, self.out / "policy")

    def _play(self, policy: Policy, seeds: Sequence[int], room: float) -> Played:
        return play(
            policy, self.task.env_id, self.expert.env_kwargs, seeds, room=room, limit=max(self.journal.left, 0)
        )  # fmt: skip

    def seed(self, stream: Stream) -> int:
        """The seed from which those of the episodes follow."""
        return draw_seed(stream, self.task.seed)

    def _seeds(self, stream: Stream, count: int) -> list[int]:
        return list(itertools.islice(episode_seeds(self.seed(stream)), count))

    def keep(self) -> None:
        self.journal.write(self.out)
