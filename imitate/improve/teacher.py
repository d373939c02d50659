"""Facts about the expert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from imitate.compare.formatting import counted, number, percent
from imitate.experts import Expert
from imitate.experts.published import best_published
from imitate.files import Count, Number
from imitate.improve.episodes import Played

__all__ = ["Teacher", "teacher"]


@dataclass(frozen=True)
class Teacher:
    """The expert, measured on the validation episodes and those of the test.

    source       its spec
    short        episodes of less than half the median length: it has fallen, or arrived early
    worst_seed   seed of the episode with the lowest return
    best_known   the best return that rl-baselines3-zoo publishes for the task, in any version of it, or None
    """

    source: str
    algorithm: str
    has_critic: bool
    episodes: Count
    mean: Number
    lowest: Number
    worst_seed: Count
    length: Number
    short: Count
    published: Number | None
    best_known: Number | None

    @property
    def share(self) -> float | None:
        """Share of the best known return; None unless both are positive."""
        return (
            self.mean / self.best_known if self.best_known and min(self.mean, self.best_known) > 0 else None
        )

    def describe(self) -> str:
        """One line."""
        parts = [
            f"{self.source} ({self.algorithm}, {'with' if self.has_critic else 'without'} a critic) makes "
            f"{number(self.mean)} in {counted(self.episodes, 'episode')}, at worst {number(self.lowest)}"
        ]
        if self.short:
            parts.append(f"{self.short} of them short")
        if self.best_known is not None:
            share = "" if self.share is None else f"{percent(self.share)} of "
            parts.append(f"{share}the best published return {number(self.best_known)}")
        return ", ".join(parts)


def teacher(expert: Expert, played: Played) -> Teacher:
    """The facts on an expert that has played these episodes."""
    lengths, worst = np.array(played.lengths), int(np.argmin(played.returns))
    return Teacher(
        source=expert.source,
        algorithm=expert.algorithm,
        has_critic=expert.oracle is not None,
        episodes=len(lengths),
        mean=played.mean,
        lowest=played.returns[worst],
        worst_seed=played.seeds[worst],
        length=played.length,
        short=int((lengths < np.median(lengths) / 2).sum()),
        published=expert.published_return,
        best_known=best_published(expert.env_id),
    )
