"""Generative adversarial imitation learning (arXiv:1606.03476).

A discriminator tells the expert's (s, a) pairs from the learner's, and an on-policy learner is rewarded for pairs that
pass as the expert's. A round collects a rollout, updates the discriminator, replaces the rollout's rewards by the
discriminator's, and updates PPO, A2C or REINFORCE, which know nothing of the discriminator.

Signs. is_expert is 1 for the expert's pairs, and D(s, a) = sigmoid(logit) is the probability of that. If expert and
learner visit (s, a) with densities d_E and d_L, the best D is d_E / (d_E + d_L) (arXiv:1406.2661, prop. 1), so the
best logit is log d_E - log d_L: above 0 where the expert is more frequent. Every reward grows with the logit. (The
paper's D is the probability of the learner, and its cost log D is the negative of our `positive` reward -log(1 - D).)

Ends of episodes. A reward of one sign pays for staying alive or for dying; `absorbing` derives the remedy.

The policy can begin as a clone of the demonstrations, as the paper suggests (section 7) to save environment steps.
`airl` has another discriminator, whose reward can be learned from where actions have other effects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.configs.gail import GAILConfig
from imitate.datasets.edit import shown
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.imitators.absorbing import absorbed_share, endings, share_of_demos
from imitate.imitators.airl import ShapedNet
from imitate.imitators.bc import BC, BCConfig
from imitate.imitators.cloning import new_policy
from imitate.imitators.discriminator import Discriminator, bce, gradient_penalty, reward_of
from imitate.imitators.noisy import warn_of_noise
from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.a2c import A2C
from imitate.rl.budget import rounds
from imitate.rl.handed import takes
from imitate.rl.ppo import PPO
from imitate.rl.reinforce import REINFORCE
from imitate.rl.rollout import Rollout

__all__ = ["GAIL", "GAILConfig"]

_LEARNERS: dict[str, type[Any]] = {"ppo": PPO, "a2c": A2C, "reinforce": REINFORCE}
_STATEFUL = ("learner", "discriminator", "optimizer")
_MEMORY = 10_000  # steps over which the learner's share of time in the absorbing state is averaged
_EDGE = 1 - 1e-6  # of squashed actions, whose density ends at 1


class GAIL:
    """GAIL on vector environments, from a demonstrations file that is streamed if it is larger than memory."""

    expert_queries = 0

    @takes(GAILConfig)
    def __init__(
        self,
        config: GAILConfig,
        *,
        envs: VecEnv,
        demos: DemoReader,
        seed: int,
        episodes: Array | None = None,
        policy: ActorPolicy | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """Learn from the demonstrations' `episodes` (indices, by default all).

        PPO can start from a `policy`, for example one that BC trained, instead of a clone.
        """
        if config.reward == "airl":
            warn_of_noise(demos, "airl", "take another reward")
        self.config, self.seed, self.device = config, seed, torch.device(device)
        self.gamma: float = config.learner_config.gamma
        if policy is not None and config.learner != "ppo":
            raise InputError(f"{config.learner} does not start from another policy: use learner ppo")
        self.bc_config = config.bc_config if policy is None else None
        if self.bc_config is not None:
            policy = new_policy(
                self.bc_config, envs.single_observation_space, envs.single_action_space, seed=seed
            )
        settings = config.learner_config
        handed: dict[str, Any] = {"envs": envs, "seed": seed, "device": device}
        if policy is not None:
            settings, handed["policy"] = replace(settings, head=policy.head), policy  # its own head is kept
        self.learner: PPO | A2C | REINFORCE = _LEARNERS[config.learner](settings, **handed)
        space = envs.single_observation_space
        with seeded(draw_seed(seed, 1)):
            discriminator: Discriminator | ShapedNet = (
                ShapedNet(space, config, self.gamma, self._log_probs)
                if config.reward == "airl"
                else Discriminator(space, envs.single_action_space, config)
            )
        self.discriminator = discriminator.to(self.device)
        self.optimizer = Adam(self.discriminator.parameters(), config.learning_rate)
        self.expert_share = share_of_demos(demos, episodes, self.gamma) if config.absorbing else 0.0
        demos, episodes = shown(
            demos, episodes, every=config.demo_every, pairs=config.demo_pairs, seed=draw_seed(seed, 2)
        )
        self.demos, self.episodes = demos, episodes
        self.clock = np.zeros(2)  # the learner's steps and terminations, exponentially discounted
        self.iteration = 0
        self._reseed()

    @property
    def policy(self) -> ActorPolicy:
        return self.learner.policy

    @property
    def env_steps(self) -> int:
        return self.learner.env_steps

    @property
    def least_steps(self) -> int:
        return self.learner.least_steps

    @property
    def done(self) -> bool:
        return self.env_steps >= self.config.total_steps

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps, with as many rounds as the learner's own iteration.

        Metrics are means over these rounds. If it begins as a clone, the first step only makes that and takes no
        environment steps.
        """
        if self.iteration == 0 and self.bc_config is not None:
            metrics = self._clone(self.bc_config)
            self.bc_config = None  # not before: if the disk fails, the resumed run begins as a clone, too
            return metrics
        count = getattr(self.config.learner_config, "rounds_per_iteration", 1)
        history = [self._round(left, progress) for left, progress in rounds(self, count, limit)]
        self.iteration += 1
        metrics = {name: float(np.mean([float(row[name]) for row in history])) for name in history[0]}
        return metrics | self.learner.pop_episodes()

    def _clone(self, config: BCConfig) -> dict[str, float]:
        """Fit the policy to the demonstrations, in place: the learner's optimiser holds its parameters."""
        bc = BC(config, demos=self.demos, episodes=self.episodes, seed=self.seed, device=self.device)
        metrics: dict[str, float] = {}
        while not bc.done:
            metrics = bc.step()
        self.policy.load_state_dict(bc.policy.state_dict())
        return {f"clone_{name}": value for name, value in metrics.items()}

    def _round(self, limit: int | None, progress: float) -> dict[str, float | Tensor]:
        rollout = self.learner.collect(limit)
        rows = rollout.steps
        steps = self._columns(rollout)
        metrics = self._discriminate(steps)
        if self.config.absorbing:
            now = np.array([rows.sum(), rollout.terminated.sum()])
            self.clock = self.clock * max(0.0, 1 - rows.sum() / _MEMORY) + now
        alive, absorbed = self.ends()
        with torch.no_grad():
            logits = self.discriminator(*self.discriminator.prepare(*steps))
        rewards = np.zeros_like(rollout.rewards)
        rewards[rows] = reward_of(logits + alive, self.config.reward).cpu().numpy()
        rewards += absorbed * rollout.terminated
        metrics |= {"reward": float(rewards[rows].mean()), "absorbed_reward": absorbed}
        return metrics | dict(self.learner.update(replace(rollout, rewards=rewards), progress))

    def _columns(self, rollout: Rollout) -> list[Tensor]:
        """The rollout's steps (B, ...), as the discriminator takes them."""
        rows, found = rollout.steps, []
        for name in self.discriminator.fields:
            array = rollout.actions if name == "labels" else getattr(rollout, name)
            column = torch.from_numpy(array[rows]).to(self.device)
            # Clipped as the environment took them, like the expert's.
            found.append(self.policy.to_unit(self.policy.to_env(column)) if name == "labels" else column)
        return found

    def _discriminate(self, steps: list[Tensor]) -> dict[str, float | Tensor]:
        """Update the discriminator on the learner's steps (B, ...) and as many of the expert's."""
        history = []
        for _ in range(self.config.updates_per_round):
            experts = [column.to(self.device) for column in next(self._expert)]
            experts[1], count = self.policy.to_unit(experts[1]), len(experts[0])
            index = torch.randint(len(steps[0]), (count,), generator=self.generator, device=self.device)
            both = [torch.cat([own, other[index]]) for own, other in zip(experts, steps, strict=True)]
            self.discriminator.encoder.observe(both[0])
            inputs = self.discriminator.prepare(*both)
            if self.config.input_noise:
                inputs = *map(self._noisy, inputs[:2]), *inputs[2:]
            is_expert = torch.zeros(len(both[0]), device=self.device)
            is_expert[:count] = 1.0
            logits = self.discriminator(*inputs)
            loss = cross_entropy = bce(logits, is_expert)
            if self.config.gradient_penalty:
                (obs, other_obs), (acts, other_acts) = (each.float().chunk(2) for each in inputs)
                mix = torch.rand(count, generator=self.generator, device=self.device)
                pairs, units = ((obs, acts), (other_obs, other_acts)), (self._unit(obs), self._unit(acts))
                penalty = gradient_penalty(self.discriminator, *pairs, mix, units)
                loss = loss + self.config.gradient_penalty * penalty
            self.optimizer.step(loss)
            right = (logits.detach() > 0) == (is_expert > 0)
            history.append(torch.stack([cross_entropy.detach(), *right.float().view(2, -1).mean(1)]))
        names = ("discriminator_loss", "expert_accuracy", "learner_accuracy")
        return dict(zip(names, torch.stack(history).mean(0), strict=True))

    @torch.no_grad()
    def _log_probs(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Log-probabilities (B,) of actions as `ActorPolicy.to_unit` gives them, by the policy as it is now."""
        squashed = self.policy.head == "squashed"
        raw = actions.clamp(-_EDGE, _EDGE).atanh() if squashed else actions
        return self.policy(self.policy.encoder.prepare(obs)).log_prob(raw)  # type: ignore[no-any-return]

    def _noisy(self, x: Tensor) -> Tensor:
        noise = torch.randn(x.shape, generator=self.generator, device=self.device)
        return x + self.config.input_noise * self._unit(x) * noise

    def _unit(self, x: Tensor) -> float:
        """The unit of a prepared input: pixels are bytes there."""
        return 255.0 if self.discriminator.encoder.is_image and x.dim() > 2 else 1.0

    def ends(self) -> tuple[float, float]:
        """The absorbing state's additions to the logit of every pair, and to the reward of a termination."""
        if not self.config.absorbing:
            return 0.0, 0.0
        learner_share = absorbed_share(self.clock[0], self.clock[1], self.gamma)
        return endings(self.expert_share, learner_share, self.gamma, self.config.reward)

    def _batches(self) -> Iterator[tuple[Tensor, ...]]:
        size, fields = self.config.batch_size, self.discriminator.fields
        epochs = (
            self.demos.minibatches(size, self.rng, fields=fields, episodes=self.episodes)
            for _ in itertools.count()
        )
        return itertools.chain.from_iterable(epochs)

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration, 3)
        self.generator = torch.Generator(self.device).manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self._expert = self._batches()

    def state_dict(self) -> dict[str, Any]:
        cloned = self.bc_config is None
        counts = {"iteration": self.iteration, "clock": self.clock.tolist(), "cloned": cloned}
        return counts | parts_state(self, *_STATEFUL)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; episodes and demonstrations start over: a checkpoint is a reset point."""
        load_parts(self, state, *_STATEFUL)
        self.iteration, self.clock = state["iteration"], np.array(state["clock"])
        if state.get("cloned"):
            self.bc_config = None
        self._reseed()
