"""Where an expert's Q* comes from: its own critic, fitted Q evaluation, its V, or playing on from the state."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from imitate.aggrevated.fqe import FittedQ, FQEConfig
from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy, Transitions
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv, VecEnv
from imitate.errors import InputError
from imitate.experts.critics import AdvantageOracle, QOracle
from imitate.experts.expert import Expert
from imitate.nn.normalize import RunningMoments
from imitate.rl.returns import gae
from imitate.rl.rollout import Chooser, whole_episodes

__all__ = ["KINDS", "Kind", "MonteCarlo", "OracleChoice", "TemporalDifference", "oracle_for"]

Kind = Literal["critic", "fqe", "td", "monte-carlo"]
KINDS: tuple[Kind, ...] = ("critic", "fqe", "td", "monte-carlo")


@dataclass(frozen=True)
class OracleChoice:
    """What `oracle_for` took. `critic` and `fqe` are a `QOracle`, `td` and `monte-carlo` an `AdvantageOracle`."""

    kind: Kind
    oracle: QOracle | AdvantageOracle
    source: str
    reason: str

    def describe(self) -> str:
        """One line: which oracle, and why."""
        return f"Q* of {self.source}: {self.reason}"


def oracle_for(
    expert: Expert,
    *,
    kind: Kind | Literal["auto"] = "auto",
    fqe: FQEConfig | None = None,
    moments: RunningMoments | None = None,
    gae_lambda: float = 0.0,
    num_envs: int = 8,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> OracleChoice:
    """The best oracle that the expert allows, or the one of this kind.

    critic       the critic that it brings (SAC, TQC, TD3, DDPG, DQN, QR-DQN); taken where there is one
    fqe          a critic learned online by `fqe`, its inputs standardised by `moments`; else this is taken
    td           from its V (PPO, A2C, TRPO); `gae_lambda` as in `TemporalDifference`
    monte-carlo  by playing on, in `num_envs` environments of its own

    Raises InputError where the expert lacks what the kind needs, saying what it has.
    """
    taken = kind if kind != "auto" else "fqe" if expert.oracle is None else "critic"
    algorithm, gamma = expert.algorithm, 0.99 if expert.gamma is None else expert.gamma
    oracle: QOracle | AdvantageOracle
    match taken:
        case "critic":
            if expert.oracle is None:
                raise _lacking(expert, taken, "brings no action values")
            oracle = expert.oracle
            reason = f"the critic that {algorithm} brings, discount {gamma:g}"
        case "fqe":
            config = FQEConfig() if fqe is None else fqe
            spaces = expert.observation_space, expert.action_space
            value = partial(_value_in_rewards, expert) if expert.has_value else None
            oracle = FittedQ(*spaces, config, seed=seed, value=value, moments=moments, device=device)
            why = f", since {algorithm} brings no action values" if expert.oracle is None else ""
            reason = f"learned online by fitted Q evaluation{why}, discount {config.gamma:g}"
        case "td":
            if not expert.has_value:
                raise _lacking(expert, taken, "brings no state values")
            oracle = TemporalDifference(expert, gamma=gamma, gae_lambda=gae_lambda)
            reason = f"differences of the state values that {algorithm} brings, of executed actions only"
        case "monte-carlo":
            if not expert.runnable:
                raise _lacking(expert, taken, f"is for {expert.env_id}, which can't be run here")
            make = partial(make_env, expert.env_id, expert.env_kwargs)
            oracle = MonteCarlo(expert, lambda: SyncVecEnv([make] * num_envs), gamma=gamma)
            reason = f"returns of playing on with the expert, discount {gamma:g}"
        case _:
            raise InputError(f"oracle {kind!r} is unknown: take auto, {', '.join(KINDS)}")
    return OracleChoice(taken, oracle, expert.source, reason)


def _value_in_rewards(expert: Expert, obs: Tensor) -> Tensor:
    """V (B,) of raw observations (B, ...) in the environment's rewards."""
    scale = 1.0 if expert.normalisation is None else expert.normalisation.reward_scale
    return expert.value(obs) * scale


def _lacking(expert: Expert, kind: Kind, lack: str) -> InputError:
    has: list[Kind] = ["critic"] if expert.oracle is not None else []
    has += ["fqe", "td"] if expert.has_value else ["fqe"]
    has += ["monte-carlo"] if expert.runnable else []
    return InputError(
        f"oracle {kind!r} can't be had: {expert.source} ({expert.algorithm}) {lack}; take {', '.join(has)}"
    )


class TemporalDifference:
    """A*(s, a) = r + gamma V*(s') - V*(s) of the executed action, from an expert's V: an `AdvantageOracle`.

    Rewards are brought to those that V was learned from (VecNormalize's division and clipping).

    gae_lambda  above 0: sums of such differences along the steps that follow (arXiv:1506.02438), which depend less
                on V; but what follows must then be the expert's doing, else somebody else's later mistakes are held
                against the action
    """

    def __init__(self, expert: Expert, *, gamma: float, gae_lambda: float = 0.0) -> None:
        if not 0 <= gae_lambda <= 1:
            raise InputError(f"gae_lambda must be in [0, 1], got {gae_lambda}")
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self._value, self._normalisation = expert.value, expert.normalisation

    @property
    def reward_scale(self) -> float:
        return 1.0 if self._normalisation is None else self._normalisation.reward_scale

    @torch.no_grad()
    def advantages(self, transitions: Transitions) -> Tensor:
        """(B,) in the rewards of V, of steps in the order that they were taken in; a piece's last one is flagged."""
        rewards = transitions.rewards.numpy() / self.reward_scale
        if self._normalisation is not None and self._normalisation.norm_reward:
            rewards = rewards.clip(-self._normalisation.clip_reward, self._normalisation.clip_reward)
        values, next_values = (self._value(obs).numpy() for obs in (transitions.obs, transitions.next_obs))
        ends = transitions.terminated.numpy(), transitions.truncated.numpy()
        arrays = rewards, values, next_values, *ends
        rewards, values, next_values, terminated, truncated = (array[:, None] for array in arrays)  # (B, 1)
        advantages = gae(rewards, values, next_values, terminated, truncated, self.gamma, self.gae_lambda)
        return torch.from_numpy(advantages.squeeze(1))


class MonteCarlo:
    """Cost-to-go by roll-outs, as AggreVaTe has it (arXiv:1406.5979, algorithm 1): roll in, at a uniformly drawn time
    take some action, and let the expert play on to the episode's end. For any expert; dear.

    An environment's state can't be copied safely, so a state is reached again by the episode's seed and its actions
    up to there, and every step is counted, replayed ones included. `make_envs` must give environments that seed each
    episode (`SyncVecEnv`). New ones are made for every play: BipedalWalker, for one, remembers its earlier episodes.

    env_steps, expert_queries   what was spent so far
    """

    reward_scale = 1.0

    def __init__(
        self,
        expert: Policy | Callable[[Array], Array],
        make_envs: Callable[[], VecEnv],
        *,
        gamma: float = 1.0,
    ) -> None:
        self.gamma, self._make_envs = gamma, make_envs
        self.env_steps = self.expert_queries = 0
        self._expert = expert

    def collect(self, roll_in: Chooser, seeds: Sequence[int], rng: np.random.Generator) -> Transitions:
        """For each seed one visited state as two steps, one after the other: of an action drawn uniformly, and of the
        expert's. `rewards` are the discounted returns of the episode's rest, and `terminated` is set: there is
        nothing to add. So `FittedQ.update` regresses on them, and `advantages` compares the two.

        `roll_in` is asked as by `whole_episodes`, and records the actions that it executes. Time limits end the sum.

        Raises InputError where the environment does not do the same again for the same seed and actions.
        """
        rows: list[tuple[Array, Array, Array, Array]] = []
        while len(rows) < 2 * len(seeds):
            rows += self._visits(roll_in, seeds[len(rows) // 2 :], rng)
        obs, actions, experts, returns = (
            torch.from_numpy(np.stack(column)) for column in zip(*rows, strict=True)
        )
        ends = torch.ones(len(rows), dtype=torch.bool)
        return Transitions(obs, actions, returns.float(), obs, ends, ~ends, experts)

    def advantages(self, transitions: Transitions) -> Tensor:
        """(B,) of steps that `collect` gave: how much more than the expert's the action returned, which is 0 for the
        expert's own."""
        pairs = transitions.rewards.reshape(-1, 2)
        return (pairs - pairs[:, 1:]).flatten()

    def _visits(
        self, roll_in: Chooser, seeds: Sequence[int], rng: np.random.Generator
    ) -> list[tuple[Array, Array, Array, Array]]:
        with closing(self._make_envs()) as envs:
            seeds = seeds[: envs.num_envs]
            rollout, episodes = whole_episodes(envs, roll_in, seeds), np.arange(len(seeds))
            action_space = envs.single_action_space
        lengths = rollout.steps.sum(0)[episodes]
        self.env_steps += int(lengths.sum())
        times = np.array([rng.integers(length) for length in lengths.tolist()])
        obs = rollout.obs[times, episodes]
        drawn = RandomPolicy(action_space, int(rng.integers(2**31))).act(obs)
        experts = self.ask(obs).astype(drawn.dtype)
        pairs = [
            (action, self._play_on(seeds, rollout.actions, times, action, obs)) for action in (drawn, experts)
        ]
        return [(obs[n], actions[n], experts[n], returns[n]) for n in episodes for actions, returns in pairs]

    def _play_on(
        self, seeds: Sequence[int], prefix: Array, times: Array, first: Array, expected: Array
    ) -> Array:
        """Discounted returns (N,) from `times` (N,) on: before, the actions `prefix` (T, N, ...) again; there, `first`
        (N, ...) in the state `expected`; then the expert's."""
        with closing(self._make_envs()) as envs:
            obs, count = envs.reset(seeds)[: len(seeds)], len(seeds)
            returns, discounts = np.zeros(count), np.ones(count)
            for t in itertools.count():
                running = envs.running[:count].copy()
                if not running.any():
                    break
                here, later = times == t, (times < t) & running
                if not np.array_equal(obs[here], expected[here]):
                    raise InputError(
                        "Monte-Carlo returns need an environment that does the same again for the same seed and "
                        "actions, and this one does not: take another oracle"
                    )
                actions = np.array(prefix[min(t, len(prefix) - 1), :count])
                actions[here] = first[here]
                if later.any():
                    actions[later] = self.ask(obs[later])
                idle = envs.num_envs - count
                step = envs.step(np.concatenate([actions, np.repeat(actions[:1], idle, 0)]))
                self.env_steps += int(running.sum())
                counted = here | later
                returns[counted] += discounts[counted] * step.rewards[:count][counted]
                discounts[counted] *= self.gamma
                obs = step.obs[:count]
        return returns

    def ask(self, obs: Array) -> Array:
        """The expert's deterministic actions, counted."""
        self.expert_queries += len(obs)
        expert = self._expert
        return np.asarray(expert.act(obs, deterministic=True) if hasattr(expert, "act") else expert(obs))
