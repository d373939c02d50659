"""Carry out a comparison: measure the references, then run the jobs in parallel; an interrupted one continues."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from imitate.compare.backends import Backend, Failure, Task
from imitate.compare.backends.luggage import Luggage
from imitate.compare.backends.pool import Pool
from imitate.compare.backends.processes import Processes, environment
from imitate.compare.execute import worker
from imitate.compare.execute.checks import check_budget, check_folder, is_used, least_steps
from imitate.compare.execute.filming import film
from imitate.compare.execute.reference_returns import measured_references
from imitate.compare.execute.watch import REFRESH_SECONDS, Screen, states, summary
from imitate.compare.machine import processors
from imitate.compare.plan.comparison import Comparison, Job, file_name, jobs
from imitate.compare.plan.suite import Suite, is_suite
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.job_results import Film, References, Result
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import lock, read_json, write_json
from imitate.training.checkpoint import CHECKPOINT

__all__ = ["carry_out"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Part:
    """A comparison that has been checked: its folder, the measured references, and its jobs.

    label  the name of its folder if it is one of several; empty if it is the only one
    """

    label: str
    comparison: Comparison
    out: Path
    references: References
    jobs: Sequence[Job]

    def name(self, job: str) -> str:
        """The name of a job, unique over all parts."""
        return f"{self.label}/{job}" if self.label else job


def carry_out(
    wanted: Comparison | Suite, out: Path, *, workers: int | None = None, backend: Backend | None = None
) -> None:
    """Fill the folder `out`, or complete it: runs that an earlier call has finished are not repeated.

    The comparisons of a suite are carried out together, each in its own folder in `out`. A job that fails leaves its
    error in `errors/` and the others go on; another call tries it again. Ctrl-C lets the runs save their state and then
    raises KeyboardInterrupt. `backend` carries out the jobs: by default `workers` processes, one for each processor
    that this process may use.

    Raises InputError if `out` holds something else or another process is at work in it, if an expert, an algorithm or a
    hyperparameter does not suit, if a setting is null, which comparison.toml can't have, or if the budget is too small;
    then nothing has been written.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers must be at least 1, got {workers}")
    if isinstance(wanted, Suite):
        _check_suite(wanted, out)
    asked = wanted.parts if isinstance(wanted, Suite) else {"": wanted}
    comparisons = {label: _in_its_experts_environment(comparison) for label, comparison in asked.items()}
    for label, comparison in comparisons.items():
        check_folder(comparison, out / label)
        # Refuses what comparison.toml can't have, before the first run.
        comparison.to_toml()
    # A cluster may have GPUs even if this machine has none.
    least = {
        label: least_steps(comparison if backend is None else replace(comparison, device="cpu"), out / label)
        for label, comparison in comparisons.items()
    }
    parts = [_part(label, each, out / label, least[label]) for label, each in comparisons.items()]
    with ExitStack() as stack:
        for folder in (out, *(part.out for part in parts if part.label)):
            stack.enter_context(lock(folder, "another comparison"))
        if isinstance(wanted, Suite):
            wanted.save(out)
        for part in parts:
            _describe(part)
        _fill(parts, out, backend or Processes(workers or processors()))


def _check_suite(suite: Suite, out: Path) -> None:
    """Raise InputError if `out` holds something else, or parts that the suite lacks."""
    if is_used(out) and not is_suite(out):
        raise InputError(f"{out} exists and is no suite; choose another --out")
    if is_suite(out) and (gone := Suite.read(out).parts.keys() - suite.parts.keys()):
        raise InputError(f"{out} holds another suite, with {', '.join(sorted(gone))}; choose another --out")


def _part(label: str, comparison: Comparison, out: Path, least_steps: Mapping[str, int]) -> _Part:
    references = measured_references(comparison, out)
    check_budget(comparison, references, least_steps)
    planned = jobs(comparison, out, references.episode_steps, references.made_from)
    return _Part(label, comparison, out, references, planned)


def _describe(part: _Part) -> None:
    """Write the plan of the comparison into its folder."""
    write_json(part.out / "comparison.json", part.comparison.to_json())
    write_json(part.out / "references.json", asdict(part.references))
    learners = [job for job in part.jobs if not job.records]
    index = {job.name: job.folder.relative_to(part.out).as_posix() for job in learners}
    write_json(part.out / "runs.json", index)
    shutil.rmtree(part.out / "errors", ignore_errors=True)  # of earlier attempts


def _fill(parts: Sequence[_Part], out: Path, backend: Backend) -> None:
    screen = Screen(sys.stderr)
    # Runs are parallel, and small networks only lose by threads. Workers inherit this.
    with screen.above(), environment("OMP_NUM_THREADS", "1"), backend:
        pool = Pool(backend, out)
        _run(pool, parts, out, screen)
        for part in parts:
            if part.references.filmed:
                _film_policies(pool, part)
        while pool.running:
            for name in pool.ended():
                _say_failure(pool, name)


def _film_policies(pool: Pool, part: _Part) -> None:
    """Film the expert, and of each learner the run with the most typical return."""
    if part.references.expert is not None:
        _film(pool, part, "expert", None)
    for name in part.comparison.algorithms:
        runs = [job.folder for job in part.jobs if job.algorithm == name]
        results = {folder: result for folder in runs if (result := Result.load(folder))}
        if results:
            typical = Entry(name, list(results.values())).typical
            _film(pool, part, name, next(f for f, r in results.items() if r is typical))


def _in_its_experts_environment(comparison: Comparison) -> Comparison:
    """The comparison with the expert's own environment keywords, if it has none, as in `imitate train`."""
    if comparison.expert is None or comparison.env_kwargs:
        return comparison
    expert = load_expert(comparison.expert, env_id=comparison.env_id)
    if expert.env_kwargs:
        logger.info("the environment is made as the expert knows it, with %s", expert.env_kwargs)
    return replace(comparison, env_kwargs=dict(expert.env_kwargs))


def _run(pool: Pool, parts: Sequence[_Part], out: Path, screen: Screen) -> None:
    """Run all jobs that are not done; a learner begins when its demonstrations have been recorded."""
    todo = [(part, job) for part in parts for job in part.jobs if not worker.is_done(part.comparison, job)]
    needed = {job.demos for _, job in todo if not job.records}
    todo = [(part, job) for part, job in todo if not job.records or job.demos in needed]
    recorders = {job.demos: part.name(job.name) for part, job in todo if job.records}
    learners = {part.name(job.name) for part, job in todo if not job.records}
    position: dict[str, int] = {}
    due = 0.0
    while todo or pool.running:
        todo = [(part, job) for part, job in todo if not _begun(pool, part, job, recorders.get(job.demos))]
        for name in pool.ended():
            _say_failure(pool, name)
            if pool.failed(name):
                continue
            recorders = {demos: job for demos, job in recorders.items() if job != name}
            if name in learners and not screen.live:
                logger.info("%s has ended: %s", name, summary(states(out, position)))
        position |= dict(pool.news())
        if screen.live and time.monotonic() >= due:
            screen.show(states(out, position))
            due = time.monotonic() + REFRESH_SECONDS


def _begun(pool: Pool, part: _Part, job: Job, source: str | None) -> bool:
    """Submit a job unless its demonstrations are still being recorded by the job `source`; it fails if that failed."""
    name = part.name(job.name)
    if source is not None and name != source:
        if not pool.failed(source):
            return False
        pool.fail(name, Failure("its demonstrations could not be recorded"))
        _say_failure(pool, name)
        return True
    pool.submit(_task(part, job))
    return True


def _task(part: _Part, job: Job) -> Task:
    there = job.moved(lambda path: path.relative_to(part.out))
    demos = () if there.demos is None else (there.demos, there.demos.with_suffix(".json"))
    return Task(
        part.name(job.name),
        worker.run,
        (part.comparison, there),
        root=part.out,
        reads=() if job.records else demos,
        writes=demos if job.records else (there.folder,),
        luggage=Luggage(part.comparison.expert, (part.comparison.env_id, job.algorithm)),
        checkpoint=None if job.records else there.folder / CHECKPOINT,
        learns=not job.records,
    )


def _film(pool: Pool, part: _Part, name: str, run: Path | None) -> None:
    """Submit a film of the run, unless there is one already."""
    path = Path("videos") / f"{file_name(name)}.mp4"
    note = path.with_suffix(".json")
    of = run.name if run else part.references.made_from
    if (part.out / note).exists() and read_json(part.out / note, Film).run == of:
        return
    there = run and run.relative_to(part.out)
    task = Task(
        part.name(f"video of {name}"),
        film,
        (part.comparison, path, there, of),
        root=part.out,
        reads=(there / "policy",) if there else (),
        writes=(path, note, path.with_suffix(".jpg")),
        luggage=Luggage(part.comparison.expert, (part.comparison.env_id,)),
    )
    pool.submit(task)


def _say_failure(pool: Pool, name: str) -> None:
    if error := pool.failed(name):
        folder, slash, _ = name.rpartition("/")
        logger.error("%s%s%s", folder, slash, error)
