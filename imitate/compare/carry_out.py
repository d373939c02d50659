"""Carry out a comparison: what is measured first, then jobs in parallel, and on from where it stopped."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from imitate.compare import work
from imitate.compare.backends.processes import Processes
from imitate.compare.plan import Comparison, Job, jobs
from imitate.compare.results import Entry, Result
from imitate.datasets.play import RandomPolicy
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import lock, read_json, write_json
from imitate.training.experiment import check_expert

__all__ = ["carry_out"]

logger = logging.getLogger(__name__)


def carry_out(comparison: Comparison, out: Path, *, workers: int | None = None) -> None:
    """Fill the folder `out`, or the rest of it where an earlier call was interrupted.

    A job that fails leaves its error in `errors/` and the others go on; calling again tries it again.
    Ctrl-C lets the runs save their state and then raises KeyboardInterrupt. `workers` defaults to the
    number of processors that this process may use.

    Raises InputError where `out` holds something else or another process is at work in it, where an expert, an
    algorithm or a hyperparameter does not suit, or the budget is too small; nothing has been written then.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    _check_folder(comparison, out)
    for job in jobs(comparison, out, episode_steps=1):
        if not job.records:
            work.check(work.experiment(comparison, job))
    references = _references(comparison, out)
    planned = jobs(comparison, out, references["episode_steps"])
    with lock(out, "another comparison"):
        _fill(comparison, out, planned, references, workers or _processors())


def _fill(
    comparison: Comparison, out: Path, planned: list[Job], references: dict[str, Any], workers: int
) -> None:
    write_json(out / "comparison.json", comparison.to_json())
    write_json(out / "references.json", references)
    steps = {job.name: job.steps for job in planned if not job.records}
    with (
        logging_redirect_tqdm(),
        tqdm(
            total=sum(steps.values()), unit=" steps", unit_scale=True, dynamic_ncols=True, disable=None
        ) as bar,
        _one_thread_each(),
        Processes(workers, out / "errors") as pool,
    ):
        if references["filmed"] and comparison.expert is not None:
            _film(pool, comparison, out, "expert", None)
        _run(pool, comparison, planned, steps, bar)
        if references["filmed"]:
            for name in comparison.algorithms:
                if not comparison.is_control(name) and (run := _typical(comparison, name, out)) is not None:
                    _film(pool, comparison, out, name, run)
        while pool.running:
            for name in pool.ended():
                _say_failure(pool, name)


def _processors() -> int:
    """Those that this process may use: fewer than the machine has in a container or a cluster's job."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_folder(comparison: Comparison, out: Path) -> None:
    """Raise InputError unless `out` is new, empty, or holds this very comparison."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    try:
        found = read_json(out / "comparison.json", dict[str, Any])
    except InputError as error:
        raise InputError(f"{out} exists and is no comparison; choose another --out") from error
    for name, wanted in comparison.to_json().items():
        if found.get(name) != wanted:
            got = f"its {name} is {found.get(name)!r}, not {wanted!r}"
            raise InputError(f"{out} holds another comparison: {got}; choose another --out")


def _references(comparison: Comparison, out: Path) -> dict[str, Any]:
    """The expert and random actions on the test episodes; an episode's length; whether it can be filmed."""
    if (out / "references.json").is_file():
        return read_json(out / "references.json", dict[str, Any])
    env = make_env(comparison.env_id, comparison.env_kwargs)
    random = work.test(comparison, RandomPolicy(env.action_space, TEST_SEED))
    filmed = "rgb_array" in env.metadata.get("render_modes", [])
    if not filmed:
        logger.warning("%s does not render to pictures: the report has no videos", comparison.env_id)
    env.close()
    references: dict[str, Any] = {"random": random.to_json(), "expert": None, "filmed": filmed}
    logger.info("random actions: mean return %.1f", random.mean)
    if comparison.expert is None:
        # Nobody shows how long an episode of a good policy is.
        return references | {
            "episode_steps": float(gym.spec(comparison.env_id.rpartition(":")[2]).max_episode_steps or 1_000)
        }
    expert = load_expert(comparison.expert)
    check_expert(expert, comparison.expert, comparison.env_id, comparison.env_kwargs)
    expert.measure()  # says what it is worth, and warns where that is little
    measured = work.test(comparison, expert)
    references["expert"] = {
        "spec": comparison.expert,
        "description": expert.describe(),
        "sha256": expert.sha256,
        "published_return": expert.published_return,
        "evaluation": measured.to_json(),
    }
    # Learners are between random and expert, so are their episodes: the longer of both does not underrate
    # them.
    return references | {"episode_steps": float(max(measured.lengths.mean(), random.lengths.mean()))}


def _run(
    pool: Processes, comparison: Comparison, planned: list[Job], steps: dict[str, int], bar: tqdm[Any]
) -> None:
    """All jobs that are not done; a learner begins when its demonstrations are there."""
    todo = [job for job in planned if not work.is_done(job)]
    recording = {job.demos: job.name for job in todo if job.records}
    position = dict.fromkeys(steps, 0) | {
        job.name: job.steps for job in planned if job.name in steps and job not in todo
    }
    while todo or pool.running:
        for job in list(todo):
            source = recording.get(job.demos)
            if job.name == source or source is None:
                pool.submit(job.name, work.run, comparison, job)
            elif pool.failed(source):
                pool.fail(job.name, "its demonstrations could not be recorded")
                _say_failure(pool, job.name)
            else:
                continue
            todo.remove(job)
        for name in pool.ended():
            recording = {demos: job for demos, job in recording.items() if job != name or pool.failed(name)}
            if name in steps and not pool.failed(name):
                position[name] = steps[name]
            _say_failure(pool, name)
        for name, position_now in pool.news():
            if name in steps:
                position[name] = min(position_now, steps[name])
        bar.set_postfix_str(", ".join(pool.alive), refresh=False)
        bar.update(sum(position.values()) - bar.n)


def _typical(comparison: Comparison, name: str, out: Path) -> Path | None:
    """The run of an algorithm to film."""
    folders = [out / "runs" / f"{name}-seed{seed}" for seed in range(comparison.seeds)]
    results = [result for folder in folders if (result := Result.load(folder))]
    return folders[Entry(name, results).typical.seed] if results else None


def _film(pool: Processes, comparison: Comparison, out: Path, name: str, run: Path | None) -> None:
    path = out / "videos" / f"{name}.mp4"
    if not path.with_suffix(".json").exists():
        pool.submit(f"video of {name}", work.film, comparison, path, run)


def _say_failure(pool: Processes, name: str) -> None:
    if error := pool.failed(name):
        logger.error("%s", error)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes are what runs in parallel: small networks only lose by threads. Workers inherit this."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
