"""Tuned settings, from the files in `presets/`: [default], a table per environment, [atari] for other games, [variants]
and [chosen_on]."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

import msgspec

from imitate.algorithms import find, is_own
from imitate.configs.shared import plain
from imitate.envs.atari import game_ids
from imitate.errors import InputError, did_you_mean, one_line

__all__ = [
    "REMEDIES",
    "RUN_FIELDS",
    "chosen_on",
    "make_config",
    "over",
    "preset_of",
    "tuned",
    "variant_settings",
]

# Settings of the run that a preset may contain, besides the algorithm's hyperparameters.
RUN_FIELDS = (
    "budget", "num_envs", "backend", "episodic_life", "clip_rewards", "eval_every", "eval_episodes", "validate_by",
    "checkpoint_every",
)  # fmt: skip


def tuned(algorithm: str, env_id: str) -> dict[str, Any]:
    """Settings of the run and hyperparameters for (algorithm, environment).

    The general ones are overridden by those for the environment, and these by those of the variant, if any.

    Raises InputError for an unknown algorithm or variant.
    """
    presets, name = _presets(algorithm), preset_of(algorithm, env_id)
    general = over(presets.get("default", {}), {} if name is None else presets[name])
    return over(general, variant_settings(algorithm))


def preset_of(algorithm: str, env_id: str) -> str | None:
    """The name of the settings for this environment, `atari` for those of all games; None if there are only those for
    all."""
    table = _presets(algorithm)
    return next((name for name in game_ids(env_id) if name in table), None)


def chosen_on(algorithm: str, env_id: str) -> list[int]:
    """Seeds of this environment on which the algorithm's settings for it, or its defaults, were chosen, as far as its
    presets record them."""
    seeds = _presets(algorithm).get("chosen_on", {})
    return next((seeds[name] for name in game_ids(env_id) if name in seeds), [])


def variant_settings(algorithm: str) -> dict[str, Any]:
    """The settings that define `algorithm:variant`; empty for an algorithm without a variant.

    Raises InputError for an unknown algorithm or variant.
    """
    name, _, variant = algorithm.partition(":")
    variants = _presets(algorithm).get("variants", {})
    if is_own(algorithm):
        return {}
    if variant and variant not in variants:
        known = ", ".join(variants) or "none"
        raise InputError(
            f"{name} has no variant {variant!r}{did_you_mean(variant, variants)}; known: {known}"
        )
    return dict(variants[variant]) if variant else {}


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Override settings; nested ones (`ppo` in GAIL) are merged one by one."""
    nested = {
        name: over(below[name], value)
        for name, value in above.items()
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
    }
    return dict(below) | dict(above) | nested


REMEDIES = {
    "env_id": "; gymnasium.register gives an environment of yours an id",
    **dict.fromkeys(
        ("expert", "other_experts"),
        "; name an expert by its spec, such as 'CartPole-v1:ppo', a run's folder, or module:make_expert for your own",
    ),
    **dict.fromkeys(("demos", "init", "reward"), "; give its path"),
    "hyperparameters": "; write {'gamma': 0.99}, and in a comparison {'ppo': {'gamma': 0.99}}",
}
"""Remedies for settings of a run, a comparison or a search that have another type, by their names."""


def make_config(algorithm: str, values: Mapping[str, Any]) -> Any:
    """The algorithm's config with these hyperparameters; nested ones (`ppo` in GAIL) override its own defaults.

    Raises InputError for unknown names, values of another type, and values that the config does not accept.
    """
    config = find(algorithm).config
    try:
        return msgspec.convert(_over_defaults(algorithm, config, plain(values)), config)
    except (msgspec.ValidationError, TypeError) as error:  # TypeError: a user's own config lacks a value
        raise InputError(f"hyperparameters of {algorithm} that can't be used: {one_line(error)}") from error


def _over_defaults(owner: str, config: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, with the defaults of nested configs below theirs. Raises InputError for unknown names."""
    factories = {field.name: field.default_factory for field in dataclasses.fields(config)}
    complete = dict(values)
    for name, value in values.items():
        if name not in factories:
            raise InputError(f"{owner} has no hyperparameter {name!r}{did_you_mean(name, factories)}")
        if name.endswith("learning_rate") and value == math.inf:
            raise InputError(f"{name} of {owner} must be finite, got {value}")
        factory = factories[name]
        if isinstance(value, Mapping) and factory is not dataclasses.MISSING:
            default = factory()
            if dataclasses.is_dataclass(default) and not isinstance(default, type):
                own = _over_defaults(f"{owner}.{name}", type(default), value)
                complete[name] = over(dataclasses.asdict(default), own)
    return complete


def _presets(algorithm: str) -> dict[str, Any]:
    if is_own(algorithm):
        return {}
    find(algorithm)
    path = resources.files("imitate.training") / "presets" / f"{algorithm.partition(':')[0]}.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
