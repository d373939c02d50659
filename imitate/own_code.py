"""Hashes code of the user's own: results depend on it, and it has no version."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym  # takes a fifth of a second, which help does not have

__all__ = ["code_of_env", "own_code"]


def code_of_env(env: gym.Env[Any, Any]) -> str:
    """A hash of the user's own code of an environment, as by `own_code`, and of how it is registered: its classes and
    wrappers, and the function that makes it. Empty if nothing there is the user's own."""
    layers: list[Any] = [env]
    while layers[-1] is not env.unwrapped:
        layers.append(layers[-1].env)
    objects: list[Any] = [each for layer in layers for each in type(layer).__mro__]
    registered = ""
    if (spec := env.spec) is not None:
        module, colon, _ = str(spec.entry_point).partition(":")
        objects.append(sys.modules.get(module) if colon else spec.entry_point)
        registered = json.dumps([spec.kwargs, spec.max_episode_steps], sort_keys=True, default=_name)
    code = own_code(*objects)
    return hashlib.sha256(f"{code} {registered}".encode()).hexdigest() if code else ""


def own_code(*objects: Any) -> str:
    """A hash of the code of `objects`, which are classes, functions and modules: of their modules' files and all that
    these import, in any order and wherever they lie. Empty if none of them is the user's own.

    Installed packages, Python and `imitate` itself don't count, nor does code without a file, as in a notebook. Of the
    script that Python was started with, only the definitions that the objects use count: the rest of it may change.
    """
    script = sys.modules["__main__"]
    waiting, used = [], set()
    for each in objects:
        while isinstance(each, functools.partial):
            each = each.func
        module = (
            each if isinstance(each, ModuleType) else sys.modules.get(str(getattr(each, "__module__", None)))
        )
        if module is script and module is not each:
            used.add(_name(each).partition(".")[0])
        waiting.append(module)
    done: dict[str, bytes] = {}
    while waiting:
        module = waiting.pop()
        file = None if module is None else _own_file(module)
        if module is None or file is None or module.__name__ in done:
            continue
        content = file.read_bytes()
        done[module.__name__] = content
        if file.suffix == ".py":
            tree = ast.parse(content)
            if module is script and used:
                tree.body = _definitions(tree, used)
                done[module.__name__] = ast.dump(tree).encode()
            waiting += map(sys.modules.get, _imported(tree, module))
    # In the order of their hashes, as names differ between a script and a module.
    hashes = sorted(hashlib.sha256(each).digest() for each in done.values())
    return hashlib.sha256(b"".join(hashes)).hexdigest() if hashes else ""


def _name(of: Any) -> str:
    return str(getattr(of, "__qualname__", type(of).__qualname__))


def _own_file(module: ModuleType) -> Path | None:
    """The file of a module that is the user's own; None for others, and for a module without a file."""
    if module.__name__.partition(".")[0] == "imitate" or getattr(module, "__file__", None) is None:
        return None
    file = Path(str(module.__file__))
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return None if installed or file.is_relative_to(sysconfig.get_path("stdlib")) else file


def _imported(tree: ast.Module, module: ModuleType) -> Iterator[str]:
    """Names of the modules that a module's code imports, with the packages that they are in."""
    names = [module.__name__]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            of = resolve_name("." * node.level + (node.module or ""), module.__package__ or "")
            names += [f"{of}.{each.name}" for each in node.names]
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _definitions(tree: ast.Module, names: set[str]) -> list[ast.stmt]:
    """The statements of a script that define these names, or what they use in turn."""
    chosen: list[ast.stmt] = []
    while True:
        more = [each for each in tree.body if each not in chosen and (names | {"*"}) & _defined(each)]
        if not more:
            return [each for each in tree.body if each in chosen]
        chosen += more
        names = {node.id for each in more for node in ast.walk(each) if isinstance(node, ast.Name)}


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    defined = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            defined.add(node.id)
    return defined
