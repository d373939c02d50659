"""A person as the expert: `imitate train dagger --expert human`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from imitate.datasets.human.playing import Person
    from imitate.envs.vec import SyncVecEnv

__all__ = ["is_person", "seated"]


def is_person(spec: str | None) -> TypeGuard[str]:
    """True if the spec of an expert is `human`, or `human:` and a file of keys."""
    return spec is not None and spec.partition(":")[0] == "human"


def seated(
    spec: str, env_id: str, env_kwargs: Mapping[str, Any], stack: ExitStack
) -> tuple[SyncVecEnv, Person]:
    """The environment, in a window that `stack` closes, and the person before it."""
    # These take half a second: a command line is checked without them.
    from imitate.datasets.human.keymap import key_map
    from imitate.datasets.human.playing import Person
    from imitate.envs.answers import Checked
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.media.video import fps_of
    from imitate.media.window import Window

    env = Checked(make_env(env_id, env_kwargs, render_mode="rgb_array"))
    with ExitStack() as refused:
        refused.callback(env.close)
        file = spec.partition(":")[2]
        keys = key_map(env, env_id, Path(file) if file else None, remedy="--expert human:keys.toml")
        window = stack.enter_context(Window(fps_of(env)))
        refused.pop_all()
    return SyncVecEnv([lambda: env]), Person(env, keys, window)
