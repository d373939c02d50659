"""Fitted Q evaluation (FQE; arXiv:1903.08738, found the most robust of its kind in arXiv:1911.06854).

It learns the action values of an expert without a critic, from steps of any policy and the expert's actions at their
successors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.configs.fqe import FQEConfig
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array, check_supported
from imitate.errors import InputError
from imitate.experts.values.memory import Memory
from imitate.nn.adam import Adam
from imitate.nn.average import blend
from imitate.nn.following import follow
from imitate.nn.networks import Encoder, seeded
from imitate.nn.normalize import RunningMoments
from imitate.nn.stacked import Stack

__all__ = ["FQEConfig", "FittedQ", "discounted_sums"]


class FittedQ(nn.Module):
    """Twin critics of the expert's policy: a `QOracle` that is learned online, by `fit`.

    gamma         the discount of the values
    reward_scale  ratio of the environment's reward to the reward that the critics learn: the standard deviation of the
                  discounted sums of all rewards so far (SB3's VecNormalize divides by it). When the statistics of
                  inputs and rewards change, the critics are rescaled to keep their values in the environment's rewards

    `state_dict` holds everything except the steps, optimiser included, so a checkpoint restores it byte for byte.
    """

    greedy = False
    observed: Tensor
    low: Tensor
    high: Tensor

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: FQEConfig,
        *,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        check_supported(observation_space, action_space)
        self.config = config
        self.num_actions = int(action_space.n) if isinstance(action_space, spaces.Discrete) else 0
        self.first_action = int(action_space.start) if isinstance(action_space, spaces.Discrete) else 0
        with seeded(seed):
            self.encoder = Encoder(observation_space, (), "relu", normalize=True)
            inputs = self.encoder.features
            if isinstance(action_space, spaces.Box):
                low, high = action_space.low, action_space.high
                high = np.where(high > low, high, low + 1)  # equal bounds have no range to scale by
                self.register_buffer("low", torch.as_tensor(low, dtype=torch.float32))
                self.register_buffer("high", torch.as_tensor(high, dtype=torch.float32))
                inputs += int(np.prod(action_space.shape))
            self.twins = Stack.of_sizes(2, [inputs, *config.hidden, self.num_actions or 1])
        self.returns = RunningMoments()
        self.register_buffer("observed", torch.zeros((), dtype=torch.int64))  # pieces in the statistics
        self._asked: list[Tensor] = []
        self.to(device)
        self.memory = Memory(torch.device(device), gamma=config.gamma, n_step=config.n_step)
        self._target_net = copy.deepcopy(self.encoder.net)
        self._target_twins = copy.deepcopy(self.twins)
        for target in (self._target_net, self._target_twins):
            target.requires_grad_(False)
        self._learned = (*self.encoder.net.parameters(), *self.twins.parameters())
        self._targets = (*self._target_net.parameters(), *self._target_twins.parameters())
        self.optimizer = Adam(self._learned, config.learning_rate)

    @property
    def gamma(self) -> float:
        return self.config.gamma

    @property
    def reward_scale(self) -> float:
        spread = float(self.returns.var.sqrt())
        return spread if self.returns.count > 0 and spread > 1e-6 else 1.0

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Mean of the twins (B,), differentiable in continuous actions; see `QOracle`."""
        return self.heads(obs, actions).mean(0)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Each twin's estimate (2, B), for shared actions (B, ...) or separate ones (2, B, ...)."""
        prepared = self.encoder.prepare(obs)
        return self._values(self.encoder.net, self.twins, prepared, actions)

    def q_all(self, obs: Tensor) -> Tensor:
        """Mean of the twins for every action (B, A). Raises InputError if actions are continuous."""
        if not self.num_actions:
            raise InputError("q_all needs discrete actions; for continuous ones use q(obs, actions)")
        features = self.encoder(self.encoder.prepare(obs))
        return self.twins.values(features).mean(0)  # (B, A)

    def take_in(self, pieces: Sequence[Trajectory], ask: Callable[[Array], Array]) -> None:
        """Append the pieces to the memory and update the statistics with them.

        A piece holds the expert's labels except for its last observation; `ask` is called for that one, unless the
        task ended there.
        """
        for piece in pieces:
            index = self.memory.pieces
            if index == len(self._asked):  # otherwise a checkpoint had it
                label = piece.labels[-1:] if piece.terminated else ask(piece.obs[-1:])
                self._asked.append(torch.from_numpy(np.array(label, piece.labels.dtype)))
            self.memory.append(piece, self._asked[index])
            if index >= int(self.observed):
                self.observe(piece)

    @torch.no_grad()
    def observe(self, piece: Trajectory) -> None:
        """Update the statistics with the observations and rewards of a piece."""
        device, before = self.observed.device, self.reward_scale
        if self.encoder.moments is not None:
            features = self.encoder.features
            stacks = self.twins, self._target_twins
            layers = [(stack.weights[0][..., :features], stack.biases[0]) for stack in stacks]
            follow(
                self.encoder.moments, torch.from_numpy(np.ascontiguousarray(piece.obs)).to(device), *layers
            )
        begun = bool(self.returns.count > 0)
        self.returns.update(torch.tensor(discounted_sums(piece.rewards, self.gamma), device=device))
        self.observed += 1
        if begun:
            for twins in (self.twins, self._target_twins):
                for parameter in (twins.weights[-1], twins.biases[-1]):
                    parameter.mul_(before / self.reward_scale)

    def fit(self, updates: int, rng: np.random.Generator, *, held_out: int = 0) -> float:
        """Take `updates` gradient steps on the steps in memory except the last `held_out`; returns the last loss."""
        loss = torch.zeros(())
        for _ in range(updates):
            rows = rng.integers(max(len(self.memory) - held_out, 1), size=self.config.batch_size)
            loss = self.update(self.memory.batch(torch.from_numpy(rows)))
        return float(loss)

    def update(self, batch: Mapping[str, Tensor]) -> Tensor:
        """One gradient step; returns the loss () as a tensor, so that a GPU is not waited for.

        batch holds `obs`, `actions`, `rewards`, `next_obs`, `next_actions` (the expert's there) and `terminated`, with
        rows (B, ...) in the environment's units, and `discounts` (B,) of the successor's value if they are not gamma.
        Truncation does not end the task: the target then includes the successor's value.
        """
        targets = self.targets(batch)
        if self.encoder.is_image:
            values = self.heads(batch["obs"], batch["actions"])  # (2, B)
            loss = F.mse_loss(values, targets.expand_as(values))
            self.optimizer.step(loss)
        else:  # without autograd, which takes a third longer
            inputs = self._inputs(self.encoder.prepare(batch["obs"]), batch["actions"])

            def squared_error(outputs: Tensor) -> tuple[Tensor, Tensor]:
                errors = (self._taken(outputs, batch["actions"]) - targets).to(outputs.dtype)  # (2, B)
                gradient = (errors * (2.0 / errors.numel()))[..., None]
                if self.num_actions:
                    where = self._indices(batch["actions"])
                    gradient = torch.zeros_like(outputs).scatter_(2, where, gradient)
                return errors.square().mean(), gradient

            loss, _ = self.twins.descend(inputs, squared_error, self.optimizer)
        blend(self._targets, self._learned, self.config.tau)
        return loss.detach()

    @torch.no_grad()
    def targets(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Targets (B,): r + gamma Q_target(s', a*(s')), without the second term if the episode terminated."""
        prepared = self.encoder.prepare(batch["next_obs"])
        twins = self._values(self._target_net, self._target_twins, prepared, batch["next_actions"])
        following = twins.mean(0) if self.config.target == "mean" else twins.min(0).values
        discounts = batch.get("discounts", self.gamma)
        return batch["rewards"] / self.reward_scale + discounts * following * ~batch["terminated"]

    def get_extra_state(self) -> dict[str, Any]:
        asked = torch.cat(self._asked) if self._asked else torch.zeros(0)
        return {"optimizer": self.optimizer.state_dict(), "asked": asked}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self._asked = list(state["asked"].split(1)) if len(state["asked"]) else []

    def _values(self, net: nn.Module, twins: Stack, prepared: Tensor, actions: Tensor) -> Tensor:
        """Values (2, B)."""
        features = net(prepared / 255.0 if self.encoder.is_image else prepared)
        return self._taken(twins.values(self._inputs(features, actions)), actions)

    def _inputs(self, features: Tensor, actions: Tensor) -> Tensor:
        """The twins' inputs (B, I), or (2, B, I) if each has actions of its own."""
        if self.num_actions:
            return features
        unit = 2.0 * (actions - self.low) / (self.high - self.low) - 1.0  # (B, D) or (2, B, D)
        return torch.cat([features.expand(*unit.shape[:-1], -1), unit.float()], -1)

    def _taken(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """The values (2, B) of these actions, from outputs (2, B, A). A is 1 if actions are inputs."""
        return (
            outputs.gather(2, self._indices(actions)).squeeze(2) if self.num_actions else outputs.squeeze(2)
        )

    def _indices(self, actions: Tensor) -> Tensor:
        """The places (2, B, 1) of these actions among the outputs."""
        return (actions.long() - self.first_action).reshape(1, -1, 1).expand(2, -1, 1)


def discounted_sums(rewards: Array, gamma: float) -> list[float]:
    """(T,) running discounted sums of the rewards of a piece."""
    running, sums = 0.0, []
    for reward in rewards.tolist():
        running = gamma * running + reward
        sums.append(running)
    return sums
