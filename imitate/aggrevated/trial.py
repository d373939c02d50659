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
from collections.abc import Sequence
from typing import Any

import torch

from imitate.aggrevated.learner import AggreVaTeD
from imitate.configs.aggrevated import TrialConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.vec import VecEnv
from imitate.experts.values.critics import QOracle
from imitate.imitators.cloning import new_policy
from imitate.imitators.roll_in.student import Student
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.handed import takes
from imitate.rl.paired import LEAST_PAIRS, paired, played, wins

__all__ = ["Trial"]

_TRIAL_AT = 0.6  # share of the steps after which the trial comes: both have learned, and steps are left


class Trial:
    """AggreVaTeD on vector environments, with a trial against DAgger; takes what `AggreVaTeD` takes.

    learner  AggreVaTeD. If DAgger has won, its student is DAgger's and its critic is no longer trusted
    rival    DAgger's student, until the trial
    """

    @takes(TrialConfig)
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
        uses_critic = self.learner.discrete or config.delta  # delta is for continuous actions
        tried = config.trial and uses_critic and not self.learner.roll_in.teacher.revises
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
            self.rival.clone(batches, count)
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
        if pairs < LEAST_PAIRS or room < 4 * self.least_steps:
            return {}
        seeds = list(itertools.islice(episode_seeds(draw_seed(learner.seed, learner.iteration, 2)), pairs))
        plays = [played(each.policy.act, sampler, seeds, room // 3) for each in (learner.student, rival)]
        both = paired(plays[0][1], plays[1][1], pairs)
        if both is not None and wins(both[1], both[0]):
            learner.student, learner.trusted = rival, False
            for rollout, _ in plays:
                rival.observe(rollout.obs[rollout.steps])
                learner.roll_in.label(rollout, ~rollout.steps)
            rival.seed(draw_seed(learner.seed, learner.iteration, 4))
        sampler.restart(draw_seed(learner.seed, learner.iteration, 3))
        if both is None:  # the limit cut too many episodes: AggreVaTeD's own policy stays
            return {"trial_pairs": 0.0}
        own, others = both
        means = {"trial_return": float(own.mean()), "trial_dagger": float(others.mean())}
        return means | {"trial_pairs": float(len(own))}

    def state_dict(self) -> dict[str, Any]:
        """If DAgger has won, its student is in `dagger`: its network has other widths than a new learner's."""
        counts = {"trusted": self.learner.trusted, "episodes": self.episodes}
        state = self.learner.state_dict() | counts | parts_state(self, "rival")
        if not self.learner.trusted:
            state["dagger"] = {name: state.pop(name) for name in self.learner.student.state_dict()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.learner.trusted, self.episodes = state["trusted"], state["episodes"]
        if not self.learner.trusted:
            self.learner.student = self._dagger()
        self.rival = self._dagger() if "rival" in state else None
        load_parts(self, state, "rival")
        self.learner.load_state_dict(state | state.get("dagger", {}))
