"""Ranges in which hyperparameters are searched, by the name of their field in any config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from imitate.algorithms import find
from imitate.errors import InputError
from imitate.training.settings import make_config, over

if TYPE_CHECKING:
    import optuna
    from gymnasium.spaces import Space

__all__ = ["RANGES", "Log", "OneOf", "nested", "searched"]


@dataclasses.dataclass(frozen=True)
class Log:
    """A number between two others, as likely in each decade."""

    low: float
    high: float

    def drawn(self, trial: optuna.Trial, name: str) -> float:
        return trial.suggest_float(name, self.low, self.high, log=True)


@dataclasses.dataclass(frozen=True)
class OneOf:
    """One of a few values."""

    values: tuple[Any, ...]

    def drawn(self, trial: optuna.Trial, name: str) -> Any:
        """The value; Optuna sees its text, as it knows no tuples."""
        texts = {str(value): value for value in self.values}
        return texts[trial.suggest_categorical(name, list(texts))]


RANGES: dict[str, Log | OneOf] = {
    "learning_rate": Log(1e-5, 1e-2),
    "discriminator_learning_rate": Log(1e-5, 1e-3),
    "batch_size": OneOf((32, 64, 128, 256, 512)),
    "weight_decay": Log(1e-3, 1.0),
    "hidden": OneOf(((64, 64), (256, 256), (400, 300))),
    "activation": OneOf(("tanh", "relu")),
    "gamma": OneOf((0.9, 0.95, 0.98, 0.99, 0.995, 0.999)),
    "gae_lambda": OneOf((0.8, 0.9, 0.95, 0.98, 1.0)),
    "n_step": OneOf((1, 3, 5)),
    "ent_coef": Log(1e-6, 0.1),
    "clip_coef": OneOf((0.1, 0.2, 0.3)),
    "num_epochs": OneOf((3, 5, 10, 20)),
    "tau": Log(1e-3, 5e-2),
    "layer_norm": OneOf((False, True)),
    "alpha_rate": OneOf((0.5, 0.8, 0.9, 0.95)),
    "updates_per_iteration": OneOf((100, 300, 1_000)),
}
"""Fields that are not listed keep the preset's values, as do those that are None, which chooses by the task; but step
sizes are always searched."""


def searched(
    algorithm: str, hyperparameters: Mapping[str, Any], held: Mapping[str, Any], actions: Space[Any]
) -> dict[str, Log | OneOf]:
    """The ranges of an algorithm's fields, by names such as `ppo.learning_rate` in configs within its own.

    held      hyperparameters that keep their values
    actions   space of the environment's actions: an inner learner for others is not in use
    """
    entry, config = find(algorithm), make_config(algorithm, hyperparameters)
    found = _of_config(config, held)
    unused = entry.unused(vars(config), actions)
    if entry.offline:  # then these only lie between two lines of the log
        unused.add("updates_per_iteration")
    used = {name: each for name, each in found.items() if name.split(".")[0] not in unused}

    def fits(name: str, value: Any) -> bool:
        try:
            make_config(algorithm, over(hyperparameters, nested({name: value})))
        except InputError:  # such as n_step 3 of dac, whose reward is of single steps
            return False
        return True

    for name, each in used.items():
        if isinstance(each, OneOf):
            used[name] = OneOf(tuple(value for value in each.values if fits(name, value)))
    return {name: each for name, each in used.items() if not isinstance(each, OneOf) or len(each.values) > 1}


def _of_config(config: Any, held: Mapping[str, Any]) -> dict[str, Log | OneOf]:
    found: dict[str, Log | OneOf] = {}
    for field in dataclasses.fields(config):
        value, fixed = getattr(config, field.name), held.get(field.name)
        if dataclasses.is_dataclass(value):
            inner = _of_config(value, fixed or {})
            found |= {f"{field.name}.{name}": each for name, each in inner.items()}
        elif field.name in RANGES.keys() - held and (value is not None or field.name == "learning_rate"):
            found[field.name] = RANGES[field.name]
    return found


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters as a config has them, of values by names such as `ppo.learning_rate`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        *configs, last = name.split(".")
        place = found
        for config in configs:
            place = place.setdefault(config, {})
        place[last] = value
    return found
