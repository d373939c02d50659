"""How command lines are read and reports printed."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from imitate.errors import InputError, did_you_mean
from imitate.experts import Expert, load_expert
from imitate.terminal import raw

if TYPE_CHECKING:
    from imitate.compare.backends import Backend

__all__ = [
    "BackendName",
    "JsonObject",
    "announced",
    "chosen_backend",
    "option",
    "parse",
    "print_json",
    "report",
    "run",
    "subcommand",
    "typed",
    "without",
]

JsonObject = Annotated[dict[str, Any], tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="JSON",
    instance_from_str=lambda args: json_object(args[0]),
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [json.dumps(value)],
)]  # fmt: skip

_OR_NONE = re.compile(
    r"no type matching \S+ could be instantiated from .*? Got errors: - <class 'NoneType'>: .*? - "
    r"(?:<class '\w+'>|typing\.Annotated\[.*?\]): "
)
"""What tyro says of a value that may be absent, before it says what is wrong with the value."""

BackendName = Literal["processes", "ray"]


def run(command: Callable[..., int], argv: list[str], name: str) -> int:
    @functools.wraps(command)
    def parsed(*args: Any, **kwargs: Any) -> Callable[[], int]:
        return partial(command, *args, **kwargs)

    argv = ["--no-deterministic" if argument == "--stochastic" else argument for argument in argv]
    call: Callable[[], int] = parse(parsed, argv, name)
    return call()


def parse(target: Callable[..., Any], argv: list[str], name: str) -> Any:
    """Call `target` with the options of the command line. Raises InputError, in one line, for mistakes in them."""
    errors = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(raw(sys.stdout)),
            contextlib.redirect_stderr(errors),
        ):  # help has colours
            return tyro.cli(target, args=argv, prog=f"imitate {name}")
    except SystemExit as error:
        if error.code != 2:
            raise
        raise InputError(f"{_in_one_line(errors.getvalue())}; see `imitate {name} --help`") from None


def _in_one_line(panel: str) -> str:
    """A panel of tyro's (box-drawing characters or ASCII) as one line, without its title, which the text repeats."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", panel)
    text = re.sub(r"(?m)^╭─ (.*?) ─*╮$", r"\1\n---", text)
    sections = re.split(r"(?m)^[│╰ ]*[─-]{3,}[│╯ ]*$", text)[1:]
    said = [" ".join(section.replace("│", " ").split()).rstrip(".") for section in sections]
    said = [section for section in said if section and not section.startswith("For full helptext")]
    line = "; ".join(said or [" ".join(text.split())]).replace("Argument helptext:", "wanted")
    return _OR_NONE.sub("", line).replace("{None}|", "")


def subcommand(commands: dict[str, Callable[..., int]], argv: list[str], name: str) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: imitate {name} {'|'.join(commands)} [options]")
        return 0 if argv else 2
    if argv[0] not in commands:
        raise InputError(
            f"unknown command `imitate {name} {argv[0]}`{did_you_mean(argv[0], commands)}; known: {', '.join(commands)}"
        )
    return run(commands[argv[0]], argv[1:], f"{name} {argv[0]}")


def announced(
    spec: str,
    *,
    env_id: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    vecnormalize: str | None = None,
    remeasure: bool = False,
) -> Expert:
    """Load an expert and, if its environment is installed, log its measured return."""
    source = load_expert(spec, env_id=env_id, env_kwargs=env_kwargs, vecnormalize=vecnormalize)
    if source.runnable:
        source.measure(remeasure=remeasure)
    return source


def report(facts: dict[str, Any], *, as_json: bool) -> None:
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
        value = json.loads(text)
    except ValueError as error:
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
    """Who carries out tasks. Raises InputError where options don't go together, and where Ray isn't installed."""
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


def option(argv: list[str], name: str) -> str | None:
    for index, argument in enumerate(argv):
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
        if argument == name and index + 1 < len(argv):
            return argv[index + 1]
    return None


def without(argv: list[str], name: str) -> list[str]:
    """The command line without an option and its value."""
    for index, argument in enumerate(argv):
        if argument.startswith(name + "="):
            return argv[:index] + argv[index + 1 :]
        if argument == name:
            return argv[:index] + argv[index + 2 :]
    return argv


def typed(argv: list[str], name: str) -> bool:
    """Whether the option of this field is on the command line, with any value."""
    dashed = name.replace("_", "-")
    return any(
        argument.partition("=")[0] in (f"--{dashed}", f"--no-{dashed}", f"--{name}") for argument in argv
    )
