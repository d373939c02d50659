"""Returns that rl-baselines3-zoo has published for its agents."""

from __future__ import annotations

import tomllib
from importlib import resources

from imitate.envs.versions import without_version

__all__ = ["best_published", "published"]


def published() -> dict[str, dict[str, list[float]]]:
    """[mean, std], or [mean] alone, by algorithm, in lower case, and environment."""
    table: dict[str, dict[str, list[float]]] = tomllib.loads(
        (resources.files("imitate.experts") / "published.toml").read_text("utf-8")
    )
    return table


def best_published(env_id: str) -> float | None:
    """The best mean return in the environment, in any of its versions; None if there is none."""
    bare = without_version(env_id)
    means = [
        mean
        for environments in published().values()
        for name, (mean, *_) in environments.items()
        if without_version(name) == bare
    ]
    return max(means, default=None)
