"""The worth of an episode's end to a learner whose rewards are made of a discriminator's logits.

A reward that is never negative pays for staying alive, whatever the expert does, and one that is never positive pays
for dying (arXiv:1809.02925). The remedy: when an episode terminates, its return continues in an absorbing state, which
is rewarded like any other. There is only one such state, so the best discriminator there needs no network: if p_E and
p_L are the shares of time that expert and learner spend in it,

    log d_E - log d_L  =  log p_E - log p_L                              in the absorbing state
                       =  logit(s, a) + log(1 - p_E) - log(1 - p_L)      elsewhere, if the network sees that alone

and staying there forever is worth gamma / (1 - gamma) times its reward, which is added at the last step. An episode
that the time limit truncates does not enter it: its return is bootstrapped.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from imitate.configs.gail import Reward
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.imitators.discriminator import reward_of
from imitate.rl.replay import Replay

__all__ = ["absorbed_share", "endings", "share_of_demos", "share_of_replay"]

_LEAST_SHARE = 0.01  # keeps log p finite when no termination was seen


def absorbed_share(steps: float, terminations: float, gamma: float) -> float:
    """Share of discounted time spent in the absorbing state, which is gamma + gamma^2 + ... after each termination."""
    absorbed = terminations * gamma / (1 - gamma)
    return float(np.clip(absorbed / max(steps + absorbed, 1.0), _LEAST_SHARE, 1 - _LEAST_SHARE))


def share_of_demos(demos: DemoReader, episodes: Array | None, gamma: float) -> float:
    """`absorbed_share` of these episodes (indices, by default all)."""
    table = demos.table if episodes is None else demos.table[episodes]
    return absorbed_share(table["length"].sum(), table["terminated"].sum(), gamma)


def share_of_replay(replay: Replay, gamma: float) -> float:
    """`absorbed_share` of the steps in a learner's replay."""
    return absorbed_share(len(replay), int(np.count_nonzero(replay.terminated & replay.acted)), gamma)


def endings(expert_share: float, learner_share: float, gamma: float, form: Reward) -> tuple[float, float]:
    """The absorbing state's additions to the logit of every pair, and to the reward of a termination."""
    absorbed = torch.tensor(math.log(expert_share / learner_share))
    worth = gamma / (1 - gamma) * float(reward_of(absorbed, form))
    return math.log((1 - expert_share) / (1 - learner_share)), worth
