"""Hyperparameters of GAIL."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from imitate.configs.a2c import A2CConfig
from imitate.configs.bc import BCConfig
from imitate.configs.ppo import PPOConfig
from imitate.configs.reinforce import REINFORCEConfig
from imitate.configs.shared import convert_fields
from imitate.errors import InputError, check_range

__all__ = ["GAILConfig", "Reward"]


Reward = Literal["positive", "negative", "logit", "airl", "plus_one", "minus_one"]


def _small_steps() -> PPOConfig:
    return PPOConfig(num_steps=512, num_epochs=5, learning_rate=3e-5, log_std_init=-2.0, value_warmup=4)


@dataclass(frozen=True)
class GAILConfig:
    """Hyperparameters of GAIL.

    The defaults were chosen on HalfCheetah and Walker2d, seed 10. A clone comes close to the expert, and PPO's small
    step size and little noise preserve it; at 1e-4 and 3e-4 it is forgotten within 100,000 steps. The discriminator
    then sees pairs that differ little. A spectral norm with noise of 0.3 hides the difference on Walker2d.
    """

    MAIN: ClassVar[tuple[str, ...]] = (
        "demo_pairs", "bc_updates", "learner", "reward", "absorbing", "updates_per_round", "batch_size",
        "learning_rate", "input_noise", "hidden",
    )  # fmt: skip

    total_steps: int = 100_000
    """Environment steps after which training and its schedules end; by default the run's budget."""
    demo_pairs: int | None = None
    """Number of (s, a) pairs to draw from the demonstrations, by the seed; by default all."""
    demo_every: int = 1
    """Learn from each n-th step of the demonstrations only, and from the last one if that terminates the episode."""
    bc_updates: int = 20_000
    """Begin with a clone of the demonstrations, trained for this many updates, or 500 passes if these take fewer, with
    BC's network; PPO only. 0 begins from scratch, and so do the controls `plus_one` and `minus_one`, which must know
    nothing about the expert."""
    learner: Literal["ppo", "a2c", "reinforce"] = "ppo"
    """Learner that gets the reward; its settings are under its name. For RPO take ppo and set --ppo.rpo-alpha."""
    ppo: PPOConfig = field(default_factory=_small_steps)
    """Settings of PPO: small steps, which keep the clone. They are too small for `bc_updates` 0. A clone has BC's
    network, so here `hidden` and `activation` are those of the value function."""
    a2c: A2CConfig = field(default_factory=A2CConfig)
    reinforce: REINFORCEConfig = field(default_factory=REINFORCEConfig)
    reward: Reward = "logit"
    """`positive` -log(1 - D), `negative` log D, `logit` log D - log(1 - D); `airl` the last with AIRL's discriminator,
    from which a reward of states alone is saved (arXiv:1710.11248); controls: `plus_one`, `minus_one`."""
    absorbing: bool = True
    """Continue terminated episodes in an absorbing state; without it, the length of episodes leaks into the reward."""
    updates_per_round: int = 16
    """Updates of the discriminator per update of the learner."""
    batch_size: int = 512
    """Pairs of the expert in a minibatch of the discriminator; as many of the learner's are added."""
    learning_rate: float = 3e-4
    """Adam's step size for the discriminator."""
    input_noise: float = 0.1
    """Standard deviation of noise on the discriminator's inputs during training, for standardised observations and
    actions in units of half their range. Without noise, distributions that hardly overlap are separated perfectly and
    give no useful gradient (arXiv:1701.04862)."""
    gradient_penalty: float = 0.0
    """Weight of the penalty on the logit's gradient norm differing from 1 (arXiv:1704.00028)."""
    spectral_norm: bool = False
    """Divide the discriminator's weights by their largest singular value (arXiv:1802.05957)."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the discriminator's hidden layers."""
    activation: Literal["tanh", "relu"] = "relu"
    """Activation of the discriminator's hidden layers."""

    def __post_init__(self) -> None:
        convert_fields(self)
        check_range(
            self, 1, math.inf, "total_steps", "updates_per_round", "batch_size", "demo_pairs", "demo_every"
        )
        check_range(self, 0, math.inf, "bc_updates", "learning_rate", "input_noise", "gradient_penalty")
        if self.reward == "airl" and (self.gradient_penalty or self.spectral_norm):
            raise InputError(
                "AIRL's discriminator adds log-probabilities to its networks: set gradient_penalty to 0 and "
                "spectral_norm to False (--no-spectral-norm), also where the preset has it"
            )
        if any(width < 1 for width in self.hidden):
            raise InputError(f"hidden layers need a width of at least 1, got {list(self.hidden)}")
        if self.bc_config is not None and self.ppo.head is not None:
            raise InputError(
                f"GAIL's clone has a head of its own: leave ppo.head {self.ppo.head} out, or set bc_updates to 0"
            )
        if self.absorbing and self.learner_config.gamma == 1:
            raise InputError(
                "an absorbing state is worth infinitely much at gamma 1: give less, or no absorbing"
            )

    @property
    def learner_config(self) -> Any:
        """Settings of the chosen learner."""
        return replace(getattr(self, self.learner), total_steps=self.total_steps)

    @property
    def bc_config(self) -> BCConfig | None:
        """Settings of the clone to begin with, if any."""
        if not self.bc_updates or self.learner != "ppo" or self.reward in ("plus_one", "minus_one"):
            return None
        return BCConfig(
            max_updates=self.bc_updates, holdout=0.0, members=1, log_std_init=self.ppo.log_std_init
        )
