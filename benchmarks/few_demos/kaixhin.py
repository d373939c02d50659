"""Train with Kaixhin's GAIL on SAC (arXiv:2108.01867) on a suite's demonstrations, and add it to the record.

    pip install hydra-core seaborn
    python benchmarks/few_demos/kaixhin.py CODE FOLDER/COMPARISON    -> benchmarks/results/few-demos.json

CODE is the folder with its train.py, of commit 28d2f5b of Kaixhin/imitation-learning, and FOLDER/COMPARISON a part of
a suite, such as runs/continuous/Pendulum-v1-with-10, whose demonstrations have been recorded and whose runs are in the
record. Its code runs unchanged, with the settings that its authors found for 5 or 10 demonstrations, but for this:

- `gym` and `d4rl` are stand-ins that play Gymnasium's environment and read our demonstrations;
- actions are in [-1, 1], and scaled to the environment's bounds outside of it;
- minibatches are drawn at once instead of sample by sample, from the same distribution, and curves are not drawn;
- it is tested as our learners are, on the suite's episodes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from record import RESULTS

from imitate.compare.execute.worker import curve_returns, test
from imitate.compare.machine import provenance
from imitate.compare.plan.comparison import Comparison
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.trajectory import Policy
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.files import read_json, write_json
from imitate.training.process import cpu_seconds

POINTS = 16
"""Points of the curve, as our learners have."""


class OldEnv:
    """Gymnasium's environment as gym 0.23 and d4rl had it: actions in [-1, 1], one flag for the end, a dataset."""

    ref_min_score, ref_max_score = 0.0, 1.0

    def __init__(self, env_id: str, env_kwargs: dict[str, Any], demos: Path) -> None:
        self._env, self._demos, self._seed = make_env(env_id, env_kwargs), demos, None
        space: Any = self._env.action_space
        self._middle, self._half = (space.high + space.low) / 2, (space.high - space.low) / 2
        self.observation_space = self._env.observation_space
        ones = np.ones_like(space.high)
        self.action_space = SimpleNamespace(low=-ones, high=ones, shape=space.shape)
        self._max_episode_steps = self._env.spec and self._env.spec.max_episode_steps

    def scaled(self, actions: Array) -> Array:
        """Actions in [-1, 1] in the environment's units."""
        return self._middle + self._half * actions

    def seed(self, seed: Any) -> None:
        self._seed = seed

    def reset(self) -> Array:
        obs, _ = self._env.reset(seed=self._seed)
        self._seed = None
        return np.asarray(obs)

    def step(self, action: Array) -> tuple[Array, float, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self._env.step(self.scaled(action))
        return obs, float(reward), terminated or truncated, info

    def close(self) -> None:
        self._env.close()

    def get_dataset(self) -> dict[str, Array]:
        with DemoReader(self._demos) as reader:
            episodes = list(reader)
        ends = [(np.arange(len(each.rewards)) == len(each.rewards) - 1) for each in episodes]
        return {
            "observations": np.concatenate([each.obs[:-1] for each in episodes]),
            "next_observations": np.concatenate([each.obs[1:] for each in episodes]),
            "actions": (np.concatenate([each.actions for each in episodes]) - self._middle) / self._half,
            "terminals": np.concatenate(
                [end & each.terminated for end, each in zip(ends, episodes, strict=True)]
            ),
            "timeouts": np.concatenate(
                [end & each.truncated for end, each in zip(ends, episodes, strict=True)]
            ),
        }


class Greedy:
    """Its actor as a policy of ours."""

    def __init__(self, actor: Any, env: OldEnv, absorbing: bool) -> None:
        self.actor, self.env, self.absorbing = actor, env, absorbing

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        states = torch.as_tensor(obs, dtype=torch.float32)
        if self.absorbing:
            states = torch.cat([states, torch.zeros(len(states), 1)], 1)
        with torch.inference_mode():
            return self.env.scaled(self.actor.get_greedy_action(states).numpy())


def sampler(seed: int) -> Callable[[Any, int], dict[str, torch.Tensor]]:
    """A faster `sample` for its replay memory: any rows but the newest, which its own leaves out too."""
    rng = np.random.default_rng(seed)
    columns = ("step", "states", "actions", "rewards", "next_states", "terminals", "timeouts", "weights")

    def sample(memory: Any, n: int) -> dict[str, torch.Tensor]:
        newest, count = (memory.idx - 1) % memory.size, memory.size if memory.full else memory.idx - 1
        chosen = rng.integers(count, size=n)
        while len(again := np.flatnonzero(chosen == newest)):
            chosen[again] = rng.integers(count, size=len(again))
        batch = {name: getattr(memory, name)[chosen] for name in columns}
        last = batch["states"][:, -1]
        return batch | {"absorbing": last if memory.absorbing else torch.zeros_like(batch["terminals"])}

    return sample


def train(
    code: Path, comparison: Comparison, seed: int, demos: Path
) -> tuple[Policy, list[tuple[int, float]]]:
    """Its learner after the comparison's budget, and its curve."""
    env = OldEnv(comparison.env_id, comparison.env_kwargs, demos)
    quiet = SimpleNamespace(set_level=lambda _: None)
    stand_in: Any = SimpleNamespace(
        make=lambda _: OldEnv(comparison.env_id, comparison.env_kwargs, demos),
        logger=quiet,
        spaces=gym.spaces,
    )
    sys.modules |= {"gym": stand_in, "gym.spaces": gym.spaces, "d4rl": stand_in}
    sys.path.insert(0, str(code))
    theirs, memory, environments = map(import_module, ("train", "memory", "environments"))
    hydra = import_module("hydra")
    memory.ReplayMemory.sample = sampler(seed)
    environments.ENVS.append(comparison.env_id)
    theirs.lineplot = lambda *_, **__: None
    curve: list[tuple[int, float]] = []
    policies: list[Policy] = []

    def tested(actor: Any, env_: Any, episodes: int) -> list[float]:  # noqa: ARG001
        policies[:] = [Greedy(actor, env, settings.imitation.absorbing)]
        returns = curve_returns(comparison, policies[0])
        curve.append(((len(curve) + 1) * settings.evaluation.interval, statistics.fmean(returns)))
        print(*curve[-1], flush=True)
        return returns

    theirs.evaluate_agent = tested
    count = comparison.demo_episodes
    with hydra.initialize_config_dir(str(code / "conf"), version_base=None):
        settings = hydra.compose(
            "train_config",
            [
                "algorithm=GAIL",
                f"optimised_hyperparameters=GAIL_{5 if count < 10 else 10}_trajectories",
                f"env={comparison.env_id}",
                f"seed={seed}",
                f"steps={comparison.budget}",
                f"evaluation.interval={comparison.budget // POINTS}",
                f"imitation.trajectories={count}",
                "logging.interval=0",
            ],
        )
    theirs.train(settings)
    return policies[0], curve


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("code", type=Path, help="folder of its train.py")
    parser.add_argument("part", type=Path, help="folder of a comparison")
    given = parser.parse_args()
    part, code = given.part.absolute(), given.code.absolute()
    comparison = Comparison.from_json(read_json(part / "comparison.json", dict[str, Any]))
    seed = comparison.first_seed
    (demos,) = (part / "demos").glob(f"seed{seed}-*.h5")
    began = cpu_seconds()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        policy, curve = train(code, comparison, seed, demos)
    run = {
        "seed": seed,
        "returns": test(comparison, policy).returns.tolist(),
        "last_returns": [],
        "env_steps": comparison.budget,
        "demo_steps": sum(len(each.rewards) for each in DemoReader(demos)),
        "validation_steps": 0,
        "cpu_seconds": cpu_seconds() - began,
        "curve": curve,
        "machine": provenance(),
    }
    record = read_json(RESULTS, dict[str, Any])
    record[part.name]["runs"]["kaixhin"] = [run]
    write_json(RESULTS, record)
    print(f"{part.name}: {statistics.fmean(run['returns']):.1f}")


if __name__ == "__main__":
    main()
