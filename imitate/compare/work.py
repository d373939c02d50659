"""What a process of a comparison does: record demonstrations, train and test a learner, film a policy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from imitate.algorithms import find
from imitate.compare.audit import demonstrator
from imitate.compare.plan import Comparison, Job
from imitate.compare.results import Result
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.datasets.play import episodes
from imitate.datasets.reader import DemoReader
from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.datasets.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed, episode_seeds
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import atomic, versions, write_json
from imitate.nn.state import as_tuples
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment, execute, variant_settings
from imitate.video import record_video

__all__ = ["check", "experiment", "film", "is_done", "record", "run", "test", "train"]

NUM_ENVS = 8  # of recording and testing, whose results do not depend on it
CHECKPOINT_EVERY = 100_000  # own steps; shorter runs save at Ctrl-C only: saving cuts episodes in flight

Progress = Callable[[int], None]


def is_done(job: Job) -> bool:
    return _note(job).is_file() if job.records else (job.folder / "result.json").is_file()


def run(comparison: Comparison, job: Job, *, progress: Progress) -> None:
    """Do a job; where it was interrupted before, the rest of it."""
    (record if job.records else train)(comparison, job, progress)


def record(comparison: Comparison, job: Job, progress: Progress) -> None:
    """Record the expert: the first episodes, in the order of their seeds, that `job.steps` pay for.

    Episodes that end while an earlier one is still going wait for it; what is in flight at the end is
    dropped. So what is recorded does not depend on how long episodes last, nor on the number of
    environments.
    """
    assert job.demos is not None
    assert comparison.expert is not None
    begin = time.monotonic()
    job.folder.mkdir(parents=True, exist_ok=True)
    control = job.algorithm.partition(":")[2]
    makers = [partial(make_env, comparison.env_id, comparison.env_kwargs)] * NUM_ENVS
    steps = count = 0
    with closing(SyncVecEnv(makers)) as envs, atomic(job.demos) as temporary:
        expert = demonstrator(control, envs.single_action_space, job.seed) or load_expert(comparison.expert)
        info = DemoInfo(
            comparison.env_id,
            envs.single_observation_space,
            envs.single_action_space,
            env_kwargs=comparison.env_kwargs,
            expert=control or comparison.expert,
            seed=draw_seed(Stream.DEMONSTRATIONS, job.seed),
        )
        seeds = episode_seeds(draw_seed(Stream.DEMONSTRATIONS, job.seed))
        with DemoWriter(temporary, info) as writer:
            for trajectory in islice(
                _in_order(episodes(expert, envs, seeds), draw_seed(Stream.DEMONSTRATIONS, job.seed)),
                job.demo_episodes,
            ):
                if steps + len(trajectory) > job.steps:
                    break
                writer.append(trajectory)
                steps, count = steps + len(trajectory), count + 1
                progress(steps)
        if not count:
            raise InputError(
                f"one episode of {control or comparison.expert} takes more than the budget of {job.steps} steps; "
                "give more"
            )
    write_json(_note(job), {"episodes": count, "steps": steps, "wall_seconds": time.monotonic() - begin})


def train(comparison: Comparison, job: Job, progress: Progress) -> bool:
    """Train, or go on training, and test the best policy; False where Ctrl-C came first."""
    curve = []
    for part in job.parts:
        point = _part(comparison, job, part)
        if point is None:
            return False
        curve += point
    chosen = experiment(comparison, job)
    if not _executed(chosen, job.folder, progress):
        return False
    final = test(comparison, load_policy(job.folder))
    totals = json.loads((job.folder / "finished.json").read_text())
    demo_steps = int(totals["demo_steps"])
    if job.eval_episodes:
        rows = map(json.loads, (job.folder / "evaluations.jsonl").read_text().splitlines())
        curve = [(int(row["budget_steps"]), float(row["mean_return"])) for row in rows]
    else:
        curve.append((demo_steps, final.mean))
    wall_seconds = float(json.loads((job.folder / "timing.json").read_text())["wall_seconds"])
    if job.demos is not None:
        note = json.loads(_note(job).read_text())
        wall_seconds += note["wall_seconds"] * demo_steps / note["steps"]
    Result(
        algorithm=job.algorithm,
        seed=job.seed,
        curve=curve,
        final=final.to_json(),
        expert_queries=int(totals["expert_queries"])
        + demo_steps,  # every recorded action is an expert's answer
        env_steps=int(totals["env_steps"]),
        demo_steps=demo_steps,
        validation_steps=int(totals["validation_steps"]),
        wall_seconds=wall_seconds,
        hyperparameters=chosen.hyperparameters,
        stepped={"num_envs": chosen.num_envs, "backend": chosen.backend} if totals["env_steps"] else {},
        versions=versions(),
    ).save(job.folder)
    return True


def experiment(comparison: Comparison, job: Job, demo_episodes: int | None = None) -> Experiment:
    """The run that a job comes to. Raises InputError for hyperparameters that the algorithm does not take."""
    run_fields = {} if comparison.num_envs is None else {"num_envs": comparison.num_envs}
    return Experiment.create(
        job.algorithm,
        comparison.env_id,
        hyperparameters=_overrides(comparison, job.algorithm),
        env_kwargs=dict(comparison.env_kwargs),
        expert=comparison.expert if "expert" in find(job.algorithm).needs else None,
        demos=None if job.demos is None else str(job.demos),
        demo_episodes=demo_episodes or job.demo_episodes,
        seed=job.seed,
        budget=job.steps,
        **run_fields,
        eval_every=job.eval_every,
        eval_episodes=max(job.eval_episodes, 1),
        checkpoint_every=CHECKPOINT_EVERY,
        device=comparison.device,
    )


def _overrides(comparison: Comparison, algorithm: str) -> Mapping[str, Any]:
    """Those named for it; a variant without its own takes its algorithm's, but for what makes it that variant."""
    given = comparison.hyperparameters
    if algorithm in given:
        return given[algorithm]
    return dict(given.get(algorithm.partition(":")[0], {})) | variant_settings(algorithm)


def test(comparison: Comparison, policy: Policy) -> Evaluation:
    """On the episodes that measure everybody: learners, the expert, random actions."""
    return evaluate(
        policy,
        comparison.env_id,
        episodes=comparison.episodes,
        seed=TEST_SEED,
        env_kwargs=comparison.env_kwargs,
        num_envs=NUM_ENVS,
    )


def check(chosen: Experiment) -> None:
    """Raise InputError where a learner that needs no more than environments can't act in this one: a learner is made,
    and thrown away."""
    algorithm = find(chosen.algorithm)
    if set(algorithm.needs) == {"envs"}:
        config = algorithm.config(**as_tuples(chosen.hyperparameters))
        with closing(SyncVecEnv([partial(make_env, chosen.env_id, chosen.env_kwargs)])) as envs:
            algorithm.learner(config, envs=envs, seed=chosen.seed, device=chosen.device)


def film(comparison: Comparison, out: Path, run: Path | None, *, progress: Progress) -> None:  # noqa: ARG001
    """A video of the first test episode, of the run's policy or of the expert; its return in a .json beside.

    That return may differ from the one in the test: alone an observation can be rounded otherwise than among
    eight, and in some environments the last bit decides.
    """
    out.unlink(missing_ok=True)  # of a process that was killed before it wrote the return
    policy: Policy = load_expert(str(comparison.expert)) if run is None else load_policy(run)
    returns = record_video(
        policy,
        comparison.env_id,
        out,
        env_kwargs=comparison.env_kwargs,
        seed=TEST_SEED,
        max_seconds=40,  # and small: a video takes about 200 KB of the report
        width=400,
        crf=30,
    )
    write_json(out.with_suffix(".json"), {"episode_return": returns[0]})


def _part(comparison: Comparison, job: Job, part: int) -> list[tuple[int, float]] | None:
    """A point of an offline learner's curve, from the first 1/part of its demonstrations; none where that
    is not one episode; None where Ctrl-C came first."""
    assert job.demos is not None
    with DemoReader(job.demos) as demos:
        steps = np.cumsum(demos.lengths)
    count = int(np.searchsorted(steps, job.steps / part, side="right"))
    if count == 0:
        return []
    folder = job.folder.with_name(f"{job.folder.name}-1of{part}")
    if not _executed(experiment(comparison, job, count), folder, lambda _steps: None):
        return None
    return [(int(steps[count - 1]), test(comparison, load_policy(folder)).mean)]


def _executed(run: Experiment, folder: Path, progress: Progress) -> bool:
    if (folder / "finished.json").is_file():
        return True
    return execute(run, folder, resume=True, progress=lambda steps, _metrics: progress(steps))


def _note(job: Job) -> Path:
    """What is known of a finished recording, beside it."""
    assert job.demos is not None
    return job.demos.with_suffix(".json")


def _in_order(trajectories: Iterator[Trajectory], seed: int) -> Iterator[Trajectory]:
    """Episodes as `episode_seeds(seed)` numbers them, whichever ends first."""
    waiting: dict[int, Trajectory] = {}
    for wanted in episode_seeds(seed):
        while wanted not in waiting:
            trajectory = next(trajectories)
            waiting[int(trajectory.info["seed"])] = trajectory
        yield waiting.pop(wanted)
