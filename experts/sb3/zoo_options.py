"""The training options that rl-baselines3-zoo writes beside an agent, read as data."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from imitate.errors import InputError, one_line
from imitate.files import read_bytes

__all__ = ["LARGEST_TEXT", "as_dict", "is_normalised", "read_yaml", "time_feature_of", "wrappers_of"]

LARGEST_TEXT = 64 << 10  # bytes of YAML or JSON; the zoo's largest has 3 kB, and 64 kB take a second to parse
_MOST_NODES = 10_000  # of a YAML, aliases spelled out
_LARGEST_LITERAL = 2_000  # characters of a dictionary in a string


def wrappers_of(config: Mapping[str, Any]) -> list[str]:
    """Names of the wrappers that change observations: the zoo's `env_wrapper`, and frame stacks."""
    return [name for name, _ in _wrappers(config)] + (["frame_stack"] if config.get("frame_stack") else [])


def time_feature_of(config: Mapping[str, Any]) -> bool | None:
    """True if the remaining time that the agent observed in training counted down, False if it was constant
    (`test_mode`), None if it was not observed."""
    for name, options in _wrappers(config):
        if name.endswith("TimeFeatureWrapper"):
            return not (isinstance(options, dict) and options.get("test_mode"))
    return None


def _wrappers(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Name and options of each `env_wrapper`: one or a list, by name or as {name: options}."""
    named = config.get("env_wrapper")
    each = named if isinstance(named, list) else [named] if named else []
    return [
        next(iter(entry.items()), ("", {})) if isinstance(entry, dict) else (str(entry), {}) for entry in each
    ]


def is_normalised(config: Mapping[str, Any]) -> bool:
    """True if observations were normalised in training."""
    normalize = config.get("normalize")
    return normalize is True or bool(normalize and as_dict(normalize).get("norm_obs", True))


def read_yaml(path: Path | None) -> dict[str, Any]:
    """The zoo's YAML as plain data; {} without a file. Tags such as `!!python/object/apply` are ignored.

    Raises InputError if it is damaged or too large.
    """
    if path is None:
        return {}
    text = read_bytes(path, LARGEST_TEXT)
    try:
        node = yaml.compose(text.decode("utf-8"), Loader=yaml.SafeLoader)
        return as_dict(_plain(node, iter(range(_MOST_NODES))))
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not readable YAML: {one_line(error)[:160]}") from error


def _plain(node: yaml.Node | None, left: Iterator[int]) -> Any:
    if node is None:
        return None
    if next(left, None) is None:  # aliases count each time: nested ones can make billions
        raise ValueError(f"more than {_MOST_NODES} values")
    if isinstance(node, yaml.MappingNode):
        return {str(_plain(key, left)): _plain(value, left) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, left) for item in node.value]
    kind, text = node.tag.rpartition(":")[2], str(node.value)
    if kind == "int":
        return int(text.replace("_", ""), 0)
    if kind == "float":
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    return None if kind == "null" else text


def as_dict(value: Any) -> dict[str, Any]:
    """A dict from the zoo's spellings: a mapping, an OrderedDict's list of pairs, or the text of a dict."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return _literal(value)
    # The list is nested in others, which have one item each: [[["gamma", 0.9]]].
    while isinstance(value, list) and len(value) == 1 and not _is_pair(value[0]):
        value = value[0]
    return dict(value) if isinstance(value, list) and all(map(_is_pair, value)) else {}


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _literal(text: str) -> dict[str, Any]:
    """The dict in `"{'norm_obs': True}"` or `"dict(norm_obs=True)"`; {} if it holds more than literals."""
    if len(text) > _LARGEST_LITERAL:
        return {}
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "dict":
            return {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        value = ast.literal_eval(tree)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
