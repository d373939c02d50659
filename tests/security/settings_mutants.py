"""Hostile settings and results: TOML, comparisons, suites, reports, runs and checkpoints, as mutants of good ones."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "experts"))
sys.path.append(str(Path(__file__).parent.parent / "compare"))
from expert_mutants import ODD_VALUES, mutated

Rng = np.random.Generator
PLANTED = ("os:abort", "builtins:breakpoint", "planted:make_expert", "planted:Learner", "payload:X-v0")

TOML = """\
env_id = "CartPole-v1"
algorithms = ["bc", "ppo"]
expert = "CartPole-v1"
seeds = 2
budget = 2000
episodes = 2
curve_episodes = 1
num_envs = 2
device = "cpu"
env_kwargs = { max_episode_steps = 40 }
hyperparameters = { bc = { max_updates = 2, hidden = [8] }, ppo = { num_steps = 16, gamma = 0.9 } }
"""
SUITE = """\
algorithms = ["ppo"]
budget = 400
episodes = 2
curve_episodes = 1
hyperparameters = { ppo = { num_steps = 16, num_epochs = 1 } }

[[environments]]
env_id = "CartPole-v1"
experts = ["CartPole-v1", "random"]
seeds = 1

[[environments]]
env_id = "Acrobot-v1"
env_kwargs = { max_episode_steps = 40 }
hyperparameters = { ppo = { gamma = 0.9 } }
"""
LITERALS = (
    *("5", "[5]", "-1", "0", "true", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "inf", "nan", "1e308"),
    *("9" * 40, str(2**63), "1.5", '""', "[]", "{}", "{ a = 1 }", "[[1]]", "[[[[[[1]]]]]]", "{ a = { a = [{}] } }"),
    *("'''x'''", '"\\u001b]0;x\\u0007"', "[" * 3_000 + "]" * 3_000, "[" * 100_000, "{ a = " * 2_000),
    *(f'"{name}"' for name in PLANTED), *(f'["{name}"]' for name in PLANTED), '{ x = "os:abort" }',
)  # fmt: skip
VALUES = (
    *ODD_VALUES,
    *PLANTED,
    [PLANTED[0]],
    2**53,
    10**30,
    -(10**30),
    1e-308,
    "\x1b]0;x\x07",
    [[]] * 3,
    {"ppo": 5},
)

RUNS: dict[str, dict[str, Any]] = {
    "ppo": {"num_steps": 16, "num_epochs": 1, "batch_size": 16, "hidden": [8]},
    "a2c": {"num_steps": 16, "hidden": [8]},
    "reinforce": {"hidden": [8]},
    "dqn": {"learning_starts": 16, "rounds_per_iteration": 4, "batch_size": 8, "hidden": [8], "replay_size": 200},
    "bc": {"max_updates": 400, "hidden": [8]},
    "dagger": {"iterations": 4, "updates_per_iteration": 2, "final_updates": 2, "hidden": [8]},
    "aggrevated": {"iterations": 4, "updates_per_iteration": 2, "final_updates": 2, "hidden": [8], "fqe_updates": 2},
    "sqil": {"dqn": {"learning_starts": 16, "rounds_per_iteration": 4, "batch_size": 8, "hidden": [8],
                     "replay_size": 200}},
    "gail": {"bc_updates": 2, "ppo": {"num_steps": 16, "num_epochs": 1, "batch_size": 16}},
}  # fmt: skip
"""Small runs of CartPole, by algorithm."""


Make = Callable[[Path], list[str]]
"""Changes a copy of the bases in a folder, and says the command that opens it."""


def make_bases(folder: Path) -> None:
    """The good files: a suite and a comparison that were reported, runs that were interrupted, demonstrations."""
    from reported import RETURNS, fill
    from tiny import record

    from imitate.algorithms import ALGORITHMS
    from imitate.files import write_json
    from imitate.training.execute import execute
    from imitate.training.experiment import Experiment

    demos = record(folder, "CartPole-v1")
    fill(folder / "report", RETURNS)
    write_json(folder / "report/errors/dqn-seed0.json", {"error": "dqn-seed0: broke", "traceback": ""})
    write_json(folder / "report/videos/bc.json", {"episode_return": 400.0, "run": ""})
    (folder / "report/videos/bc.mp4").write_bytes(b"")
    fill(folder / "suite/CartPole-v1", {"ppo": RETURNS["ppo"]})
    comparison = json.loads((folder / "suite/CartPole-v1/comparison.json").read_text("utf-8"))
    write_json(folder / "suite/suite.json", {"name": "suite", "parts": {"CartPole-v1": comparison}})
    for algorithm, settings in RUNS.items():
        needs = ALGORITHMS[algorithm].needs
        given: dict[str, Any] = {"demos": str(demos)} if "demos" in needs else {}
        given |= {"expert": "CartPole-v1"} if "expert" in needs else {}
        run = Experiment.create(
            algorithm, "CartPole-v1", budget=2_000, num_envs=2, backend="gymnasium", eval_every=0,
            hyperparameters=settings, **given,
        )  # fmt: skip
        calls = iter(range(100))

        def stop(_steps: int, _metrics: dict[str, float], calls: Iterator[int] = calls) -> None:
            if next(calls) == 0:
                os.kill(os.getpid(), signal.SIGINT)

        assert not execute(run, folder / algorithm, progress=stop), algorithm


def odd_toml(text: str, rng: Rng) -> bytes:
    """One to three values replaced by another literal, or bytes changed."""
    if rng.random() < 0.1:
        return mutated(text.encode(), rng)
    for _ in range(rng.integers(1, 4)):
        spans = [match.span(1) for match in re.finditer(r"= ?(\[[^\[\]]*\]|\"[^\"]*\"|[\d.]+|\{.*\})", text)]
        start, stop = spans[rng.integers(len(spans))]
        text = text[:start] + str(LITERALS[rng.integers(len(LITERALS))]) + text[stop:]
        if len(text) > 10_000:
            break
    return text.encode()


def odd_value(old: Any, rng: Rng) -> Any:
    """In place of a value: half the time another of its type, which no check of types refuses."""
    alike: Any = ()
    if isinstance(old, list) and old:
        alike = ([], old[:1], old[:-1], old * 2, old[::-1])
    elif isinstance(old, dict) and old:
        alike = ({}, dict(list(old.items())[1:]), old | {"else": 1})
    elif isinstance(old, str):
        alike = ("", "x" * 5_000, "../../x", "/etc/passwd", "\x1b]0;x\x07", "cuda", "human", *PLANTED)
    elif isinstance(old, bool):
        alike = (not old,)
    elif isinstance(old, int):
        alike = (0, 1, 2, 3, 7, 1_000, 10**6, 10**9, 2**31, 2**53, 2**63, -1)
    elif isinstance(old, float):
        alike = (0.0, 0.5, 1.0, -1.0, 1e308, 1e-308, 1e60, float("inf"), float("-inf"), float("nan"))
    values = alike if len(alike) and rng.random() < 0.5 else VALUES
    return copy.deepcopy(values[rng.integers(len(values))])  # a list that is put into itself is no JSON


def with_odd_values(data: Any, rng: Rng) -> Any:
    """One to three values, anywhere, replaced by others or left out."""
    data = copy.deepcopy(data)
    for _ in range(rng.choice([1, 1, 2, 3])):
        place, parent, key = data, None, None
        while isinstance(place, dict | list) and len(place):
            parent = place
            key = (
                list(place)[rng.integers(len(place))]
                if isinstance(place, dict)
                else int(rng.integers(len(place)))
            )
            place = parent[key]
            if rng.random() < 0.3:
                break
        if parent is None:
            break
        if rng.random() < 0.1:
            del parent[key]
        else:
            parent[key] = odd_value(parent[key], rng)
    return data


def odd_json(path: Path, rng: Rng) -> None:
    if rng.random() < 0.1:
        path.write_bytes(mutated(path.read_bytes(), rng))
    else:
        path.write_text(
            json.dumps(with_odd_values(json.loads(path.read_text("utf-8")), rng)), encoding="utf-8"
        )


def odd_checkpoint(path: Path, rng: Rng) -> None:
    """Other values in the header, another tensor in place of one, or other bytes."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    from imitate.errors import InputError
    from imitate.nn.state import load_state, save_state

    kind = rng.integers(10)
    if kind == 0:
        path.write_bytes(mutated(path.read_bytes(), rng))
    elif kind <= 5:
        with suppress(InputError):  # more than 64 bits: only the header, below, can hold them
            save_state(path, with_odd_values(load_state(path), rng))
    else:
        with safe_open(path, framework="pt") as file:
            state = json.loads(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if kind == 6:
            state = with_odd_values(state, rng)
        else:
            name = list(tensors)[rng.integers(len(tensors))]
            odd = torch.zeros(0), torch.ones(2, dtype=torch.int64), torch.tensor(1), tensors[name] * torch.nan
            tensors[name] = odd[rng.integers(len(odd))]
        save_file(tensors, path, metadata={"state": json.dumps(state)})


def planted_toml(text: str) -> Make:
    def make(folder: Path) -> list[str]:
        (folder / "planted.toml").write_text(text)
        return ["compare", str(folder / "planted.toml"), "--out", str(folder / "out"), "--workers", "1"]

    return make


def planted_json(file: str, command: list[str], *keys: str, value: Any) -> Make:
    """Another value in one place of a file."""

    def make(folder: Path) -> list[str]:
        data = place = json.loads((folder / file).read_text("utf-8"))
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        (folder / file).write_text(json.dumps(data))
        return [str(folder / word) if "/" in word else word for word in command]

    return make


def planted_state(algorithm: str, *keys: str, value: Any) -> Make:
    """Another value in one place of a checkpoint, also one that `save_state` refuses."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    from imitate.nn.state import load_state, save_state

    def make(folder: Path) -> list[str]:
        path = folder / algorithm / "checkpoint.safetensors"
        state = place = load_state(path)
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = "planted"
        save_state(path, state)
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            written = file.metadata()["state"]
        save_file(tensors, path, metadata={"state": written.replace('"planted"', json.dumps(value))})
        return ["train", "--resume", str(folder / algorithm)]

    return make


def _handmade() -> Iterator[tuple[str, Make]]:
    for literal in ("5", "[5]", "[]"):
        yield f"experts = {literal}", planted_toml(SUITE.replace('["CartPole-v1", "random"]', literal))
    table = 'env_id = "CartPole-v1"\nalgorithms = ["ppo"]\n'
    for line in (
        "x = " + "[" * 100_000,
        "hyperparameters = 5",
        "env_kwargs = { start = 1979-05-27 }",
        'expert = "os:abort"',
        "seeds = 1000000000000",
    ):
        yield line[:20], planted_toml(table + line)
    result = "report/runs/bc-seed0-0123456789/result.json"
    report = ["report", "--format", "csv", "report/"]
    yield "settings of a result", planted_json(result, report, "hyperparameters", value="x")
    yield "settings", planted_json("report/comparison.json", report, "hyperparameters", value="x")
    yield "a film's return", planted_json("report/videos/bc.json", report, "episode_return", value=[])
    yield "a result elsewhere", planted_json("report/runs.json", report, "bc-seed0", value="../../etc")
    config = ["train", "--config", "ppo/config.json", "--out", "out/"]
    for name, value in (("seed", 10**30), ("expert", "os:abort"), ("device", "")):
        yield name, planted_json("ppo/config.json", config, name, value=value)
    for name, value in (("num_steps", True), ("hidden", math.nan), ("activation", math.inf)):
        yield name, planted_json("ppo/config.json", config, "hyperparameters", name, value=value)
    yield (
        "a run's expert",
        planted_json("dagger/config.json", ["train", "--resume", "dagger/"], "expert", value="os:abort"),
    )
    yield "optimizer/square", planted_state("ppo", "learner", "optimizer", "square", value=10**30)
    yield "half an update", planted_state("bc", "learner", "updates", value=0.5)
    yield "env_steps", planted_state("ppo", "learner", "env_steps", value=None)
    yield "episode_steps", planted_state("ppo", "account", "episode_steps", value=1e308)
    yield "validation_steps", planted_state("ppo", "account", "validation_steps", value=10**30)


HANDMADE = tuple(_handmade())
"""Files that once ended in a traceback, or had a function called: all have to be refused."""


def mutants(seed: int) -> Iterator[tuple[str, Make]]:
    """Endless, and the same for the same seed."""
    rng = np.random.default_rng(seed)
    algorithms = list(RUNS)
    report_format = ("csv", "md", "latex")

    def toml(text: str) -> Make:
        changed = odd_toml(text, rng)

        def make(folder: Path) -> list[str]:
            (folder / "planted.toml").write_bytes(changed)
            return ["compare", str(folder / "planted.toml"), "--out", str(folder / "out"), "--workers", "1"]

        return make

    def stored(base: str, command: list[str]) -> Make:
        choice, own = rng.random(), np.random.default_rng(rng.integers(2**63))

        def make(folder: Path) -> list[str]:
            files = sorted((folder / base).rglob("*.json"))
            # Results are many; the files that say what they are should come as often.
            few = [file for file in files if file.name != "result.json"] if choice < 0.7 else files
            odd_json(few[own.integers(len(few))], own)
            return [*command, str(folder / base)]

        return make

    def config(algorithm: str, way: str) -> Make:
        own = np.random.default_rng(rng.integers(2**63))

        def make(folder: Path) -> list[str]:
            path = folder / algorithm / "config.json"
            odd_json(path, own)
            if way == "--config":
                return ["train", "--config", str(path), "--out", str(folder / "out")]
            return ["train", "--resume", str(folder / algorithm)]

        return make

    def checkpoint(algorithm: str) -> Make:
        own = np.random.default_rng(rng.integers(2**63))

        def make(folder: Path) -> list[str]:
            odd_checkpoint(folder / algorithm / "checkpoint.safetensors", own)
            return ["train", "--resume", str(folder / algorithm)]

        return make

    def pick(names: Any) -> Any:
        return names[rng.integers(len(names))]

    kinds: dict[str, Callable[[], Make]] = {
        "toml": lambda: toml(TOML),
        "suite toml": lambda: toml(SUITE),
        "report": lambda: stored("report", ["report", "--format", pick(report_format)]),
        "suite report": lambda: stored("suite", ["report", "--format", pick(report_format)]),
        "page": lambda: stored("report", ["report"] if rng.random() < 0.1 else ["compare", "--watch"]),
        "comparison": lambda: stored("report", ["compare", "--add", "a2c", "--out"]),
        "config": lambda: config(pick(algorithms), "--config"),
        "run": lambda: config(pick(algorithms), "--resume"),
        "checkpoint": lambda: checkpoint(pick(algorithms)),
        "checkpoint again": lambda: checkpoint(pick(algorithms)),
    }  # fmt: skip
    while True:
        for name, make in kinds.items():
            yield name, make()
