"""Common mistakes of hand-written PPOs, put between `collect` and `update`, or into the loss. Takes half a minute.
A return of 500 can hide a critic that learned nothing, hence the explained variance. Arguments: environment and seed.
"""

import sys
from dataclasses import replace
from typing import Any

import numpy as np

from imitate import PPO, PPOConfig, evaluate
from imitate.datasets import SyncVecEnv, make_env
from imitate.rl import ppo
from imitate.rl.rollout import Rollout

ENV, SEED = [*sys.argv[1:], *["CartPole-v1", "0"][len(sys.argv) - 1 :]]
CONFIG = PPOConfig(total_steps=25_000, num_steps=128, gamma=0.98, gae_lambda=0.8, learning_rate=1e-3)
right_loss = ppo.ppo_loss


def done_is_lost(_learner: PPO, rollout: Rollout) -> Rollout:
    """`done` is set back before it is stored: returns flow from one episode into the one before."""
    never, no_ends = np.zeros_like(rollout.done), {"ends": rollout.ends[:0], "end_obs": rollout.end_obs[:0]}
    return replace(rollout, terminated=never, truncated=never, **no_ends)


def time_out_is_a_fall(_learner: PPO, rollout: Rollout) -> Rollout:
    """A truncated episode counts as terminated, as if its last state were worth nothing."""
    return replace(rollout, terminated=rollout.done, truncated=np.zeros_like(rollout.done))


def reset_each_time(learner: PPO, rollout: Rollout) -> Rollout:
    """Environments are reset for each rollout, so states late in an episode are hardly seen."""
    return learner.restart() or rollout


def clipped_at_the_return(policy: Any, value_net: Any, batch: Any, config: Any, clip_coef: float) -> Any:
    """The value is clipped around the return, not the old value: no gradient wherever it is wrong."""
    loss, parts = right_loss(policy, value_net, batch, replace(config, vf_coef=0.0), clip_coef)
    error = (value_net(batch["obs"]).flatten() - batch["returns"]).clamp(-clip_coef, clip_coef)
    return loss + config.vf_coef * error.square().mean(), parts


def run(name: str, mistake: Any = lambda _, rollout: rollout, config: PPOConfig = CONFIG) -> None:
    learner = PPO(config, envs=SyncVecEnv([lambda: make_env(ENV)] * 8), seed=int(SEED))
    learner.stacks, explained = None, []  # gradients by autograd: the loss may be another
    while not learner.done:
        rollout = mistake(learner, learner.collect(config.total_steps - learner.env_steps))
        explained += [learner.update(rollout, learner.env_steps / config.total_steps)["explained_variance"]]
    result = evaluate(learner.policy, ENV).mean
    print(f"{name:22} returns {result:5.1f}, median explained variance {np.median(explained):5.2f}")


if __name__ == "__main__":
    run("right")
    for mistake in (done_is_lost, time_out_is_a_fall, reset_each_time):
        run(mistake.__name__, mistake)
    run("one_full_batch", config=replace(CONFIG, batch_size=1024))
    ppo.ppo_loss = clipped_at_the_return
    run("clipped_at_the_return")
