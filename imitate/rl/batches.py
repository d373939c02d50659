"""Batches for gradient steps, from replays; and demonstrations as a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.datasets.edit import nth_steps
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.nn.policy import ActorPolicy
from imitate.rl.actor import encode
from imitate.rl.replay import Replay, Samples
from imitate.rl.rollout import Rollout

__all__ = ["Batch", "batch_of", "means", "parted", "replay_of"]

Batch = dict[str, Tensor]
"""Columns over B samples: obs and next_obs (prepared), actions, returns, discounts (0 if the episode terminated)."""


def batch_of(samples: Samples, policy: ActorPolicy) -> Batch:
    """Samples of a replay as a batch, prepared for the policy's networks and on their device."""
    columns = {"actions": samples.actions, "returns": samples.returns, "discounts": samples.discounts}
    return {
        "obs": encode(policy, samples.obs),
        "next_obs": encode(policy, samples.next_obs),
        **{name: torch.from_numpy(x).to(policy.output.weight.device) for name, x in columns.items()},
    }


def parted(drawn: Sequence[Batch], count: int) -> list[Batch]:
    """`count` batches, each with an equal share of every batch drawn, in their order."""
    if count == len(drawn) == 1:
        return list(drawn)
    shares = {
        name: [torch.unflatten(part[name], 0, (count, -1)) for part in drawn] for name in drawn[0]
    }  # (count, share, ...) each
    joined = {name: x[0] if len(x) == 1 else torch.cat(x, 1) for name, x in shares.items()}
    return [{name: x[i] for name, x in joined.items()} for i in range(count)]


def means(history: list[dict[str, Tensor]]) -> dict[str, float]:
    """The mean of each metric () over the gradient steps that have it."""
    names = dict.fromkeys(name for found in history for name in found)
    return {
        name: float(torch.stack([found[name] for found in history if name in found]).mean()) for name in names
    }


def replay_of(
    demos: DemoReader,
    episodes: Array | None,
    policy: ActorPolicy,
    *,
    gamma: float,
    n_step: int = 1,
    rewarded: Callable[[Trajectory], Array] = lambda trajectory: trajectory.rewards.astype(np.float32),
    every: int = 1,
    executed: bool = False,
    least_reward: float | None = None,
) -> Replay:
    """Demonstrations as a replay, with actions in [-1, 1] or as indices.

    episodes  indices, by default all
    rewarded  gives the rewards (T,) of an episode
    every     1: all steps; n: each n-th one of an episode, and the last one if that terminates it
    executed  take the actions that earned the recorded rewards, otherwise those to imitate; noise makes them differ
    """
    rollouts = []
    for episode in (demos[index] for index in demos.chosen(episodes).tolist()):
        episode = replace(episode, rewards=rewarded(episode))
        for part in (episode,) if every == 1 else _single_steps(episode, every):
            given = torch.as_tensor(part.actions if executed else part.labels)
            actions = policy.to_unit(given.to(policy.output.weight.device))
            if isinstance(policy.action_space, spaces.Box):
                actions = actions.clamp(-1.0, 1.0)
            rollouts.append(Rollout.of_episode(part, actions.cpu().numpy(), part.rewards))
    spaces_ = policy.observation_space, policy.action_space
    return Replay.of_episodes(rollouts, *spaces_, gamma=gamma, n_step=n_step, least_reward=least_reward)


def _single_steps(episode: Trajectory, every: int) -> list[Trajectory]:
    kept = nth_steps(len(episode), every, terminated=episode.terminated)
    return [episode.part(at, at + 1) for at in kept.tolist()]
