"""Checks whether a critic knows the task. A critic of another task or of a poor agent is a common mistake."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from imitate.aggrevated.gate import GATE, measure_gate
from imitate.aggrevated.monte_carlo import MonteCarlo
from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.datasets import play
from imitate.datasets.asking import Ask
from imitate.datasets.trajectory import Policy, Trajectory, tensors_of
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream, check_seed, draw_seed, episode_seeds
from imitate.envs.spaces import Array
from imitate.envs.stepping import as_taken
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts.values.critics import QOracle
from imitate.files import without_nan

__all__ = ["OracleReport", "check_critic", "check_oracle"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OracleReport:
    """An oracle's predictions and the returns on unseen steps of the expert. Values are in the environment's rewards.

    mean_return        mean discounted return from a step on; `mean_q` is the oracle's prediction of it
    rank_correlation   Spearman's, between returns and predictions; NaN if either is constant. It is low where returns
                       hardly differ (a pole that never falls), negative only for critics of other tasks
    better_than_random share of (critic, state) pairs in which the expert's action has a higher value than random
                       actions have on average: the openness of AggreVaTeD's gate. NaN if the expert is the argmax
                       of the critic (DQN, QR-DQN), since even noise would then score 1
    threshold          the gate's threshold
    probes             states in which the expert's action and a random one were both played on to the end
    agreement          share of the differences in return between the two whose sign the oracle predicts, weighted by
                       size. 1/2 is guessing. A few large differences dominate it, so it needs many probes; NaN
                       without any
    env_steps          environment steps that the check took
    """

    source: str
    episodes: int
    steps: int
    mean_return: float
    mean_q: float
    rank_correlation: float
    better_than_random: float
    threshold: float
    probes: int
    agreement: float
    env_steps: int

    @property
    def bias(self) -> float:
        """By how much the oracle overestimates the discounted return."""
        return self.mean_q - self.mean_return

    @property
    def trustworthy(self) -> bool:
        """It prefers the expert's actions to random ones (unless NaN), and its values don't fall where returns rise."""
        return not self.better_than_random < self.threshold and not self.rank_correlation < -0.2

    def describe(self) -> str:
        """One line."""
        parts = [
            f"critic of {self.source}: discounted return {self.mean_return:.4g}, predicted {self.mean_q:.4g}",
            f"rank correlation {self.rank_correlation:.2f}",
            "the expert is its argmax, so that putting it above random actions proves nothing"
            if math.isnan(self.better_than_random)
            else f"expert above random actions in {self.better_than_random:.0%}",
        ]
        if self.probes and math.isnan(self.agreement):
            parts.append(f"nothing was at stake in {self.probes} played-out choices")
        elif self.probes:
            parts.append(
                f"right about {self.agreement:.0%} of what was at stake in {self.probes} played-out choices"
            )
        return ", ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The figures (None for NaN, which JSON lacks) and the verdict."""
        said = {"trustworthy": self.trustworthy, "verdict": self.warning() or self.describe()}
        figures: dict[str, Any] = without_nan(asdict(self) | {"bias": self.bias} | said)
        del figures["source"]
        return figures

    def warning(self) -> str | None:
        """Why the oracle is not trustworthy and what to do; None if it is."""
        if self.trustworthy:
            return None
        finding = (
            f"puts the expert's action above random ones in {self.better_than_random:.0%} of states "
            f"(wanted {self.threshold:.0%})"
            if self.better_than_random < self.threshold
            else f"has values that fall where returns rise (rank correlation {self.rank_correlation:.2f})"
        )
        return (
            f"the critic of {self.source} doesn't know this task: it {finding}; is it another task's, or a poor "
            "agent's? Take --oracle fqe, or DAgger, which needs no critic"
        )


def check_critic(
    config: AggreVaTeDConfig,
    expert: Any,
    env_id: str,
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    num_envs: int = 8,
) -> None:
    """Check the expert's critic before a run of AggreVaTeD, on a few episodes of the expert.

    Logs the report, with a warning if the critic is not trustworthy. Plays nothing if the run does not use the expert's
    own critic.
    """
    own = getattr(expert, "oracle", None)
    if own is None or config.oracle not in ("auto", "critic"):
        return
    source = getattr(expert, "source", "the expert")
    check_oracle(
        own,
        expert,
        env_id,
        env_kwargs=env_kwargs,
        episodes=4,
        num_envs=num_envs,
        source=source,
        threshold=config.gate,
    )


def check_oracle(
    oracle: QOracle,
    expert: Policy,
    env_id: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    episodes: int = 8,
    probes: int = 0,
    seed: int = 0,
    num_envs: int = 8,
    source: str = "the expert",
    threshold: float = GATE,
) -> OracleReport:
    """Play whole episodes of the expert and compare its returns with the oracle's values.

    Logs the report, with a warning if the oracle is not trustworthy.

    probes     number of `MonteCarlo` comparisons of a random action with the expert's; each costs some 3 episodes
    num_envs   at most so many environments are open at a time
    threshold  the gate's threshold

    The return after a time limit is unknown and taken from the oracle itself. Steps for which its weight, gamma to the
    power of the steps left, is more than a half are left out, unless all are.

    Raises InputError if episodes is less than 1, or probes or seed less than 0.
    """
    if episodes < 1:
        raise InputError(f"episodes must be at least 1 to check an oracle, got {episodes}")
    if probes < 0:
        raise InputError(f"probes must be at least 0, got {probes}")
    check_seed(seed)
    make = partial(make_env, env_id, env_kwargs)
    with closing(SyncVecEnv([make] * min(episodes, num_envs))) as envs:
        played = list(
            play.episodes(expert, envs, islice(episode_seeds(draw_seed(Stream.CRITIC_CHECK, seed)), episodes))
        )
        action_space = envs.single_action_space
    probing = partial(SyncVecEnv, [make] * min(probes, num_envs))
    monte_carlo = MonteCarlo(expert, probing, action_space, gamma=oracle.gamma)
    agreement = _agreement(oracle, monte_carlo, probes, draw_seed(Stream.CRITIC_CHECK, seed, 1))
    from scipy.stats import spearmanr  # takes half a second, which a run without a critic does not need

    obs = tensors_of(np.concatenate([episode.obs[:-1] for episode in played]))
    actions = torch.from_numpy(np.concatenate([episode.actions for episode in played]))
    with torch.no_grad():
        values = oracle.q(obs, actions).numpy() * oracle.reward_scale
        to_go = [_returns_to_go(oracle, monte_carlo.ask, episode) for episode in played]
    gate = measure_gate(oracle, obs, actions, action_space, np.random.default_rng(seed), threshold)
    returns, known = (np.concatenate(column) for column in zip(*to_go, strict=True))
    known = known if known.any() else np.ones_like(known)
    values, returns = values[known], returns[known]
    constant = np.ptp(values) == 0 or np.ptp(returns) == 0
    report = OracleReport(
        source=source,
        episodes=episodes,
        steps=len(values),
        mean_return=float(returns.mean()),
        mean_q=float(values.mean()),
        rank_correlation=math.nan if constant else float(spearmanr(values, returns).statistic),
        better_than_random=gate.openness,
        threshold=threshold,
        probes=probes,
        agreement=agreement,
        env_steps=sum(map(len, played)) + monte_carlo.env_steps,
    )
    logger.info("%s", report.describe())
    if warning := report.warning():
        logger.warning("%s", warning)
    return report


def _returns_to_go(oracle: QOracle, ask: Ask, episode: Trajectory) -> tuple[Array, Array]:
    """Discounted returns (T,) of the environment's rewards, and the steps (T,) whose return is mostly known."""
    following, unknown = 0.0, 0.0
    if not episode.terminated:
        last = episode.obs[-1:]
        following = float(oracle.q(tensors_of(last), torch.from_numpy(ask(last)))) * oracle.reward_scale
        unknown = 1.0
    returns, known = np.empty(len(episode)), np.empty(len(episode), bool)
    for t in reversed(range(len(episode))):
        returns[t] = following = float(episode.rewards[t]) + oracle.gamma * following
        unknown *= oracle.gamma
        known[t] = unknown <= 0.5
    return returns, known


def _agreement(oracle: QOracle, monte_carlo: MonteCarlo, probes: int, seed: int) -> float:
    """See `OracleReport`; NaN if there are no probes."""
    if not probes:
        return math.nan
    seeds = list(islice(episode_seeds(seed), probes))
    steps = monte_carlo.collect(as_taken(monte_carlo.ask), seeds, np.random.default_rng(seed))
    assert steps is not None
    played = monte_carlo.advantages(steps)[::2]
    with torch.no_grad():
        said = oracle.q(steps.obs, steps.actions).reshape(-1, 2)
    stakes, right = played.abs(), (said[:, 0] > said[:, 1]) == (played > 0)
    return float((stakes * right).sum() / stakes.sum())
