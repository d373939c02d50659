"""Types of options that commands share, calling a command with them, and printing what it found."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from imitate.commands.line import WORDS
from imitate.commands.option import options_of
from imitate.commands.parsing import NamesAsked, read
from imitate.errors import InputError, did_you_mean
from imitate.files import plain_json

if TYPE_CHECKING:
    from imitate.compare.backends import Backend

__all__ = [
    "BackendName",
    "JsonObject",
    "chosen_backend",
    "command",
    "print_facts",
    "print_json",
    "run",
    "subcommand",
]

JsonObject = Annotated[dict[str, Any], tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="JSON",
    instance_from_str=lambda args: json_object(args[0]),
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [json.dumps(value)],
)]  # fmt: skip

BackendName = Literal["processes", "ray"]


def run(command: Callable[..., int], argv: Sequence[str], name: str) -> int:
    """Call the command with what its command line says. Raises InputError, in one line, for mistakes in it."""
    summary = (inspect.getdoc(command) or "").partition("\nArgs:\n")[0].strip()
    bound = inspect.signature(command).bind_partial()
    bound.arguments |= read(options_of(command), argv, name, summary)
    return command(*bound.args, **bound.kwargs)


def command(function: Callable[..., int]) -> Callable[[list[str]], int]:
    """The command of this function's name, whose options are its parameters."""
    return lambda argv: run(function, argv, function.__name__)


def subcommand(commands: dict[str, Callable[..., int]], argv: list[str], name: str) -> int:
    if argv[:1] == [WORDS]:
        raise NamesAsked(names=commands)
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: imitate {name} {'|'.join(commands)} [options]")
        return 0 if argv else 2
    if argv[0] not in commands:
        raise InputError(
            f"unknown command `imitate {name} {argv[0]}`{did_you_mean(argv[0], commands)}; known: {', '.join(commands)}"
        )
    return run(commands[argv[0]], argv[1:], f"{name} {argv[0]}")


def print_facts(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if value is not None:
            print(f"{name:<{width}}  {json.dumps(value) if isinstance(value, dict | list) else value}")


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


def json_object(text: str) -> dict[str, Any]:
    try:
        value = plain_json(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"wanted a JSON object such as '{{\"gravity\": -5}}', got {text}")
    return value


def chosen_backend(
    name: BackendName,
    workers: int | None,
    address: str | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
) -> Backend:
    """The backend that carries out tasks. Raises InputError if options don't go together or Ray isn't installed."""
    if name == "ray":
        from imitate.compare.backends.ray import Ray

        return Ray(address, cpus=1 if cpus is None else cpus, gpus=gpus or 0, most=workers)
    for given, what in ((address, "--address"), (cpus, "--cpus-per-run"), (gpus, "--gpus-per-run")):
        if given is not None:
            raise InputError(f"{what} is for clusters: add --backend ray, or leave it out")
    if workers is not None and workers < 1:
        raise InputError(f"--workers must be at least 1, got {workers}")
    from imitate.compare.backends.processes import Processes
    from imitate.compare.machine import processors

    return Processes(workers or processors())
