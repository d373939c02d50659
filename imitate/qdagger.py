"""QDagger (arXiv:2206.01626): Q-learning that begins from a teacher, for discrete actions.

The teacher plays for `teacher_steps`, DQN learns offline from these steps and then goes on online. Beside DQN's loss
there is a distillation loss, KL(teacher || student) of the softmax of action values, on every minibatch. Its weight
falls as the student's return nears the teacher's, and is 0 while it is at least the teacher's.

Departures: the weight is (T - S) / (T - L), where T is the teacher's mean return, S the student's and L the lowest S so
far, because the paper's 1 - S / T needs positive returns. The paper's weight falls gradually and stays at 0. This one
follows a moving average of the student's episodes: it can jump to 0, and distillation begins again when the student
falls behind. Temperatures are in units of the spread of the values over the actions. A teacher without action values is
its deterministic action, and the spread is that of the student's values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from imitate.datasets.trajectory import Policy
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import check_range
from imitate.rl.dqn import DQN, DQNConfig
from imitate.rl.replay import Samples
from imitate.teachers import ask_of

__all__ = ["QDagger", "QDaggerConfig", "distillation_loss"]

_SMOOTHING = 0.3  # share of an iteration's episodes in the student's return


@dataclass(frozen=True)
class QDaggerConfig(DQNConfig):
    """Hyperparameters of QDagger: DQN's and those of the teacher."""

    teacher_steps: int | None = None
    """Environment steps that the teacher plays at the start; by default a tenth of total_steps."""
    offline_updates: int = 5_000
    """Gradient steps on the teacher's steps before the student acts."""
    distill_coef: float = 1.0
    """Weight of the distillation loss at the start."""
    temperature: float = 0.3
    """Temperature of the softmax of action values, in units of their mean standard deviation over the actions."""
    exploration_fraction: float = 0.0
    """Share of the run over which epsilon decays linearly from 1; by default it is epsilon_final from the start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, 0, math.inf, "offline_updates", "distill_coef")
        check_range(self, 1e-6, math.inf, "temperature")
        if self.teacher_steps is not None:
            check_range(self, 1, math.inf, "teacher_steps")


def distillation_loss(logits: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher || student) (B,) of the student's logits and the teacher's probabilities (B, A)."""
    return F.kl_div(logits.log_softmax(-1), teacher, reduction="none").sum(-1)


class QDagger(DQN):
    """QDagger on vector environments with discrete actions.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N,). If it has action values
    (`oracle`), these are distilled.

    taught          the teacher's steps were taken
    teacher_return  mean return of the teacher's episodes; NaN if none has ended
    student_return  of the student's latest episodes, `lowest` the least that it was; NaN before the first
    """

    config: QDaggerConfig

    def __init__(
        self,
        config: QDaggerConfig,
        *,
        envs: VecEnv,
        expert: Policy | Callable[[Array], Array],
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(config, envs=envs, seed=seed, device=device)
        self._ask = ask_of(expert)
        self._oracle = getattr(expert, "oracle", None)
        self.expert_queries, self.taught = 0, False
        self.teacher_return = self.student_return = self.lowest = math.nan

    @property
    def weight(self) -> float:
        """Weight of the distillation loss; until both returns are known, what it is at the start."""
        behind, at_most = self.teacher_return - self.student_return, self.teacher_return - self.lowest
        share = 1.0 if math.isnan(behind) else max(behind, 0.0) / max(at_most, 1e-8)
        return self.config.distill_coef * share

    def step(self, limit: int | None = None) -> dict[str, float]:
        """The teacher's steps and the offline updates, afterwards an iteration of DQN; at most `limit` steps."""
        weight = self.weight
        if not self.taught:
            self.schedule(1.0)
            steps = self.config.teacher_steps or self.config.total_steps // 10
            num_steps = max(steps // self.sampler.envs.num_envs, 1)
            self.replay.add(self.sampler.collect(self._demonstrate, num_steps, limit))
            rounds = -(-self.config.offline_updates // self.config.num_updates)
            metrics = self.end_iteration([parts for _ in range(rounds) for parts in self._learn()])
            self.taught, self.teacher_return = True, metrics.get("train_return", math.nan)
        else:
            metrics = super().step(limit)
            self._judge(metrics.get("train_return", self.student_return))
        return metrics | {"distill_coef": weight}

    def tensors(self, samples: Samples) -> dict[str, Tensor]:
        """DQN's; while the teacher counts, with its `teacher` probabilities (B, A) and `temperature` (B,)."""
        batch = super().tensors(samples)
        return batch | self._taught_by(samples.obs, batch["obs"]) if self.weight else batch

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """DQN's, and the distillation loss."""
        loss, parts = super().loss(batch)
        if "teacher" in batch:
            logits = self.q_net(batch["obs"]) / batch["temperature"][:, None]
            loss = loss + self.weight * distillation_loss(logits, batch["teacher"]).mean()
        return loss, parts

    @torch.no_grad()
    def _taught_by(self, obs: Array, prepared: Tensor) -> dict[str, Tensor]:
        self.expert_queries += len(obs)
        if self._oracle is None:
            actions = torch.from_numpy(np.asarray(self._ask(obs))).long() - self.first_action
            teacher = F.one_hot(actions, self.num_actions).float()
            temperature = self._temperature(self.q_net(prepared))
        else:
            values = self._oracle.q_all(torch.from_numpy(obs)) * self._oracle.reward_scale
            temperature = self._temperature(values)
            teacher = (values / temperature).softmax(-1)
        return {
            "teacher": teacher.to(self.device),
            "temperature": torch.full((len(obs),), temperature, device=self.device),
        }

    def _temperature(self, values: Tensor) -> float:
        return max(self.config.temperature * float(values.std(-1).mean()), 1e-6)

    def _demonstrate(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """The teacher's actions; it explores as the student does."""
        self.expert_queries += len(obs)
        drawn = self.rng.integers(self.num_actions, size=len(obs)) + self.first_action
        actions = np.where(self.rng.random(len(obs)) < self.epsilon, drawn, self._ask(obs))
        return actions, actions - self.first_action

    def _judge(self, latest: float) -> None:
        """Take in the mean return of an iteration's episodes."""
        before = latest if math.isnan(self.student_return) else self.student_return
        self.student_return = before + _SMOOTHING * (latest - before)
        self.lowest = (
            self.student_return if math.isnan(self.lowest) else min(self.student_return, self.lowest)
        )

    _SCALARS = ("expert_queries", "taught", "teacher_return", "student_return", "lowest")

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {name: getattr(self, name) for name in self._SCALARS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for name in self._SCALARS:
            setattr(self, name, state[name])
