"""Deep Q-learning (Mnih et al. 2015).

Each extension is a field: double (arXiv:1509.06461), dueling (arXiv:1511.06581), n-step returns and prioritised replay
(arXiv:1511.05952).

A round takes a few steps of N environments with epsilon-greedy actions, then a few gradient steps on samples from the
replay. The policy's logits are the action values, so acting deterministically means acting greedily. Sampling from the
policy would be a softmax over values, which is not what was trained.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor

from imitate.configs.dqn import DQNConfig
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.average import Average, blend
from imitate.nn.graphed import Graphed
from imitate.nn.networks import is_image, seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.q_net import QNet, QValues
from imitate.nn.stacked import Stack, stack_of
from imitate.rl.actor import on_device
from imitate.rl.batches import Batch
from imitate.rl.handed import takes
from imitate.rl.off_policy import OffPolicy, Tutor
from imitate.rl.prioritized import PrioritizedReplay, importance_weights
from imitate.rl.replay import Replay, Samples

__all__ = ["DQN", "DQNConfig", "dqn_loss", "dqn_targets"]


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

    policy  what is handed over: the network that acts and learns, or the moving average of its weights
    """

    config: DQNConfig
    parts = ("q_net", "target_net", "optimizer", "averaged", "average")

    @takes(DQNConfig)
    def __init__(
        self, config: DQNConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        space, actions = envs.single_observation_space, envs.single_action_space
        check_plain("DQN", space, actions)
        if not isinstance(actions, spaces.Discrete):
            raise InputError(f"dqn wants discrete actions, got {actions}; use ppo")
        self.num_actions, self.first_action = int(actions.n), int(actions.start)
        with seeded(seed):
            policy = ActorPolicy(
                space,
                actions,
                hidden=config.hidden,
                activation=config.activation,
                layer_norm=config.layer_norm and not is_image(space),
            )
            if config.bfloat16 and not policy.encoder.is_image:
                raise InputError(f"bfloat16 is for pixels, got {space}; leave it out")
            policy.encoder.in_bfloat16 = config.bfloat16
            self.q_net = QNet(policy, dueling=config.dueling).to(device)
        self.q_net.fold()
        self.target_net = copy.deepcopy(self.q_net).requires_grad_(False)
        self._learned, self._targets = tuple(self.q_net.parameters()), tuple(self.target_net.parameters())
        self.optimizer = Adam(self.q_net.learned(), config.learning_rate, max_grad_norm=config.max_grad_norm)
        online, target = (stack_of(net.policy) for net in (self.q_net, self.target_net))
        self._nets = None if online is None or target is None or config.dueling else (online, target)
        self._graphed = Graphed(self._step, self.optimizer)
        self._valued = Graphed(self._values, network=self.q_net)
        replay = PrioritizedReplay if config.prioritized else Replay
        super().__init__(config, policy, envs=envs, seed=seed, device=torch.device(device), replay=replay)
        self.averaged: QNet | None = None
        self.average: Average | None = None
        if config.average:
            self.averaged = copy.deepcopy(self.q_net)
            self.average = Average(self.averaged, self.q_net, config.average)
            self.policy = self.averaged.policy  # `actor` has the policy that acts
        self.tutor: Tutor | None = None
        self.schedule(0.0)

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
            actions = np.where(explore, actions, self.preferred(obs))
        return self.to_env(actions), actions

    def to_env(self, actions: Array) -> Array:
        """The environment's actions (N,), from indices (N,) that begin at 0."""
        return (actions + self.first_action).astype(self.policy.action_space.dtype, copy=False)

    def preferred(self, obs: Array) -> Array:
        """Indices (N,) of the actions that are taken without exploration: those of highest value."""
        return np.asarray(self.values(obs).argmax(-1))

    def values(self, obs: Array) -> Array:
        """Action values (N, A) of raw observations (N, *obs_shape)."""
        if self.config.dueling:  # the streams are not in the policy's output before `fold`
            with torch.no_grad():
                return np.asarray(self._valued({"obs": on_device(self.policy, obs)})["values"].cpu())
        return self.actor.outputs(obs)

    def _values(self, batch: Batch) -> dict[str, Tensor]:
        return {"values": self.q_net(self.policy.encoder.prepare(batch["obs"]))}

    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps of one round; returns the parts (B,) of each one's loss."""
        if isinstance(self.replay, PrioritizedReplay):
            return [self._learn_by_priority(self.replay) for _ in range(self.config.num_updates)]
        return [self.update(batch) for batch in self.drawn(self.config.num_updates)]

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
        parts = self._graphed(batch) if self.tutor is None else self._step(batch)
        self._follow()
        return parts

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step of `q_net` alone."""
        if self._nets is not None and self.tutor is None:
            return self._step_by_hand(batch, *self._nets)
        targets = dqn_targets(self.q_net, self.target_net, batch, double=self.config.double)
        loss, parts = dqn_loss(self.q_net, targets, batch, self.config.huber)
        if self.tutor is not None:
            loss = loss + self.tutor.loss(self.q_net, batch)
        self.optimizer.step(loss)
        return {name: part.detach() for name, part in parts.items()}

    @torch.no_grad()
    def _step_by_hand(self, batch: Batch, net: Stack, target_net: Stack) -> dict[str, Tensor]:
        """`_step` without autograd, in half of its time for a small network."""
        config = self.config
        targets = dqn_targets(net.outputs, target_net.outputs, batch, double=config.double)
        outputs, tape = net(batch["obs"])
        loss, parts = dqn_loss(lambda _: outputs, targets, batch, config.huber)
        slopes = ((parts["values"] - targets) / config.huber).clamp_(-1.0, 1.0).div_(len(targets))
        if "weights" in batch:
            slopes *= batch["weights"]
        gradient = torch.zeros_like(outputs).scatter_(-1, batch["actions"][:, None], slopes[:, None])
        self.optimizer.collect_views()
        net.backward(tape, gradient)
        self.optimizer.descend(loss)
        return parts

    def descend(self, loss: Tensor) -> None:
        """One gradient step on a loss () of q_net; the target network follows."""
        self.optimizer.step(loss)
        self._follow()

    def _follow(self) -> None:
        """Count a gradient step; the target network and the average follow."""
        self.updates += 1
        if self.updates % self.config.target_every == 0:
            blend(self._targets, self._learned, self.config.tau)
        if self.average is not None:
            self.average.update()

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from the results of each `update`."""
        self._graphed.check()
        (self.averaged or self.q_net).fold()
        self.iteration += 1
        metrics = {"epsilon": self.epsilon, "learning_rate": self.optimizer.learning_rate}
        if history:
            metrics["q_loss"] = float(torch.cat([parts["q_loss"] for parts in history]).mean())
            metrics["mean_q"] = float(torch.cat([parts["values"] for parts in history]).mean())
        return metrics | self.sampler.pop_episodes()
