"""DAgger turns a hand-written controller of a robot task into a network and films it. Takes seconds.

python examples/04_balancing_plate.py [FILM.mp4]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from imitate.datasets import Array, DemoInfo, DemoWriter, SyncVecEnv, make_env
from imitate.datasets.evaluation import evaluate
from imitate.imitators.dagger import DAgger, DAggerConfig
from imitate.media.video import record_video

ENV = "imitate/BalancingPlate-v0"  # physics by PyBullet


class LinearFeedback:
    """Tilt the plate against the ball's position, its velocity and the present tilt, by the sign of a weighted sum for
    each axis. obs: position x, y, z of the ball, its velocity, the angles about x and y."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        x, y, _, vx, vy, _, about_x, about_y = obs.T
        turn_x = 4 * y + 2 * vy - about_x > 0
        turn_y = 4 * x + 2 * vx + about_y < 0
        return 2 * turn_x.astype(np.int64) + turn_y


def main() -> float:
    expert = LinearFeedback()
    envs = SyncVecEnv([lambda: make_env(ENV)] * 8)
    info = DemoInfo(ENV, envs.single_observation_space, envs.single_action_space)
    path = Path(tempfile.mkdtemp(prefix="imitate-")) / "aggregated.h5"

    with DemoWriter(path, info, expert_actions=True) as store:
        config = DAggerConfig(total_steps=10_000, iterations=10, final_updates=2_000)
        learner = DAgger(config, envs=envs, expert=expert, store=store, seed=0)
        while not learner.done:
            metrics = learner.step()
            print(f"{learner.env_steps:6d} steps, the learner agrees to {metrics['agreement']:.0%}")

    result = evaluate(learner.policy, ENV, episodes=5)
    print(f"learner {result.mean:.1f}, expert {evaluate(expert, ENV, episodes=5).mean:.1f} of 2000 steps")
    if sys.argv[1:]:
        record_video(learner.policy, ENV, sys.argv[1], max_seconds=5)
    return result.mean


if __name__ == "__main__":
    main()
