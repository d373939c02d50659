"""One run of a frozen measurement, in its own process, and the references. See frozen.py."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from frozen_rows import Plan, Row

from imitate.algorithms import find
from imitate.cli import main as imitate
from imitate.compare.execute.snapshots import Snapshots
from imitate.compare.machine import provenance
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream, draw_seed
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import read_json, write_json
from imitate.nn.stored_policy import load_policy
from imitate.training.checkpoint import Checkpoint
from imitate.training.execute import execute
from imitate.training.experiment import Experiment
from imitate.training.process import cpu_seconds

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def references(plan: Plan, name: str) -> dict[str, Any]:
    """Every episode of a task's teacher and of random actions, on the test's episodes and on the curves'."""
    task = plan.tasks[name]
    env = make_env(task.env, task.env_kwargs)
    players: dict[str, Policy] = {"random": RandomPolicy(env.action_space)}
    players["teacher"] = teacher = load_expert(task.expert, env_id=task.env, env_kwargs=task.env_kwargs)
    teacher.measure()  # it is remembered; otherwise the first recording would pay for it
    env.close()
    measured = {who: tested(policy, plan, task.env, task.env_kwargs) for who, policy in players.items()}
    curves = {
        who: {"curve": curve_returns(policy, plan, task.env, task.env_kwargs)}
        for who, policy in players.items()
    }
    return {who: measured[who] | curves[who] for who in players}


def child(plan: Plan, row: Row, seed: int, work: Path, result: Path, device: str) -> None:
    """Train and measure one seed of a row, or continue it, and write its result, which may be a failure.

    Output goes to log.txt. The process ends with the measurement, even if that is killed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    work.mkdir(parents=True, exist_ok=True)
    with (work / "log.txt").open("a") as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
    try:
        found = train_and_measure(plan, row, seed, work, device)
    except (KeyboardInterrupt, SystemExit):
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        traceback.print_exc()
        found = {"failed": f"{type(error).__name__}: {error}"}
    write_json(result, found)


def train_and_measure(plan: Plan, row: Row, seed: int, work: Path, device: str = "cpu") -> dict[str, Any]:
    demos, recording = (None, 0.0) if row.demos is None else record(row, seed, work)
    run = experiment(row, seed, demos, device)
    folder = work / "run"
    budget = run.budget if row.budget is None else row.budget
    before = Checkpoint.read(folder)
    paid = 0.0 if before is None else before.account.cpu_seconds
    snapshots = Snapshots(folder / "snapshots", budget, cpu_seconds, paid=paid)
    if not (folder / "finished.json").exists() and not execute(run, folder, resume=True, snapshot=snapshots):
        raise KeyboardInterrupt
    totals = read_json(folder / "finished.json", dict[str, int])
    seconds = read_json(folder / "timing.json", dict[str, float])
    demo_steps = totals.pop("demo_steps")
    found = tested(load_policy(folder), plan, row.env, run.env_kwargs)
    found |= totals | {"demo_steps": demo_steps, "wall_seconds": seconds["wall_seconds"]}
    found["expert_queries"] = totals["expert_queries"] + demo_steps  # every recorded action is an answer
    found["cpu_seconds"] = seconds["cpu_seconds"] + recording
    if not find(row.algorithm).offline:
        spent = demo_steps + totals["env_steps"] + totals["validation_steps"]
        marks = snapshots.complete(folder / "last_policy", spent, seconds["cpu_seconds"])
        found["curve"] = curve(plan, row, folder, marks, demo_steps, recording)
    shutil.rmtree(folder / "snapshots", ignore_errors=True)
    return found | {"machine": provenance(), "config": read_json(folder / "config.json", dict[str, Any])}


def experiment(row: Row, seed: int, demos: Path | None, device: str) -> Experiment:
    """The preset of the row's algorithm and environment, with the changes in frozen.toml."""
    given = {} if row.budget is None else {"budget": row.budget}
    return Experiment.create(
        row.algorithm,
        row.env,
        hyperparameters=row.hyperparameters,
        env_kwargs=row.env_kwargs,
        expert=row.expert if "expert" in find(row.algorithm).needs else None,
        demos=demos,
        seed=seed,
        device=device,
        **given,
    )


def record(row: Row, seed: int, work: Path) -> tuple[Path, float]:
    """The teacher's demonstrations for a seed, and their cost in processor seconds."""
    path, note = work / "demos.h5", work / "demos.json"
    if not note.exists():
        path.unlink(missing_ok=True)
        began = cpu_seconds()
        words = ["collect", str(row.expert), "--env", row.env, "--env-kwargs", json.dumps(row.env_kwargs)]
        if status := imitate([*words, "--episodes", str(row.demos), "--seed", str(seed), "--out", str(path)]):
            raise InputError(f"`imitate collect` ended with status {status}")
        write_json(note, {"cpu_seconds": cpu_seconds() - began})
    return path, read_json(note, dict[str, float])["cpu_seconds"]


def tested(policy: Policy, plan: Plan, env: str, env_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns and lengths of the test episodes, which begin in the same states for all policies."""
    measured = evaluate(policy, env, episodes=plan.episodes, seed=plan.test_seed, env_kwargs=env_kwargs)
    return {"returns": measured.returns.tolist(), "lengths": measured.lengths.tolist()}


def curve_returns(policy: Policy, plan: Plan, env: str, env_kwargs: dict[str, Any]) -> list[float]:
    """Returns of the curves' episodes, which differ from the test's and don't count against the budget."""
    seed = draw_seed(Stream.CURVES)
    measured = evaluate(policy, env, episodes=plan.curve_episodes, seed=seed, env_kwargs=env_kwargs)
    return [float(value) for value in measured.returns]


def curve(
    plan: Plan, row: Row, folder: Path, marks: Any, demo_steps: int, recording: float
) -> list[dict[str, Any]]:
    """Points after 0, 1/16, 2/16 ... of the budget: the costs so far, and the returns of the curves' episodes."""
    lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
    answers = {line["budget_steps"]: line["expert_queries"] for line in map(json.loads, lines)}
    known = np.array(sorted(answers))
    points: list[dict[str, Any]] = []
    for number in sorted(marks):
        mark = marks[number]
        if points and points[-1]["steps"] == mark.steps:
            continue
        before = known[known <= mark.steps]
        points.append(
            {
                "steps": mark.steps,
                "queries": (answers[int(before[-1])] if len(before) else 0)
                + (demo_steps if mark.steps else 0),
                "cpu_seconds": mark.cpu_seconds + (recording if mark.steps else 0.0),
                "returns": curve_returns(
                    load_policy(folder / "snapshots" / mark.policy), plan, row.env, row.env_kwargs
                ),
            }
        )
    return points
