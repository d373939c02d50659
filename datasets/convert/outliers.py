"""Single actions that are far from all others, and widen an action space that is as wide as the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from imitate.datasets.convert.pieces import Episode

__all__ = ["Outliers"]

_FAR = 10  # times the range of the others


class Outliers:
    """Passes episodes on, and remembers the two largest and smallest values in each column of their actions (T, D)."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self._episodes = episodes
        self._most = np.zeros((2, 0))  # of actions and of their negatives (2, 2 D), the largest last
        self._where = np.zeros((2, 0), np.int64)  # episode and step of the largest

    def __iter__(self) -> Iterator[Episode]:
        for number, pieces in enumerate(self._episodes):
            yield self._seen(number, pieces)

    def _seen(self, number: int, pieces: Episode) -> Episode:
        begun = 0
        for piece in pieces:
            both = np.concatenate([piece.actions, -piece.actions], axis=1).astype(np.float64)
            if not self._most.size:
                self._most = np.full((2, both.shape[1]), -np.inf)
                self._where = np.zeros((2, both.shape[1]), np.int64)
            step = both.argmax(0)
            higher = both.max(0) > self._most[1]
            self._where[:, higher] = np.stack([np.full_like(step, number), begun + step])[:, higher]
            self._most = np.sort(np.concatenate([self._most, both]), axis=0)[-2:]
            begun += len(piece)
            yield piece

    def notes(self) -> list[str]:
        """A line for each value that is ten times as far from all others as these are apart."""
        columns = self._most.shape[1] // 2
        second, largest = self._most
        said = []
        for place in range(2 * columns):
            column, sign = place % columns, 1 if place < columns else -1
            apart = second[column] + second[column + columns]
            if 0 < _FAR * apart < largest[place] - second[place] < np.inf:
                episode, step = self._where[:, place].tolist()
                said.append(
                    f"action_{column} is {sign * largest[place]:.4g} in step {step} of episode {episode}, the next "
                    f"value is {sign * second[place]:.4g}: the action space reaches that far, unless you correct it or "
                    "name an installed environment"
                )
        return said
