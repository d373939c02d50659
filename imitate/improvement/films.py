"""Films of expert and student on the same episodes of the test."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitate.compare.execute.filming import poster
from imitate.compare.report.page_data import VIDEO_BYTES, data_url
from imitate.datasets.play import scores
from imitate.datasets.trajectory import Policy
from imitate.envs.vec import SyncVecEnv
from imitate.media.video import filming

__all__ = ["Film", "films"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Film:
    """A film as data URLs, and the return of its episode as far as it is shown."""

    shown: float
    url: str
    poster: str


def films(
    players: Mapping[str, Policy], env_id: str, env_kwargs: Mapping[str, Any], seeds: Mapping[str, int], folder: Path
) -> dict[str, dict[str, Film]]:  # fmt: skip
    """Film each player in the episode of each seed, by the seed's name and the player's; empty if that is impossible.

    The episodes were played in the test already, so their steps are not counted again.
    """
    found: dict[str, dict[str, Film]] = {}
    folder.mkdir(exist_ok=True)
    try:
        for episode, seed in seeds.items():
            for player, policy in players.items():
                path = folder / f"{player}-{seed}.mp4"
                found.setdefault(episode, {})[player] = _film(policy, env_id, env_kwargs, seed, path)
    except Exception as error:  # a renderer may fail in many ways, and the verdict needs no picture
        logger.warning("no films: %s", error)
        return {}
    return {
        episode: each
        for episode, each in found.items()
        if all(len(film.url) < 4 / 3 * VIDEO_BYTES for film in each.values())
    }


def _film(policy: Policy, env_id: str, env_kwargs: Mapping[str, Any], seed: int, path: Path) -> Film:
    path.unlink(missing_ok=True)
    with filming(env_id, path, env_kwargs, max_seconds=40, width=400, crf=30) as (env, limit):
        for _ in scores(policy, SyncVecEnv([lambda: env]), [seed], limit=limit or math.inf):
            pass
    poster(path)
    picture = path.with_suffix(".jpg").read_bytes()
    return Film(env.returns[0], data_url(path.read_bytes(), "video/mp4"), data_url(picture, "image/jpeg"))
