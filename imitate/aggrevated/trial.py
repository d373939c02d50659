"""AggreVaTeD, tried once against DAgger.

A critic can be wrong in ways that no test of it shows. So a DAgger policy learns from the same states, and once both
policies play the same whole episodes. DAgger's is kept if it is clearly ahead, and learns from these episodes too.
Otherwise it leaves no states: it doesn't roll in, and the episodes are not learned from. On BipedalWalker and Hopper
such states cost AggreVaTeD returns (benchmarks/RESULTS.md).

The trial costs its steps, about a fifth of the budget by default, and until then the processor time of a second
student.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from imitate.aggrevated.learner import AggreVaTeD
from imitate.configs.aggrevated import TrialConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.experts.values.critics import QOracle
from imitate.imitators.bc import new_policy
from imitate.imitators.roll_in.student import Student
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.rollout import Rollout, whole_episodes

__all__ = ["Trial", "lead", "paired", "played", "wins"]

_TRIAL_AT = 0.6  # share of the steps after which the trial comes: both have learned, and steps are left
_LEAST_PAIRS = 3  # of episodes: fewer tell nothing
_LEAST_SHARE = 0.5  # of the episodes: if the limit cuts more, those that ended are the short ones
_CLEAR = 0.03  # of the mean return
# Standard errors: one-sided, a level of 5 %. One fall in any number of episodes against none is a lead of 1, two in
# seven are 1.55, three 2.12.
_LEAD = 1.645


class Trial:
    """AggreVaTeD on vector environments, with a trial against DAgger; takes what `AggreVaTeD` takes.

    learner  AggreVaTeD. If DAgger has won, its student is DAgger's and its critic is no longer trusted
    rival    DAgger's student, until the trial
    """

    def __init__(
        self,
        config: TrialConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable],
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | None = None,
    ) -> None:
        self.config = config
        self.learner = AggreVaTeD(
            config, envs=envs, expert=expert, store=store, seed=seed, device=device, oracle=oracle
        )
        tried = config.trial and config.delta and not self.learner.roll_in.teacher.revises
        self.rival = self._dagger() if tried else None
        self.episodes = 0  # that ended in roll-ins

    def _dagger(self) -> Student:
        """DAgger's student, untrained."""
        learner, envs = self.learner, self.learner.roll_in.sampler.envs
        config, seed = learner.config.without_critic(), learner.seed
        policy = new_policy(config, envs.single_observation_space, envs.single_action_space, seed=seed)
        return Student(config, policy.to(learner.roll_in.device))

    @property
    def policy(self) -> ActorPolicy:
        return self.learner.policy

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def expert_queries(self) -> int:
        return self.learner.expert_queries

    @property
    def least_steps(self) -> int:
        return self.learner.least_steps

    @property
    def done(self) -> bool:
        return self.learner.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """AggreVaTeD's iteration and DAgger's on its states, and once the trial; at most `limit` environment steps."""
        learner, roll_in = self.learner, self.learner.roll_in
        metrics: dict[str, float] = {}
        if self.rival is not None and self.env_steps >= _TRIAL_AT * self.config.total_steps:
            before = self.env_steps
            metrics = self._compete(self.rival, limit)
            self.rival = None
            limit = None if limit is None else limit - (self.env_steps - before)
        states, last = roll_in.play(learner.student.act, learner.iteration, limit)
        metrics |= learner.learn(states.obs, states.labels, last=last)
        if self.rival is not None:
            count = int(metrics["updates"])
            self.rival.observe(states.obs)
            batches = roll_in.batches(count, self.config.batch_size, learner.rng)
            self.rival.fit(self.rival.cloning, batches, count)
        self.episodes += len(states.rollout.ends)
        return metrics | roll_in.sampler.pop_episodes()

    def _compete(self, rival: Student, limit: int | None) -> dict[str, float]:
        """Let both policies play the same episodes, and go on with the better; nothing if there are too few steps.

        Each plays at most a third of the steps that are left; the last third is for roll-ins with the better one.
        """
        config, learner, sampler = self.config, self.learner, self.learner.roll_in.sampler
        room = config.total_steps - self.env_steps
        room = room if limit is None else min(room, limit)
        # Episodes of each policy that the trial's share pays for, if they are as long as those of the roll-ins were.
        pairs = int(config.trial * config.total_steps * self.episodes / (2 * self.env_steps))
        if pairs < _LEAST_PAIRS or room < 4 * self.least_steps:
            return {}
        seeds = list(itertools.islice(episode_seeds(draw_seed(learner.seed, learner.iteration, 2)), pairs))
        plays = [played(each.policy, sampler.envs, seeds, room // 3) for each in (learner.student, rival)]
        sampler.env_steps += sum(int(rollout.steps.sum()) for rollout, _ in plays)
        both = paired(plays[0][1], plays[1][1], pairs)
        if both is not None and wins(both[1], both[0]):
            learner.student, learner.trusted = rival, False
            for rollout, _ in plays:
                rival.observe(rollout.obs[rollout.steps])
                learner.roll_in.label(rollout, ~rollout.steps)
            rival.actor.seed(draw_seed(learner.seed, learner.iteration, 4))
        sampler.restart(draw_seed(learner.seed, learner.iteration, 3))
        if both is None:  # the limit cut too many episodes: AggreVaTeD's own policy stays
            return {"trial_pairs": 0.0}
        own, others = both
        means = {"trial_return": float(own.mean()), "trial_dagger": float(others.mean())}
        return means | {"trial_pairs": float(len(own))}

    def state_dict(self) -> dict[str, Any]:
        counts = {"trusted": self.learner.trusted, "episodes": self.episodes}
        return self.learner.state_dict() | counts | parts_state(self, "rival")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.learner.trusted, self.episodes = state["trusted"], state["episodes"]
        if not self.learner.trusted:
            self.learner.student = self._dagger()
        self.rival = self._dagger() if "rival" in state else None
        load_parts(self, state, "rival")
        self.learner.load_state_dict(state)


def played(
    policy: ActorPolicy, envs: VecEnv, seeds: Sequence[int], limit: int
) -> tuple[Rollout, dict[int, float]]:
    """One episode for each seed with the policy's deterministic actions, in all at most `limit` steps.

    Also the return of each episode that came to its end, by seed. Those that the limit cut, or that it left out, are
    not among them.
    """
    playing: list[Array] = []  # (N,) seeds at each step

    def choose(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        playing.append(envs.seeds.copy())
        actions = policy.act(obs, deterministic=True)
        return actions, actions

    rollout = whole_episodes(envs, choose, seeds, limit)
    # An environment that still runs with the seed of its last step was cut; one that ended has begun the next episode.
    cut = envs.running & (envs.seeds == playing[-1])
    sums = (rollout.rewards * rollout.steps).cumsum(0, dtype=np.float64)  # (T, N)
    returns, before = {}, np.zeros(len(cut))
    for t, n in rollout.ends:
        if t < len(sums) - 1 or not cut[n]:
            returns[int(playing[t][n])] = float(sums[t, n] - before[n])
        before[n] = sums[t, n]
    return rollout, returns


def paired(own: Mapping[int, float], others: Mapping[int, float], wanted: int) -> tuple[Array, Array] | None:
    """Returns (P,) of both on the seeds that both played to the end; None if that is not half of the seeds `wanted`."""
    both = [seed for seed in own if seed in others]
    if len(both) < max(_LEAST_PAIRS, _LEAST_SHARE * wanted):
        return None
    return np.array([own[seed] for seed in both]), np.array([others[seed] for seed in both])


def lead(returns: Array, others: Array) -> float:
    """By how many standard errors the mean of the paired differences (P,) of `returns` and `others` is above 0.

    >>> lead(np.array([3.0, 4.0, 5.0]), np.array([0.0, 0.0, 0.0]))  # mean 4, standard error 1 / sqrt(3)
    6.928...
    """
    gains = returns - others
    error = float(gains.std(ddof=1)) / math.sqrt(len(gains))
    return float(gains.mean()) / max(error, 1e-8)


def wins(returns: Array, others: Array) -> bool:
    """True if the mean of `returns` is higher by more than 1.645 standard errors and by more than 3 %.

    So one fall does not decide. A few episodes often show none of a policy's rare falls, and then their standard
    error is nearly 0.
    """
    if lead(returns, others) <= _LEAD:
        return False
    return float(returns.mean() - others.mean()) > _CLEAR * abs(float(returns.mean()))
