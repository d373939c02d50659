"""The agreement of a learned reward with the true one, on recorded episodes."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import atomic
from imitate.imitators.learned_reward import LearnedReward

__all__ = ["Agreement", "Correlation", "plot_agreement", "reward_agreement"]

_MOST_POINTS = 5_000  # of a panel: more are a blot


@dataclass(frozen=True)
class Correlation:
    """Pearson's correlation of two rewards and Spearman's, of their ranks; None if one of the two never varies."""

    linear: float | None
    ranks: float | None

    @classmethod
    def of(cls, true: Array, learned: Array) -> Correlation:
        from scipy import stats  # takes half a second

        if len(true) < 2 or not (np.ptp(true) and np.ptp(learned)):
            return cls(None, None)
        ranks = float(stats.spearmanr(true, learned).statistic)
        return cls(float(np.corrcoef(true, learned)[0, 1]), ranks)


@dataclass(frozen=True)
class Agreement:
    """True and learned rewards of the same S steps (2, S), and their undiscounted returns in E episodes (2, E)."""

    rewards: Array
    returns: Array

    @property
    def per_step(self) -> Correlation:
        return Correlation.of(*self.rewards)

    @property
    def per_episode(self) -> Correlation:
        return Correlation.of(*self.returns)


def reward_agreement(reward: LearnedReward, demos: DemoReader) -> Agreement:
    """Reward the recorded steps anew. Only episodes that the reward was not learned from say something.

    Raises InputError if the recording has other spaces, or lacks actions that the reward depends on.
    """
    for name in ("observation_space", "action_space"):
        learned, recorded = getattr(reward, name), getattr(demos.info, name)
        if learned != recorded:
            raise InputError(f"the reward has {name} {learned}, the recording {recorded}; choose another one")
    if reward.sees_actions and not demos.info.has_actions:
        raise InputError("the recording has no actions, on which this reward depends; choose another one")
    rewards, returns = [], []
    for index in range(len(demos)):
        pieces = [np.stack([piece.rewards, _rewarded(reward, piece)]) for piece in demos.pieces(index)]
        rewards += pieces
        returns.append(np.sum([piece.sum(1, dtype=np.float64) for piece in pieces], 0))
    return Agreement(np.concatenate(rewards, 1), np.stack(returns, 1))


def _rewarded(reward: LearnedReward, piece: Trajectory) -> Array:
    terminated = np.zeros(len(piece), bool)
    terminated[-1] = piece.terminated
    return reward(piece.obs[:-1], piece.actions, piece.obs[1:], terminated)


def plot_agreement(agreement: Agreement, out: str | Path, title: str = "") -> None:
    """Learned against true rewards, of steps and of episodes, as a PNG.

    Raises InputError if `out` exists or has another suffix.
    """
    from matplotlib.figure import Figure

    out = Path(out)
    if out.suffix != ".png":
        raise InputError(f"a plot is written as .png, got {out}; name the file {out.stem}.png")
    if out.exists():
        raise InputError(f"{out} exists already: choose another name")
    figure = Figure(figsize=(9, 4), layout="constrained")
    figure.suptitle(title, parse_math=False)
    both = (agreement.rewards, agreement.per_step), (agreement.returns, agreement.per_episode)
    for panel, (values, found), name in zip(figure.subplots(1, 2), both, ("step", "episode"), strict=True):
        chosen = np.linspace(0, values.shape[1] - 1, min(values.shape[1], _MOST_POINTS)).astype(np.int64)
        panel.scatter(*values[:, chosen], s=6, alpha=0.4)
        said = "" if found.linear is None else f", correlation {found.linear:.2f}"
        panel.set(xlabel=f"true, of an {name}" if name == "episode" else f"true, of a {name}")
        panel.set(ylabel="learned", title=f"{values.shape[1]:,} {name}s{said}")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    with atomic(out, new=True) as temporary:
        temporary.write_bytes(picture.getvalue())
