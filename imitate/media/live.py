"""Shows a policy at play in a window."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import islice
from typing import Any

import gymnasium as gym
import numpy as np

from imitate.datasets.asking import asking
from imitate.datasets.human.keymap import QUIT
from imitate.datasets.trajectory import Policy
from imitate.envs.seeds import episode_seeds
from imitate.media.video import fps_of, renderable_env
from imitate.media.window import Window, check_display

__all__ = ["show_episodes"]


def show_episodes(
    policy: Policy,
    env_id: str,
    *,
    env_kwargs: Mapping[str, Any] | None,
    seed: int,
    episodes: int,
    deterministic: bool,
) -> None:
    """Show the episodes of `evaluate(..., seed=seed)` one after the other, at the environment's `render_fps`.

    Escape or closing the window ends it early.

    Raises InputError if there is no display, or if the environment can't be rendered to pictures.
    """
    check_display()
    env = renderable_env(env_id, env_kwargs)
    with closing(env), Window(fps_of(env)) as window:
        for number, each in enumerate(islice(episode_seeds(seed), episodes), 1):
            title = f"{env_id}, episode {number} of {episodes}"
            if not _show(policy, env, each, window, title, deterministic):
                return


def _show(
    policy: Policy, env: gym.Env[Any, Any], seed: int, window: Window, title: str, deterministic: bool
) -> bool:
    """Show an episode; returns False if the person has closed the window."""
    ask = asking(policy, env.action_space, deterministic=deterministic)
    obs, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while True:
        picture: Any = env.render()
        window.show(picture, f"{title}: return {total:.5g}")
        if QUIT in window.down():
            return False
        if ended:
            return True
        action = ask(np.asarray(obs, env.observation_space.dtype)[None])[0]
        obs, reward, terminated, truncated, _ = env.step(action)
        total, ended = total + float(reward), terminated or truncated
