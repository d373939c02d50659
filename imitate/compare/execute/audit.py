"""Leakage audit of GAIL and DAC: it measures how far the same learner gets when it can know nothing about the expert.

A reward that is learned from demonstrations may reward something else. If it is never negative, CartPole is "solved"
from an expert that always pushes to the left, since a longer episode collects more reward
(github.com/hill-a/stable-baselines/issues/627). A return that a control also reaches is no credit to the
demonstrations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from imitate.algorithms import ALGORITHMS
from imitate.datasets.collect import collect
from imitate.datasets.convert.sources import in_our_format
from imitate.datasets.evaluation import evaluate
from imitate.datasets.play import RandomPolicy
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.trajectory import Policy
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.files import atomic, write_json
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment
from imitate.training.settings import variant_settings

__all__ = ["CONTROLS", "OneAction", "controls", "demonstrator", "table", "write_audit"]

CONTROLS = ALGORITHMS["gail"].controls
"""Variants, `gail:plus-one` ..., and what each uses in place of the reward or the demonstrations; DAC has the same."""
_EPISODES = 20


class OneAction:
    """A policy that always takes the first action, or the middle of the range."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        if isinstance(space, spaces.Discrete):
            self.action = np.asarray(space.start)
        else:
            assert isinstance(space, spaces.Box)
            self.action = ((space.low + space.high) / 2).astype(space.dtype)

    def act(self, obs: Array, *, deterministic: bool = False) -> Array:  # noqa: ARG002
        return np.repeat(self.action[None], len(obs), 0)


def demonstrator(control: str, action_space: spaces.Space[Any], seed: int) -> Policy | None:
    """The policy that demonstrates for a control; None if it is the expert, as for the run itself."""
    if control == "one-action":
        return OneAction(action_space)
    return RandomPolicy(action_space, seed) if control == "random" else None


def controls(experiment: Experiment, folder: Path) -> Iterator[tuple[str, Experiment]]:
    """Each control and its run, which equals `experiment` except for the reward or the demonstrations. Demonstrations
    of controls are recorded in `folder`, as many steps as the expert's, in whole episodes."""
    assert experiment.demos is not None
    source = in_our_format(experiment.demos, experiment.env_id, experiment.env_kwargs or None)
    with DemoReader(source) as demos:
        chosen = demos.first(experiment.demo_episodes)
        steps, info = int(demos.lengths[chosen].sum()), demos.info
    for name in CONTROLS:
        algorithm = f"{experiment.algorithm}:{name}"
        settings = experiment.hyperparameters | variant_settings(algorithm)
        # Controls start from scratch, since a clone of the expert would tell them what they must not know.
        run = replace(experiment, algorithm=algorithm, hyperparameters=settings, init=None)
        policy = demonstrator(name, info.action_space, experiment.seed)
        if policy is not None:
            path = folder / f"{name}.h5"
            if not path.exists():
                _record(policy, path, name, info, steps, experiment.seed)
            with DemoReader(path) as demos:
                more = demos.num_steps - steps  # the last episode's; they don't shorten the training
            run = replace(run, demos=str(path), demo_episodes=None, budget=run.budget + more)
        elif run.validate_by == "demos":
            run = replace(run, eval_every=0)  # the expert's demonstrations would choose its policy
        yield name, run


def write_audit(experiment: Experiment, run: Path) -> list[dict[str, Any]]:
    """Measure the run, its controls (in `run`/audit) and random actions on the same episodes; write audit.json.

    Rows have who, mean_return, std_return, mean_length, and the control's `share` of the way from random actions to the
    run (None if the run is no better than they).
    """
    with closing_env(make_env(experiment.env_id, experiment.env_kwargs)) as env:
        random_actions = RandomPolicy(env.action_space, TEST_SEED)
    policies: dict[str, Policy] = {"this run": load_policy(run), "random actions": random_actions}
    policies |= {title: load_policy(run / "audit" / name) for name, title in CONTROLS.items()}
    rows: list[dict[str, Any]] = []
    for title, policy in policies.items():
        result = evaluate(policy, experiment.env_id, episodes=_EPISODES, env_kwargs=experiment.env_kwargs)
        measured = {"mean_return": result.mean, "std_return": result.std}
        rows.append({"who": title, **measured, "mean_length": float(result.lengths.mean())})
    best, random = rows[0]["mean_return"], rows[1]["mean_return"]
    for row in rows[2:]:
        row["share"] = (row["mean_return"] - random) / (best - random) if best > random else None
    write_json(run / "audit.json", {"rows": rows, "episodes": _EPISODES, "experiment": asdict(experiment)})
    return rows


def _record(policy: Policy, path: Path, name: str, expert: DemoInfo, steps: int, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # One environment, since with several side by side every episode that has begun is recorded, which is more than
    # was asked for.
    envs = SyncVecEnv([partial(make_env, expert.env_id, expert.env_kwargs)])
    info = replace(expert, expert=name, expert_sha256="", expert_return=None, noise="", seed=seed)
    with closing(envs), atomic(path) as temporary:
        collect(policy, envs, temporary, info, steps=steps)


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as a table in plain text."""
    width = max(len(row["who"]) for row in rows)
    lines = [f"{'':{width}}  return            length  of the way from random to this run"]
    for row in rows:
        share = f"{row['share']:.0%}" if row.get("share") is not None else ""
        measured = f"{row['mean_return']:8.1f} ± {row['std_return']:<6.1f}  {row['mean_length']:6.0f}"
        lines.append(f"{row['who']:{width}}  {measured}  {share}".rstrip())
    return "\n".join(lines)
