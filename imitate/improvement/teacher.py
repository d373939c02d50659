"""Facts about the expert."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from imitate.aggrevated.gate import GATE, PROBED, measure_gate
from imitate.compare.formatting import counted, number, percent
from imitate.datasets.trajectory import tensors_of
from imitate.envs.spaces import Array
from imitate.experts import Expert
from imitate.experts.published import best_published
from imitate.files import Count, Number
from imitate.improvement.episodes import Played

__all__ = ["Teacher", "Watched", "teacher"]


class Watched:
    """The expert, whose first states are remembered, to judge its critic there without further steps."""

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        self._rows: list[tuple[Array, Array]] = []  # observations (N, *obs_shape), actions (N, *action_shape)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        actions = self.expert.act(obs, deterministic=deterministic)
        if self.expert.oracle is not None and len(self._rows) * len(obs) < PROBED:
            self._rows.append((obs.copy(), actions.copy()))
        return actions

    def trusted(self, seed: int) -> float | None:
        """Share of these states in which the critic puts the expert's action above random ones; None if there is no
        critic, or if the expert is its argmax."""
        if self.expert.oracle is None or not self._rows:
            return None
        obs, actions = (tensors_of(np.concatenate(column)) for column in zip(*self._rows, strict=True))
        rng = np.random.default_rng(seed)
        openness = measure_gate(self.expert.oracle, obs, actions, self.expert.action_space, rng).openness
        return None if math.isnan(openness) else openness


@dataclass(frozen=True)
class Teacher:
    """The expert, measured on the validation episodes and those of the test.

    source       its spec
    trusted      share of its states in which its critic puts its action above random ones; None if there is no critic,
                 or if the expert is its argmax
    fitted       the same share for the critic that a learner fitted to an expert without one, or None
    short        episodes of less than half the median length: it has fallen, or arrived early
    worst_seed   seed of the episode with the lowest return
    best_known   the best return that rl-baselines3-zoo publishes for the task, in any version of it, or None
    """

    source: str
    algorithm: str
    has_critic: bool
    trusted: Number | None
    episodes: Count
    mean: Number
    lowest: Number
    worst_seed: Count
    length: Number
    short: Count
    published: Number | None
    best_known: Number | None
    fitted: Number | None = None

    @property
    def share(self) -> float | None:
        """Share of the best known return; None unless both are positive."""
        return (
            self.mean / self.best_known if self.best_known and min(self.mean, self.best_known) > 0 else None
        )

    @property
    def critic(self) -> str:
        """Words for its critic."""
        if not self.has_critic:
            fitted = "" if self.fitted is None else f"; a fitted one {_judged(self.fitted)}"
            return f"without a critic{fitted}"
        if self.trusted is None:
            return "the argmax of its critic"
        return f"with a critic that {_judged(self.trusted)}"

    def describe(self) -> str:
        """One line."""
        parts = [
            f"{self.source} ({self.algorithm}, {self.critic}) makes "
            f"{number(self.mean)} in {counted(self.episodes, 'episode')}, at worst {number(self.lowest)}"
        ]
        if self.short:
            parts.append(f"{self.short} of them short")
        if self.best_known is not None:
            share = "" if self.share is None else f"{percent(self.share)} of "
            parts.append(f"{share}the best published return {number(self.best_known)}")
        return ", ".join(parts)


def _judged(share: float) -> str:
    doubt = "" if share >= GATE else ", too few to trust it"
    return f"puts its action above random ones in {percent(share)} of states{doubt}"


def teacher(expert: Expert, played: Played, trusted: float | None, fitted: float | None = None) -> Teacher:
    """The facts on an expert that has played these episodes, and whose critic is trusted so far."""
    lengths = np.array(played.lengths)
    return Teacher(
        source=expert.source,
        algorithm=expert.algorithm,
        has_critic=expert.oracle is not None,
        trusted=trusted,
        episodes=len(lengths),
        mean=played.mean,
        lowest=min(played.returns),
        worst_seed=played.worst_seed,
        length=played.length,
        short=int((lengths < np.median(lengths) / 2).sum()),
        published=expert.published_return,
        best_known=best_published(expert.env_id),
        fitted=fitted,
    )
