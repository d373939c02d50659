"""A person as the expert: `imitate train dagger --expert human`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from imitate.algorithms import ALGORITHMS
from imitate.errors import InputError

if TYPE_CHECKING:
    from imitate.datasets.human.playing import Person
    from imitate.envs.vec import SyncVecEnv
    from imitate.training.experiment import Experiment

__all__ = ["check_person", "is_person", "seated"]


def is_person(spec: str | None) -> bool:
    """Whether the spec of an expert is `human`, or `human:` and a file of keys."""
    return spec is not None and spec.partition(":")[0] == "human"


def check_person(experiment: Experiment) -> None:
    """Raise InputError unless one person can steer this run."""
    if not ALGORITHMS[experiment.algorithm].live:
        able = ", ".join(name for name, entry in ALGORITHMS.items() if entry.live)
        raise InputError(f"{experiment.algorithm} can't ask a person: --expert human is for {able}")
    if experiment.other_experts:
        raise InputError("a person is the only expert of a run: give --expert human alone")
    if experiment.num_envs != 1 or experiment.backend != "gymnasium":
        raise InputError(
            f"a person watches one environment: num_envs must be 1 and backend gymnasium, got "
            f"{experiment.num_envs} and {experiment.backend}"
        )


def seated(experiment: Experiment, stack: ExitStack) -> tuple[SyncVecEnv, Person]:
    """The environment, in a window that `stack` closes, and the person before it."""
    from imitate.datasets.human.keymap import key_map
    from imitate.datasets.human.playing import (
        Person,  # takes half a second: a command line is checked without it
    )
    from imitate.envs.answers import Checked
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.media.video import DEFAULT_FPS
    from imitate.media.window import Window

    env = Checked(make_env(experiment.env_id, experiment.env_kwargs, render_mode="rgb_array"))
    _, _, file = (experiment.expert or "").partition(":")
    keys = key_map(env, experiment.env_id, Path(file) if file else None)
    window = stack.enter_context(Window(float(env.metadata.get("render_fps") or DEFAULT_FPS)))
    return SyncVecEnv([lambda: env]), Person(env, keys, window)
