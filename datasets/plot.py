"""Plots returns, lengths and actions of demonstrations as a picture, or as lines of text."""

from __future__ import annotations

import base64
import io
from itertools import chain
from pathlib import Path

import numpy as np
from gymnasium import spaces

from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.files import atomic

__all__ = ["bars", "plot"]

_MOST_STEPS = 1 << 20  # most steps whose actions are shown
_MOST_DIMENSIONS = 12
_BINS = 20
_MOST_BARS = 256  # of single values; matplotlib takes milliseconds for each
_LONGEST_NAME = 80  # characters of an environment's id in the title


def bars(values: Array, *, bins: int = 8, width: int = 40, block: str = "#") -> list[str]:
    """A histogram in lines of text: the lower edge of each bin, a bar, and the number of values."""
    if len(values) == 0:
        return []
    counts, edges = np.histogram(values, _edges(values, min(bins, len(np.unique(values)))))
    lows = [f"{edge:.4g}" for edge in (edges[:-1] if len(counts) > 1 else values[:1])]
    room = max(map(len, lows))
    return [
        f"{low:>{room}} {block * -(-width * count // int(counts.max()))} {count}"
        for low, count in zip(lows, counts.tolist(), strict=True)
    ]


def plot(source: str | Path, out: str | Path) -> None:
    """Histograms of returns, lengths and each known action in one PNG, or HTML with the PNG in it.

    Raises InputError if `out` exists or has another suffix.
    """
    from matplotlib.figure import Figure

    out = Path(out)
    if out.suffix not in (".png", ".html"):
        example = out / "plot.png" if out.is_dir() else f"{out.stem}.png"
        raise InputError(f"a plot is written as .png or .html, got {out}; name the file {example}")
    if out.exists():
        raise InputError(f"{out} exists already: choose another name")
    with DemoReader(source) as reader:
        if not len(reader):
            raise InputError(f"{source} holds no episodes: record some with `imitate collect`")
        actions, names = _actions(reader)
        rows = -(-(2 + len(names)) // 3)
        figure = Figure(figsize=(10, 3 * rows), layout="constrained")
        title = f"{reader.info.env_id[:_LONGEST_NAME]}: {len(reader)} episodes, {reader.num_steps} steps"
        figure.suptitle(title, parse_math=False)
        panels = figure.subplots(rows, 3, squeeze=False).reshape(-1)
        for panel, values, name in zip(
            panels, (reader.returns, reader.lengths), ("return", "length"), strict=False
        ):
            panel.hist(values, _edges(values, _BINS))
            panel.set(xlabel=name, ylabel="episodes")
        for panel, column, name in zip(panels[2:], actions, names, strict=False):
            low, high = column.min(), column.max()
            each = column.dtype.kind in "iu" and int(high) - int(low) < _MOST_BARS
            panel.hist(column, np.arange(int(low), int(high) + 2) - 0.5 if each else _edges(column, _BINS))
            panel.set(xlabel=name, ylabel="steps")
        for panel in panels[2 + len(names) :]:
            panel.set_axis_off()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=100)
    with atomic(out, new=True) as temporary:
        if out.suffix == ".png":
            temporary.write_bytes(picture.getvalue())
        else:
            data = base64.b64encode(picture.getvalue()).decode()
            page = f'<!doctype html><title>Demonstrations</title><img src="data:image/png;base64,{data}">'
            temporary.write_text(page, "utf-8")


def _edges(values: Array, bins: int) -> Array:
    """Edges of the bins. Values that are equal up to rounding get one bin around them, as NumPy can't split them."""
    values = np.asarray(values, np.float64)
    low, high = values.min(), values.max()
    rounding = 1e-9 * max(abs(low), abs(high))
    if high - low <= rounding:
        return np.array([low - max(0.5, rounding), high + max(0.5, rounding)])
    return np.histogram_bin_edges(values, bins)


def _actions(reader: DemoReader) -> tuple[list[Array], list[str]]:
    """The columns (N,) of the first episodes' actions, and their names; none if the actions are unknown."""
    if not reader.info.has_actions:
        return [], []
    parts, steps = [], 0
    for piece in chain.from_iterable(map(reader.pieces, range(len(reader)))):
        parts.append(piece.labels)
        steps += len(piece)
        if steps >= _MOST_STEPS:
            break
    actions = np.concatenate(parts)
    if isinstance(reader.info.action_space, spaces.Discrete):
        return [actions], ["action"]
    dimensions = range(min(actions.shape[1], _MOST_DIMENSIONS))
    return [actions[:, n] for n in dimensions], [f"action {n}" for n in dimensions]
