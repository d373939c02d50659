"""Carry out a comparison: what is measured first, then jobs in parallel, and on from where it stopped."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from imitate.compare import work
from imitate.compare.backends.processes import Processes
from imitate.compare.machine import processors
from imitate.compare.plan import Comparison, Job, digest, jobs
from imitate.compare.results import Entry, ExpertFacts, Measured, References, Result
from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import lock, read_json, versions, write_json
from imitate.training.experiment import check_expert

__all__ = ["carry_out"]

logger = logging.getLogger(__name__)


def carry_out(comparison: Comparison, out: Path, *, workers: int | None = None) -> None:
    """Fill the folder `out`, or what is missing in it: runs of another call that are the same are not done again.

    A job that fails leaves its error in `errors/` and the others go on; calling again tries it again.
    Ctrl-C lets the runs save their state and then raises KeyboardInterrupt. `workers` defaults to the
    number of processors that this process may use.

    Raises InputError where `out` holds something else or another process is at work in it, where an expert, an
    algorithm or a hyperparameter does not suit, or the budget is too small; nothing has been written then.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    comparison = _in_its_experts_environment(comparison)
    _check_folder(comparison, out)
    for job in jobs(replace(comparison, seeds=1), out, episode_steps=1):
        if not job.records:
            # No demonstrations have been recorded yet: any path does here.
            work.check(work.experiment(comparison, job)[0])
    references = _references(comparison, out)
    longest = references.episode_steps
    if any(not job.records for job in jobs(comparison, out, 1)) and comparison.budget < longest:
        raise InputError(
            f"a budget of {comparison.budget} steps is too small, where an episode takes {longest:.0f} steps; "
            f"give at least {int(longest) + 1}"
        )
    with lock(out, "another comparison"):
        _fill(comparison, out, references, workers or processors())


def _fill(comparison: Comparison, out: Path, references: References, workers: int) -> None:
    expert = references.expert
    planned = jobs(comparison, out, references.episode_steps, expert.sha256 if expert else "")
    write_json(out / "comparison.json", comparison.to_json())
    write_json(out / "references.json", asdict(references))
    index = {job.name: job.folder.relative_to(out).as_posix() for job in planned if not job.records}
    write_json(out / "runs.json", index)
    shutil.rmtree(out / "errors", ignore_errors=True)  # of earlier tries
    steps = {job.name: job.steps for job in planned if not job.records}
    with (
        logging_redirect_tqdm(),
        tqdm(
            total=sum(steps.values()), unit=" steps", unit_scale=True, dynamic_ncols=True, disable=None
        ) as bar,
        _one_thread_each(),
        Processes(workers, out / "errors") as pool,
    ):
        if references.filmed and expert is not None:
            _film(pool, comparison, out, "expert", None)
        _run(pool, comparison, planned, steps, bar)
        if references.filmed:
            for name in comparison.algorithms:
                runs = [job.folder for job in planned if job.algorithm == name]
                results = {folder: result for folder in runs if (result := Result.load(folder))}
                if results:
                    typical = Entry(name, list(results.values())).typical
                    _film(pool, comparison, out, name, next(f for f, r in results.items() if r is typical))
        while pool.running:
            for name in pool.ended():
                _say_failure(pool, name)


def _in_its_experts_environment(comparison: Comparison) -> Comparison:
    """With the expert's own keywords of the environment, if the comparison has none, as in `imitate train`."""
    if comparison.expert is None or comparison.env_kwargs:
        return comparison
    expert = load_expert(comparison.expert, env_id=comparison.env_id)
    if expert.env_kwargs:
        logger.info("the environment is made as the expert knows it, with %s", expert.env_kwargs)
    return replace(comparison, env_kwargs=dict(expert.env_kwargs))


def _check_folder(comparison: Comparison, out: Path) -> None:
    """Raise InputError unless `out` is new, empty, or holds a comparison on the same environment, expert and budget:
    learners, seeds and episodes may be added to that, and settings changed."""
    if not out.exists() or (out.is_dir() and not {path.name for path in out.iterdir()} - {".lock"}):
        return
    try:
        found = read_json(out / "comparison.json", dict[str, Any])
    except InputError as error:
        raise InputError(f"{out} exists and is no comparison; choose another --out") from error
    wanted = comparison.to_json()
    for name in ("env_id", "env_kwargs", "expert", "budget"):
        if found.get(name) != wanted[name]:
            got = f"its {name} is {found.get(name)!r}, not {wanted[name]!r}"
            raise InputError(f"{out} holds another comparison: {got}; choose another --out")


def _references(comparison: Comparison, out: Path) -> References:
    """The expert and random actions on the episodes of the test and of the curves; an episode's length."""
    expert = None
    if comparison.expert is not None:
        expert = load_expert(
            comparison.expert, env_id=comparison.env_id, env_kwargs=comparison.env_kwargs or None
        )
        check_expert(expert, comparison.expert, comparison.env_id, comparison.env_kwargs)
    key = digest(
        *(comparison.env_id, comparison.env_kwargs, comparison.episodes, comparison.curve_episodes),
        *(expert.sha256 if expert else "", versions()),
    )
    if (out / "references.json").is_file():
        found = read_json(out / "references.json", References)
        if found.key == key:
            return found
    env = make_env(comparison.env_id, comparison.env_kwargs)
    random = _measured(comparison, RandomPolicy(env.action_space, TEST_SEED))
    filmed = "rgb_array" in env.metadata.get("render_modes", [])
    if not filmed:
        logger.warning("%s does not render to pictures: the report has no videos", comparison.env_id)
    env.close()
    logger.info("random actions: mean return %.1f", random.mean)
    if expert is None:
        # Nobody shows how long an episode of a good policy is.
        longest = gym.spec(comparison.env_id.rpartition(":")[2]).max_episode_steps or 1_000
        return References(key, min(float(longest), comparison.budget), filmed, random, None)
    expert.measure()  # says what it is worth, and warns where that is little
    measured = _measured(comparison, expert)
    facts = ExpertFacts(
        spec=str(comparison.expert),
        description=expert.describe(),
        sha256=expert.sha256,
        published_return=expert.published_return,
        measured=measured,
    )
    # Learners are between random and expert, so are their episodes: the longer of both does not underrate them.
    steps = max(sum(each.lengths) / len(each.lengths) for each in (measured, random))
    return References(key, steps, filmed, random, facts)


def _measured(comparison: Comparison, policy: Policy) -> Measured:
    evaluation = work.test(comparison, policy)
    curve = work.curve_returns(comparison, policy)
    return Measured(evaluation.returns.tolist(), evaluation.lengths.tolist(), curve)


def _run(
    pool: Processes, comparison: Comparison, planned: list[Job], steps: dict[str, int], bar: tqdm[Any]
) -> None:
    """All jobs that are not done; a learner begins when its demonstrations are there."""
    todo = [job for job in planned if not work.is_done(comparison, job)]
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


def _film(pool: Processes, comparison: Comparison, out: Path, name: str, run: Path | None) -> None:
    """Unless there is a film of this very run."""
    path = out / "videos" / f"{name.replace(':', '-')}.mp4"
    note = path.with_suffix(".json")
    if not note.exists() or read_json(note, dict[str, Any]).get("run") != (run.name if run else ""):
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
