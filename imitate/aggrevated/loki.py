"""LOKI (arXiv:1805.10413): imitate first, then reinforce.

AggreVaTeD learns from the expert for `imitation_steps`; PPO goes on from its policy. Imitation alone ends near the
expert, and reinforcement alone begins with nothing. With `guidance` above 0, the advantages of reinforcement lean on
the expert's value at first (`imitate.aggrevated.guidance`).

Departures: the switch comes after a fixed number of steps, not a random one, because AggreVaTeD's last iteration has
the long fit; the value function first learns alone, so that it is right about the policy before the policy moves.

AggreVaTeD squashes continuous actions by a tanh, which reinforcement can hardly move (`imitate.nn.refit`). So PPO gets
a policy of its own, a Gaussian that is clipped to the bounds and first fitted to AggreVaTeD's actions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from imitate.aggrevated.guidance import ExpertsValue, Guidance
from imitate.aggrevated.trial import Trial
from imitate.configs.loki import LOKIConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.vec import VecEnv
from imitate.experts.values.fqe import discounted_sums
from imitate.nn.policy import ActorPolicy
from imitate.nn.refit import refit, with_head
from imitate.nn.state import load_parts, parts_state
from imitate.rl.budget import progress_of
from imitate.rl.handed import takes
from imitate.rl.ppo import PPO

__all__ = ["LOKI", "LOKIConfig"]

VALUE_UPDATES = 2_000  # gradient steps of the expert's value


class LOKI:
    """LOKI on vector environments; AggreVaTeD's data stay on disk, in `store`.

    imitation      AggreVaTeD
    ppo            PPO, once the imitation is done
    experts_value  what guides it, or None
    """

    @takes(LOKIConfig)
    def __init__(
        self,
        config: LOKIConfig,
        *,
        envs: VecEnv,
        expert: Askable,
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.envs, self.seed, self.device = config, envs, seed, device
        steps = max(config.imitation_steps or config.total_steps // 4, envs.num_envs)
        first = replace(config.aggrevated, total_steps=min(steps, config.total_steps))
        self.imitation = Trial(first, envs=envs, expert=expert, store=store, seed=seed, device=device)
        self.ppo: PPO | None = None
        self.experts_value: ExpertsValue | None = None
        self.least_steps = max(envs.num_envs, 2)
        self._reinforcement(self._blank())  # refuses now, before any step is taken, settings that do not fit
        self.imitation.learner.restart()

    @property
    def policy(self) -> ActorPolicy:
        return self.imitation.policy if self.ppo is None else self.ppo.policy

    @property
    def env_steps(self) -> int:
        return self.imitation.env_steps + (0 if self.ppo is None else self.ppo.env_steps)

    @property
    def expert_queries(self) -> int:
        return self.imitation.expert_queries

    @property
    def done(self) -> bool:
        return self.env_steps + self.least_steps > self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of AggreVaTeD or, when that is done, of PPO, with at most `limit` environment steps."""
        room = self.config.total_steps - self.env_steps
        limit = room if limit is None else min(limit, room)
        if not self.imitation.done:
            return self.imitation.step(limit)
        if self.ppo is None:
            policy = self._blank()
            self._distil(policy)
            ppo, experts_value = self._reinforcement(policy)
            if experts_value is not None:
                self._warm_start(ppo, experts_value)
            self.ppo, self.experts_value = ppo, experts_value  # not before: a fit that failed is made again
        return self._reinforce(self.ppo, limit)

    def _reinforce(self, ppo: PPO, limit: int) -> dict[str, float]:
        """An iteration of PPO, guided."""
        config, progress = self.config, progress_of(ppo, limit)
        weight = config.guidance * max(1.0 - progress / max(config.guidance_fraction, 1e-9), 0.0)
        if self.experts_value is None or not weight:
            return ppo.step(limit)
        guide = Guidance(self.experts_value, weight)
        return ppo.update(ppo.collect(limit), progress, guide) | ppo.pop_episodes() | {"guidance": weight}

    def _blank(self) -> ActorPolicy:
        """PPO's policy before it is fitted, or a copy of AggreVaTeD's if the heads are the same."""
        imitator, settings = self.imitation.policy, self.config.ppo
        head = settings.head or ("categorical" if imitator.head == "categorical" else "clipped")
        if head == imitator.head:
            return copy.deepcopy(imitator)
        return with_head(imitator, head, seed=self.seed, log_std_init=settings.log_std_init)

    def _distil(self, policy: ActorPolicy) -> None:
        """Regress the policy's mean on AggreVaTeD's actions, in all states that the expert labelled."""
        imitator, count = self.imitation.policy, self.imitation.config.final_updates
        if policy.head != imitator.head:
            refit(policy, imitator, (obs for obs, *_ in self._labelled(count)), count)

    def _reinforcement(self, policy: ActorPolicy) -> tuple[PPO, ExpertsValue | None]:
        """PPO for the steps that the imitation leaves, and what guides it; neither has learned yet."""
        config = replace(self.config.ppo, total_steps=self.config.total_steps - self.imitation.env_steps)
        ppo = PPO(config, envs=self.envs, seed=self.seed, device=self.device, policy=policy)
        guides = self.config.guidance > 0
        return ppo, ExpertsValue(copy.deepcopy(ppo.value_net), policy) if guides else None

    def _warm_start(self, ppo: PPO, experts_value: ExpertsValue) -> None:
        """Fit the expert's value to its critic, in all states that it labelled; PPO's own value begins there.

        PPO's unit of reward begins with the steps of the imitation.
        """
        learner, scale = self.imitation.learner, 1.0
        assert learner.critic is not None  # every expert has one, its own or a fitted one
        if ppo.scaler is not None:
            for piece in learner.roll_in.store.reader():
                ppo.scaler.moments.update(torch.tensor(discounted_sums(piece.rewards, ppo.config.gamma)))
            scale = ppo.scaler.scale
        experts_value.fit(learner.critic, self._labelled(VALUE_UPDATES), VALUE_UPDATES, scale=scale)
        ppo.value_net.load_state_dict(experts_value.net.state_dict())

    def _labelled(self, count: int) -> Iterator[tuple[Tensor, ...]]:
        """`count` minibatches of all states that the expert labelled, and its actions there."""
        learner = self.imitation.learner
        return learner.roll_in.batches(count, learner.config.batch_size, learner.rng)

    def state_dict(self) -> dict[str, Any]:
        return {"imitation": self.imitation.state_dict()} | parts_state(self, "ppo", "experts_value")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.imitation.load_state_dict(state["imitation"])
        if "ppo" in state:
            self.ppo, self.experts_value = self._reinforcement(self._blank())
        else:
            self.ppo = self.experts_value = None
        load_parts(self, state, "ppo", "experts_value")
