"""AggreVaTeD (arXiv:1703.01030): learn from an expert's action values, on the states that the learner visits.

The policy follows the gradient of E_{a ~ pi}[A*(s, a)] over all states so far, with actions of the current learner, and
imitates the expert beside it. To understand the algorithm, read this file and `gradients`.

Departures from the paper, whose own update is `aggrevated:paper`: states are aggregated, the imitation term is added,
and Adam takes many steps in an iteration. With continuous actions the imitation term is the whole loss: the policy is
regressed to the expert's action, moved by one clipped step along the critic's gradient, since critics know the
direction better than the distance. A critic that can't tell the expert's actions from random ones is ignored (`gate`),
which leaves DAgger; `imitate train aggrevated` also tries the policy against DAgger's (`trial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.gate import CLOSED, PROBED, Gate, judge_critic
from imitate.aggrevated.gradients import exact, target
from imitate.aggrevated.oracles import choose_oracle
from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.experts.values.critics import QOracle
from imitate.imitators.cloning import imitation_loss, new_policy
from imitate.imitators.roll_in.roll_in import RollIn
from imitate.imitators.roll_in.student import Student
from imitate.imitators.roll_in.teachers import Teacher, Teachers
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.handed import takes

__all__ = ["AggreVaTeD", "AggreVaTeDConfig"]


class AggreVaTeD:
    """AggreVaTeD on vector environments. `oracle` replaces the action values that `config.oracle` names.

    `expert` is a policy, a function from observations (N, *obs_shape) to actions (N, *action_shape), or several.

    roll_in   who plays and who labels; its teacher fits the critic if the expert brings none
    critic    Q*
    student   what learns
    trusted   False: leave the critic alone and go on as DAgger does
    """

    @takes(AggreVaTeDConfig)
    def __init__(
        self,
        config: AggreVaTeDConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable] | Teacher | Teachers,
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
        oracle: QOracle | None = None,
    ) -> None:
        observations, self.action_space = envs.single_observation_space, envs.single_action_space
        check_plain("AggreVaTeD", observations, self.action_space)
        self.discrete = isinstance(self.action_space, spaces.Discrete)
        self.config = config = config.completed(self.discrete)
        self.critic, teacher = choose_oracle(expert, config, store, seed=seed, device=device, given=oracle)
        self.search = teacher.critic is not None if config.line_search is None else config.line_search
        self.roll_in = RollIn(config, envs, teacher, store, device=device)
        policy = new_policy(config, observations, self.action_space, seed=seed)
        self.student = Student(config, policy.to(device))
        self.seed, self.iteration, self.trusted = seed, 0, True
        self.generator = torch.Generator(device)
        self.restart()

    @property
    def policy(self) -> ActorPolicy:
        return self.student.policy

    @property
    def env_steps(self) -> int:
        return self.roll_in.env_steps

    @property
    def expert_queries(self) -> int:
        return self.roll_in.teacher.queries

    @property
    def least_steps(self) -> int:
        return self.roll_in.least_steps

    @property
    def done(self) -> bool:
        return self.roll_in.done(self.iteration)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, and learn."""
        states, last = self.roll_in.play(self.student.act, self.iteration, limit)
        return self.learn(states.obs, states.labels, last=last) | self.roll_in.sampler.pop_episodes()

    def learn(self, obs: Array, labels: Array, *, last: bool) -> dict[str, float]:
        """Fit the critic, judge it, follow its gradient; `obs` (B, ...) and the expert's actions there are new."""
        config = self.config
        gate, metrics = self.ask_critic(obs, labels)
        count = config.final_updates if last else config.updates_per_iteration
        batches = self.roll_in.batches(count, config.batch_size, self.rng)
        metrics |= self.student.fit(partial(self.loss, gate), batches, count)
        self.iteration += 1
        return metrics

    def ask_critic(self, obs: Array, labels: Array) -> tuple[Gate, dict[str, float]]:
        """Take in new states (B, ...) and say whether the critic can be used; metrics of the states and the critic.

        A fitted critic is judged on half of the new states, which it does not learn from.
        """
        self.student.observe(obs)
        metrics = self.roll_in.metrics(self.policy, obs, labels)
        teacher, held_out = self.roll_in.teacher, len(obs) // 2
        if self.critic is None or not self.trusted:
            return CLOSED, metrics
        metrics |= teacher.fit(self.rng, self.config.fqe_updates, held_out)
        if teacher.critic is not None and held_out:
            probes, answers = teacher.critic.memory.last(held_out)
        else:
            probes, answers = next(self.roll_in.batches(1, PROBED, self.rng))
        gate, verdict = judge_critic(
            self.critic, probes, answers, self.student.actor, self.action_space, self.rng, self.config.gate
        )
        return gate, metrics | verdict

    def loss(
        self, gate: Gate, distribution: Any, obs: Tensor, labels: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The critic's loss (B,) plus DAgger's; a closed gate leaves DAgger's.

        distribution  the actor's in raw observations (B, ...), whose labels are the expert's actions (B, ...)
        """
        actor, beta = self.student.actor, self.config.beta or float(not gate.open)
        wanted, policy_loss = actor.to_unit(labels), torch.zeros(len(obs), device=obs.device)
        if gate.open and self.critic is not None:
            if self.discrete:
                policy_loss = exact(self.critic, gate, distribution, obs)
            else:
                wanted = target(
                    self.critic, gate, actor, distribution, obs, wanted,
                    beta=beta, delta=self.config.delta, search=self.search, generator=self.generator,
                )  # fmt: skip
        cloning = imitation_loss(actor, distribution, wanted)
        return policy_loss + beta * cloning, {"policy_loss": policy_loss, "imitation_loss": cloning}

    def restart(self) -> None:
        """Begin new episodes with new random numbers."""
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.generator.manual_seed(seed)
        self.seed_student()
        self.roll_in.restart(seed, self.rng)

    def seed_student(self) -> None:
        """Seed the student's actions, by another stream than that of the updates."""
        self.student.seed(draw_seed(self.seed, self.iteration, 1))

    def state_dict(self) -> dict[str, Any]:
        counts = {"iteration": self.iteration, "env_steps": self.env_steps}
        return counts | self.student.state_dict() | parts_state(self.roll_in, "teacher")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.student.load_state_dict(state)
        load_parts(self.roll_in, state, "teacher")
        self.iteration, self.roll_in.sampler.env_steps = state["iteration"], state["env_steps"]
        self.restart()
