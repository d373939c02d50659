"""What a process of a comparison does: record demonstrations, train and test a learner, film a policy."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import imageio_ffmpeg
import numpy as np

from imitate.compare.audit import demonstrator
from imitate.compare.learners import find, trust_learner
from imitate.compare.machine import machine
from imitate.compare.plan import DEMO_SHARE, POINTS, Comparison, Job
from imitate.compare.results import Point, Result
from imitate.compare.snapshots import Mark, Snapshots
from imitate.compare.training import stored_policy, training
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.datasets.play import episodes
from imitate.datasets.reader import DemoReader
from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.datasets.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed, episode_seeds
from imitate.envs.trust import trust
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import atomic, read_json, versions, write_json
from imitate.training.process import cpu_seconds
from imitate.video import record_video

__all__ = ["curve_returns", "film", "is_done", "record", "run", "test", "train"]

NUM_ENVS = 8  # of recording and testing, whose results do not depend on it

Progress = Callable[[int], None]


@dataclass(frozen=True)
class _Recording:
    """What is known of a finished recording, beside it."""

    episodes: int
    steps: int
    cpu_seconds: float


def is_done(comparison: Comparison, job: Job) -> bool:
    if job.records:
        return _note(job).is_file()
    result = Result.load(job.folder)
    return result is not None and len(result.returns) >= comparison.episodes


def run(root: Path, comparison: Comparison, job: Job, *, progress: Progress) -> None:
    """Do a job, whose paths are below `root`; where it was interrupted before, the rest of it."""
    _trust(comparison)
    trust_learner(job.algorithm)
    job = job.moved(lambda path: root / path)
    (record if job.records else train)(comparison, job, progress)


def _trust(comparison: Comparison) -> None:
    """The process that planned this was told so."""
    trust(comparison.env_id)
    trust(comparison.expert or "")


def record(comparison: Comparison, job: Job, progress: Progress) -> None:
    """Record the expert: the first episodes, in the order of their seeds, that `job.steps` pay for.

    Episodes that end while an earlier one is still going wait for it; what is in flight at the end is
    dropped. So what is recorded does not depend on how long episodes last, nor on the number of
    environments.
    """
    assert job.demos is not None
    assert comparison.expert is not None
    begin = cpu_seconds()
    job.folder.mkdir(parents=True, exist_ok=True)
    control = job.algorithm.partition(":")[2]
    makers = [partial(make_env, comparison.env_id, comparison.env_kwargs)] * NUM_ENVS
    seed = draw_seed(Stream.DEMONSTRATIONS, job.seed)
    steps = count = 0
    with closing(SyncVecEnv(makers)) as envs, atomic(job.demos) as temporary:
        expert = demonstrator(control, envs.single_action_space, job.seed) or load_expert(
            comparison.expert, env_id=comparison.env_id, env_kwargs=comparison.env_kwargs or None
        )
        info = DemoInfo(
            comparison.env_id,
            envs.single_observation_space,
            envs.single_action_space,
            env_kwargs=comparison.env_kwargs,
            expert=control or comparison.expert,
            seed=seed,
        )
        with DemoWriter(temporary, info) as writer:
            in_order = _in_order(episodes(expert, envs, episode_seeds(seed)), seed)
            for trajectory in islice(in_order, job.demo_episodes):
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
    write_json(_note(job), asdict(_Recording(count, steps, cpu_seconds() - begin)))


def train(comparison: Comparison, job: Job, progress: Progress) -> bool:
    """Train, or go on training, measure the policies on the way, and test the last; False where Ctrl-C came first."""
    before = Result.load(job.folder)
    if before is not None:  # all that was asked for since are more test episodes
        final = test(comparison, stored_policy(comparison, job.folder))
        dataclasses.replace(before, returns=final.returns.tolist(), lengths=final.lengths.tolist()).save(
            job.folder
        )
        return True
    chosen = training(comparison, job, _demo_episodes(job))
    online = not find(job.algorithm).offline
    snapshots = Snapshots(job.folder / "snapshots", job.steps, cpu_seconds, chosen.save)
    if not chosen.execute(job.folder, progress, snapshots):
        return False
    _make_portable(job.folder)
    totals = read_json(job.folder / "finished.json", dict[str, int])
    demo_steps = totals["demo_steps"]
    spent = demo_steps + totals["env_steps"]
    recording = 0.0
    if job.demos is not None:
        note = read_json(_note(job), _Recording)
        recording = note.cpu_seconds * demo_steps / note.steps
    seconds = read_json(job.folder / "timing.json", dict[str, float])["cpu_seconds"]
    marks = snapshots.complete(job.folder / "policy", spent, seconds)
    if not online:
        parts = _parts(comparison, job)
        if parts is None:
            return False
        marks = {0: marks[0]} | parts | {POINTS: marks[POINTS]}
    final = test(comparison, stored_policy(comparison, job.folder))
    Result(
        env_id=comparison.env_id,
        algorithm=job.algorithm,
        seed=job.seed,
        budget=job.steps,
        curve=_curve(comparison, job, marks, _answers(job.folder, demo_steps, online), recording),
        returns=final.returns.tolist(),
        lengths=final.lengths.tolist(),
        # Every recorded action is an expert's answer.
        expert_queries=totals["expert_queries"] + demo_steps,
        env_steps=totals["env_steps"],
        demo_steps=demo_steps,
        cpu_seconds=seconds + recording,
        hyperparameters=chosen.hyperparameters,
        stepped=chosen.stepped,
        notes=chosen.notes,
        versions=versions(),
        machine=machine(),
    ).save(job.folder)
    shutil.rmtree(job.folder / "snapshots", ignore_errors=True)
    return True


def _make_portable(folder: Path) -> None:
    """Name the demonstrations from the run's folder: both move together, to the machine of the report or elsewhere."""
    path = folder / "config.json"
    config = read_json(path, dict[str, Any]) if path.is_file() else {}
    if config.get("demos"):
        write_json(path, config | {"demos": os.path.relpath(folder / config["demos"], folder)})


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


def curve_returns(comparison: Comparison, policy: Policy) -> list[float]:
    """On the episodes of the learning curves: a third set, the same for everybody and at every point."""
    evaluation = evaluate(
        policy,
        comparison.env_id,
        episodes=comparison.curve_episodes,
        seed=draw_seed(Stream.CURVES),
        env_kwargs=comparison.env_kwargs,
        num_envs=NUM_ENVS,
    )
    return [float(value) for value in evaluation.returns]


def film(root: Path, comparison: Comparison, out: Path, run: Path | None, *, progress: Progress) -> None:  # noqa: ARG001
    """A video of the first test episode, of the run's policy or of the expert; a picture of it, and its return in a
    .json, beside. Both paths are below `root`.

    That return may differ from the one in the test: alone an observation can be rounded otherwise than among
    eight, and in some environments the last bit decides.
    """
    _trust(comparison)
    out, run = root / out, run and root / run
    out.unlink(missing_ok=True)  # of a process that was killed before it wrote the return
    policy: Policy = (
        load_expert(
            str(comparison.expert), env_id=comparison.env_id, env_kwargs=comparison.env_kwargs or None
        )
        if run is None
        else stored_policy(comparison, run)
    )
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
    _poster(out)
    write_json(out.with_suffix(".json"), {"episode_return": returns[0], "run": run.name if run else ""})


def _poster(video: Path) -> None:
    """What a page shows before the video plays: its first picture, as a JPEG beside it."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-nostdin", "-i", str(video)]
    command += ["-frames:v", "1", "-q:v", "8", str(video.with_suffix(".jpg"))]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _demo_episodes(job: Job) -> int | None:
    """How many a learner with an environment of its own gets; None: all of them."""
    if job.demo_episodes is None or job.demos is None:
        return None
    with DemoReader(job.demos) as demos:
        affordable = np.searchsorted(np.cumsum(demos.lengths), DEMO_SHARE * job.steps, side="right")
    return max(min(job.demo_episodes, int(affordable)), 1)


def _parts(comparison: Comparison, job: Job) -> dict[int, Mark] | None:
    """Marks of an offline learner: what it makes of the first 1/16, 2/16 ... of its demonstrations, trained anew each
    time, as somebody with that budget would. Where that is no episode it has learned nothing yet. None where Ctrl-C
    came first."""
    assert job.demos is not None
    with DemoReader(job.demos) as demos:
        steps = np.cumsum(demos.lengths)
    note = read_json(_note(job), _Recording)
    marks: dict[int, Mark] = {}
    counts = [int(np.searchsorted(steps, job.steps * n / POINTS, side="right")) for n in range(POINTS)]
    for n, count in enumerate(counts):
        if n == 0 or count == 0:
            marks[n] = Mark("00", 0, 0.0)
        elif count == counts[n - 1]:
            marks[n] = marks[n - 1]
        else:
            folder = job.folder / "snapshots" / f"{n:02}-run"
            if not training(comparison, job, count).execute(folder, lambda _steps: None):
                return None
            seconds = read_json(folder / "timing.json", dict[str, float])["cpu_seconds"]
            own = int(steps[count - 1])
            marks[n] = Mark(folder.name, own, seconds + note.cpu_seconds * own / note.steps)
    return marks


def _curve(
    comparison: Comparison, job: Job, marks: Mapping[int, Mark], answers: Mapping[int, int], recording: float
) -> list[Point]:
    """The policies at the marks, each measured once. `recording`: processor seconds of the demonstrations."""
    measured: dict[str, list[float]] = {}
    points = []
    for n in sorted(marks):
        mark = marks[n]
        if mark.policy not in measured:
            policy = stored_policy(comparison, job.folder / "snapshots" / mark.policy)
            measured[mark.policy] = curve_returns(comparison, policy)
        paid = 0.0 if n == 0 or "-run" in mark.policy else recording
        queries = 0 if n == 0 else answers.get(mark.steps, mark.steps if not answers else 0)
        points.append(Point(mark.steps, queries, mark.cpu_seconds + paid, measured[mark.policy]))
    return points


def _answers(folder: Path, demo_steps: int, online: bool) -> dict[int, int]:
    """The expert's answers up to each number of steps spent, recorded ones among them; of an offline learner, whose
    every step is one, nothing."""
    if not online:
        return {}
    with (folder / "metrics.jsonl").open() as file:
        rows = [json.loads(line) for line in file]
    return {int(row["budget_steps"]): int(row["expert_queries"]) + demo_steps for row in rows} | {
        demo_steps: demo_steps
    }


def _note(job: Job) -> Path:
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
