"""Discriminator-actor-critic (arXiv:1809.02925): adversarial imitation with SAC, for few environment steps.

Half of each batch are the expert's pairs and half the learner's, from its replay. A discriminator takes a step to tell
them apart, and SAC takes a step with the reward that the discriminator gives this batch now; no reward is stored.

With a replay the discriminator soon knows the few demonstrations by heart, and then rewards nothing. The remedies are
those of arXiv:2108.01867: a small network, dropout, weight decay, mixtures of pairs in place of the pairs (mixup), a
penalty on the logit's gradient, and a bonus for the entropy of D.

Departures. The absorbing state, which a terminated episode enters for ever, is no row of the replay with a flag that
the networks see: its best logit and its worth follow from the shares of time spent in it, as `absorbing` derives. SAC
is a later one, with a temperature; the paper's actor-critic is TD3. It also learns from the expert's half of a batch,
unless `mix_demos` is off, and its critics normalise their layers, as those of RLPD do (arXiv:2302.02948). The policy
follows a reward that changes all the time, so the moving average of its weights is handed over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from imitate.configs.dac import DACConfig
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import VecEnv
from imitate.imitators.absorbing import endings, share_of_demos, share_of_replay
from imitate.imitators.architecture import Architecture, Kind
from imitate.imitators.discriminator import bce, reward_of
from imitate.imitators.noisy import warn_of_noise
from imitate.nn.adam import Adam
from imitate.nn.graphed import Graphed
from imitate.nn.networks import Encoder, seeded
from imitate.nn.normalize import RunningMoments
from imitate.rl.batches import Batch, replay_of
from imitate.rl.continuous import check_continuous
from imitate.rl.handed import takes
from imitate.rl.sac import SAC

__all__ = ["DAC", "DACConfig", "PairNet", "zero_centred_penalty"]

_TOO_RIGHT = 0.95  # accuracy of the discriminator
logger = logging.getLogger(__name__)


class PairNet(nn.Module):
    """Logit of "this pair is the expert's", from prepared observations (B, F) and actions in [-1, 1] (B, A).

    Observations are standardised by running statistics of those that `observe` saw.

    architecture  what a stored reward needs to make the network again (`learned_reward`)
    """

    kind: ClassVar[Kind] = "dac"

    def __init__(self, space: spaces.Space[Any], actions: int, config: DACConfig) -> None:
        super().__init__()
        self.architecture = Architecture(self.kind, (config.discriminator_hidden,), "relu")
        self.encoder = Encoder(space, (), "relu", normalize=False)  # has no weights: as the policy's prepares
        observations = self.encoder.inputs
        self.moments = RunningMoments((observations,))
        self.hidden = nn.Linear(observations + actions, config.discriminator_hidden)
        self.output = nn.Linear(config.discriminator_hidden, 1)
        self.shares = config.input_dropout, config.discriminator_dropout
        if config.spectral_norm:
            parametrizations.spectral_norm(self.hidden)
            parametrizations.spectral_norm(self.output)

    def observe(self, batch: Batch) -> None:
        """Update the statistics."""
        self.moments.update(batch["obs"])

    def prepare(self, batch: Batch) -> Tensor:
        """Inputs (B, F + A) of `forward`."""
        return torch.cat([self.moments(batch["obs"]), batch["actions"].flatten(1)], -1)

    def kept(self, name: str, count: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The inputs and hidden units of `count` pairs that are not dropped, each True or False: columns NAME_0
        (count, F + A) and NAME_1 (count, H). A column is missing where all are kept."""
        found, device = {}, self.hidden.weight.device
        for number, width in enumerate((self.hidden.in_features, self.hidden.out_features)):
            if self.shares[number]:
                drawn = torch.rand(count, width, generator=generator, device=device)
                found[f"{name}_{number}"] = drawn >= self.shares[number]
        return found

    def forward(self, pairs: Tensor, kept: Sequence[Tensor | None] = (None, None)) -> Tensor:
        """Logits (B,); what is not kept of the inputs and the hidden units is dropped."""
        hidden = self.hidden(_dropped(pairs, kept[0], self.shares[0])).relu()
        return self.output(_dropped(hidden, kept[1], self.shares[1])).squeeze(-1)  # type: ignore[no-any-return]

    def judge(self, obs: Tensor, actions: Tensor, next_obs: Tensor, _terminated: Tensor) -> Tensor:
        """Logits (B,) of raw observations and successors (B, *obs_shape) and actions in [-1, 1] (B, A)."""
        batch = {
            "obs": self.encoder.prepare(obs),
            "actions": actions,
            "next_obs": self.encoder.prepare(next_obs),
        }
        return self(self.prepare(batch))  # type: ignore[no-any-return]


def _dropped(x: Tensor, kept: Tensor | None, share: float) -> Tensor:
    return x if kept is None else x * kept / (1 - share)


def zero_centred_penalty(logits: Tensor, points: Tensor) -> Tensor:
    """Mean squared norm of the gradient of logits (B,) by their inputs (B, F + A) (arXiv:1801.04406)."""
    (gradient,) = torch.autograd.grad(logits.sum(), points, create_graph=True)
    penalty: Tensor = gradient.square().sum(-1).mean()
    return penalty


class DAC(SAC):
    """DAC on vector environments, from demonstrations in memory; `episodes` are indices, by default all."""

    config: DACConfig
    network: ClassVar[type[PairNet]] = PairNet
    parts = (*SAC.parts, "discriminator", "discriminator_optimizer")

    @takes(DACConfig)
    def __init__(
        self,
        config: DACConfig,
        *,
        envs: VecEnv,
        demos: DemoReader,
        seed: int,
        episodes: Array | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        instead = "gail" if demos.info.has_actions else "gail, and record the actions too"
        check_continuous(type(self).__name__.lower(), envs, (instead, instead))
        super().__init__(config, envs=envs, seed=seed, device=device)
        if config.mix_demos:
            warn_of_noise(demos, "dac", "add --no-mix-demos")
        self.demos = replay_of(demos, episodes, self.policy, gamma=config.gamma, every=config.demo_every)
        with seeded(draw_seed(seed, 1)):
            net = self.network(envs.single_observation_space, self.dimensions, config)
        self.discriminator = net.to(self.device)
        self.discriminator_optimizer = Adam(
            net.parameters(), config.discriminator_learning_rate, weight_decay=config.weight_decay
        )
        self.expert_share = share_of_demos(demos, episodes, config.gamma) if config.absorbing else 0.0
        self._warned = False
        self._judged = Graphed(self._judge, self.discriminator_optimizer)

    def learn(self) -> list[dict[str, Tensor]]:
        """The gradient steps that are due after a round: one of the discriminator before each of SAC."""
        due = self.updates_due(self.config.updates_per_step)
        if due <= 0:
            return []
        alive, absorbed = (torch.full((), each, device=self.device) for each in self.ends())
        half, found = self.config.batch_size // 2, []
        for batch in self.drawn(due):
            drawn = self._drawn(half)
            metrics = self._judged(batch | drawn | {"alive": alive, "absorbed": absorbed})
            batch["returns"] = metrics.pop("rewards")
            if not self.config.mix_demos:
                batch = {name: column[half:] for name, column in batch.items()}
            found.append(metrics | self.update(batch))
        return found

    def _drawn(self, half: int) -> dict[str, Tensor]:
        """The random numbers of a step of the discriminator, for a batch of which `half` are the expert's pairs."""
        config, net, drawn = self.config, self.discriminator, {}
        if config.mixup:
            shares = self.rng.beta(config.mixup, config.mixup, half).astype(np.float32)
            drawn["shares"] = torch.from_numpy(shares).to(self.device)
        drawn |= net.kept("kept", half if config.mixup else 2 * half, self.generator)
        if config.gradient_penalty:
            drawn["between"] = torch.rand(half, 1, generator=self.generator, device=self.device)
            drawn |= net.kept("kept_between", half, self.generator)
        return drawn

    def _judge(self, batch: Batch) -> dict[str, Tensor]:
        """A step of the discriminator, then the rewards (B,) of the batch; metrics beside them."""
        half = len(batch["obs"]) // 2
        found = self._discriminate(batch, half)
        rewards = self.rewards(batch)
        return found | {"rewards": rewards, "reward": rewards[half:].mean()}

    def _discriminate(self, batch: Batch, half: int) -> dict[str, Tensor]:
        """One step of the discriminator; the first `half` of the batch are the expert's pairs."""
        config, net = self.config, self.discriminator
        net.observe(batch)
        pairs = net.prepare(batch)  # (B, F + A)
        experts, learners = pairs[:half], pairs[half:]
        is_expert = torch.zeros(len(pairs), device=pairs.device)
        is_expert[:half] = 1.0
        if config.mixup:
            is_expert = batch["shares"]
            pairs = torch.lerp(learners, experts, is_expert[:, None])
        logits = net(pairs, [batch.get(f"kept_{number}") for number in range(2)])
        loss = bce(logits, is_expert) - config.entropy_bonus * bce(logits, logits.sigmoid())
        if config.gradient_penalty:
            points = torch.lerp(learners, experts, batch["between"]).requires_grad_()
            kept = [batch.get(f"kept_between_{number}") for number in range(2)]
            loss = loss + config.gradient_penalty * zero_centred_penalty(net(points, kept), points)
        self.discriminator_optimizer.step(loss)
        with torch.no_grad():
            right = net(torch.cat([experts, learners])) > 0
        return {
            "discriminator_loss": loss.detach(),
            "expert_accuracy": right[:half].float().mean(),
            "learner_accuracy": 1.0 - right[half:].float().mean(),
        }

    def ends(self) -> tuple[float, float]:
        """The absorbing state's additions to the logit of every pair, and to the reward of a termination."""
        if not self.config.absorbing:
            return 0.0, 0.0
        share = share_of_replay(self.replay, self.config.gamma)
        return endings(self.expert_share, share, self.config.gamma, self.config.reward)

    @torch.no_grad()
    def rewards(self, batch: Batch) -> Tensor:
        """The discriminator's rewards (B,) for a batch that also has the two numbers of `ends`: `alive` and `absorbed`,
        both ()."""
        logits = self.discriminator(self.discriminator.prepare(batch))
        rewards = reward_of(logits + batch["alive"], self.config.reward)
        return rewards + batch["absorbed"] * (batch["discounts"] == 0)

    def end_iteration(self, history: list[dict[str, Tensor]]) -> dict[str, float]:
        self._judged.check()
        metrics = super().end_iteration(history)
        right = min(metrics.get("expert_accuracy", 0.0), metrics.get("learner_accuracy", 0.0))
        if right > _TOO_RIGHT and not self._warned:
            self._warned = True
            logger.warning(
                "the discriminator is right about %.0f %% of the pairs, so that its reward says little: lower "
                "discriminator_learning_rate or raise gradient_penalty, unless the policy is still a beginner",
                100 * right,
            )
        return metrics
