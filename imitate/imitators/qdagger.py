"""QDagger (arXiv:2206.01626): Q-learning that begins from a teacher, for discrete actions.

The teacher plays for `teacher_steps`, DQN learns offline from these steps and then goes on online. Beside DQN's loss
there is a distillation loss, KL(teacher || student) of the softmax of action values, on every minibatch. Its weight
falls as the student's return nears the teacher's, and is 0 while it is at least the teacher's.

Departures: the weight is (T - S) / (T - L), where T is the teacher's mean return, S the student's and L the lowest S so
far, because the paper's 1 - S / T needs positive returns. It follows a moving average of the student's episodes, and
takes at least a tenth of the run to fall to 0: a student who is level with its teacher from the start would otherwise
lose it at once. Distillation begins again when the student falls behind. If no episode of the teacher ended, T is
unknown and the weight falls with the run. Temperatures are in units of the spread of the values over the actions. A
teacher without action values counts as certain of its deterministic action; the spread is then that of the student's
values. Layers are normalised before each activation, except with pixels. What is handed over is a moving average of
the student's weights, as it swings.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from imitate.configs.qdagger import QDaggerConfig
from imitate.datasets.asking import Askable, asking
from imitate.envs.spaces import Array, Space
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.q_net import QNet
from imitate.rl.batches import Batch
from imitate.rl.dqn import DQN
from imitate.rl.handed import takes

__all__ = ["QDagger", "QDaggerConfig", "distillation_loss"]

logger = logging.getLogger(__name__)

_SMOOTHING = 0.3  # share of an iteration's episodes in the student's return
_FALL = 0.1  # share of the run that the weight takes at least to fall to 0


def distillation_loss(logits: Tensor, teacher: Tensor) -> Tensor:
    """KL(teacher || student) (B,) of the student's logits and the teacher's probabilities (B, A)."""
    return F.kl_div(logits.log_softmax(-1), teacher, reduction="none").sum(-1)


class Teacher:
    """A `Tutor` of DQN: an expert's action values, or else its actions.

    weight   factor of the loss
    queries  observations that the expert answered
    """

    def __init__(
        self,
        expert: Askable,
        action_space: Space,
        temperature: float,
        first_action: int,
    ) -> None:
        self._act = asking(expert, action_space, who="the expert")
        self._oracle = getattr(expert, "oracle", None)
        self.temperature, self.first_action = temperature, first_action
        self.weight, self.queries = 1.0, 0

    def act(self, obs: Array) -> Array:
        """The expert's actions (B,) for observations (B, *obs_shape)."""
        actions = self._act(obs)
        self.queries += len(obs)
        return actions

    @torch.no_grad()
    def columns(self, q_net: QNet, obs: Array, prepared: Tensor) -> Batch:
        """Its probabilities `teacher` (B, A) and their `temperature` (B,)."""
        if self._oracle is None:
            actions = torch.from_numpy(self.act(obs)).long() - self.first_action
            values = q_net(prepared)  # (B, A), the student's, for their spread
            temperature = self._in_units_of(values)
            teacher = F.one_hot(actions, values.shape[-1]).float()
        else:
            values = self._oracle.q_all(torch.from_numpy(obs)) * self._oracle.reward_scale
            self.queries += len(obs)
            temperature = self._in_units_of(values)
            teacher = (values / temperature).softmax(-1)
        temperatures = torch.full((len(obs),), temperature, device=prepared.device)
        return {"teacher": teacher.to(prepared.device), "temperature": temperatures}

    def loss(self, q_net: QNet, batch: Batch) -> Tensor:
        """The weighted distillation loss ()."""
        logits = q_net(batch["obs"]) / batch["temperature"][:, None]
        return self.weight * distillation_loss(logits, batch["teacher"]).mean()

    def _in_units_of(self, values: Tensor) -> float:
        return max(self.temperature * float(values.std(-1).mean()), 1e-6)


class QDagger:
    """QDagger on vector environments with discrete actions.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N,). If it has action values
    (`oracle`), these are distilled.

    policy          moving average of the student's weights; the student itself is `dqn.q_net`
    taught          the teacher's steps were taken
    teacher_return  mean return of the teacher's episodes; NaN if none has ended
    student_return  of the student's latest episodes, `lowest` the least that it was; NaN before the first
    weight          of the distillation loss
    """

    @takes(QDaggerConfig)
    def __init__(
        self,
        config: QDaggerConfig,
        *,
        envs: VecEnv,
        expert: Askable,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        actions = envs.single_action_space
        if isinstance(actions, spaces.Box):
            raise InputError(f"qdagger wants discrete actions, got {actions}; use guided")
        self.config, self.dqn = config, DQN(config, envs=envs, seed=seed, device=device)
        self.policy = self.dqn.policy
        self.teacher = Teacher(expert, actions, config.temperature, self.dqn.first_action)
        self.taught = False
        self.teacher_return = self.student_return = self.lowest = math.nan
        self.weight = config.distill_coef

    @property
    def env_steps(self) -> int:
        return self.dqn.env_steps

    @property
    def least_steps(self) -> int:
        return self.dqn.least_steps

    @property
    def expert_queries(self) -> int:
        return self.teacher.queries

    @property
    def done(self) -> bool:
        return self.dqn.done

    def step(self, limit: int | None = None) -> dict[str, float]:
        """The teacher's steps and the offline updates, afterwards an iteration of DQN; at most `limit` steps."""
        weight, before = self.weight, self.env_steps
        self.teacher.weight = weight
        self.dqn.tutor = self.teacher if weight else None
        if self.taught:
            metrics = self.dqn.step(limit)
            self.judge(metrics.get("train_return", self.student_return), self.env_steps - before)
        else:
            metrics = self._learn_offline(limit)
            self.dqn.restart()  # episodes that the teacher began are not the student's
            self.taught, self.teacher_return = True, metrics.get("train_return", math.nan)
            if math.isnan(self.teacher_return):
                logger.warning(
                    "no episode of the expert ended in its %d steps, so that its return is unknown and distillation "
                    "fades with the run: give it more steps, by a larger budget or `teacher_steps`",
                    self.env_steps,
                )
        return metrics | {"distill_coef": weight}

    def _learn_offline(self, limit: int | None) -> dict[str, float]:
        """Collect the teacher's steps and learn from them."""
        dqn, config = self.dqn, self.config
        dqn.epsilon = config.epsilon_final
        steps = config.teacher_steps or config.total_steps // 10
        num_steps = max(steps // dqn.sampler.envs.num_envs, 1)
        dqn.replay.add(dqn.sampler.collect(self._demonstrate, num_steps, limit))
        rounds = -(-config.offline_updates // config.num_updates)
        return dqn.end_iteration([parts for _ in range(rounds) for parts in dqn.learn()])

    def _demonstrate(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """The teacher's actions; it explores as the student does."""
        dqn = self.dqn
        drawn = dqn.to_env(dqn.rng.integers(dqn.num_actions, size=len(obs)))
        actions = np.where(dqn.rng.random(len(obs)) < dqn.epsilon, drawn, self.teacher.act(obs))
        return actions, actions - dqn.first_action

    def judge(self, latest: float, steps: int) -> None:
        """Change the weight after an iteration of `steps` steps. `latest` is the mean return of its episodes, NaN if
        unknown."""
        before = latest if math.isnan(self.student_return) else self.student_return
        self.student_return = before + _SMOOTHING * (latest - before)
        self.lowest = (
            self.student_return if math.isnan(self.lowest) else min(self.student_return, self.lowest)
        )
        behind, at_most = self.teacher_return - self.student_return, self.teacher_return - self.lowest
        if math.isnan(self.teacher_return):
            share = max(1.0 - self.env_steps / self.config.total_steps, 0.0)
        else:
            share = 1.0 if math.isnan(behind) else max(behind, 0.0) / max(at_most, 1e-8)
        least = self.weight - self.config.distill_coef * steps / (_FALL * self.config.total_steps)
        self.weight = max(self.config.distill_coef * share, least)

    _SCALARS = ("taught", "teacher_return", "student_return", "lowest", "weight")

    def state_dict(self) -> dict[str, Any]:
        scalars = {name: getattr(self, name) for name in self._SCALARS}
        return self.dqn.state_dict() | {"expert_queries": self.expert_queries} | scalars

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.dqn.load_state_dict(state)
        self.teacher.queries = state["expert_queries"]
        for name in self._SCALARS:
            setattr(self, name, state[name])
