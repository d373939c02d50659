"""Deep Q-learning (Mnih et al. 2015).

Each extension is a field: double (arXiv:1509.06461), dueling (arXiv:1511.06581), n-step returns and prioritised replay
(arXiv:1511.05952).

A round takes a few steps of N environments with epsilon-greedy actions, then a few gradient steps on samples from the
replay. The policy's logits are the action values, so acting deterministically means acting greedily. Sampling from the
policy would be a softmax over values, which is not what was trained.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.errors import InputError, check_range
from imitate.nn.adam import Adam
from imitate.nn.average import blend
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.q_net import QNet, QValues
from imitate.rl.actor import encode
from imitate.rl.budget import rounds
from imitate.rl.off_policy import Batch, OffPolicy, Tutor
from imitate.rl.prioritized import PrioritizedReplay, importance_weights
from imitate.rl.replay import Replay, Samples

__all__ = ["DQN", "DQNConfig", "dqn_loss", "dqn_targets"]


@dataclass(frozen=True)
class DQNConfig:
    """Hyperparameters of DQN."""

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    num_steps: int = 4
    """Steps of each environment in a round."""
    num_updates: int = 16
    """Gradient steps in a round."""
    rounds_per_iteration: int = 32
    """Rounds between two lines of the log."""
    batch_size: int = 64
    """Samples in a gradient step."""
    replay_size: int = 100_000
    """Steps that the replay remembers, over all environments. A replay of pixels is not saved in checkpoints."""
    learning_starts: int = 1_000
    """Steps in the replay before the first gradient step."""
    learning_rate: float = 5e-4
    """Adam's step size at the start."""
    lr_schedule: Literal["constant", "linear"] = "linear"
    """`linear` decays to 0 by the end of the run."""
    gamma: float = 0.99
    """Discount."""
    n_step: int = 3
    """Rewards that a target sums before it bootstraps."""
    double: bool = True
    """The online network chooses the next action and the target network values it."""
    dueling: bool = False
    """Separate streams for state value and advantages, each fed by half of the last hidden layer."""
    prioritized: bool = False
    """Sample in proportion to the last error instead of uniformly."""
    priority_alpha: float = 0.6
    """Exponent of the priorities; 0 is uniform."""
    priority_beta: float = 0.4
    """Exponent of the importance weights at the start; it rises linearly to 1 by the end of the run."""
    huber: float = 100.0
    """Threshold between squared and absolute error. Huber errors bias towards the median and miss rare terminations;
    set this near the typical |Q|."""
    target_every: int = 1
    """Gradient steps between updates of the target network."""
    tau: float = 0.005
    """Share of the online network in an update of the target network; 1 copies it."""
    epsilon_final: float = 0.05
    """Share of random actions at the end; it starts at 1."""
    exploration_fraction: float = 0.1
    """Share of the run over which epsilon decays linearly."""
    max_grad_norm: float = 10.0
    """Gradients are clipped to this norm."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of the hidden layers."""
    bfloat16: bool = False
    """With pixels: multiply in bfloat16 below the output layer. On processors that support it, a gradient step takes
    two thirds of the time."""

    def __post_init__(self) -> None:
        names = ("total_steps", "num_steps", "num_updates", "rounds_per_iteration", "batch_size", "n_step")
        check_range(self, 1, math.inf, *names, "learning_starts", "target_every")
        check_range(self, 0, math.inf, "learning_rate", "priority_alpha")
        check_range(self, 1e-6, math.inf, "huber", "max_grad_norm")
        check_range(self, 0, 1, "gamma", "tau", "epsilon_final", "exploration_fraction", "priority_beta")
        if self.learning_starts > self.replay_size // 2:
            raise InputError(
                f"learning_starts must be at most half of replay_size, got {self.learning_starts} of {self.replay_size}"
            )


@torch.no_grad()
def dqn_targets(q_net: QValues, target_net: QValues, batch: Batch, *, double: bool) -> Tensor:
    """Returns plus the discounted value of the best next action (B,).

    With `double`, q_net chooses that action (arXiv:1509.06461). batch holds, over B samples: next_obs (prepared),
    returns, discounts (0 if the episode terminated).
    """
    next_values = target_net(batch["next_obs"])  # (B, A)
    if double:
        best = q_net(batch["next_obs"]).argmax(-1, keepdim=True)
        values = next_values.gather(-1, best).squeeze(-1)
    else:
        values = next_values.amax(-1)
    return batch["returns"] + batch["discounts"] * values


def dqn_loss(q_net: QValues, targets: Tensor, batch: Batch, huber: float) -> tuple[Tensor, dict[str, Tensor]]:
    """Huber loss between the values of the actions taken and targets (B,), and its parts (B,).

    batch holds, over B samples: obs (prepared), actions (indices) and, with prioritised replay, weights.
    """
    values = q_net(batch["obs"]).gather(-1, batch["actions"][:, None]).squeeze(-1)  # (B,)
    losses = F.smooth_l1_loss(values, targets, reduction="none", beta=huber)
    if "weights" in batch:
        losses = batch["weights"] * losses
    return losses.mean(), {"q_loss": losses, "values": values, "targets": targets}


class DQN(OffPolicy):
    """DQN on vector environments with discrete actions.

    SQIL composes it from its parts: `schedule`, `collect`, `replay.add`, `update` on `batches`, and `end_iteration`.
    QDagger sets a `tutor`, which adds a loss.
    """

    config: DQNConfig
    parts = ("q_net", "target_net", "optimizer")

    def __init__(
        self, config: DQNConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        space, actions = envs.single_observation_space, envs.single_action_space
        check_plain("DQN", space, actions)
        if not isinstance(actions, spaces.Discrete):
            raise InputError(f"dqn wants discrete actions, got {actions}; use ppo")
        self.num_actions, self.first_action = int(actions.n), int(actions.start)
        with seeded(seed):
            policy = ActorPolicy(space, actions, hidden=config.hidden, activation=config.activation)
            if config.bfloat16 and not policy.encoder.is_image:
                raise InputError(f"bfloat16 is for pixels, got {space}; leave it out")
            policy.encoder.in_bfloat16 = config.bfloat16
            self.q_net = QNet(policy, dueling=config.dueling).to(device)
        self.q_net.fold()
        self.target_net = copy.deepcopy(self.q_net).requires_grad_(False)
        self._learned, self._targets = tuple(self.q_net.parameters()), tuple(self.target_net.parameters())
        self.optimizer = Adam(self.q_net.learned(), config.learning_rate, max_grad_norm=config.max_grad_norm)
        replay = PrioritizedReplay if config.prioritized else Replay
        super().__init__(config, policy, envs=envs, seed=seed, device=torch.device(device), replay=replay)
        self.tutor: Tutor | None = None
        self.schedule(0.0)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps; metrics are means over its gradient steps."""
        history = []
        for left, progress in rounds(self, self.config.rounds_per_iteration, limit):
            self.schedule(progress)
            self.replay.add(self.collect(left))
            if self.ready:
                history += self.learn()
        return self.end_iteration(history)

    def schedule(self, progress: float) -> None:
        """Set epsilon, step size and priority exponent for this progress of the run, in [0, 1]."""
        config = self.config
        explored = min(progress / max(config.exploration_fraction, 1e-9), 1.0)
        self.epsilon = 1.0 + (config.epsilon_final - 1.0) * explored
        if config.lr_schedule == "linear":
            self.optimizer.learning_rate = config.learning_rate * (1.0 - progress)
        self.priority_beta = config.priority_beta + (1.0 - config.priority_beta) * progress

    def choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: epsilon-greedy."""
        explore = self.rng.random(len(obs)) < self.epsilon
        actions = self.rng.integers(self.num_actions, size=len(obs))
        if not explore.all():
            actions = np.where(explore, actions, self._greedy(obs))
        return actions + self.first_action, actions

    def _greedy(self, obs: Array) -> Array:
        """Indices of the actions of highest value (N,)."""
        if self.config.dueling:  # the streams are not in the policy's output before `fold`
            with torch.inference_mode():
                return np.asarray(self.q_net(encode(self.policy, obs)).argmax(-1).cpu())
        return np.asarray(self.actor.outputs(obs).argmax(-1))

    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps of one round; returns the parts (B,) of each one's loss."""
        if isinstance(self.replay, PrioritizedReplay):
            return [self._learn_by_priority(self.replay) for _ in range(self.config.num_updates)]
        return [self.update(batch) for batch in self.batches(self.config.num_updates)]

    def _learn_by_priority(self, replay: PrioritizedReplay) -> dict[str, Tensor]:
        samples = replay.sample(self.config.batch_size, self.rng)
        weights = torch.from_numpy(importance_weights(samples.probabilities, self.priority_beta))
        parts = self.update(self.tensors(samples) | {"weights": weights.to(self.device)})
        errors = (parts["values"] - parts["targets"]).abs().cpu().numpy()
        replay.prioritize(samples.slots, (errors + 1e-6) ** self.config.priority_alpha)
        return parts

    def tensors(self, samples: Samples) -> Batch:
        """Samples of a replay, as a batch for `update`, with the tutor's columns."""
        batch = super().tensors(samples)
        if self.tutor is not None:
            batch |= self.tutor.columns(self.q_net, samples.obs, batch["obs"])
        return batch

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step; the target network follows. Returns the parts (B,) of the loss."""
        targets = dqn_targets(self.q_net, self.target_net, batch, double=self.config.double)
        loss, parts = dqn_loss(self.q_net, targets, batch, self.config.huber)
        if self.tutor is not None:
            loss = loss + self.tutor.loss(self.q_net, batch)
        self.descend(loss)
        return {name: part.detach() for name, part in parts.items()}

    def descend(self, loss: Tensor) -> None:
        """One gradient step on a loss () of q_net; the target network follows."""
        self.optimizer.step(loss)
        self.updates += 1
        if self.updates % self.config.target_every == 0:
            blend(self._targets, self._learned, self.config.tau)

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from the results of each `update`."""
        self.q_net.fold()
        self.iteration += 1
        metrics = {"epsilon": self.epsilon, "learning_rate": self.optimizer.learning_rate}
        if history:
            metrics["q_loss"] = float(torch.cat([parts["q_loss"] for parts in history]).mean())
            metrics["mean_q"] = float(torch.cat([parts["values"] for parts in history]).mean())
        return metrics | self.sampler.pop_episodes()
