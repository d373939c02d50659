"""Texts of robomimic's demonstrations, and the size of their simulator's states."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py

from imitate.datasets.convert import hdf5
from imitate.datasets.convert.foreign import Notes

__all__ = ["GYM", "Texts", "state_size"]

GYM = 2  # robomimic.envs.env_base.EnvType.GYM_TYPE


class Texts:
    """The texts of demonstrations: their masks, robosuite's model, robocasa's task, and robomimic's `env_args` unless
    these name an environment of Gymnasium."""

    def __init__(self, masks: Mapping[str, Sequence[str]], env_args: str) -> None:
        self._env_args = env_args
        self._masks: dict[str, list[str]] = {}
        for mask in (name for name in sorted(masks) if "\n" not in name):
            for name in masks[mask]:
                self._masks.setdefault(name, []).append(mask)

    def of(self, name: str, demo: h5py.Group) -> dict[str, Any]:
        """Texts of the demonstration with this name, as in `Trajectory.info`."""
        try:
            task = json.loads(hdf5.text(demo, "ep_meta") or "{}").get("lang")
        except (ValueError, RecursionError, AttributeError):
            task = None
        found = {
            "task": task if isinstance(task, str) else "",
            "masks": tuple(dict.fromkeys(self._masks.get(name, ()))),
            "model_file": hdf5.text(demo, "model_file"),
            "env_args": self._env_args,
        }
        return {key: text for key, text in found.items() if text}


def state_size(data: h5py.Group, names: Sequence[str], notes: Notes) -> int:
    """The size of the simulator's states (T, size); 0 if there are none, or of several sizes."""
    shapes = set()
    for name in names:
        states = hdf5.group(data, name).get("states")
        known = isinstance(states, h5py.Dataset) and states.ndim == 2 and states.dtype.kind in "biuf"
        shapes.add(states.shape[1] if known else 0)
    if len(shapes) > 1:
        notes["states of the simulator are left out, since not all demonstrations have as many numbers"] += 1
    return shapes.pop() if len(shapes) == 1 else 0
