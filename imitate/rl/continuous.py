"""The common parts of SAC, TQC and TD3.

`ActorCritic` has the networks, the demonstrations and the frame of an iteration; algorithms add `choose` and
`_descend`, a gradient step.
"""

from __future__ import annotations

import copy
import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor

from imitate.configs.continuous import ContinuousConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array, check_plain, uniform_actions
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.average import Average, blend
from imitate.nn.graphed import Graphed
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape, Graded, Stack, stack_of
from imitate.nn.state import load_parts, parts_state
from imitate.rl.batches import Batch, means, replay_of
from imitate.rl.off_policy import OffPolicy

logger = logging.getLogger(__name__)

__all__ = [
    "ActorCritic",
    "Critics",
    "PolicyNet",
    "check_continuous",
    "critic_loss",
    "soft_targets",
]


def soft_targets(outputs: Tensor, bonus: Tensor | float, batch: Batch) -> Tensor:
    """Returns plus the discounted soft value of the next state (B, 1): the least of the critics' outputs (C, B, 1) and
    the entropy bonus (B,)."""
    values = outputs.amin(0).squeeze(-1) + bonus  # (B,)
    return (batch["returns"] + batch["discounts"] * values)[:, None]


def critic_loss(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Half the mean squared error of each critic (C, B, 1) to the targets (B, 1), summed over critics; and its
    gradient by the outputs."""
    errors = outputs - targets
    return 0.5 * errors.square().mean((1, 2)).sum(), errors / errors.shape[1]


class Critics:
    """The critics of a policy, the target that slowly follows them, and their optimiser.

    Observations are prepared (B, F), actions in [-1, 1] (B, D), outputs (C, B, K): K values of each of C critics.
    """

    parts = ("target", "optimizer")  # the critics themselves are part of the policy

    def __init__(self, policy: ActorPolicy, learning_rate: float, tau: float) -> None:
        assert policy.critic is not None
        self.online, self.tau = policy.critic, tau
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = Adam(self.online.parameters(), learning_rate)
        self._followed = tuple(self.target.parameters()), tuple(self.online.parameters())

    def of_target(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The target's outputs."""
        outputs: Tensor = self.target(torch.cat([obs, actions], -1))[0]
        return outputs

    def fit(
        self, obs: Tensor, actions: Tensor, loss: Graded, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """One gradient step on a loss of the outputs; returns the loss () and the outputs. Without a generator no
        units are dropped."""
        return self.online.descend(torch.cat([obs, actions], -1), loss, self.optimizer, generator)

    def slope(self, obs: Tensor, actions: Tensor, value: Graded) -> tuple[Tensor, Tensor]:
        """Values (B,) of these actions and their gradients by the actions (B, D)."""
        outputs, tape = self.online(torch.cat([obs, actions], -1))
        values, gradient = value(outputs)
        slope = self.online.backward(tape, gradient, learn=False, inputs=slice(obs.shape[-1], None))
        assert slope is not None
        return values, slope

    def follow(self) -> None:
        """Move the target towards the critics."""
        blend(*self._followed, self.tau)

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self.parts)


class PolicyNet:
    """A policy's network with its optimiser: prepared observations (B, F) to the head's outputs (B, A)."""

    parts = ("optimizer",)  # the network is the policy's

    def __init__(self, policy: ActorPolicy, learning_rate: float) -> None:
        stack = stack_of(policy)
        assert stack is not None
        self.stack = stack
        self.optimizer = Adam(self.stack.parameters(), learning_rate)

    def outputs(self, obs: Tensor) -> Tensor:
        """The head's outputs, without gradients."""
        return self.stack.outputs(obs)

    def descend(self, obs: Tensor, gradient: Callable[[Tensor], Tensor]) -> None:
        """One gradient step; `gradient` takes the outputs (B, A) to the gradient of the loss by them."""
        outputs, tape = self.stack(obs)
        by_outputs = gradient(outputs)
        self.optimizer.collect_views()
        self.stack.backward(tape, by_outputs)
        self.optimizer.descend()

    def state_dict(self) -> dict[str, Any]:
        return parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_parts(self, state, *self.parts)


def check_continuous(name: str, envs: VecEnv, instead: tuple[str, str] = ("dqn or ppo", "ppo")) -> None:
    """Raise InputError unless observations are vectors or numbers, and actions a vector.

    instead  algorithms for discrete actions and for pixels
    """
    space, actions = envs.single_observation_space, envs.single_action_space
    check_plain(name, space, actions)
    if not isinstance(actions, spaces.Box):
        raise InputError(f"{name} wants continuous actions, got {actions}; use {instead[0]}")
    if len(space.shape or ()) == 3:
        raise InputError(f"{name} learns from vectors, got pixels {space.shape}; use {instead[1]}")


class ActorCritic(OffPolicy):
    """A squashed policy and critics that learn from a replay. Half of each batch are demonstrations if there are any.

    outputs       of each critic: 1, or its quantiles
    mean          the value of an action is the mean over critics, otherwise their minimum
    state_std     the policy's standard deviation is an output of its network, and no parameter
    log_std_init  logarithm of that parameter
    demos         the demonstrations as a replay (arXiv:2302.02948), or None; the argument is their file, and `episodes`
                  are indices of it, by default all
    noises        draws (B, D) of a standard normal that a gradient step takes
    dimensions    D, of the actions
    policy        what is handed over: the network that acts and learns, or the moving average of its weights
    acting        that network, if `policy` is the average; they share the critics

    Raises InputError unless observations are vectors or numbers, and actions continuous.
    """

    config: ContinuousConfig
    parts: ClassVar[tuple[str, ...]] = ("policy", "critics", "policy_net", "acting", "average")
    noises: ClassVar[int]

    def __init__(
        self,
        config: ContinuousConfig,
        *,
        envs: VecEnv,
        seed: int,
        demos: DemoReader | None,
        episodes: Array | None,
        device: torch.device | str,
        outputs: int = 1,
        mean: bool = False,
        state_std: bool = False,
        log_std_init: float = 0.0,
    ) -> None:
        # Errors name the algorithm: TQC's learner is a SAC.
        name = type(config).__name__.removesuffix("Config").lower()
        check_continuous(name, envs)
        shape = CriticShape(
            config.num_critics, outputs, config.hidden, config.gamma,
            layer_norm=config.layer_norm, dropout=config.dropout, mean=mean,
        )  # fmt: skip
        with seeded(seed):
            policy = ActorPolicy(
                envs.single_observation_space,
                envs.single_action_space,
                hidden=config.hidden,
                activation="relu",
                head="squashed",
                log_std_init=log_std_init,
                state_std=state_std,
                critic=shape,
            ).to(device)
        self.critics = Critics(policy, config.learning_rate, config.tau)
        self.policy_net = PolicyNet(policy, config.learning_rate)
        self.dimensions = policy.output.out_features // (2 if state_std else 1)
        super().__init__(
            config,
            policy,
            envs=envs,
            seed=seed,
            device=torch.device(device),
            least_reward=config.least_reward,
        )
        self.acting: Stack | None = None
        self.average: Average | None = None
        if config.average:
            self.acting = self.policy_net.stack
            self.policy = copy.deepcopy(policy, {id(policy.critic): policy.critic})  # one critic for both
            averaged = stack_of(self.policy)
            assert averaged is not None
            self.average = Average(averaged, self.acting, config.average)
        if demos is not None:
            if config.batch_size < 2:
                raise InputError("half of a batch are demonstrations: batch_size must be at least 2, got 1")
            self.demos = replay_of(
                demos, episodes, policy,
                gamma=config.gamma, n_step=config.n_step, executed=True, least_reward=config.least_reward,
            )  # fmt: skip
            if not self.demos.rewards.any():
                logger.warning(
                    "the rewards of these demonstrations are all 0, as if they had none: %s learns from them",
                    name,
                )

    def record(self, *optimizers: Adam) -> None:
        """Make the gradient steps of `update`, with the policy's and without; they use these optimisers."""
        steps = {improves: partial(self._descend, improves=improves) for improves in (False, True)}
        self._steps: Mapping[bool, Callable[[Batch], Batch]] = steps
        if not self.config.dropout:  # its random numbers are of a generator that a graph does not know
            self._steps = {improves: Graphed(step, *optimizers) for improves, step in steps.items()}

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, Tensor]:
        """One gradient step of the critics, and of the policy if it is due; returns means."""
        size = self.noises, len(batch["obs"]), self.dimensions
        noise = torch.randn(size, generator=self.generator, device=self.device)
        self.updates += 1
        improves = self.updates % self.config.actor_every == 0
        found = self._steps[improves](batch | {"noise": noise})
        if improves and self.average is not None:
            self.average.update()
        return found

    @abstractmethod
    def _descend(self, batch: Batch, *, improves: bool) -> dict[str, Tensor]:
        """`update` with the batch's `noise` (`noises`, B, D); the policy learns if it `improves`."""

    @property
    def missing(self) -> int:
        return max(super().missing, self.until_due(self.config.updates_per_step))

    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps that are due after a round."""
        due = self.updates_due(self.config.updates_per_step)
        return [self.update(batch) for batch in self.drawn(due)]

    def uniform(self, count: int) -> tuple[Array, Array]:
        """Random actions (N, D) in the environment's units and in [-1, 1], for the first steps."""
        actions = uniform_actions(self.policy.action_space, count, self.rng)
        return actions, self.policy.to_unit(torch.from_numpy(actions).to(self.device)).cpu().numpy()

    def schedule(self, progress: float) -> None:
        if self.config.lr_schedule == "linear":
            rate = self.config.learning_rate * (1.0 - progress)
            self.critics.optimizer.learning_rate = self.policy_net.optimizer.learning_rate = rate

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from the results of each `update`."""
        for optimizer in (self.critics.optimizer, self.policy_net.optimizer):
            optimizer.check()
        self.iteration += 1
        return means(history) | self.sampler.pop_episodes()
