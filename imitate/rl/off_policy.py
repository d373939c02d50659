"""The common part of learners with a replay: environments, replay, minibatches, seeds, budget and saved state.

Each algorithm's own file has its settings, its loss and its update.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.nn.policy import ActorPolicy
from imitate.nn.q_net import QNet
from imitate.nn.state import load_parts, parts_state
from imitate.rl.actor import Actor
from imitate.rl.batches import Batch, batch_of, parted
from imitate.rl.budget import rounds
from imitate.rl.replay import Replay, Samples
from imitate.rl.rollout import Rollout, Sampler

__all__ = ["OffPolicy", "OffPolicySettings", "Tutor"]

_DRAWN = 128  # batches at once


class OffPolicySettings(Protocol):
    """The fields of a config that `OffPolicy` reads."""

    @property
    def total_steps(self) -> int: ...
    @property
    def num_steps(self) -> int: ...
    @property
    def rounds_per_iteration(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def replay_size(self) -> int: ...
    @property
    def learning_starts(self) -> int: ...
    @property
    def gamma(self) -> float: ...
    @property
    def n_step(self) -> int: ...


class Tutor(Protocol):
    """Another's loss, which is added to a learner's own (QDagger's `Teacher`)."""

    def columns(self, q_net: QNet, obs: Array, prepared: Tensor) -> Batch:
        """Further columns of a batch, from its raw observations (B, *obs_shape) and the same prepared."""
        ...

    def loss(self, q_net: QNet, batch: Batch) -> Tensor:
        """The loss () of a batch with these columns."""
        ...


class OffPolicy(ABC):
    """A policy and a replay in vector environments. Algorithms add networks, `choose`, `learn` and what an update is.

    replay          steps of the environments, with their true successors
    demos           demonstrations that fill half of each batch, or None
    rng, generator  random numbers of NumPy and torch, which follow from the seed and `iteration` alone
    updates         gradient steps so far
    parts           the attributes whose states are saved, beside the replay
    """

    parts: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        config: OffPolicySettings,
        policy: ActorPolicy,
        *,
        envs: VecEnv,
        seed: int,
        device: torch.device,
        replay: type[Replay] = Replay,
        least_reward: float | None = None,
    ) -> None:
        self.config, self.policy, self.seed, self.device = config, policy, seed, device
        spaces = envs.single_observation_space, envs.single_action_space
        self.replay = replay(
            config.replay_size, envs.num_envs, *spaces,
            gamma=config.gamma, n_step=config.n_step, least_reward=least_reward,
        )  # fmt: skip
        self.demos: Replay | None = None
        self.actor, self.sampler = Actor(policy), Sampler(envs, self.restart)
        self.iteration = self.updates = 0
        self.restart()

    @property
    def env_steps(self) -> int:
        return self.sampler.env_steps

    @property
    def expert_queries(self) -> int:
        """Observations that an expert labelled."""
        return 0

    @property
    def least_steps(self) -> int:
        """One step of each environment, or those that are `missing`."""
        each = self.sampler.envs.num_envs
        return max(-(-self.missing // each), 1) * each

    @property
    def missing(self) -> int:
        """Steps that the replay lacks before learning starts."""
        return 0 if self.ready else self.config.learning_starts - len(self.replay)

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    @property
    def ready(self) -> bool:
        """True if the replay holds enough to learn from or is full. Short episodes take twice as many rows as steps."""
        return self.replay.full or len(self.replay) >= self.config.learning_starts

    def updates_due(self, per_step: float) -> int:
        """Gradient steps that are missing to `per_step` for each step since learning started."""
        return int((self.env_steps - self.config.learning_starts) * per_step) - self.updates

    def until_due(self, per_step: float) -> int:
        """Steps before the first of the `updates_due`: at `learning_starts` there is none yet."""
        if self.updates or not per_step:
            return 0
        return self.config.learning_starts + math.ceil(1 / max(per_step, 1e-9)) - self.env_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps; metrics are means over its gradient steps."""
        history = []
        for left, progress in rounds(self, self.config.rounds_per_iteration, limit):
            self.schedule(progress)
            self.replay.add(self.collect(left))
            if self.ready:
                history += self.learn()
        return self.end_iteration(history)

    @abstractmethod
    def schedule(self, progress: float) -> None:
        """Set what changes with the progress of the run, in [0, 1]."""

    @abstractmethod
    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps of one round, and the metrics of each."""

    @abstractmethod
    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        """The metrics that `step` returns, from those of each gradient step."""

    @abstractmethod
    def choose(self, obs: Array, begun: Array) -> tuple[Array, Array]:
        """A `Chooser`: explores."""

    def collect(self, limit: int | None = None) -> Rollout:
        """One round's steps, at most `limit`; they are not in the replay yet."""
        return self.sampler.collect(self.choose, self.config.num_steps, limit)

    def tensors(self, samples: Samples) -> Batch:
        """Samples of a replay, as a batch for `update`."""
        return batch_of(samples, self.policy)

    def batches(self, count: int) -> list[Batch]:
        """`count` batches; if there are demonstrations, these are the first half of each.

        All samples are drawn together, which takes less time than drawing each batch.
        """
        replays = (self.replay,) if self.demos is None else (self.demos, self.replay)
        share = self.config.batch_size // len(replays)
        return parted([self.tensors(replay.sample(count * share, self.rng)) for replay in replays], count)

    def drawn(self, count: int) -> Iterator[Batch]:
        """`count` batches one after the other, drawn in parts: all at once may take gigabytes."""
        for begin in range(0, count, _DRAWN):
            yield from self.batches(min(_DRAWN, count - begin))

    def restart(self) -> None:
        """Begin new episodes with new random numbers."""
        seed = draw_seed(self.seed, self.iteration, 0, self.sampler.renewals)
        self.rng, self.generator = np.random.default_rng(seed), torch.Generator(self.device).manual_seed(seed)
        self.sampler.restart(seed)
        self.replay.begin()

    def state_dict(self) -> dict[str, Any]:
        """Includes the replay, unless it holds pixels, which would take gigabytes."""
        counts = {"iteration": self.iteration, "updates": self.updates, "env_steps": self.env_steps}
        replay = {} if self.policy.encoder.is_image else self.replay.state_dict()
        return counts | {"replay": replay} | parts_state(self, *self.parts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes, seeded by the iteration: a checkpoint is a reset point.

        A state holds no replay of pixels. If the state is this learner's own, as at each checkpoint of a running
        learner, the replay stays as it is. Otherwise it is emptied, and learning resumes once it holds
        `learning_starts` steps.
        """
        own = state["env_steps"] == self.env_steps
        self.iteration, self.updates = state["iteration"], state["updates"]
        load_parts(self, state, *self.parts)
        if not self.policy.encoder.is_image:
            self.replay.load_state_dict(state["replay"])
        elif not own:
            self.replay.clear()
        self.sampler.env_steps, self.sampler.renewals = state["env_steps"], 0
        self.restart()
