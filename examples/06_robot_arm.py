"""A robot arm learns to reach: its inverse kinematics are recorded, cloned, and asked on the way. Takes a minute.

python examples/06_robot_arm.py [FILM.mp4]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, SyncVecEnv, collect, make_env
from imitate.datasets.play import episodes
from imitate.datasets.trajectory import Policy
from imitate.experts import load_expert
from imitate.imitators.bc import BC, BCConfig
from imitate.imitators.dagger import DAgger, DAggerConfig
from imitate.media.video import record_video

ENV = "imitate/ReachArm-v0"  # physics by PyBullet; its bundled expert has its name
STEPS = 4_000  # of the environment, for each learner


def measure(who: str, policy: Policy, envs: SyncVecEnv) -> float:
    """Print the mean return and how often the hand is within 2 cm of the goal at the end, over 40 episodes."""
    played = list(episodes(policy, envs, range(1_000, 1_040)))  # seeds
    last = np.stack([episode.obs[-1] for episode in played])  # (40, 20), see ReachArm
    reached = (np.linalg.norm(last[:, 14:17] - last[:, 17:20], axis=1) < 0.02).mean()
    mean = float(sum(episode.rewards.sum() for episode in played) / len(played))
    print(f"{who}: return {mean:.2f}, at the goal in {reached:.0%} of the episodes")
    return mean


def main() -> float:
    expert, envs = load_expert(ENV), SyncVecEnv([lambda: make_env(ENV)] * 8)
    info = DemoInfo(ENV, envs.single_observation_space, envs.single_action_space, expert=ENV, seed=0)
    measure("expert", expert, envs)

    folder = Path(tempfile.mkdtemp(prefix="imitate-"))
    collect(expert, envs, folder / "demos.h5", info, episodes=STEPS // 50)
    with DemoReader(folder / "demos.h5") as demos:
        clone = BC(BCConfig(max_updates=2_000), demos=demos, seed=0)
        while not clone.done:
            clone.step()
    measure("BC", clone.policy, envs)

    with DemoWriter(folder / "aggregated.h5", info, expert_actions=True) as store:
        config = DAggerConfig(total_steps=STEPS, iterations=8, updates_per_iteration=100, final_updates=1_200)
        learner = DAgger(config, envs=envs, expert=expert, store=store, seed=0)
        while not learner.done:
            learner.step()
    if sys.argv[1:]:
        record_video(learner.policy, ENV, sys.argv[1], episodes=5)
    return measure("DAgger", learner.policy, envs)


if __name__ == "__main__":
    main()
