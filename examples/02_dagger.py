"""DAgger with your own expert, which is any object with `act(obs)`. Takes seconds.

python examples/02_dagger.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from imitate.datasets import Array, DemoInfo, DemoWriter, SyncVecEnv, make_env
from imitate.datasets.evaluation import evaluate
from imitate.imitators.dagger import DAgger, DAggerConfig

ENV = "CartPole-v1"


class PushTowardsTheFall:
    """Push the cart in the direction in which the pole falls. obs: x, x', angle, angle'."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return (obs @ np.float32([0.05, 0.1, 1.0, 0.5]) > 0).astype(np.int64)


def main() -> float:
    expert = PushTowardsTheFall()
    envs = SyncVecEnv([lambda: make_env(ENV)] * 8)
    info = DemoInfo(ENV, envs.single_observation_space, envs.single_action_space)
    folder = Path(tempfile.mkdtemp(prefix="imitate-"))

    # The aggregated data are on disk: every visited state with the action of the expert there.
    with DemoWriter(folder / "aggregated.h5", info, expert_actions=True) as store:
        config = DAggerConfig(total_steps=4_000, iterations=10, alpha_rate=0.5, final_updates=1_500)
        learner = DAgger(config, envs=envs, expert=expert, store=store, seed=0)
        while not learner.done:
            metrics = learner.step()
            print(
                f"{learner.env_steps:5d} steps, {learner.expert_queries:5d} queries: expert acts "
                f"{metrics['alpha']:.0%}, learner agrees {metrics['agreement']:.0%}"
            )

    result = evaluate(learner.policy, ENV, episodes=20)
    print(
        f"learner {result.mean:.1f}, expert {evaluate(expert, ENV, episodes=20).mean:.1f}; data in {folder}"
    )
    return result.mean


if __name__ == "__main__":
    main()
