"""Demonstrations of a comparison: the expert's first episodes, in the order of their seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from imitate.compare.execute.audit import demonstrator
from imitate.compare.execute.training import expert_of
from imitate.compare.plan.comparison import DEMO_SHARE, Comparison, Job
from imitate.datasets.play import episodes
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream, draw_seed, episode_seeds
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.files import atomic, read_json, write_json
from imitate.training.process import cpu_seconds

__all__ = ["Recorded", "affordable_episodes", "in_order", "is_recorded", "record", "recorded"]

NUM_ENVS = 8  # the result does not depend on it


@dataclass(frozen=True)
class Recorded:
    """The facts about a finished recording, stored beside it."""

    episodes: int
    steps: int
    cpu_seconds: float

    def seconds_of(self, steps: int) -> float:
        """Processor seconds of recording so many of the steps."""
        return self.cpu_seconds * steps / self.steps


def record(comparison: Comparison, job: Job, progress: Callable[[int], None]) -> None:
    """Record the expert's first episodes, in the order of their seeds, as many as fit in `job.steps`, but at least one
    if the budget pays for it.

    An episode that ends while an earlier one is still running waits for it; unfinished episodes are dropped at the end.
    So the recording depends neither on the lengths of episodes nor on the number of environments.
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
        expert = demonstrator(control, envs.single_action_space, job.seed) or expert_of(comparison)
        info = DemoInfo(
            comparison.env_id,
            envs.single_observation_space,
            envs.single_action_space,
            env_kwargs=comparison.env_kwargs,
            expert=control or comparison.expert,
            seed=seed,
        )
        with DemoWriter(temporary, info, sync=False) as writer:
            ordered = in_order(episodes(expert, envs, episode_seeds(seed)), seed)
            for trajectory in islice(ordered, job.demo_episodes):
                # The steps of a control are measured by the expert, whose episodes may be shorter.
                if steps + len(trajectory) > (job.steps if count else comparison.budget):
                    break
                writer.append(trajectory)
                steps, count = steps + len(trajectory), count + 1
                progress(steps)
        if not count:
            raise InputError(
                f"one episode of {control or comparison.expert} takes more than the budget of "
                f"{comparison.budget} steps; give more"
            )
    write_json(_note(job), asdict(Recorded(count, steps, cpu_seconds() - begin)))


def is_recorded(job: Job) -> bool:
    assert job.demos is not None
    return _note(job).is_file() and job.demos.is_file()


def recorded(job: Job) -> Recorded:
    """The facts that `record` stored beside the demonstrations of a job."""
    return read_json(_note(job), Recorded)


def affordable_episodes(comparison: Comparison, job: Job) -> int | None:
    """The number of demonstrations for a learner that also has an environment; None: all of them."""
    if job.demo_episodes is None or job.demos is None:
        return None
    if comparison.demo_episodes is not None:
        return job.demo_episodes
    with DemoReader(job.demos) as demos:
        affordable = np.searchsorted(np.cumsum(demos.lengths), DEMO_SHARE * job.steps, side="right")
    return max(min(job.demo_episodes, int(affordable)), 1)


def in_order(trajectories: Iterator[Trajectory], seed: int) -> Iterator[Trajectory]:
    """The episodes in the order of `episode_seeds(seed)`, whichever ends first."""
    # By seed, and several of one: seeds have 31 bits and can repeat.
    waiting: dict[int, list[Trajectory]] = {}
    for wanted in episode_seeds(seed):
        while wanted not in waiting:
            trajectory = next(trajectories)
            waiting.setdefault(int(trajectory.info["seed"]), []).append(trajectory)
        first, *others = waiting.pop(wanted)
        if others:
            waiting[wanted] = others
        yield first


def _note(job: Job) -> Path:
    assert job.demos is not None
    return job.demos.with_suffix(".json")
