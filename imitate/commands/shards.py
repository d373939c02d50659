"""`imitate collect --shards K`: one data set, recorded as K files side by side, here or on a cluster."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from imitate.compare.backends import Backend, Failure, Report, Task
from imitate.compare.backends.luggage import Luggage
from imitate.datasets.collect import OnFailure, collect, is_complete
from imitate.datasets.storage.savepoint import go_on
from imitate.datasets.storage.schema import DemoInfo
from imitate.envs.make import make_env
from imitate.envs.seeds import episode_seeds
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import filling

__all__ = ["Order", "record_shards"]


@dataclass(frozen=True)
class Order:
    """The arguments of `imitate collect`; see there. `episodes` and `steps` are of all shards together."""

    expert: str
    vecnormalize: str | None
    info: DemoInfo
    num_envs: int
    episodes: int | None
    steps: int | None
    shards: int
    on_failure: OnFailure = "stop"

    def name(self, shard: int) -> str:
        return f"{shard:05}-of-{self.shards:05}.h5"

    def is_complete(self, shard: int, out: Path) -> bool:
        """Raises InputError if the file is of another recording."""
        part, path = (shard, self.shards), out / self.name(shard)
        return path.exists() and is_complete(
            path, self.info, episodes=self.episodes, steps=self.steps, shard=part
        )

    def task(self, shard: int, out: Path) -> Task:
        path = Path(self.name(shard))
        own = (self.info.env_id,)
        return Task(
            f"shard {shard}",
            record_shard,
            (self, shard),
            root=out,
            writes=(path,),
            luggage=Luggage(self.expert, own, self.vecnormalize),
            checkpoint=path,
        )


def record_shards(order: Order, out: Path, backend: Backend, *, progress: bool) -> list[Failure]:
    """Fill the folder `out`, or what is missing in it; returns what went wrong. Ctrl-C keeps what has been recorded.

    Raises InputError if `out` holds other files of demonstrations, or another process records there.
    """
    for path in out.glob("*.h5"):
        go_on(path)
    strange = {path.name for path in out.glob("*.h5")} - set(map(order.name, range(order.shards)))
    if strange:
        raise InputError(
            f"{out} holds {min(strange)}, which is none of {order.shards} shards: choose another --out"
        )
    todo = [shard for shard in range(order.shards) if not order.is_complete(shard, out)]
    unit = "steps" if order.episodes is None else "episodes"
    bar = tqdm(total=order.steps or order.episodes, unit=unit, disable=not progress, dynamic_ncols=True)
    with filling(out, "another recording"), bar, backend:
        return _fill(order, out, backend, todo, bar)


def _fill(order: Order, out: Path, backend: Backend, todo: list[int], bar: tqdm[Any]) -> list[Failure]:
    done = order.shards - len(todo)
    whole = (order.steps or order.episodes or 0) / order.shards
    at = {f"shard {shard}": 0 for shard in todo}
    for shard in todo:
        backend.submit(order.task(shard, out))
    running, failures = set(at), []
    while running:
        for name, failure in backend.ended():
            running.discard(name)
            at[name] = round(whole)
            if failure is not None:
                failures.append(Failure(f"{name}: {failure.error}", failure.traceback))
                print(f"imitate: {failures[-1].error}", file=sys.stderr)
        at |= {name: position for name, position in backend.news() if name in running}
        bar.update(round(done * whole) + sum(at.values()) - bar.n)
    return failures


def record_shard(root: Path, order: Order, shard: int, *, progress: Report) -> None:
    """In a worker: one file, or the rest of it."""
    info = order.info
    source = load_expert(
        order.expert,
        env_id=info.env_id,
        env_kwargs=dict(info.env_kwargs),
        vecnormalize=order.vecnormalize,
    )
    # Sampled actions differ between shards, so they need a stream each.
    source.seed(next(episode_seeds(info.seed or 0, shard)))
    with closing(SyncVecEnv([partial(make_env, info.env_id, info.env_kwargs)] * order.num_envs)) as envs:
        collect(
            source,
            envs,
            root / order.name(shard),
            info,
            episodes=order.episodes,
            steps=order.steps,
            shard=(shard, order.shards),
            resume=True,
            on_failure=order.on_failure,
            report=progress,
        ).close()
