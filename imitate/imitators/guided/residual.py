"""A correction of an expert's actions (Policy Decorator, arXiv:2412.13630), for an expert that is nearly right.

The student adds `residual` times its own action to the expert's, clipped to the bounds. The critics value the sum, and
the student climbs their mean as in TQC. The sum needs the expert, so a clone learns it beside the student, in the same
minibatches. The clone is what is handed over. It plays a share of the episodes, and is kept as it was when these went
best.

Departures from Policy Decorator: the expert alone plays the first steps, and the student corrects it everywhere from
then on; there, corrections are random at first and come in by a schedule.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from imitate.configs.guided import GuidedConfig
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.imitators.guided.learner import Guided
from imitate.imitators.guided.updates import Phase, Pull, Updates
from imitate.nn.adam import Adam
from imitate.nn.distributions import sample_gaussian
from imitate.nn.policy import ActorPolicy
from imitate.rl.batches import Batch
from imitate.rl.continuous import PolicyNet
from imitate.rl.tqc import mean_value, truncated_targets

__all__ = ["Residual", "ResidualUpdates"]


class ResidualUpdates(Updates):
    """The gradient steps of the student that corrects, and of the clone of their sum."""

    parts = (*Updates.parts, "clone_net")

    def __init__(self, student: ActorPolicy, clone: ActorPolicy, config: GuidedConfig) -> None:
        super().__init__(student, config)
        self.clone_net = PolicyNet(clone, config.learning_rate)
        with torch.no_grad():  # means of 0: at first the expert's action is not corrected
            student.output.weight[: self.dimensions].zero_()
            student.output.bias[: self.dimensions].zero_()

    def set_learning_rate(self, rate: float) -> None:
        super().set_learning_rate(rate)
        self.clone_net.optimizer.learning_rate = rate

    def corrected(self, expert: Tensor, own: Tensor) -> Tensor:
        """The expert's actions (B, D) with the student's (B, D), all in [-1, 1]."""
        return (expert + self.config.residual * own).clamp(-1.0, 1.0)

    @property
    def optimizers(self) -> tuple[Adam, ...]:
        return *super().optimizers, self.clone_net.optimizer

    @torch.no_grad()
    def _step(
        self, batch: Batch, phase: Phase, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        found = super()._step(batch, phase, generator)
        own = self.policy_net.outputs(batch["obs"])[:, : self.dimensions].tanh()
        self.teach(batch["obs"], self.corrected(batch["advice"][:, 0], own))
        return found

    def targets(self, batch: Batch, phase: Phase) -> Tensor:
        """Truncated targets (B, M) of the corrected action, or in the offline phase of the expert's own."""
        next_obs, expert = batch["next_obs"], batch["next_advice"][:, 0]
        following = self.student.gaussian(self.policy_net.outputs(next_obs))
        raw = sample_gaussian(following.mean, following.log_std.exp(), batch["noise"][0])
        bonus = -self.temperature.now * following.log_prob(raw)
        if phase.offline:
            action, bonus = expert, torch.zeros_like(bonus)
        else:
            action = self.corrected(expert, raw.tanh())
        return truncated_targets(self.critics.of_target(next_obs, action), bonus, batch, self.config.dropped)

    def clone(self, _batch: Batch) -> dict[str, Tensor]:
        """Nothing: there is nothing to correct yet."""
        return {}

    def pull(self, batch: Batch, actions: Tensor, _clones: bool) -> Pull:
        """The slopes of the sum's value by the student's actions (B, D); there are none beyond the bounds."""
        raw = batch["advice"][:, 0] + self.config.residual * actions
        values, slopes = self.critics.slope(batch["obs"], raw.clamp(-1.0, 1.0), mean_value)
        slopes = self.config.residual * slopes * (raw.abs() < 1.0)
        return Pull(slopes, actions, torch.zeros_like(values))

    @torch.no_grad()
    def teach(self, obs: Tensor, wanted: Tensor) -> None:
        """One gradient step of the clone towards actions (B, D).

        The loss of a mean m before the tanh is log cosh(m) - wanted * m. It is least at tanh(m) = wanted, and its slope
        tanh(m) - wanted does not vanish at the bounds, where the squared error's does.
        """

        def gradient(outputs: Tensor) -> Tensor:
            by_mean = (outputs[:, : self.dimensions].tanh() - wanted) / len(wanted)
            return torch.cat([by_mean, torch.zeros_like(by_mean)], -1)

        self.clone_net.descend(obs, gradient)


class Residual(Guided):
    """Guided learning with a residual; takes what `Guided` takes, but one expert.

    policy    the clone of expert and student together
    student   the policy that corrects

    Raises InputError for several experts.
    """

    parts = ("policy", "student", "updater", "kept")
    updater: ResidualUpdates

    def _updates(self, student: ActorPolicy, handed_over: ActorPolicy) -> ResidualUpdates:
        if self.experts.count > 1:
            raise InputError(
                f"a residual corrects one expert, got {self.experts.count}; name one, or leave --residual out"
            )
        return ResidualUpdates(student, handed_over, self.config)

    @property
    def asking(self) -> bool:
        """The expert never retires: its action is what is corrected."""
        return True

    def _chosen(self, obs: Array, advice: Array, begun: Array) -> Array:
        """Actions (N, D) in [-1, 1]."""
        expert = advice[:, 0]
        if not self.ready:
            return expert
        own = np.tanh(self.actor.sample(obs, self.rng)[1])
        unit = np.clip(expert + self.config.residual * own, -1.0, 1.0)
        return self.kept.choose(obs, unit, begun, self.rng)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        phase = Phase(self.offline, guided=False, clones=False)
        found = self.updater.step(batch, phase, 0.0, self.generator)
        self.updates += 1
        return found

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        assert self.policy.critic is not None
        assert self.student.critic is not None
        # The critics value the clone's actions too.
        self.policy.critic.load_state_dict(self.student.critic.state_dict())
        return super().end_iteration(history)
