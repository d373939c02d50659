"""Our speed as a ratio to `imitation` and Stable-Baselines3, measured side by side. See benchmarks/SPEED.md.

Each measurement runs in its own process on one thread, and counts CPU time without imports and set-up. This file also
runs under the peers' Python, so functions import what they measure.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dqn import PIXELS, VECTORS, dqn_bare, dqn_bfloat16_imitate, dqn_imitate, dqn_sb3
from imitation_rows import (
    bc_bare,
    bc_imitate,
    bc_imitation,
    collect_bare,
    collect_imitate,
    collect_imitation,
    dagger_imitate,
    dagger_imitation,
    gail_imitate,
    gail_imitation,
)
from off_policy import SETTINGS, sac_imitate, sac_sb3, sac_sbx, sac_tianshou, tqc_imitate, tqc_sb3
from rate import CARTPOLE, NUM_ENVS, learner_rate, rate, sb3_rate

RESULTS = Path(__file__).parent.parent / "results" / "speed.json"
PYTHONS = {
    "imitation": "IMITATE_PEER_PYTHON",
    "sbx": "IMITATE_SBX_PYTHON",
    "tianshou": "IMITATE_TIANSHOU_PYTHON",
}
"""Peers that need their own Python, and the variables that name it."""
Measurement = Callable[..., float]  # (folder of the data, settings of a row) -> rate
LIBRARIES = (
    *("imitate-rl", "imitation", "stable-baselines3", "sbx-rl", "jax", "tianshou", "torch", "numpy"),
    "gymnasium",
)


def ppo_imitate(
    data: Path,  # noqa: ARG001
    *,
    num_steps: int,
    batch_size: int,
    num_epochs: int,
    steps: int,
    num_envs: int = NUM_ENVS,
    width: int = 64,
) -> float:
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.rl.ppo import PPO, PPOConfig

    config = PPOConfig(
        num_steps=num_steps,
        batch_size=batch_size,
        num_epochs=num_epochs,
        hidden=(width, width),
        lr_schedule="constant",
        normalize_obs=False,
        normalize_rewards=False,
    )
    learner = PPO(config, envs=SyncVecEnv([lambda: make_env(CARTPOLE)] * num_envs), seed=0)
    return learner_rate(learner, steps)


def ppo_sb3(
    data: Path,  # noqa: ARG001
    *,
    num_steps: int,
    batch_size: int,
    num_epochs: int,
    steps: int,
    num_envs: int = NUM_ENVS,
    width: int = 64,
) -> float:
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(CARTPOLE, num_envs, seed=0)
    settings: dict[str, Any] = {"n_steps": num_steps, "batch_size": batch_size, "n_epochs": num_epochs}
    settings["policy_kwargs"] = {"net_arch": [width, width]}
    model = PPO("MlpPolicy", envs, seed=0, device="cpu", **settings)
    return sb3_rate(model, partial(model.learn, reset_num_timesteps=False), steps)


def ppo_bare(data: Path, *, num_steps: int, batch_size: int, num_epochs: int, steps: int) -> float:  # noqa: ARG001
    """The upper limit: PPO's update in as few torch calls as possible, with environments stepped by random actions.
    Nothing is learned."""
    import numpy as np
    import torch
    from torch import nn

    from imitate.envs.make import make_env
    from imitate.envs.seeds import episode_seeds
    from imitate.envs.vec import SyncVecEnv

    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    envs.reset(episode_seeds(0))
    actor, critic = (
        nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out))
        for out in (2, 1)
    )
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], fused=True)
    size = num_steps * NUM_ENVS
    all_obs, old, advantages, returns = (
        torch.randn(size, 4),
        torch.randn(size),
        torch.randn(size),
        torch.randn(size),
    )
    chosen = torch.randint(2, (size, 1))
    rng = np.random.default_rng(0)

    def learn(steps: int) -> int:
        iterations = steps // size
        for _ in range(iterations):
            for _ in range(num_steps):
                envs.step(rng.integers(2, size=NUM_ENVS))
            for _ in range(num_epochs):
                for index in torch.split(torch.randperm(size), batch_size):
                    obs, advantage = all_obs[index], advantages[index]
                    log_probs = actor(obs).log_softmax(-1).gather(-1, chosen[index]).squeeze(-1)
                    ratio = (log_probs - old[index]).exp()
                    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
                    value_error = (critic(obs).squeeze(-1) - returns[index]).square()
                    (value_error - surrogate).mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        return iterations * size

    learn(size)
    return rate(lambda: learn(steps))


@dataclass(frozen=True)
class Row:
    """A row: the functions that are compared, and their keywords."""

    ours: Measurement
    peer: Measurement
    target: float
    limit: Measurement | None = None
    settings: dict[str, int] | None = None


SHORT = {"num_steps": 32, "batch_size": 256, "num_epochs": 20, "steps": 16_384}
DEFAULTS = {"num_steps": 2048, "batch_size": 64, "num_epochs": 10, "steps": 16_384}
GAIL = {"num_steps": 2048, "num_epochs": 5, "updates": 8, "steps": 32_768}
# imitation plays episodes to their ends, so a round of its 8 environments has at least 4,000 steps.
DAGGER = {"steps": 32_000, "round_steps": 4_000, "round_updates": 500}
ROWS = {
    "BC, batch 32": Row(bc_imitate, bc_imitation, 5.0, bc_bare, settings={"batch_size": 32}),
    "BC, batch 256": Row(bc_imitate, bc_imitation, 5.0, bc_bare, settings={"batch_size": 256}),
    "collection": Row(collect_imitate, collect_imitation, 3.0, collect_bare),
    "PPO, n_steps 32, batch 256, 20 epochs": Row(ppo_imitate, ppo_sb3, 2.5, ppo_bare, SHORT),
    "DQN, train_freq 4, batch 64": Row(dqn_imitate, dqn_sb3, 2.5, dqn_bare, VECTORS),
    "DQN from pixels, train_freq 4, batch 32": Row(dqn_imitate, dqn_sb3, 1.2, dqn_bare, PIXELS),
    "DQN from pixels, bfloat16": Row(dqn_bfloat16_imitate, dqn_sb3, 1.2, settings=PIXELS),
    "GAIL": Row(gail_imitate, gail_imitation, 4.0, settings=GAIL),
    "DAgger": Row(dagger_imitate, dagger_imitation, 5.0, settings=DAGGER),
    "PPO, SB3's defaults": Row(ppo_imitate, ppo_sb3, 1.8, ppo_bare, DEFAULTS),
    "SAC": Row(sac_imitate, sac_sb3, 1.5, settings=SETTINGS),
    "SAC beside sbx": Row(sac_imitate, sac_sbx, 1.0, settings=SETTINGS),
    "SAC beside Tianshou": Row(sac_imitate, sac_tianshou, 1.5, settings=SETTINGS),
    "TQC": Row(tqc_imitate, tqc_sb3, 1.5, settings=SETTINGS),
}
FUNCTIONS = {
    function.__name__: function
    for row in ROWS.values()
    for function in (row.ours, row.peer, row.limit)
    if function is not None
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--rows", nargs="*", default=list(ROWS), metavar="ROW", help="; ".join(ROWS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument(
        "--measure", nargs=3, help=argparse.SUPPRESS
    )  # function, settings, folder of the data
    arguments = parser.parse_args()
    if arguments.measure:
        import torch

        torch.set_num_threads(1)
        function, settings, data = arguments.measure
        if function.endswith("_imitate"):  # as `imitate train` does
            from imitate.training.process import keep_freed_memory

            keep_freed_memory()
        print(
            json.dumps(
                {"rate": FUNCTIONS[function](Path(data), **json.loads(settings)), "versions": versions()}
            )
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        demonstrate(Path(folder))
        compare(arguments.rows, arguments.repetitions, Path(folder), arguments.out)


def demonstrate(data: Path) -> None:
    """Write an SB3 expert (expert.zip, weights in expert.pt) and at least 20,000 of its pairs (demos.h5, demos.npz)."""
    import numpy as np
    import torch
    from stable_baselines3 import PPO

    from imitate.datasets.collect import collect
    from imitate.datasets.storage.reader import DemoReader
    from imitate.datasets.storage.schema import DemoInfo
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.experts import load_expert

    settings: dict[str, Any] = {"n_steps": 256, "batch_size": 256, "learning_rate": 1e-3, "gamma": 0.98}
    model = PPO("MlpPolicy", CARTPOLE, seed=0, device="cpu", **settings).learn(20_000)
    model.save(data / "expert.zip")
    torch.save(model.policy.state_dict(), data / "expert.pt")
    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    info = DemoInfo(CARTPOLE, envs.single_observation_space, envs.single_action_space, seed=0)
    collect(load_expert(data / "expert.zip", env_id=CARTPOLE), envs, data / "demos.h5", info, steps=20_000)
    with DemoReader(data / "demos.h5") as demos:
        steps = demos.transitions()
    np.savez(
        data / "demos.npz",
        obs=steps.obs.numpy(),
        acts=steps.actions.numpy(),
        next_obs=steps.next_obs.numpy(),
        dones=steps.terminated.numpy(),
    )


def compare(names: list[str], repetitions: int, data: Path, out: Path) -> None:
    from imitate.files import machine  # the peers' Python lacks it

    record: dict[str, Any] = {"machine": machine(), "versions": {}, "rows": {}}
    for name in names:
        row = ROWS[name]
        functions = [function.__name__ for function in (row.ours, row.peer, row.limit) if function]
        missing = any(python_for(function) is None for function in functions)
        if missing:
            wanted = PYTHONS[python_name(row.peer.__name__)]
            print(f"{name:40} skipped: {wanted} does not name a Python that has the peer")
            continue
        rates: dict[str, list[float]] = {function: [] for function in functions}
        for _ in range(repetitions):  # in turn, so that all meet the same disturbances
            for function in functions:
                answer = measure(function, row.settings or {}, data)
                rates[function].append(answer["rate"])
                record["versions"][python_name(function)] = answer["versions"]
        ratios = [ours / peer for ours, peer in zip(rates[functions[0]], rates[functions[1]], strict=True)]
        ratio = statistics.median(ratios)
        record["rows"][name] = {"ratio": ratio, "target": row.target, "ratios": ratios, "rates": rates}
        medians = "  ".join(
            f"{function} {statistics.median(values):,.0f}/s" for function, values in rates.items()
        )
        print(f"{name:40} {ratio:5.2f}x (wanted {row.target}x)  {medians}", flush=True)
    out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def measure(function: str, settings: dict[str, int], data: Path) -> dict[str, Any]:
    command = [str(python_for(function)), __file__, "--measure", function, json.dumps(settings), str(data)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def python_name(function: str) -> str:
    peer = function.rpartition("_")[2]
    return peer if peer in PYTHONS else "ours"


def python_for(function: str) -> str | None:
    peer = python_name(function)
    return os.environ.get(PYTHONS[peer]) if peer in PYTHONS else sys.executable


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
