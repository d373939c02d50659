"""Learn a reward from demonstrations, and learn from it where actions have another effect. Takes a minute.

AIRL's reward is one of states, and still leads to the goal there. GAIL's knows the expert's actions, and leads away.
"""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from imitate import DemoInfo, Experiment, collect, evaluate, execute, load_policy
from imitate.envs import make_vec

ENV = "Corridor-v0"


class Corridor(gym.Env[Any, Any]):
    """A point between -1 and 1 goes left, stays or goes right; a step pays minus its distance from 0.5."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,), np.float32), gym.spaces.Discrete(3)

    def __init__(self, mirrored: bool = False) -> None:
        self.pace = np.float32(-0.1 if mirrored else 0.1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.place, {}

    def step(self, action: Any) -> Any:
        self.place = (self.place + self.pace * (action - 1)).clip(-1, 1)
        return self.place, -abs(float(self.place[0]) - 0.5), False, False, {}


class Expert:
    """Goes to 0.5 and stays there."""

    def act(self, obs: np.ndarray, *, deterministic: bool = True) -> np.ndarray:  # noqa: ARG002
        return 1 + np.sign(np.round(8 * (0.5 - obs[:, 0]))).astype(np.int64)


gym.register(ENV, Corridor, max_episode_steps=20)
folder, ppo = Path(tempfile.mkdtemp()), {"num_steps": 32, "num_epochs": 4, "learning_rate": 2e-3}
with closing(make_vec(ENV, 8)) as envs:
    info = DemoInfo(ENV, envs.single_observation_space, envs.single_action_space, seed=0)
    collect(Expert(), envs, folder / "demos.h5", info, episodes=20).close()
for form in ("logit", "airl"):
    few = {"bc_updates": 0, "updates_per_round": 4, "batch_size": 128, "learning_rate": 3e-3}
    gail = {"reward": form, "ppo": ppo | {"value_warmup": 0, "log_std_init": 0.0, "ent_coef": 0.05}}
    run = Experiment.create("gail", ENV, demos=folder / "demos.h5", budget=16_000, hyperparameters=few | gail)
    execute(run, folder / form)
    there = {"env_kwargs": {"mirrored": True}}
    run = Experiment.create("ppo", ENV, budget=10_000, hyperparameters=ppo, reward=folder / form, **there)
    execute(run, folder / f"{form}-mirrored")
    here = evaluate(load_policy(folder / form), ENV).mean
    moved = evaluate(load_policy(folder / f"{form}-mirrored"), ENV, **there).mean
    print(f"{form}: {here:.1f} where it was learned, {moved:.1f} with left and right exchanged", flush=True)
