"""How speed grows with environments, minibatches, widths and recorded steps; writes benchmarks/results/growth.json.

    python benchmarks/growth.py

Each figure is of a process of its own, on one thread, without imports and set-up. Ours and the peer's take turns. PPO
plays CartPole in iterations of 2,048 steps, whatever the number of environments, with 4 passes over them, beside
Stable-Baselines3's. BC clones 20,000 recorded pairs, beside the same gradient steps as a plain torch loop on tensors in
memory. Reading is one pass of shuffled minibatches of 256 over a file with 17 numbers a step, streamed where it exceeds
256 MiB.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent / "speed"))

from rate import CARTPOLE, learner_rate, rate, sb3_rate
from size import LENGTH, STATES, measured, record, shuffled

from imitate.files import machine, versions, write_json

RECORD = Path(__file__).parent / "results" / "growth.json"
REPETITIONS = 3
ENVIRONMENTS, BATCHES, WIDTHS = (1, 4, 16, 64, 256), (32, 256, 2_048), (32, 64, 256, 1_024)
STEPS = (10**3, 10**4, 10**5, 10**6, 10**7)
ITERATION, PAIRS = 2_048, 20_000


def ppo(num_envs: int, batch_size: int, width: int) -> float:
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.rl.ppo import PPO, PPOConfig

    config = PPOConfig(
        num_steps=ITERATION // num_envs,
        batch_size=batch_size,
        num_epochs=4,
        hidden=(width, width),
        lr_schedule="constant",
        normalize_obs=False,
        normalize_rewards=False,
    )
    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * num_envs)
    return learner_rate(PPO(config, envs=envs, seed=0), 4 * ITERATION)


def ppo_sb3(num_envs: int, batch_size: int, width: int) -> float:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(CARTPOLE, num_envs, seed=0)
    settings: dict[str, Any] = {"n_steps": ITERATION // num_envs, "batch_size": batch_size, "n_epochs": 4}
    model = PPO(
        "MlpPolicy", envs, seed=0, device="cpu", policy_kwargs={"net_arch": [width, width]}, **settings
    )
    return sb3_rate(model, lambda steps: model.learn(steps, reset_num_timesteps=False), 4 * ITERATION)


def bc(batch_size: int, width: int) -> float:
    import numpy as np
    from gymnasium import spaces

    from imitate.datasets import DemoInfo, DemoReader, DemoWriter, Trajectory
    from imitate.imitators.bc import BC, BCConfig

    rng = np.random.default_rng(0)
    info = DemoInfo(CARTPOLE, spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Discrete(2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "demos.h5"
        with DemoWriter(path, info) as writer:
            for _ in range(PAIRS // LENGTH):
                obs = rng.standard_normal((LENGTH + 1, 4), np.float32)
                rewards, actions = np.ones(LENGTH, np.float32), rng.integers(0, 2, LENGTH)
                writer.append(Trajectory(obs, actions, rewards, terminated=False, truncated=True))
        config = BCConfig(
            batch_size=batch_size,
            hidden=(width, width),
            activation="tanh",
            max_updates=10**9,
            max_epochs=10**9,
            holdout=0.0,
            normalize_obs=False,
        )
        with DemoReader(path) as demos:
            learner = BC(config, demos=demos, seed=0)
            learner.step()  # the first pass also allocates
            return rate(lambda: sum(PAIRS for _ in range(2) if learner.step()))


def bc_bare(batch_size: int, width: int) -> float:
    import torch
    from torch import nn

    layers = [nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)]
    network = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)
    obs, actions = torch.randn(PAIRS, 4), torch.randint(2, (PAIRS,))

    def epoch() -> int:
        for rows in torch.randperm(PAIRS).split(batch_size):
            loss = nn.functional.cross_entropy(network(obs[rows]), actions[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return PAIRS

    epoch()
    return rate(lambda: epoch() + epoch())


def both(ours: Callable[..., float], theirs: Callable[..., float], **settings: int) -> dict[str, Any]:
    """Rates of ours and of the peer, medians, and the median of their ratios."""
    context = multiprocessing.get_context("spawn")
    pairs = []
    for _ in range(REPETITIONS):
        with context.Pool(1, maxtasksperchild=1) as pool:
            pairs.append([pool.apply(each, kwds=settings) for each in (ours, theirs)])
    own, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(ours.__name__, settings, f"{own:,.0f} {other:,.0f} {ratio:.2f}", flush=True)
    return settings | {"ours": own, "theirs": other, "ratio": ratio}


def reading(steps: int, folder: Path) -> dict[str, Any]:
    """One shuffled pass over so many steps: steps per CPU second, and the peak memory beyond that of an empty pass."""
    path = folder / f"{steps}.h5"
    record(path, STATES, steps // LENGTH)
    found = measured(shuffled, path)
    path.unlink()
    print("reading", steps, found, flush=True)
    return {"steps": steps, "rate": steps / found["cpu"], "peak_mib": found["peak_mib"]}


def main() -> None:
    begun = time.perf_counter()
    rows: dict[str, Any] = {
        "ppo by environments": [
            both(ppo, ppo_sb3, num_envs=n, batch_size=256, width=64) for n in ENVIRONMENTS
        ],
        "ppo by minibatch": [both(ppo, ppo_sb3, num_envs=8, batch_size=n, width=64) for n in BATCHES],
        "ppo by width": [both(ppo, ppo_sb3, num_envs=8, batch_size=256, width=n) for n in WIDTHS],
        "bc by minibatch": [both(bc, bc_bare, batch_size=n, width=64) for n in BATCHES],
        "bc by width": [both(bc, bc_bare, batch_size=256, width=n) for n in WIDTHS],
    }
    with tempfile.TemporaryDirectory() as folder:
        rows["reading by steps"] = [reading(steps, Path(folder)) for steps in STEPS]
    write_json(RECORD, {"machine": machine(), "versions": versions(), "rows": rows})
    print(f"{RECORD}: {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
