"""The gradient steps of guided learning: critics, student and temperature.

Wherever an action must be chosen, the experts' are candidates beside the student's, and the critics' mean decides. The
student climbs that mean as in TQC, and is pulled to the best expert's action only in two kinds of samples: where the
critics prefer that action to its own, and where the expert itself acted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from imitate.configs.guided import GuidedConfig
from imitate.imitators.guided.advice import NOT_ASKED
from imitate.nn.adam import Adam
from imitate.nn.distributions import sample_gaussian
from imitate.nn.graphed import Graphed
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
    clones   the student is also pulled to the experts' actions
    """

    offline: bool
    guided: bool
    clones: bool


class Pull(NamedTuple):
    """The forces on the student's actions: slopes of their value (B, D), the experts' actions (B, D), and the weights
    (B,) of cloning these."""

    slopes: Tensor
    expert: Tensor
    weights: Tensor


def best_of(values: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """The best of the candidates (B, M, D), which have `values` (B, M): actions (B, D) and indices (B,)."""
    best = values.argmax(-1)
    return torch.take_along_dim(candidates, best[:, None, None], 1).squeeze(1), best


def cloning_slopes(actions: Tensor, expert: Tensor, weights: Tensor) -> Tensor:
    """Slopes (B, D), by the student's actions, of minus their squared distance to the expert's, weighted (B,)."""
    return -2.0 * weights[:, None] * (actions - expert)


class Updates:
    """The student with its critics and temperature. Batches have the experts' actions beside `OffPolicy.tensors`'
    columns: `advice` and `next_advice` (B, K, D)."""

    parts: ClassVar[tuple[str, ...]] = ("critics", "policy_net", "temperature")

    def __init__(self, student: ActorPolicy, config: GuidedConfig) -> None:
        self.student, self.config, self.dimensions = student, config, student.output.out_features // 2
        self.critics = Critics(student, config.learning_rate, config.tau)
        self.policy_net = PolicyNet(student, config.learning_rate)
        self.temperature = Temperature(config, self.dimensions, student.output.weight.device)
        self._steps: dict[Phase, Graphed] = {}
        self._rated = Graphed(self._rate, network=student)

    @property
    def optimizers(self) -> tuple[Adam, ...]:
        """Those that `step` uses."""
        return self.critics.optimizer, self.policy_net.optimizer, self.temperature.optimizer

    def set_learning_rate(self, rate: float) -> None:
        """Change Adam's step size of critics and student."""
        for part in (self.critics, self.policy_net):
            part.optimizer.learning_rate = rate

    def values(self, obs: Tensor, candidates: Tensor) -> Tensor:
        """The critics' values (B, M) of candidates (B, M, D) for prepared observations (B, F)."""
        return self._rated({"obs": obs, "candidates": candidates})["values"]

    @torch.no_grad()
    def _rate(self, batch: Batch) -> Batch:
        outputs = self._outputs(self.critics.online.values, batch["obs"], batch["candidates"])
        return {"values": outputs.mean((0, 3))}

    def _outputs(self, critics: Callable[[Tensor], Tensor], obs: Tensor, candidates: Tensor) -> Tensor:
        """Critics' outputs (C, B, M, K) of candidates (B, M, D)."""
        many = obs[:, None].expand(-1, candidates.shape[1], -1)
        outputs = critics(torch.cat([many, candidates], -1).flatten(0, 1))
        return torch.unflatten(outputs, 1, candidates.shape[:2])

    def step(
        self, batch: Batch, phase: Phase, cloning: float, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """One gradient step of the critics and the student's, with this weight of cloning; returns means."""
        size = 2, len(batch["obs"]), self.dimensions
        noise = torch.randn(size, generator=generator, device=batch["obs"].device)
        batch = batch | {"noise": noise, "cloning": torch.full((), cloning, device=noise.device)}
        if self.config.dropout:  # its random numbers are of a generator that a graph does not know
            return self._step(batch, phase, generator)
        if phase not in self._steps:
            self._steps[phase] = Graphed(partial(self._step, phase=phase), *self.optimizers)
        return self._steps[phase](batch)

    def check(self) -> None:
        """Raise FloatingPointError if a step since the last call diverged."""
        for optimizer in self.optimizers:
            optimizer.check()

    @torch.no_grad()
    def _step(
        self, batch: Batch, phase: Phase, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """`step` with the batch's `noise` (2, B, D), for the next actions and for the student's, and `cloning` ()."""
        targets = self.targets(batch, phase)
        q_loss, outputs = self.critics.fit(
            batch["obs"], batch["actions"], lambda outputs: quantile_loss(outputs, targets), generator
        )
        found = {"q_loss": q_loss, "mean_q": outputs.mean()}
        found |= self.clone(batch) if phase.offline else self.improve(batch, phase.clones)
        self.critics.follow()
        return found

    def targets(self, batch: Batch, phase: Phase) -> Tensor:
        """Truncated targets (B, M) of the best candidate; entropy counts only where that is the student's action."""
        next_obs, advice, dropped = batch["next_obs"], batch["next_advice"], self.config.dropped
        following = self.student.gaussian(self.policy_net.outputs(next_obs))
        raw = sample_gaussian(following.mean, following.log_std.exp(), batch["noise"][0])
        bonus, own = -self.temperature.now * following.log_prob(raw), raw.tanh()
        if not (phase.guided or phase.offline):
            return truncated_targets(self.critics.of_target(next_obs, own), bonus, batch, dropped)
        candidates = advice if phase.offline else torch.cat([advice, own[:, None]], 1)
        outputs = self._outputs(lambda inputs: self.critics.target(inputs)[0], next_obs, candidates)
        best = outputs.mean((0, 3)).argmax(-1)  # (B,)
        chosen = torch.take_along_dim(outputs, best[None, :, None, None], 2).squeeze(2)  # (C, B, K)
        return truncated_targets(chosen, bonus * (best == advice.shape[1]), batch, dropped)

    def clone(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step towards the best expert's actions, with the entropy that a student needs who goes on."""
        return self._descend(batch["obs"], batch["noise"][1], self._towards_expert(batch))

    @torch.no_grad()
    def copy(self, batch: Batch) -> None:
        """One gradient step towards the best expert's actions alone. Entropy would make the actions smaller."""
        noise = torch.zeros(len(batch["obs"]), self.dimensions, device=batch["obs"].device)
        self._descend(batch["obs"], noise, self._towards_expert(batch), entropy=False)

    def _towards_expert(self, batch: Batch) -> Callable[[Tensor], Pull]:
        """A function of the student's actions; samples in which no expert was asked have no weight."""
        expert, _ = best_of(self._advised(batch), batch["advice"])
        asked = (expert[:, 0] != NOT_ASKED).float()
        return lambda actions: Pull(torch.zeros_like(actions), expert, asked)

    def _advised(self, batch: Batch) -> Tensor:
        """The critics' values (B, K) of the experts' actions."""
        return self._rate({"obs": batch["obs"], "candidates": batch["advice"]})["values"]

    def improve(self, batch: Batch, clones: bool) -> dict[str, Tensor]:
        """One gradient step up the value, and towards the experts."""
        return self._descend(
            batch["obs"], batch["noise"][1], lambda actions: self.pull(batch, actions, clones)
        )

    def pull(self, batch: Batch, actions: Tensor, clones: bool) -> Pull:
        """The forces on the student's actions (B, D). With a `cloning` of 1 an expert's action half a unit away pulls
        as hard as the mean slope of the value."""
        values, slopes = self.critics.slope(batch["obs"], actions, mean_value)
        if not clones:
            return Pull(slopes, actions, torch.zeros_like(values))
        advised = self._advised(batch)
        expert, _ = best_of(advised, batch["advice"])
        cloned = (advised.amax(-1) > values) | (batch["actions"] == expert).all(-1)
        return Pull(slopes, expert, batch["cloning"] * slopes.norm(dim=-1).mean() * cloned)

    def _descend(
        self, obs: Tensor, noise: Tensor, pull: Callable[[Tensor], Pull], *, entropy: bool = True
    ) -> dict[str, Tensor]:
        """One gradient step of the student, and of the temperature if entropy counts."""
        found: dict[str, Tensor] = {}
        ent_coef = self.temperature.now if entropy else 0.0

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
        if entropy:
            self.temperature.adapt(log_probs)
        return found | {"entropy": -log_probs.mean()}

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self.parts)
