"""Guided learning: reinforcement that begins at an expert and leaves it behind, for continuous actions.

The expert plays first. The critics learn its values, and the student clones it. Then the expert's action is one more
candidate wherever one must be chosen: the critics choose between the two in acting and in the target, as in IBRL
(arXiv:2311.02198). The student is a TQC policy, which also clones the expert, but only where the critics prefer the
expert's action (Q-filter, arXiv:1709.10089) or the expert itself acted. The expert is asked once in each state, and its
answer is kept in the replay beside the observation. After a part of the run it retires, since the student is handed
over without it.

Departures from IBRL: quantile critics, entropy and a Q-filter; a schedule ends the guidance, because a student who
always has the expert beside it is not trained in the states to which it alone would come.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.guided import GuidedConfig
from imitate.datasets.asking import Askable
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.imitators.guided.advice import NOT_ASKED, Experts, joined
from imitate.imitators.guided.kept import Kept
from imitate.imitators.guided.updates import Phase, Updates, best_of
from imitate.nn.average import Average
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape
from imitate.rl.actor import encode
from imitate.rl.batches import Batch, means
from imitate.rl.continuous import check_continuous
from imitate.rl.off_policy import OffPolicy
from imitate.rl.replay import Replay, Samples
from imitate.rl.rollout import Rollout

__all__ = ["Guided", "GuidedConfig"]


class Guided(OffPolicy):
    """Guided learning on vector environments with continuous actions.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape), or a list of
    these.

    policy    moving average of the student's weights; `kept` has it as it was when it did best
    student   the policy that acts and learns
    leaders   of each environment's episode, the expert that begins it; `taken` are the steps since then
    length    mean length of the episodes that ended in the latest iteration; 0 before
    train_return  their mean return; None before
    expert_totals  [returns, lengths, episodes], the sums over the episodes that ended while only the experts acted, or
                   in the first iteration in which any ended. `expert_return` and `expert_length` are the means
    """

    config: GuidedConfig
    parts: ClassVar[tuple[str, ...]] = ("policy", "student", "updater", "average", "kept")
    _ahead: Array | None  # the experts' actions for the next observations, if they were asked
    _shares: list[float]

    def __init__(
        self,
        config: GuidedConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable],
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        check_continuous("guided", envs, ("qdagger", "ppo"))
        space, actions = envs.single_observation_space, envs.single_action_space
        shape = CriticShape(
            config.num_critics, config.quantiles, config.hidden, config.gamma,
            layer_norm=config.layer_norm, dropout=config.dropout, mean=True,
        )  # fmt: skip
        with seeded(seed):
            student = ActorPolicy(
                space, actions, hidden=config.hidden, activation="relu", head="squashed", state_std=True, critic=shape
            ).to(device)  # fmt: skip
        self.student = student
        handed_over = copy.deepcopy(student)
        self.config = config
        self.experts = Experts(expert if isinstance(expert, Sequence) else [expert], student)
        self.updater = self._updates(student, handed_over)
        self.obs_shape = space.shape or ()
        self.leaders = self.taken = np.zeros(envs.num_envs, np.int64)
        self.progress = self.length = self.expert_length = 0.0
        self.train_return: float | None = None
        self.expert_return: float | None = None
        self.expert_totals = [0.0, 0.0, 0.0]
        self.kept = Kept(handed_over, envs.num_envs, config.greedy_share)
        super().__init__(config, student, envs=envs, seed=seed, device=torch.device(device))
        self.policy = handed_over
        self.average = Average(self.policy, student, config.average)
        width = math.prod(self.obs_shape) + self.experts.count * self.updater.dimensions
        stored = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self.replay = Replay(
            config.replay_size, envs.num_envs, stored, actions,
            gamma=config.gamma, n_step=config.n_step, least_reward=config.least_reward,
        )  # fmt: skip

    def _updates(self, student: ActorPolicy, handed_over: ActorPolicy) -> Updates:  # noqa: ARG002
        return Updates(student, self.config)

    @property
    def expert_queries(self) -> int:
        return self.experts.queries

    @property
    def offline(self) -> bool:
        """True while the student only clones and the critics learn the expert's values."""
        return self.updates < self.config.offline_updates

    @property
    def guided(self) -> bool:
        """True until the expert retires."""
        return self.progress < self.config.guidance_fraction

    @property
    def asking(self) -> bool:
        """True while an expert's action may be played, chosen or cloned. Afterwards none is asked."""
        if not self.ready or self.offline:
            return True
        cloned = self.config.cloning_fraction if self.config.cloning else 0.0
        return self.progress < max(self.config.guidance_fraction, cloned)

    @property
    def jump(self) -> float:
        """Steps of an expert at the start of each episode (Jump-Start RL, arXiv:2204.02372)."""
        left = 1.0 - self.progress / max(self.config.guidance_fraction, 1e-9)
        return self.config.jump_start * self.expert_length * max(left, 0.0)

    @property
    def missing(self) -> int:
        due = 0 if self.config.offline_updates else self.until_due(self.config.updates_per_step)
        return max(super().missing, due)

    # Acting

    def collect(self, limit: int | None = None) -> Rollout:
        """One round's steps; the experts' actions are appended to the observations."""
        self._told: list[Array] = []
        rollout = super().collect(limit)
        self.kept.score_episodes(rollout)
        # The next round begins in these states, except where an episode has ended: there they are the last `end_obs`.
        self._ahead = ahead = self.advice(rollout.last_obs)
        last = ahead[rollout.done[-1]]
        earlier = rollout.end_obs[: len(rollout.ends) - len(last)]
        ends = np.concatenate([self.advice(earlier), last]) if len(earlier) else last
        return replace(
            rollout,
            obs=joined(rollout.obs, np.stack(self._told)),
            end_obs=joined(rollout.end_obs, ends),
            last_obs=joined(rollout.last_obs, ahead),
        )

    def advice(self, obs: Array) -> Array:
        """The experts' actions (N, K, D) for raw observations (N, *obs_shape), or NOT_ASKED."""
        if self.asking:
            return self.experts(obs)
        return np.full((len(obs), self.experts.count, self.updater.dimensions), NOT_ASKED, np.float32)

    def choose(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: an expert at first, then whose action the critics rate highest, then the student."""
        advice, self._ahead = self._ahead, None
        if advice is None:
            advice = self.advice(obs)
        elif begun.any():
            advice[begun] = self.advice(obs[begun])
        self._told.append(advice)
        unit = self._chosen(obs, advice, begun)
        self.kept.note()
        return self.actor.from_unit(unit), unit

    def _chosen(self, obs: Array, advice: Array, begun: Array) -> Array:
        """Actions (N, D) in [-1, 1]."""
        drawn = self.rng.integers(self.experts.count, size=len(obs))  # who leads each episode
        self.leaders = np.where(begun, drawn, self.leaders)
        self.taken = np.where(begun, 0, self.taken + 1)
        led = advice[np.arange(len(obs)), self.leaders]
        if not self.ready:
            return led
        unit = np.tanh(self.actor.sample(obs, self.rng)[1])
        if not self.guided:
            return self.kept.choose(obs, unit, begun, self.rng)
        candidates = torch.from_numpy(np.concatenate([unit[:, None], advice], 1)).to(self.device)
        chosen, best = best_of(self.updater.values(encode(self.student, obs), candidates), candidates)
        jump = self.taken < self.jump
        self._shares.append(float(((best > 0).cpu().numpy() | jump).mean()))
        return np.where(jump[:, None], led, chosen.cpu().numpy())

    # Learning

    def schedule(self, progress: float) -> None:
        # An expert that has retired does not come back if the budget grows: the replay has states without its action.
        self.progress = max(self.progress, progress)
        if self.config.lr_schedule == "linear":
            left = (1.0 - self.progress) / max(1.0 - self.config.guidance_fraction, 1e-9)
            self.updater.set_learning_rate(self.config.learning_rate * min(left, 1.0))

    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps that are due after a round."""
        due = self.updates_due(self.config.updates_per_step) + self.config.offline_updates
        return [self.update(batch) for batch in self.drawn(due)]

    def tensors(self, samples: Samples) -> Batch:
        """Samples as a batch, with the experts' actions `advice` and `next_advice` (B, K, D)."""
        width = math.prod(self.obs_shape)
        raw, following = (
            rows[:, :width].reshape(-1, *self.obs_shape) for rows in (samples.obs, samples.next_obs)
        )
        batch = super().tensors(samples._replace(obs=raw, next_obs=following))
        for name, rows in (("advice", samples.obs), ("next_advice", samples.next_obs)):
            advice = torch.from_numpy(rows[:, width:]).to(self.device)
            batch[name] = torch.unflatten(advice, -1, (self.experts.count, self.updater.dimensions))
        return batch

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step of critics, student and temperature; returns means."""
        fading = 1.0 - self.progress / max(self.config.cloning_fraction, 1e-9)
        cloning = self.config.cloning * max(fading, 0.0)
        phase = Phase(self.offline, self.guided, clones=cloning > 0)
        found = self.updater.step(batch, phase, cloning, self.generator)
        self.updates += 1
        self.average.update()
        return found

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from the results of each `update`."""
        self.updater.check()
        self.iteration += 1
        if not (self.ready and self.expert_totals[2]) and self.sampler.ended:
            ended = [[score.episode_return, score.length, 1] for score in self.sampler.ended]
            self.expert_totals = np.sum([self.expert_totals, *ended], 0).tolist()
            returns, lengths, count = self.expert_totals
            self.expert_return, self.expert_length = returns / count, lengths / count
        metrics = {"ent_coef": float(self.updater.temperature.now)}
        if self._shares:
            metrics["expert_share"], self._shares = float(np.mean(self._shares)), []
        metrics |= means(history)
        episodes = self.sampler.pop_episodes()
        self.length = episodes.get("train_length", self.length)
        self.train_return = episodes.get("train_return", self.train_return)
        return metrics | episodes

    def clone_alone(self, count: int) -> None:
        """Make the policy a clone of the expert, from its actions in the states of the replay in which it was asked.

        It begins anew: a student at a bound of the actions could not leave it, as its tanh has no slope there.
        """
        with seeded(draw_seed(self.seed, self.iteration, 3)):
            for layer in (*self.student.encoder.net.linear, self.student.output):
                layer.reset_parameters()
        self.updater.policy_net.optimizer.restart()
        for update in range(count):
            (batch,) = self.batches(1)
            self.updater.set_learning_rate(self.config.learning_rate * (1.0 - update / count))
            self.updater.copy(batch)
        self.policy.load_state_dict(self.student.state_dict())

    def restart(self) -> None:
        """Begin new episodes with new random numbers."""
        super().restart()
        self.kept.begin(self.sampler.envs.num_envs)
        self._ahead, self._shares = None, []

    _NOTED = ("progress", "length", "train_return", "expert_length", "expert_return", "expert_totals")

    def state_dict(self) -> dict[str, Any]:
        noted = {name: getattr(self, name) for name in self._NOTED}
        return super().state_dict() | noted | {"expert_queries": self.expert_queries}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.experts.queries = state["expert_queries"]
        for name in self._NOTED:
            setattr(self, name, state[name])
