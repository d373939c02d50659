"""Measure settings of BC on six tasks, from few demonstrations of each.

    IMITATE_ZOO_DIR=... python benchmarks/bc_grid.py [--settings NAME ...] [--tasks NAME ...] [--seeds 10 11]

The demonstrations of a task and seed are recorded once, for all settings. Returns are of 50 deterministic episodes, the
same for all; `fresh_error` is the mean squared error on the expert's actions in up to 10 other episodes. Writes
results/bc-grid.json after each run, and does not repeat what is there. Each run names its own machine.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
import tyro
from torch import Tensor

from imitate import BC, BCConfig, DemoReader, evaluate
from imitate.files import machine, versions, write_json
from imitate.imitators.cloning import bc_loss, imitation_loss
from imitate.nn.distributions import Distribution
from imitate.nn.networks import MLP
from imitate.nn.policy import ActorPolicy

RECORD = Path(__file__).parent / "results" / "bc-grid.json"
EPISODES, OTHER_SEED = 50, 999
TASKS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "CartPole": ("CartPole-v1:ppo", "CartPole-v1", 1, {"demo_pairs": 30, "max_updates": 2_000}),
    "LunarLander": ("LunarLander-v3", "LunarLander-v3", 50, {}),
    "Pendulum": ("Pendulum-v1", "Pendulum-v1", 50, {}),
    "BipedalWalker": ("BipedalWalker-v3", "BipedalWalker-v3", 20, {}),
    "HalfCheetah": ("zoo:sac/HalfCheetah-v3", "HalfCheetah-v5", 10, {}),
    "Walker2d": ("zoo:tqc/Walker2d-v3", "Walker2d-v5", 10, {}),
}
"""Expert, environment, recorded episodes, and the task's own fields of BC."""
DISCRETE = ("CartPole", "LunarLander")


def absolute(policy: ActorPolicy, distribution: Distribution, actions: Tensor) -> Tensor:
    """Mean absolute error (B,) of the mode, in place of the squared one."""
    return (policy.to_unit(policy.to_env(distribution.mode())) - actions).abs().mean(-1)


LOSSES = {None: imitation_loss, "absolute": absolute, "unsquashed": bc_loss}


@dataclass(frozen=True)
class Setting:
    """Fields that differ from `BASE`, and what BC has no field for.

    loss      of LOSSES; by default the squared error of the actions, or the cross-entropy
    noise     standard deviation of noise on the standardised inputs
    dropout   share of the hidden units
    members   networks whose actions are averaged; each has its own seed and minibatches (BC's field: the same ones)

    Losses of their own and averages are for continuous actions.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    loss: str | None = None
    noise: float = 0.0
    dropout: float = 0.0
    members: int = 1

    @property
    def continuous(self) -> bool:
        """True if it has no meaning for discrete actions."""
        return self.loss == "absolute" or self.members > 1


BASE = {
    "batch_size": 256,
    "max_updates": 20_000,
    "learning_rate": 1e-3,
    "weight_decay": 0.1,
    "ema": 0.995,
    "members": 1,
}
"""BC's defaults before it had several networks; `5 in one network` with batch 64 has today's."""
SMALL = {"batch_size": 64}
FAST = SMALL | {"learning_rate": 3e-3}
SETTINGS = {
    "batch 256": Setting(),
    "decay 0": Setting({"weight_decay": 0.0}),
    "decay 1": Setting({"weight_decay": 1.0}),
    "whitened": Setting({"whiten": True}),
    "noise 0.03": Setting(noise=0.03),
    "3 in one network": Setting({"members": 3}),
    "tanh": Setting({"activation": "tanh"}),
    "tanh, rate 3e-3": Setting({"activation": "tanh", "learning_rate": 3e-3}),
    "512 512": Setting({"hidden": (512, 512)}),
    "64 64": Setting({"hidden": (64, 64)}),
    "512 512, batch 64": Setting(SMALL | {"hidden": (512, 512)}),
    "1024 1024, batch 64": Setting(SMALL | {"hidden": (1024, 1024)}),
    "batch 64": Setting(SMALL),
    "batch 64, dropout 0.1": Setting(SMALL, dropout=0.1),
    "batch 64, absolute error": Setting(SMALL, loss="absolute"),
    "batch 64, unsquashed": Setting(SMALL, loss="unsquashed"),
    "batch 64, unsquashed, 60,000 updates": Setting(SMALL | {"max_updates": 60_000}, loss="unsquashed"),
    "batch 64, 3 members": Setting(SMALL, members=3),
    "batch 64, 5 members": Setting(SMALL, members=5),
    "batch 64, absolute error, 5 members": Setting(SMALL, loss="absolute", members=5),
    "batch 64, noise 0.03, 5 members": Setting(SMALL, noise=0.03, members=5),
    "batch 64, rate 3e-3": Setting(FAST),
    "batch 64, rate 3e-3, decay 0.3": Setting(FAST | {"weight_decay": 0.3}),
    "batch 64, rate 3e-3, unsquashed": Setting(FAST, loss="unsquashed"),
    "batch 64, rate 3e-3, unsquashed, 3 members": Setting(FAST, loss="unsquashed", members=3),
    "batch 64, rate 3e-3, unsquashed, 3 in one network": Setting(FAST | {"members": 3}, loss="unsquashed"),
    "batch 64, rate 3e-3, unsquashed, 5 in one network": Setting(FAST | {"members": 5}, loss="unsquashed"),
    "batch 64, rate 3e-3, unsquashed, 10 in one network": Setting(FAST | {"members": 10}, loss="unsquashed"),
    "batch 64, 5 in one network": Setting(SMALL | {"members": 5}),
    "rate 3e-3, unsquashed, 3 in one network": Setting(
        {"members": 3, "learning_rate": 3e-3}, loss="unsquashed"
    ),
    "256 256 relu, 3 in one network": Setting({"members": 3, "hidden": (256, 256), "activation": "relu"}),
    "256 256 relu": Setting({"hidden": (256, 256), "activation": "relu"}),
}


class Mean:
    """The mean action of several policies."""

    def __init__(self, policies: Sequence[ActorPolicy]) -> None:
        self.policies = policies

    def act(self, obs: Any, *, deterministic: bool = True) -> Any:
        return np.mean([policy.act(obs, deterministic=deterministic) for policy in self.policies], 0)

    def seed(self, seed: int) -> None:
        pass


def perturb(learner: BC, setting: Setting) -> None:
    """Let the networks that take gradient steps see noise, or drop units; their averages do not."""
    if setting.noise or setting.dropout:
        for member in learner.members:
            net = member.actor.encoder.net
            net.forward = partial(perturbed, net, setting)
            member.cloning.stack = None  # gradients by autograd, through this pass


def perturbed(net: MLP, setting: Setting, x: Tensor) -> Tensor:
    """The forward pass of a network with noise on its inputs, or dropped units."""
    x = x + setting.noise * torch.randn_like(x) if setting.noise else x
    for layer in net.linear:
        x = net.function(F.linear(x, layer.weight, layer.bias))
        x = F.dropout(x, setting.dropout) if setting.dropout else x
    return x


def train(task: str, setting: Setting, seed: int, demos: Path) -> tuple[list[BC], dict[str, float]]:
    """The members, and the metrics of the last one's last epoch."""
    learners = []
    torch.manual_seed(seed)  # of noise and dropout
    with DemoReader(demos) as reader:
        for member in range(setting.members):
            config = BCConfig(**BASE | setting.fields | TASKS[task][3])
            learners.append(BC(config, demos=reader, seed=seed + 1_000 * member, loss=LOSSES[setting.loss]))
            perturb(learners[-1], setting)
            while not learners[-1].done:
                metrics = learners[-1].step()
    return learners, metrics


def measure(task: str, name: str, seed: int, demos: Path, others: Path) -> dict[str, Any]:
    """Train with a setting and test the result."""
    begin = time.process_time()
    learners, metrics = train(task, SETTINGS[name], seed, demos)
    seconds = time.process_time() - begin
    policy = learners[0].policy if len(learners) == 1 else Mean([learner.policy for learner in learners])
    found = evaluate(policy, TASKS[task][1], episodes=EPISODES)
    with DemoReader(others) as reader:
        steps = reader.transitions(range(min(10, len(reader))))
    error = policy.act(steps.obs.numpy(), deterministic=True) - steps.labels.numpy()
    print(f"{task}, {name}, seed {seed}: {found.mean:.1f} ({seconds:.0f} s)", flush=True)
    return {
        "mean": found.mean,
        "iqm": found.iqm,
        "returns": found.returns.round(1).tolist(),
        "loss": metrics["loss"],
        "fresh_error": float(np.square(error).mean()),
        "updates": learners[0].updates,
        "cpu_seconds": round(seconds, 1),
    }


def recorded(task: str, seed: int, folder: Path) -> Path:
    """A file of the task's demonstrations, which is recorded unless it is there."""
    expert, _, episodes, _ = TASKS[task]
    out = folder / f"{task}-{seed}.h5"
    if not out.exists():
        command = f"collect {expert} --episodes {episodes} --seed {seed} --out {out}"
        subprocess.run(
            [sys.executable, "-m", "imitate.cli", *command.split()], check=True, capture_output=True
        )
    return out


def main(
    settings: tuple[str, ...] = tuple(SETTINGS),
    tasks: tuple[str, ...] = tuple(TASKS),
    seeds: tuple[int, ...] = (10, 11),
) -> None:
    """Measure what the record lacks."""
    torch.set_num_threads(1)
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {"results": {}}
    described = {name: asdict(setting) for name, setting in SETTINGS.items()}
    record |= {"base": BASE, "settings": described}
    with tempfile.TemporaryDirectory() as folder:
        for task, seed, name in itertools.product(tasks, seeds, settings):
            results = record["results"].setdefault(task, {}).setdefault(name, {})
            if str(seed) not in results and not (SETTINGS[name].continuous and task in DISCRETE):
                files = [recorded(task, each, Path(folder)) for each in (seed, OTHER_SEED)]
                about = {"machine": machine(), "versions": versions()}
                results[str(seed)] = measure(task, name, seed, *files) | about
                write_json(RECORD, record)


if __name__ == "__main__":
    tyro.cli(main)
