"""The gradient steps of guided learning: critics, student and temperature.

Wherever an action must be chosen, the experts' are candidates beside the student's, and the critics' mean decides. The
student climbs that mean as in TQC, and is pulled to the best expert's action only in two kinds of samples: where the
critics prefer that action to its own, and where the expert itself acted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from imitate.configs.guided import GuidedConfig
from imitate.imitators.guided.advice import NOT_ASKED
from imitate.nn.distributions import sample_gaussian
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.batches import Batch
from imitate.rl.continuous import Critics, PolicyNet
from imitate.rl.sac import Temperature, actor_gradient
from imitate.rl.tqc import mean_value, quantile_loss, truncated_targets

__all__ = ["Phase", "Updates", "best_of", "cloning_slopes"]


class Phase(NamedTuple):
    """The experts' part in a gradient step.

    offline  the student only clones, and the critics learn the experts' values
    guided   an expert's action is a candidate in the targets
    cloning  weight of cloning
    """

    offline: bool
    guided: bool
    cloning: float


class Pull(NamedTuple):
    """The forces on the student's actions: slopes of their value (B, D), the experts' actions (B, D), and the weights
    (B,) of cloning these."""

    slopes: Tensor
    expert: Tensor
    weights: Tensor


def best_of(values: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Of candidates (B, M, D) with values (B, M) the best: actions (B, D) and indices (B,)."""
    best = values.argmax(-1)
    return candidates[torch.arange(len(best)), best], best


def cloning_slopes(actions: Tensor, expert: Tensor, weights: Tensor) -> Tensor:
    """Slopes (B, D), by the student's actions, of minus their squared distance to the expert's, weighted (B,)."""
    return -2.0 * weights[:, None] * (actions - expert)


class Updates:
    """The student with its critics and temperature. Batches have the experts' actions beside `OffPolicy.tensors`'
    columns: `advice` and `next_advice` (B, K, D)."""

    parts: ClassVar[tuple[str, ...]] = ("critics", "policy_net", "temperature")

    def __init__(self, student: ActorPolicy, config: GuidedConfig) -> None:
        self.student, self.config, self.dimensions = student, config, student.output.out_features // 2
        self.critics, self.policy_net = Critics(student, config), PolicyNet(student, config)
        self.temperature = Temperature(config, self.dimensions, student.output.weight.device)

    def set_learning_rate(self, rate: float) -> None:
        """Change Adam's step size of critics and student."""
        for part in (self.critics, self.policy_net):
            part.optimizer.learning_rate = rate

    @torch.no_grad()
    def values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        """The critics' values (B, M) of candidates (B, M, D) for prepared observations (B, F)."""
        return self._outputs(self.critics.online.values, obs, candidates).mean((0, 3))

    def _outputs(self, critics: Callable[[Tensor], Tensor], obs: Tensor, candidates: Tensor) -> Tensor:
        """Critics' outputs (C, B, M, K) of candidates (B, M, D)."""
        many = obs[:, None].expand(-1, candidates.shape[1], -1)
        outputs = critics(torch.cat([many, candidates], -1).flatten(0, 1))
        return torch.unflatten(outputs, 1, candidates.shape[:2])

    @torch.no_grad()
    def step(self, batch: Batch, phase: Phase, generator: torch.Generator) -> dict[str, Tensor]:
        """One gradient step of the critics and the student's; returns means."""
        obs = batch["obs"]
        noise = torch.randn(2, len(obs), self.dimensions, generator=generator, device=obs.device)
        targets = self.targets(batch, phase, noise[0])
        q_loss, outputs = self.critics.fit(
            obs, batch["actions"], lambda outputs: quantile_loss(outputs, targets), generator
        )
        found = {"q_loss": q_loss, "mean_q": outputs.mean()}
        found |= (
            self.clone(batch, noise[1]) if phase.offline else self.improve(batch, phase.cloning, noise[1])
        )
        self.critics.follow()
        return found

    def targets(self, batch: Batch, phase: Phase, noise: Tensor) -> Tensor:
        """Truncated targets (B, M) of the best candidate; entropy counts only where that is the student's action."""
        next_obs, advice, dropped = batch["next_obs"], batch["next_advice"], self.config.dropped
        following = self.student.gaussian(self.policy_net.outputs(next_obs))
        raw = sample_gaussian(following.mean, following.log_std.exp(), noise)
        bonus, own = -self.temperature.now * following.log_prob(raw), raw.tanh()
        if not (phase.guided or phase.offline):
            return truncated_targets(self.critics.of_target(next_obs, own), bonus, batch, dropped)
        candidates = advice if phase.offline else torch.cat([advice, own[:, None]], 1)
        outputs = self._outputs(lambda inputs: self.critics.target(inputs)[0], next_obs, candidates)
        best = outputs.mean((0, 3)).argmax(-1)  # (B,)
        chosen = outputs[:, torch.arange(len(best)), best]  # (C, B, K)
        return truncated_targets(chosen, bonus * (best == advice.shape[1]), batch, dropped)

    @torch.no_grad()
    def clone(self, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
        """One gradient step towards the best expert's actions, with the entropy that a student needs who goes on."""
        return self._descend(batch["obs"], noise, self._towards_expert(batch), self.temperature.now)

    @torch.no_grad()
    def copy(self, batch: Batch) -> None:
        """One gradient step towards the best expert's actions alone. Entropy would make the actions smaller."""
        noise = torch.zeros(len(batch["obs"]), self.dimensions, device=batch["obs"].device)
        self._descend(batch["obs"], noise, self._towards_expert(batch), 0.0)

    def _towards_expert(self, batch: Batch) -> Callable[[Tensor], Pull]:
        """A function of the student's actions; samples in which no expert was asked have no weight."""
        expert, _ = best_of(self.values(batch["obs"], batch["advice"]), batch["advice"])
        asked = (expert[:, 0] != NOT_ASKED).float()
        return lambda actions: Pull(torch.zeros_like(actions), expert, asked)

    def improve(self, batch: Batch, cloning: float, noise: Tensor) -> dict[str, Tensor]:
        """One gradient step up the value, and towards the experts."""
        now = self.temperature.now
        return self._descend(batch["obs"], noise, lambda actions: self.pull(batch, actions, cloning), now)

    def pull(self, batch: Batch, actions: Tensor, cloning: float) -> Pull:
        """The forces on the student's actions (B, D). At `cloning` 1 an expert's action half a unit away pulls as hard
        as the mean slope of the value."""
        values, slopes = self.critics.slope(batch["obs"], actions, mean_value)
        if not cloning:
            return Pull(slopes, actions, torch.zeros_like(values))
        advised = self.values(batch["obs"], batch["advice"])
        expert, _ = best_of(advised, batch["advice"])
        cloned = (advised.amax(-1) > values) | (batch["actions"] == expert).all(-1)
        return Pull(slopes, expert, cloning * slopes.norm(dim=-1).mean() * cloned)

    def _descend(
        self, obs: Tensor, noise: Tensor, pull: Callable[[Tensor], Pull], ent_coef: Tensor | float
    ) -> dict[str, Tensor]:
        """One gradient step of the student, and of the temperature if entropy counts."""
        found: dict[str, Tensor] = {}

        def gradient(outputs: Tensor) -> Tensor:
            distribution = self.student.gaussian(outputs)
            raw = sample_gaussian(distribution.mean, distribution.log_std.exp(), noise)
            actions = raw.tanh()
            slopes, expert, weights = pull(actions)
            found["log_probs"] = distribution.log_prob(raw)
            found["cloned"] = (weights > 0).float().mean()
            slopes = slopes + cloning_slopes(actions, expert, weights)
            return actor_gradient(distribution, noise, slopes, ent_coef)

        self.policy_net.descend(obs, gradient)
        log_probs = found.pop("log_probs")
        if ent_coef:
            self.temperature.adapt(log_probs)
        return found | {"entropy": -log_probs.mean()}

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self.parts)
