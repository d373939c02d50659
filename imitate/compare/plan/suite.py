"""A suite: comparisons of the same learners in several environments, from a file or bundled."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta

from imitate.compare.plan.comparison import Comparison
from imitate.envs.trust import bare_id
from imitate.errors import InputError, did_you_mean, one_line
from imitate.files import read_json, write_json
from imitate.toml import as_toml

__all__ = ["BUNDLED", "Suite", "is_suite"]

BUNDLED = ("classic", "box2d", "pixels", "bullet", "mujoco", "atari", "few-demos")
"""Suites that come with the package; they are ordinary suite files."""
_ENVIRONMENT_FIELDS = ("env_id", "env_kwargs", "expert")
_SUITE_FIELDS = ("experts", "demonstrations", "label")


@dataclass(frozen=True)
class Suite:
    """Comparisons by the name of their folder: the environment, and the expert if there are several."""

    name: str
    parts: Mapping[str, Comparison]

    @classmethod
    def from_toml(cls, name: str, data: Mapping[str, Any]) -> Self:
        """Read a suite from plain data. Fields of a comparison in `data` apply to all environments; the list
        `environments` holds the fields of each one: env_id, expert (or a list `experts`, one comparison each),
        demo_episodes (or a list `demonstrations` of such numbers), budget, `label` (its name, by default the id's),
        and so on.

        Raises InputError for unknown names, for invalid values, and if an environment is listed twice.
        """
        common = {key: value for key, value in data.items() if key != "environments"}
        for key in _ENVIRONMENT_FIELDS:
            if key in common:
                raise InputError(
                    f"{key} of a suite stands in its environments, not above them: move it there"
                )
        given = common.pop("hyperparameters", {})
        parts: dict[str, Comparison] = {}
        for own, label in list(_environments(data)):  # all are checked first
            settings = own.pop("hyperparameters", {})
            try:
                known = Comparison.from_json(common | own).everybody
                general = {name: each for name, each in given.items() if name in known}
                comparison = Comparison.from_json(common | own | {"hyperparameters": general | settings})
            except InputError as error:
                raise InputError(f"{label}: {error}") from error
            if label in parts:
                raise InputError(
                    f"{label} is in the suite twice: name it once, or give each its own expert or label"
                )
            parts[label] = comparison
        _check_named(given, parts)
        return cls(name, parts)

    @classmethod
    def bundled(cls, name: str) -> Self:
        text = (resources.files("imitate.compare.plan") / "suites" / f"{name}.toml").read_text("utf-8")
        return cls.from_toml(name, tomllib.loads(text))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the suite that `save` wrote. Raises InputError if there is none, or if it is damaged."""
        if not is_suite(folder):
            raise InputError(f"{folder} holds no suite to report; fill it with `imitate compare`")
        stored = read_json(folder / "suite.json", _Stored)
        parts = {}
        for label, comparison in stored.parts.items():
            if _slug(label) != label or not label:
                raise InputError(f"{folder / 'suite.json'} names a folder {label!r}: restore the file")
            parts[label] = Comparison.from_json(comparison)
        return cls(stored.name, parts)

    def save(self, folder: Path) -> None:
        parts = {label: comparison.to_json() for label, comparison in self.parts.items()}
        write_json(folder / "suite.json", {"name": self.name, "parts": parts})

    def changed(self, add: Sequence[str] = (), **given: Any) -> Suite:
        """A copy with other settings in every part, and more learners; hyperparameters go where their learner is."""
        settings = given.pop("hyperparameters", {})
        parts = {label: part.changed(add, **given) for label, part in self.parts.items()}
        _check_named(settings, parts)
        if settings:
            for label, part in parts.items():
                own = {name: each for name, each in settings.items() if name in part.everybody}
                parts[label] = part.changed(hyperparameters=own)
        return replace(self, parts=parts)

    def to_toml(self) -> str:
        """The whole suite as a file that `imitate compare` takes. Raises InputError if a setting has a null in it."""
        every = [part.to_json() for part in self.parts.values()]
        names = [field.name for field in fields(Comparison)]
        shared = {
            name: every[0][name]
            for name in names
            if name not in _ENVIRONMENT_FIELDS
            and every[0][name] is not None
            and all(each[name] == every[0][name] for each in every)
        }
        own = [
            {name: each[name] for name in names if name not in shared and each[name] not in (None, {})}
            for each in every
        ]
        for label, each in zip(self.parts, own, strict=True):
            if label != _slug(bare_id(each["env_id"])):  # one of several in this environment
                each["label"] = label
        return as_toml(shared | {"environments": own})


def _check_named(settings: Mapping[str, Any], parts: Mapping[str, Comparison]) -> None:
    """Raise InputError for hyperparameters of a learner that no part has."""
    everybody = {name for part in parts.values() for name in part.everybody}
    for name in settings:
        if name not in everybody:
            raise InputError(
                f"hyperparameters of {name!r}, which is not in this suite{did_you_mean(name, everybody)}"
            )


def is_suite(folder: Path) -> bool:
    return (folder / "suite.json").is_file()


@dataclass(frozen=True)
class _Environment:
    """The fields of an [[environments]] table that belong to the suite; the others are fields of `Comparison`."""

    env_id: str
    experts: Annotated[list[str], Meta(min_length=1)] | None = None
    demonstrations: Annotated[list[int], Meta(min_length=1)] | None = None
    label: str | None = None
    hyperparameters: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    environments: Annotated[list[_Environment], Meta(min_length=1)]
    hyperparameters: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Stored:
    """The content of suite.json."""

    name: str = ""
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)


def _environments(data: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each comparison's own fields in a suite, and its name, such as `ALE-Pong-v5` or `ALE-Pong-v5-from-random`."""
    try:
        checked = msgspec.convert(dict(data), _File)
    except msgspec.ValidationError as error:
        raise InputError(
            f"a suite that can't be used: {one_line(error)}; begin each environment with [[environments]] and env_id"
        ) from error
    for each, table in zip(checked.environments, data["environments"], strict=True):
        own = {name: value for name, value in table.items() if name not in _SUITE_FIELDS}
        label = _slug(bare_id(each.env_id) if each.label is None else each.label)
        if not label:
            raise InputError(f"label {each.label!r} names no folder: use letters and digits")
        for one, several in (("expert", "experts"), ("demo_episodes", "demonstrations")):
            if one in own and several in table:
                raise InputError(f"{label} has both {one} and {several}: leave one out")
        for expert in each.experts or (None,):
            named = {} if expert is None else {"expert": expert}
            base = label if expert is None else f"{label}-from-{_slug(expert)}"
            for count in each.demonstrations or (None,):
                shown = {} if count is None else {"demo_episodes": count}
                yield own | named | shown, base if count is None else f"{base}-with-{count}"


def _slug(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip(".-")
