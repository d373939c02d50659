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
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gymnasium import Env

__all__ = ["code_of_env", "own_code"]


def code_of_env(env: Env[Any, Any]) -> str:
    """A hash of the user's own code of an environment, as by `own_code`, and of how it is registered: its classes and
    wrappers, and the function that makes it. Empty if nothing there is the user's own."""
    from gymnasium import Wrapper  # takes a fifth of a second, which help does not have

    layers: list[Any] = [env]
    while isinstance(layers[-1], Wrapper):
        layers.append(layers[-1].env)
    objects: list[Any] = [each for layer in layers for each in type(layer).__mro__]
    registered = ""
    if (spec := env.spec) is not None:
        entry = spec.entry_point
        objects.append(sys.modules.get(entry.partition(":")[0]) if isinstance(entry, str) else entry)
        given = (entry.args, entry.keywords) if isinstance(entry, functools.partial) else ()
        registered = json.dumps([spec.kwargs, spec.max_episode_steps, given], sort_keys=True, default=_name)
    code = own_code(*objects)
    return hashlib.sha256(f"{code} {registered}".encode()).hexdigest() if code else ""


def own_code(*objects: Any) -> str:
    """A hash of the code of `objects`, which are classes, functions and modules: of the files of their modules and of
    all that these import. Empty if none of them is the user's own.

    Installed packages, Python and `imitate` itself don't count, nor does code without a file, as in a notebook. Of the
    script that Python was started with, only the definitions that the objects use count, and statements that assign to
    parts of these or call their methods: the rest of it may change. The same code has the same hash in any folder.
    """
    script = sys.modules["__main__"]
    bare = [each.func if isinstance(each, functools.partial) else each for each in objects]
    used = {_name(each).partition(".")[0] for each in bare if _module(each) is script}
    waiting = [_module(each) for each in bare]
    code: dict[str, bytes] = {}
    while waiting:
        module = waiting.pop()
        if module is None or module.__name__ in code or (file := _own_file(module)) is None:
            continue
        code[module.__name__] = file.read_bytes()
        if file.suffix == ".py":
            tree = ast.parse(code[module.__name__])
            if module is script and script not in bare:
                tree.body = _definitions(tree, used, _libraries(script))
                code[module.__name__] = ast.dump(tree).encode()
            waiting += map(sys.modules.get, _imported(tree, module))
    # In an order that doesn't depend on names.
    hashes = sorted(hashlib.sha256(each).digest() for each in code.values())
    return hashlib.sha256(b"".join(hashes)).hexdigest() if hashes else ""


def _module(of: Any) -> ModuleType | None:
    return of if isinstance(of, ModuleType) else sys.modules.get(str(getattr(of, "__module__", None)))


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


def _libraries(script: ModuleType) -> set[str]:
    """The names of a script for modules that are not the user's own."""
    modules = {name: value for name, value in vars(script).items() if isinstance(value, ModuleType)}
    return {name for name, module in modules.items() if _own_file(module) is None}


def _definitions(tree: ast.Module, names: set[str], libraries: set[str]) -> list[ast.stmt]:
    """The statements of a script that define or change these names, or what they use in turn."""
    chosen: list[ast.stmt] = []
    while True:
        more = [
            each for each in tree.body if each not in chosen and (names | {"*"}) & _changed(each, libraries)
        ]
        if not more:
            return [each for each in tree.body if each in chosen]
        chosen += more
        names = set().union(*map(_used, more))


def _used(statement: ast.stmt) -> set[str]:
    """The script's own names that a statement reads; a function's local variables are none."""
    names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    of_script = set[str]()
    waiting = [compile(ast.Module([statement], []), "script", "exec", dont_inherit=True)]
    while waiting:
        code = waiting.pop()
        of_script.update(code.co_names)
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return names & of_script


def _changed(statement: ast.stmt, libraries: set[str]) -> set[str]:
    """The names that a statement binds, or whose objects it changes."""
    changed, waiting = set[str](), list[ast.AST]([statement])
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            changed.add(node.name)
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Lambda):
            changed.add("<lambda>")
        elif isinstance(node, ast.alias):
            changed.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                changed |= _root(node)
        elif isinstance(node, ast.Expr):
            # A method such as CONFIG.update(...) may change its object, but logging.basicConfig(...) is a function.
            changed |= _root(node.value) - libraries
    return changed


def _root(node: ast.expr) -> set[str]:
    """The name whose object `name.attribute[key]` or `name.method(...)` may change; none for `name(...)`."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return set()
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
