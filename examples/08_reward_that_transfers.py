"""Learn a reward from demonstrations, then learn from it where actions have another effect. AIRL's reward of states still
works there; GAIL's, which knows the expert's actions, leads the wrong way. It takes about a minute."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from imitate import DemoInfo, Experiment, collect, evaluate, execute, load_policy
from imitate.envs import make_vec


class Corridor(gym.Env[Any, Any]):
    """A point between -1 and 1 goes left, stays or goes right; a step pays minus its distance from 0.5."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, mirrored: bool = False) -> None:
        self.pace = np.float32(-0.1 if mirrored else 0.1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.place, {}

    def step(self, action: Any) -> Any:
        self.place = (self.place + self.pace * (action - 1)).clip(-1, 1)
        return self.place, -abs(float(self.place[0]) - 0.5), False, False, {}


class Expert:
    """Goes to 0.5 and stays there."""

    def act(self, obs: np.ndarray, *, deterministic: bool = True) -> np.ndarray:
        return 1 + np.sign(np.round(5 * (0.5 - obs[:, 0]))).astype(np.int64)


gym.register("Corridor-v0", Corridor, max_episode_steps=30)
folder, learning = Path(tempfile.mkdtemp()), {"num_steps": 64, "learning_rate": 1e-3}
with closing(make_vec("Corridor-v0", 8)) as envs:
    info = DemoInfo("Corridor-v0", envs.single_observation_space, envs.single_action_space, seed=0)
    collect(Expert(), envs, folder / "demos.h5", info, episodes=20).close()
for form in ("logit", "airl"):
    settings = {"reward": form, "bc_updates": 0, "ppo": learning | {"ent_coef": 0.1}}
    gail = Experiment.create(
        "gail", "Corridor-v0", demos=folder / "demos.h5", budget=40_000, hyperparameters=settings
    )
    execute(gail, folder / form)
    changed = {"env_kwargs": {"mirrored": True}, "reward": folder / form}
    execute(
        Experiment.create("ppo", "Corridor-v0", budget=20_000, hyperparameters=learning, **changed),
        folder / f"{form}-ppo",
    )
    here = evaluate(load_policy(folder / form), "Corridor-v0").mean
    there = evaluate(load_policy(folder / f"{form}-ppo"), "Corridor-v0", env_kwargs={"mirrored": True}).mean
    print(f"{form}: {here:.1f} where it was learned, {there:.1f} learned anew with left and right exchanged")
