"""Record an expert's demonstrations, clone them, and measure the clone. Takes seconds.

python examples/01_record_and_clone.py [ENV] [EXPERT]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from imitate.datasets import DemoInfo, DemoReader, SyncVecEnv, collect, make_env
from imitate.datasets.evaluation import evaluate
from imitate.experts import load_expert
from imitate.imitators.bc import BC, BCConfig
from imitate.nn.stored_policy import save_policy


def main(env_id: str = "CartPole-v1", spec: str = "CartPole-v1:ppo") -> float:
    folder = Path(tempfile.mkdtemp(prefix="imitate-"))

    # Load the expert and measure it over 20 episodes; the result is remembered.
    expert = load_expert(spec)
    measured = expert.measure()
    print(expert.describe())

    # Record ten episodes to HDF5. Each has its own seed, so it starts the same whatever else is recorded.
    envs = SyncVecEnv([lambda: make_env(env_id)] * 8)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space, expert=spec, seed=0)
    collect(expert, envs, folder / "demos.h5", info, episodes=10)

    # One step of the learner is one pass over the demonstrations. One of the ten episodes is held out.
    with DemoReader(folder / "demos.h5") as demos:
        learner = BC(BCConfig(max_updates=2_000, holdout=0.1), demos=demos, seed=0)
        while not learner.done:
            metrics = learner.step()
    print(f"{learner.epoch} epochs, held-out loss {metrics['heldout_loss']:.4f}")

    save_policy(folder / "policy", learner.policy)
    result = evaluate(learner.policy, env_id, episodes=20)
    print(
        f"clone {result.mean:.1f}, expert {measured.mean:.1f}, random {measured.random_mean:.1f}; files in {folder}"
    )
    return result.mean


if __name__ == "__main__":
    main(*sys.argv[1:])
