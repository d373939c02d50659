"""The README's results table, from the records in benchmarks/results/.

    python benchmarks/readme.py

A test holds the README to it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parent.parent / "README.md"
HEAD = "| learner | return (seeds) | expert | range | steps | ROW |\n|---|---|---|---|---|---|\n"

SECTIONS = {
    "CartPole-v1": {
        "bc-cartpole-1-episode": "BC, 1 episode",
        "dagger-cartpole": "DAgger",
        "gail-cartpole-1-episode": "GAIL, 1 episode",
        "gail-cartpole-30-pairs": "GAIL, 30 pairs of one episode",
        "aggrevated-cartpole-dqn": "AggreVaTeD, from `zoo:dqn`",
        "aggrevated-cartpole-ppo": "AggreVaTeD, from `zoo:ppo`, fitted Q",
        "ppo-cartpole": "PPO",
        "a2c-cartpole": "A2C",
        "reinforce-cartpole": "REINFORCE",
        "dqn-cartpole": "DQN",
        "dqn-cartpole-10000-steps": "DQN, at most 10,000 steps an episode",
        "dqn-pixel-cartpole": "DQN, `imitate/PixelCartPole-v0`",
    },
    "Acrobot-v1": {
        "aggrevated-acrobot-dqn": "AggreVaTeD, from `zoo:dqn`",
        "aggrevated-acrobot-ppo": "AggreVaTeD, from `zoo:ppo`, fitted Q",
        "ppo-acrobot": "PPO, EnvPool",
    },
    "Pendulum-v1": {
        "bc-pendulum-50-episodes": "BC, 50 episodes",
        "dagger-pendulum": "DAgger",
        "aggrevated-pendulum-sac": "AggreVaTeD, from `zoo:sac`",
        "beta-0-pendulum-sac": "the same, beta = 0",
        "dagger-pendulum-sac": "DAgger, from `zoo:sac`",
        "ppo-pendulum": "PPO",
        "rpo-pendulum": "RPO",
    },
    "MountainCarContinuous-v0": {
        "aggrevated-mountaincarcontinuous-sac": "AggreVaTeD, from `zoo:sac`",
        "beta-0-mountaincarcontinuous-sac": "the same, beta = 0",
    },
    "LunarLander-v3": {
        "bc-lunarlander-ppo-50-episodes": "BC, 50 episodes of `:ppo`",
        "dagger-lunarlander-ppo": "DAgger, from `:ppo`",
        "bc-lunarlander-dqn-50-episodes": "BC, 50 episodes of the DQN",
        "dagger-lunarlander-dqn": "DAgger, from the DQN",
        "gail-lunarlander-20-episodes": "GAIL, 20 episodes of `zoo:ppo`",
        "aggrevated-lunarlander-dqn": "AggreVaTeD, from `zoo:dqn`",
        "aggrevated-lunarlander-ppo": "AggreVaTeD, from `zoo:ppo`, fitted Q",
        "ppo-lunarlander": "PPO, EnvPool",
        "dqn-lunarlander": "DQN",
    },
    "LunarLanderContinuous-v3": {
        "aggrevated-lunarlandercontinuous-ddpg": "AggreVaTeD, from `zoo:ddpg`",
        "beta-0-lunarlandercontinuous-ddpg": "the same, beta = 0",
        "dagger-lunarlandercontinuous-ddpg": "DAgger, from `zoo:ddpg`",
    },
    "BipedalWalker-v3": {
        "dagger-bipedalwalker": "DAgger",
        "bc-bipedalwalker-20-episodes": "BC, 20 episodes",
        "gail-bipedalwalker-10-episodes": "GAIL, 10 episodes of `zoo:a2c`",
        "aggrevated-bipedalwalker-ppo": "AggreVaTeD, from `zoo:ppo`, fitted Q",
        "dagger-bipedalwalker-ppo": "DAgger, from `zoo:ppo`",
        "aggrevated-bipedalwalker-a2c": "AggreVaTeD, from `zoo:a2c`, fitted Q",
        "aggrevated-bipedalwalker-tqc": "AggreVaTeD, from the TQC expert",
        "beta-0-bipedalwalker-tqc": "the same, beta = 0",
        "ppo-bipedalwalker": "PPO, EnvPool",
        "rpo-bipedalwalker": "RPO, EnvPool",
        "reinforce-bipedalwalker": "REINFORCE, EnvPool",
    },
    "BipedalWalkerHardcore-v3": {
        "aggrevated-bipedalwalkerhardcore-ppo": "AggreVaTeD, from `zoo:ppo`, fitted Q"
    },
    "Atari": {"ppo-pong": "PPO, Pong", "dqn-breakout": "DQN, Breakout, stopped at a tenth of 10 M steps"},
    "PyBullet": {
        "bullet-cartpole-reinforce": "REINFORCE, `imitate/BulletCartPole-v0`",
        "balancing-plate-dqn": "DQN, `imitate/BalancingPlate-v0`",
    },
}


def table() -> str:
    """Markdown; rows that have no record are left out."""
    lines = []
    for section, labels in SECTIONS.items():
        rows = [_row(name, label) for name, label in labels.items() if (RESULTS / f"{name}.json").exists()]
        lines += [f"| **{section}** | | | | | |", *rows] if rows else []
    return HEAD + "\n".join(lines) + "\n"


def _row(name: str, label: str) -> str:
    record = json.loads((RESULTS / f"{name}.json").read_text())
    each = ", ".join(f"{seed['mean']:.1f}" for seed in record["seeds"])
    expert = "" if record["expert_mean"] is None else f"{record['expert_mean']:.1f}"
    share = f"{record['share_of_range']:.1%}" if "share_of_range" in record else ""
    # Demonstrations and validation count, and of the seeds the dearest.
    counted = ("env_steps", "demo_steps", "validation_steps")
    steps = max(sum(seed.get(kind, 0) for kind in counted) for seed in record["seeds"])
    return f"| {label} | **{record['mean']:.1f}** ({each}) | {expert} | {share} | {steps:,} | `{name}` |"


if __name__ == "__main__":
    readme = README.read_text()
    README.write_text(re.sub(re.escape(HEAD) + r"(\|.*\n)*", lambda _: table(), readme))
