"""Carries out the actions of a search: training to a rung, validation, test. Each is done once and kept on disk."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from imitate.compare.statistics.job_results import Row
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import Stream, draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.experts import Expert
from imitate.files import read_json
from imitate.improve.candidates import experiment
from imitate.improve.episodes import Played, play
from imitate.improve.journal import Dropped, Journal, Snapshot
from imitate.improve.plan import FINALISTS, PLAYERS, Plan
from imitate.improve.snapshots import store
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.rl.paired import LEAST_PAIRS
from imitate.training.execute import execute
from imitate.training.process import cpu_seconds

__all__ = ["Study"]

logger = logging.getLogger(__name__)

_MOST_VALIDATION, _MOST_FINAL, _MOST_TEST = 20, 50, 100  # episodes


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
        played, seeds = self.journal.expert or Played(), self._seeds(Stream.VALIDATION, _MOST_VALIDATION)
        if not played.seeds:
            played = self._play(self.expert, seeds[:LEAST_PAIRS], 0.0)
            if len(played.seeds) < LEAST_PAIRS:
                raise InputError(
                    f"a budget of {self.task.budget} steps is too small: {LEAST_PAIRS} episodes of the expert take more"
                )
            self.journal.expert = played
            return played
        if len(played.seeds) == LEAST_PAIRS and room - played.steps >= played.steps:
            played += self._play(self.expert, seeds[LEAST_PAIRS:], room - played.steps)
        self.journal.expert = played
        self._keep()
        return played

    def train(self, learner: str, plan: Plan, shares: Sequence[float], others: int = 0) -> None:
        """Train a learner up to the last of these shares of the winner's steps; validate its policies at all of them.

        others   steps that are kept for other learners

        It is not stopped at the earlier ones: each stop cuts episodes, and if it came often, long ones would hardly
        ever finish.
        """
        if any(each.learner == learner for each in self.journal.dropped):
            return
        imitates, folder = learner in plan.imitators, self.out / "runs" / learner
        if not self._reached(learner, shares[-1]):
            steps = plan.imitation if imitates else plan.winner
            until = math.inf if imitates else shares[-1] * plan.winner
            passing = self._passing(learner, plan, shares[:-1])
            trained = (folder / "finished.json").exists() or self._execute(
                learner, steps, until, others + self._reserve(plan), passing
            )
            if not trained:
                return
            seconds = read_json(folder / "timing.json", dict[str, float])["cpu_seconds"]
            self._take(learner, shares[-1], seconds, load_policy(folder))
        for place, snapshot in enumerate(self.journal.snapshots):
            if snapshot.learner == learner and not snapshot.validation.seeds:
                seeds = self._seeds(Stream.VALIDATION, _MOST_VALIDATION)
                played = self._play(self._policy(snapshot.name), seeds, plan.validation)
                self.journal.snapshots[place] = replace(snapshot, validation=played)
                count = len(played.seeds)
                logger.info("%s: %.4g in %d validation episodes", snapshot.name, played.mean, count)
                self._keep()

    def _reached(self, learner: str, share: float) -> bool:
        return any(each.learner == learner and each.share >= share for each in self.journal.snapshots)

    def _passing(
        self, learner: str, plan: Plan, shares: Sequence[float]
    ) -> Callable[[int, ActorPolicy], None]:
        """A function that takes a snapshot when the learner passes one of these shares."""
        before, began = self.journal.latest(learner), cpu_seconds()

        def take(spent: int, policy: ActorPolicy) -> None:
            passed = [share for share in shares if spent >= share * plan.winner]
            if passed and not self._reached(learner, passed[-1]):
                so_far = 0.0 if before is None else before.cpu_seconds
                self._take(learner, passed[-1], so_far + cpu_seconds() - began, policy)

        return take

    def _take(self, learner: str, share: float, seconds: float, policy: ActorPolicy) -> None:
        """Keep the policy of a learner as a snapshot, unless it took no step since the last one."""
        run = self.out / "runs" / learner
        row, before = Row.last(run / "metrics.jsonl") or Row(), self.journal.latest(learner)
        if before is not None and before.steps == row.budget_steps:
            self.journal.snapshots[self.journal.snapshots.index(before)] = replace(before, share=share)
        else:
            taken = Snapshot(learner, share, row.budget_steps, row.expert_queries, seconds, Played())
            store(self.out / "snapshots", taken, run, policy)
            self.journal.snapshots.append(taken)
        self._keep()

    def validate_finalists(self, names: Sequence[str], plan: Plan) -> list[str]:
        """Let these snapshots play the same validation episodes, more than before; returns the names."""
        journal = self.journal
        if not journal.finalists:
            steps = len(names) * plan.choice / sum(journal.length(name) for name in names)
            before = [len(journal.snapshot(name).validation.seeds) for name in names]
            journal.finalists, journal.final = list(names), min(int(min(before) + steps), _MOST_FINAL)
            self._keep()
        seeds = self._seeds(Stream.VALIDATION, journal.final)
        for name in journal.finalists:
            snapshot = journal.snapshot(name)
            missing = seeds[len(snapshot.validation.seeds) :]
            if missing:
                played = self._play(self._policy(name), missing, journal.left)
                place = journal.snapshots.index(snapshot)
                journal.snapshots[place] = replace(snapshot, validation=snapshot.validation + played)
                logger.info("%s: %.4g in validation", name, journal.snapshots[place].validation.mean)
                self._keep()
        return journal.finalists

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
            journal.counts.append(max(min(so_far + more, _MOST_TEST), LEAST_PAIRS))
            self._keep()
        seeds = self._seeds(Stream.VERDICT, journal.counts[stage])
        for player in players:
            before = journal.tests.get(player, Played())
            if len(before.seeds) < len(seeds):
                policy = self.expert if player == "expert" else self._policy(player)
                journal.tests[player] = before + self._play(policy, seeds[len(before.seeds) :], journal.left)
                self._keep()

    def _execute(
        self,
        learner: str,
        steps: int,
        until: float,
        reserved: int,
        passing: Callable[[int, ActorPolicy], None],
    ) -> bool:
        """Train to `until`, keeping `reserved` steps of the budget; returns False if the learner is dropped."""
        folder, journal = self.out / "runs" / learner, self.journal
        limit = journal.spent_by(learner) + journal.left - reserved
        try:
            run = experiment(learner, self.task, self.expert.env_kwargs, steps)
            run = replace(run, budget=max(min(limit, steps), 1))
            self.expert.seed(0)
            logger.info("%s learns, up to %d steps", learner, min(until, run.budget))
            experts, resume = [self.expert], folder.exists()
            if not execute(run, folder, experts=experts, resume=resume, snapshot=passing, until=until):
                raise KeyboardInterrupt
        except InputError as error:
            begun = (folder / "config.json").exists()
            if begun and not isinstance(error.__cause__, FloatingPointError):
                reason = str(error).rpartition("; ")[0] or str(error)
                raise InputError(f"{reason}; go on with `{self.task.command(self.out)}`") from error
            row = Row.last(folder / "metrics.jsonl") or Row()
            journal.dropped.append(Dropped(learner, str(error), row.budget_steps))
            logger.warning("%s is left out: %s", learner, error)
            self._keep()
            return False
        return True

    def _reserve(self, plan: Plan) -> int:
        """Steps for the validations and the test that are still to come, also if episodes have become longer."""
        few = LEAST_PAIRS * self.journal.longest
        validations = plan.validations - sum(bool(each.validation.seeds) for each in self.journal.snapshots)
        checks = FINALISTS * max(plan.choice, few) + PLAYERS * max(plan.test, few)
        return math.ceil(validations * max(plan.validation, few) + checks)

    def _policy(self, snapshot: str) -> Policy:
        return load_policy(self.out / "snapshots" / snapshot)

    def _play(self, policy: Policy, seeds: Sequence[int], room: float) -> Played:
        return play(
            policy, self.task.env_id, self.expert.env_kwargs, seeds, room=room, limit=max(self.journal.left, 0)
        )  # fmt: skip

    def seed(self, stream: Stream) -> int:
        """The seed from which those of the episodes follow."""
        return draw_seed(stream, self.task.seed)

    def _seeds(self, stream: Stream, count: int) -> list[int]:
        return list(itertools.islice(episode_seeds(self.seed(stream)), count))

    def _keep(self) -> None:
        self.journal.write(self.out)
