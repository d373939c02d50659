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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, check_plain
from imitate.envs.vec import VecEnv
from imitate.errors import InputError, check_range
from imitate.nn.adam import Adam
from imitate.nn.average import blend
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.rl.actor import Actor, encode
from imitate.rl.budget import progress_of, rounds
from imitate.rl.prioritized import PrioritizedReplay
from imitate.rl.replay import Replay, Samples
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["DQN", "DQNConfig", "QNet", "dqn_loss", "dqn_targets"]

Values = Callable[[Tensor], Tensor]  # prepared observations (B, ...) to action values (B, A)


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
        check_range(self, 0, math.inf, "learning_rate")
        check_range(self, 1e-6, math.inf, "huber", "max_grad_norm")
        check_range(self, 0, 1, "gamma", "tau", "epsilon_final", "exploration_fraction", "priority_beta")
        check_range(self, 0, math.inf, "priority_alpha")
        if self.learning_starts > self.replay_size // 2:
            raise InputError(
                f"learning_starts must be at most half of replay_size, got {self.learning_starts} of {self.replay_size}"
            )


class QNet(nn.Module):
    """Action values (B, A) of prepared observations; they are the policy's logits.

    With `dueling`, Q = V + A - mean A, where V and A are each linear in half of the features (the paper gives each
    stream a full layer). The sum is linear in the features, so `fold` can write it into the policy's output layer.
    """

    def __init__(self, policy: ActorPolicy, *, dueling: bool) -> None:
        super().__init__()
        self.policy, self.dueling = policy, dueling
        if dueling:
            width = policy.output.in_features // 2
            self.value = nn.Linear(width, 1)
            self.advantage = nn.Linear(policy.output.in_features - width, policy.output.out_features)

    def forward(self, prepared: Tensor) -> Tensor:
        features: Tensor = self.policy.encoder(prepared)
        if not self.dueling:
            return self.policy.output(features)  # type: ignore[no-any-return]
        of_value, of_advantage = features.split(  # type: ignore[no-untyped-call]
            [self.value.in_features, self.advantage.in_features], dim=-1
        )
        advantages = self.advantage(of_advantage)
        return self.value(of_value) + advantages - advantages.mean(-1, keepdim=True)  # type: ignore[no-any-return]

    def learned(self) -> list[nn.Parameter]:
        """The parameters that `forward` uses."""
        if not self.dueling:
            return list(self.policy.parameters())
        streams = [*self.value.parameters(), *self.advantage.parameters()]
        return [*self.policy.encoder.parameters(), *streams]

    @torch.no_grad()
    def fold(self) -> None:
        """Write these values into the policy, as its logits."""
        if self.dueling:
            advantage, value = self.advantage, self.value
            centered = advantage.weight - advantage.weight.mean(0)
            actions = len(centered)
            self.policy.output.weight.copy_(torch.cat([value.weight.expand(actions, -1), centered], 1))
            self.policy.output.bias.copy_(value.bias + advantage.bias - advantage.bias.mean())


@torch.no_grad()
def dqn_targets(q_net: Values, target_net: Values, batch: dict[str, Tensor], *, double: bool) -> Tensor:
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


def dqn_loss(
    q_net: Values, targets: Tensor, batch: dict[str, Tensor], huber: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Huber loss between the values of the actions taken and targets (B,), and its parts (B,).

    batch holds, over B samples: obs (prepared), actions (indices) and, with prioritised replay, weights.
    """
    values = q_net(batch["obs"]).gather(-1, batch["actions"][:, None]).squeeze(-1)  # (B,)
    losses = F.smooth_l1_loss(values, targets, reduction="none", beta=huber)
    if "weights" in batch:
        losses = batch["weights"] * losses
    return losses.mean(), {"q_loss": losses, "values": values, "targets": targets}


class DQN:
    """DQN on vector environments with discrete actions.

    SQIL composes it from its parts: `schedule`, `collect`, `replay.add`, `update` on batches that `tensors` made, and
    `end_iteration`. QDagger is a DQN with another `loss`.
    """

    expert_queries = 0

    def __init__(
        self, config: DQNConfig, *, envs: VecEnv, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        space, actions = envs.single_observation_space, envs.single_action_space
        check_plain("DQN", space, actions)
        if not isinstance(actions, spaces.Discrete):
            raise InputError(f"dqn wants discrete actions, got {actions}; use ppo")
        self.config, self.seed, self.device = config, seed, torch.device(device)
        self.num_actions, self.first_action = int(actions.n), int(actions.start)
        with seeded(seed):
            policy = ActorPolicy(space, actions, hidden=config.hidden, activation=config.activation)
            if config.bfloat16 and not policy.encoder.is_image:
                raise InputError(f"bfloat16 is for pixels, got {space}; leave it out")
            policy.encoder.in_bfloat16 = config.bfloat16
            self.q_net = QNet(policy, dueling=config.dueling).to(self.device)
        self.policy = policy
        self.q_net.fold()
        self.target_net = copy.deepcopy(self.q_net).requires_grad_(False)
        self.optimizer = Adam(self.q_net.learned(), config.learning_rate, max_grad_norm=config.max_grad_norm)
        replay_class = PrioritizedReplay if config.prioritized else Replay
        self.replay = replay_class(
            config.replay_size, envs.num_envs, space, actions, gamma=config.gamma, n_step=config.n_step
        )
        self._parameters = list(self.q_net.parameters())
        self._target_parameters = list(self.target_net.parameters())
        self.actor = Actor(policy)
        self.iteration = self.updates = 0
        self.sampler = Sampler(envs)
        self.schedule(0.0)
        self._reseed()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def least_steps(self) -> int:
        each, missing = self.sampler.envs.num_envs, self.config.learning_starts - len(self.replay)
        return max(-(-missing // each), 1) * each

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: `rounds_per_iteration` rounds of collecting and learning.

        Metrics are means over these rounds.
        """
        history = []  # one entry per gradient step
        for left in rounds(self, self.config.rounds_per_iteration, limit):
            self.schedule(progress_of(self, left))
            self.replay.add(self.collect(left))
            if len(self.replay) >= self.config.learning_starts:
                history += self._learn()
        return self.end_iteration(history)

    def schedule(self, progress: float) -> None:
        """Set epsilon, step size and priority exponent for this progress of the run, in [0, 1]."""
        config = self.config
        explored = min(progress / max(config.exploration_fraction, 1e-9), 1.0)
        self.epsilon = 1.0 + (config.epsilon_final - 1.0) * explored
        if config.lr_schedule == "linear":
            self.optimizer.learning_rate = config.learning_rate * (1.0 - progress)
        self.priority_beta = config.priority_beta + (1.0 - config.priority_beta) * progress

    def collect(self, limit: int | None = None) -> Rollout:
        """One round's steps, at most `limit`; they are not in the replay yet."""
        return self.sampler.collect(self._choose, self.config.num_steps, limit)

    def update(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """One gradient step on a batch that `tensors` made; returns the parts (B,) of its loss."""
        loss, parts = self.loss(batch)
        self.optimizer.step(loss)
        self.updates += 1
        if self.updates % self.config.target_every == 0:
            blend(self._target_parameters, self._parameters, self.config.tau)
        return {name: part.detach() for name, part in parts.items()}

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss () of a batch, and its parts (B,)."""
        targets = dqn_targets(self.q_net, self.target_net, batch, double=self.config.double)
        return dqn_loss(self.q_net, targets, batch, self.config.huber)

    def tensors(self, samples: Samples) -> dict[str, Tensor]:
        """Samples of a replay, as a batch for `update`."""
        columns = {"actions": samples.actions, "returns": samples.returns, "discounts": samples.discounts}
        return {
            "obs": encode(self.policy, samples.obs),
            "next_obs": encode(self.policy, samples.next_obs),
            **{name: torch.from_numpy(column).to(self.device) for name, column in columns.items()},
        }

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from the results of each `update`."""
        self.q_net.fold()
        self.iteration += 1
        metrics = {"epsilon": self.epsilon, "learning_rate": self.optimizer.learning_rate}
        if history:
            metrics["q_loss"] = float(torch.cat([parts["q_loss"] for parts in history]).mean())
            metrics["mean_q"] = float(torch.cat([parts["values"] for parts in history]).mean())
        return metrics | self.sampler.pop_episodes()

    def _learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps of one round."""
        count, size = self.config.num_updates, self.config.batch_size
        if isinstance(self.replay, PrioritizedReplay):
            return [self._learn_by_priority(self.replay) for _ in range(count)]
        drawn = self.tensors(self.replay.sample(size * count, self.rng))
        pieces = {name: torch.split(column, size) for name, column in drawn.items()}
        return [self.update({name: piece[i] for name, piece in pieces.items()}) for i in range(count)]

    def _learn_by_priority(self, replay: PrioritizedReplay) -> dict[str, Tensor]:
        samples = replay.sample(self.config.batch_size, self.rng)
        # Weights (1 / (size P))^beta, divided by their maximum: the size cancels (arXiv:1511.05952, section 3.4).
        weights = (samples.probabilities / samples.probabilities.min()) ** np.float32(-self.priority_beta)
        parts = self.update(self.tensors(samples) | {"weights": torch.from_numpy(weights).to(self.device)})
        errors = (parts["values"] - parts["targets"]).abs().cpu().numpy()
        replay.prioritize(samples.slots, (errors + 1e-6) ** self.config.priority_alpha)
        return parts

    def _choose(self, obs: Array, _begun: Array) -> tuple[Array, Array]:
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
        greedy: Array = self.actor.outputs(obs).argmax(-1)
        return greedy

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.sampler.restart(seed)
        self.replay.begin()

    def state_dict(self) -> dict[str, Any]:
        """Includes the replay, unless it holds pixels, which would take gigabytes."""
        return {
            "iteration": self.iteration,
            "updates": self.updates,
            "env_steps": self.env_steps,
            "q_net": self.q_net.state_dict(),
            "target_net": self.target_net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "replay": {} if self.policy.encoder.is_image else self.replay.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes, seeded by the iteration: a checkpoint is a reset point.

        A state holds no replay of pixels. If the state is this learner's own, as at each checkpoint of a running
        learner, the replay stays as it is. Otherwise it is emptied, and learning resumes once it holds
        `learning_starts` steps.
        """
        own = state["env_steps"] == self.env_steps
        self.iteration, self.updates = state["iteration"], state["updates"]
        for name in ("q_net", "target_net", "optimizer"):
            getattr(self, name).load_state_dict(state[name])
        if not self.policy.encoder.is_image:
            self.replay.load_state_dict(state["replay"])
        elif not own:
            self.replay.clear()
        self.sampler.env_steps = state["env_steps"]
        self._reseed()
