"""A policy outside this toolkit: a loop at 100 Hz, callbacks as in ROS, and Stable-Baselines3. Takes seconds.

python examples/07_use_a_policy.py [RUN or hub:ORG/REPO, of CartPole-v1]
"""

import sys
import tempfile
import time
import timeit
from pathlib import Path

import gymnasium as gym
import numpy as np
from stable_baselines3.common.evaluation import evaluate_policy

from imitate import Experiment, NumpyPolicy, execute, load_policy

ENV = "CartPole-v1"


def learned() -> Path:
    run = Path(tempfile.mkdtemp(prefix="imitate-")) / "run"
    execute(Experiment.create("dagger", ENV, expert=f"{ENV}:ppo", budget=3_000), run)
    return run


class Controller:
    """Callbacks of a ROS node, in plain Python: one gets the sensors' messages, the other runs at 100 Hz."""

    def __init__(self, policy: NumpyPolicy) -> None:
        self.policy, self.newest = policy, np.zeros(policy.observation_space.shape, np.float32)

    def on_sensors(self, message: list[float]) -> None:
        self.newest = np.float32(message)

    def on_timer(self) -> int:
        return int(self.policy.act(self.newest))  # here a node would publish it


def main() -> None:
    policy = load_policy(sys.argv[1] if sys.argv[1:] else learned())
    quick = NumpyPolicy(policy)  # the same actions without torch, up to rounding
    env, controller, late = gym.make(ENV), Controller(quick), 0
    obs, _ = env.reset(seed=0)
    for act in (policy.act, quick.act):
        each = min(timeit.repeat(lambda act=act, obs=obs: act(obs), number=500, repeat=9)) / 500
        print(f"{type(act.__self__).__name__:11} {1e6 * each:6.1f} microseconds a call")
    tick = time.perf_counter()
    for _ in range(200):  # two seconds; a real robot has its own clock
        controller.on_sensors(obs.tolist())
        obs, *_ = env.step(controller.on_timer())
        tick += 0.01
        late += time.perf_counter() > tick
        time.sleep(max(tick - time.perf_counter(), 0))
    mean, std = evaluate_policy(policy, gym.make(ENV), n_eval_episodes=10, warn=False)
    print(f"{late} of 200 steps were late; Stable-Baselines3 measures {mean:.1f} +- {std:.1f}")


if __name__ == "__main__":
    main()
