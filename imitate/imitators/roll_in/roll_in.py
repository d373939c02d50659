"""Roll-ins of DAgger's kind: expert and learner take turns, and the expert labels every state that they visit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from imitate.configs.dagger import DAggerConfig
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import Fault, InputError
from imitate.imitators.cloning import mean_agreement
from imitate.imitators.roll_in.mixture import Mixture, mixing_coefficient
from imitate.imitators.roll_in.teachers import Teacher, Teachers
from imitate.nn.policy import ActorPolicy
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["Labelled", "RollIn"]


@dataclass(frozen=True)
class Labelled:
    """A roll-in of T steps of N environments and what the expert does there.

    answers   (T, N, *action_shape) the expert's actions
    turns     (T, N) True where the expert acted
    """

    rollout: Rollout
    answers: Array
    turns: Array

    @property
    def obs(self) -> Array:
        """(T * N, *obs_shape)"""
        return self.rollout.flat_obs

    @property
    def labels(self) -> Array:
        """(T * N, *action_shape)"""
        return self.answers.reshape(-1, *self.answers.shape[2:])


class RollIn:
    """Plays in the environments, asks the teacher for labels, and keeps both in the store, on disk.

    sampler  steps the environments
    mixture  draws who acts
    teacher  the expert, or several
    store    all labelled steps so far
    """

    def __init__(
        self,
        config: DAggerConfig,
        envs: VecEnv,
        teacher: Teacher | Teachers,
        store: DemoWriter,
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.teacher, self.store, self.device = config, teacher, store, torch.device(device)
        self.sampler = Sampler(envs)
        self.mixture = Mixture(
            teacher.act, envs.num_envs, config.alpha_per, config.switch_probability, teacher.live
        )

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def least_steps(self) -> int:
        return self.sampler.envs.num_envs

    def done(self, iteration: int) -> bool:
        """True if no iteration is left, or fewer steps than one of each environment."""
        spent = self.env_steps + self.least_steps > self.config.total_steps
        return spent or iteration >= self.config.iterations

    def plan(self, iteration: int, limit: int | None, spent: int, least: int) -> tuple[int, int]:
        """Steps that remain after `spent`, at most `limit`, and the number of iterations to divide them into.

        These are the iterations from `iteration` on, or fewer if each would get less than `least` steps. 1 means that
        the next iteration is the last.
        """
        room = self.config.total_steps - spent
        room = room if limit is None else min(room, limit)
        return room, max(min(self.config.iterations - iteration, room // least), 1)

    def begin(self, learner: Callable[[Array], Array], iteration: int) -> None:
        """Begin a roll-in: `learner` gives the learner's actions, the schedule the expert's share."""
        config = self.config
        alpha = mixing_coefficient(config.alpha_schedule, config.alpha_rate, iteration)
        self.mixture.begin(learner, max(alpha, config.alpha_floor or 0.0))
        self.teacher.begin(iteration)

    def play(
        self, learner: Callable[[Array], Array], iteration: int, limit: int | None
    ) -> tuple[Labelled, bool]:
        """The roll-in of an iteration, labelled and stored, and whether the iteration is the last.

        The remaining steps, at most `limit`, are divided over the remaining iterations, so that the last one, with its
        long fit, always takes place. If the environment fails, the steps before are labelled and stored; after Ctrl-C,
        or if the expert fails, only those whose labels are known.
        """
        room, iterations = self.plan(iteration, limit, self.env_steps, self.least_steps)
        self.begin(learner, iteration)
        try:
            steps = max(room // iterations // self.least_steps, 1)
            rollout = self.sampler.collect(self.mixture, steps, room)
        except BaseException as error:
            if (cut := self.sampler.broken_off) is not None:
                turns = self.mixture.turns[: len(cut.actions)]
                # An environment's fault names its episode, an expert's does not: then nobody is asked again.
                of_expert = isinstance(error, Fault) and error.seed is None
                if of_expert or isinstance(error, KeyboardInterrupt):
                    self._keep_known(cut, turns)
                else:
                    with suppress(InputError):  # the first failure is the one to report
                        self.label(cut, turns)
            raise
        return self.label(rollout, self.mixture.turns), iterations == 1

    def label(self, rollout: Rollout, turns: Array) -> Labelled:
        """Add a rollout's steps to the store with the expert's actions. Where `turns` (T, N) is True, the expert acted
        and isn't asked."""
        try:
            answers = self.teacher.label(rollout, turns)
        except BaseException:
            self._keep_known(rollout, turns)
            raise
        self._keep(rollout, answers)
        return Labelled(rollout, answers, turns)

    def _keep_known(self, rollout: Rollout, turns: Array) -> None:
        """Add the steps of a roll-in that was broken off to the store, if the expert's actions there are known."""
        self._keep(rollout, *self.teacher.known(rollout, turns))

    def _keep(self, rollout: Rollout, answers: Array, known: Array | None = None) -> None:
        """Add a rollout's steps to the store, with `known` (T, N) bool only those whose labels are known.

        Steps that the store does not get, also because the disk is full, don't count, so that they are played again.
        Otherwise the run could end without its last fit.
        """
        before = self.store.num_steps
        try:
            for segment in rollout.segments(answers, known):
                self.store.append(segment)
            self.store.flush()
        finally:
            self.sampler.env_steps -= int(rollout.steps.sum()) - (self.store.num_steps - before)

    def metrics(self, policy: ActorPolicy, obs: Array, labels: Array) -> dict[str, float]:
        """The expert's share, the number of states so far, and the policy's agreement with labels (B, ...) that it has
        not learned."""
        return {
            "alpha": self.mixture.alpha,
            "states": float(self.store.num_steps),
            "agreement": mean_agreement(policy, obs, labels),
        }

    def batches(self, count: int, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        """`count` shuffled minibatches of observations and labels, from all states so far."""
        epochs = (self.teacher.batches(size, rng) for _ in itertools.count())
        for batch in itertools.islice(itertools.chain.from_iterable(epochs), count):
            yield tuple(tensor.to(self.device) for tensor in batch)

    def restart(self, seed: int, rng: np.random.Generator) -> None:
        """Begin new episodes from this seed; `rng` draws who acts."""
        self.mixture.restart(rng)
        self.sampler.restart(seed)
