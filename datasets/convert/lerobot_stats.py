"""The statistics of a feature, with which LeRobot normalises."""

from __future__ import annotations

from typing import Any

import numpy as np

from imitate.envs.spaces import Array

__all__ = ["Stats"]

_QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
_LARGEST_SAMPLE = 20_000
_PIXELS_APART = 8
_BLOCK = 1 << 24  # bytes of rows in float64


class Stats:
    """Statistics of a feature over steps; for pictures per channel, in [0, 1]. Quantiles are those of a sample."""

    def __init__(self) -> None:
        self.count = self._numbers = self._thinned = 0
        self._shape: tuple[int, ...] = ()
        self._low: Any = np.inf
        self._high: Any = -np.inf
        self._total: Any = 0.0
        self._squares: Any = 0.0
        self._sample: list[Array] = []
        self._every = 1

    def add(self, rows: Array) -> None:
        """Add rows: numbers (T, D), or pictures (T, H, W, 3) uint8."""
        size = max(1, _BLOCK // (8 * int(np.prod(rows.shape[1:]))))
        for start in range(0, len(rows), size):
            self._add(rows[start : start + size])

    def _add(self, rows: Array) -> None:
        pixels = rows.ndim == 4
        axes = (0, 1, 2) if pixels else (0,)
        values = rows.astype(np.float64) / (255 if pixels else 1)
        self._shape = (3, 1, 1) if pixels else values.shape[1:]
        self._low = np.minimum(self._low, values.min(axes))
        self._high = np.maximum(self._high, values.max(axes))
        self._total = self._total + values.sum(axes)
        self._squares = self._squares + (values**2).sum(axes)
        self.count += len(rows)
        self._numbers += values.size // values.shape[-1]
        thin = values[:, ::_PIXELS_APART, ::_PIXELS_APART] if pixels else values
        thin = thin.reshape(-1, values.shape[-1])
        # Each n-th row of all, not of a block.
        self._sample.append(thin[-self._thinned % self._every :: self._every])
        self._thinned += len(thin)
        if sum(map(len, self._sample)) > _LARGEST_SAMPLE:
            self._sample, self._every = [np.concatenate(self._sample)[::2]], 2 * self._every

    def plain(self) -> dict[str, Any]:
        mean = self._total / self._numbers
        deviation = np.sqrt(np.maximum(self._squares / self._numbers - mean**2, 0))
        named = {"min": self._low, "max": self._high, "mean": mean, "std": deviation}
        quantiles = np.quantile(np.concatenate(self._sample), _QUANTILES, axis=0)
        named |= {f"q{round(100 * q):02d}": value for q, value in zip(_QUANTILES, quantiles, strict=True)}
        return {name: value.reshape(self._shape).tolist() for name, value in named.items()} | {
            "count": [self.count]
        }
