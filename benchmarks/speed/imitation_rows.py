"""The rows of peers.py that compare with `imitation`: BC, collection, GAIL and DAgger on eight CartPoles."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from rate import CARTPOLE, NUM_ENVS, learner_rate, rate, sb3_rate

EXPERT_EPISODES = 80


def bc_imitate(data: Path, *, batch_size: int, width: int = 32) -> float:
    from imitate.datasets.storage.reader import DemoReader
    from imitate.imitators.bc import BC, BCConfig

    endless = {"max_updates": 10**9, "max_epochs": 10**9}
    shape = {"batch_size": batch_size, "hidden": (width, width), "activation": "tanh"}
    config = BCConfig(**shape, **endless, holdout=0.0, normalize_obs=False)
    with DemoReader(data / "demos.h5") as demos:
        learner = BC(config, demos=demos, seed=0)

        def epochs(count: int) -> int:
            for _ in range(count):
                learner.step()
            return count * demos.num_steps

        epochs(1)
        return rate(lambda: epochs(5))


def bc_bare(data: Path, *, batch_size: int, width: int = 32) -> float:
    """The upper limit: a plain torch loop over tensors in memory."""
    import numpy as np
    import torch
    from torch import nn

    with np.load(data / "demos.npz") as arrays:
        obs, actions = torch.from_numpy(arrays["obs"]), torch.from_numpy(arrays["acts"])
    layers = [nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)]
    network = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def epochs(count: int) -> int:
        for _ in range(count):
            for rows in torch.randperm(len(obs)).split(batch_size):
                loss = nn.functional.cross_entropy(network(obs[rows]), actions[rows])
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return count * len(obs)

    epochs(1)
    return rate(lambda: epochs(5))


def bc_imitation(data: Path, *, batch_size: int) -> float:
    import numpy as np
    from gymnasium import spaces
    from imitation.algorithms.bc import BC
    from imitation.data.types import Transitions

    with np.load(data / "demos.npz") as arrays:
        demos = Transitions(infos=np.array([{}] * len(arrays["acts"])), **arrays)
    obs_space = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    trainer = BC(  # its default policy has two layers of 32 units, too
        observation_space=obs_space,
        action_space=spaces.Discrete(2),
        rng=np.random.default_rng(0),
        demonstrations=demos,
        batch_size=batch_size,
    )
    trainer.train(n_batches=100, progress_bar=False)

    def epoch() -> int:
        trainer.train(n_epochs=1, progress_bar=False)
        return len(demos)

    return rate(epoch)


def collect_bare(data: Path) -> float:  # noqa: ARG001
    """The upper limit: environments are stepped by given actions, and nothing is kept."""
    import numpy as np

    from imitate.envs.make import make_env
    from imitate.envs.seeds import episode_seeds
    from imitate.envs.vec import SyncVecEnv

    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    envs.reset(episode_seeds(0))
    actions = np.random.default_rng(0).integers(2, size=(20_000, NUM_ENVS))

    def step() -> int:
        for chosen in actions:
            envs.step(chosen)
        return int(actions.size)

    return rate(step)


def collect_imitate(data: Path) -> float:
    """Collect with `imitate`, to a file on disk."""
    from imitate.datasets.collect import collect
    from imitate.datasets.storage.reader import DemoReader
    from imitate.datasets.storage.schema import DemoInfo
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.experts import load_expert

    expert = load_expert(data / "expert.zip", env_id=CARTPOLE)
    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    info = DemoInfo(CARTPOLE, envs.single_observation_space, envs.single_action_space, seed=1)

    def play(episodes: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            collect(expert, envs, Path(folder, "demos.h5"), info, episodes=episodes)
            with DemoReader(Path(folder, "demos.h5")) as demos:
                return demos.num_steps

    play(NUM_ENVS)
    return rate(lambda: play(EXPERT_EPISODES))


def collect_imitation(data: Path) -> float:
    """Collect with `imitation`, to a list in memory."""
    import numpy as np
    import torch
    from imitation.data import rollout
    from imitation.util.util import make_vec_env
    from stable_baselines3 import PPO

    rng = np.random.default_rng(1)
    envs = make_vec_env(CARTPOLE, rng=rng, n_envs=NUM_ENVS)
    expert = PPO("MlpPolicy", envs, device="cpu")
    expert.policy.load_state_dict(torch.load(data / "expert.pt", weights_only=True))

    def play(episodes: int) -> int:
        until = rollout.make_min_episodes(episodes)
        # `unwrap` is for wrapped environments; collection is faster without it and its wrapper.
        options: dict[str, Any] = {"unwrap": False, "verbose": False, "deterministic_policy": True}
        return sum(len(episode) for episode in rollout.rollout(expert, envs, until, rng, **options))

    play(NUM_ENVS)
    return rate(lambda: play(EXPERT_EPISODES))


def gail_imitate(data: Path, *, num_steps: int, num_epochs: int, updates: int, steps: int) -> float:
    from imitate.datasets.storage.reader import DemoReader
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.imitators.gail import GAIL, GAILConfig
    from imitate.rl.ppo import PPOConfig

    plain = {"lr_schedule": "constant", "normalize_obs": False, "normalize_rewards": False}
    ppo = PPOConfig(num_steps=num_steps, num_epochs=num_epochs, batch_size=64, **plain)
    network: dict[str, Any] = {"hidden": (32, 32), "activation": "relu"}
    discriminator: dict[str, Any] = {"reward": "positive", "learning_rate": 1e-3, "input_noise": 0.0}
    config = GAILConfig(
        bc_updates=0, ppo=ppo, updates_per_round=updates, batch_size=1_024, **network, **discriminator
    )
    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    with DemoReader(data / "demos.h5") as demos:
        learner = GAIL(config, envs=envs, demos=demos, seed=0)
        return learner_rate(learner, steps)


def gail_imitation(data: Path, *, num_steps: int, num_epochs: int, updates: int, steps: int) -> float:
    import numpy as np
    from imitation.algorithms.adversarial.gail import GAIL
    from imitation.data.types import Transitions
    from imitation.rewards.reward_nets import BasicRewardNet
    from imitation.util.networks import RunningNorm
    from imitation.util.util import make_vec_env
    from stable_baselines3 import PPO

    with np.load(data / "demos.npz") as arrays:
        demos = Transitions(infos=np.array([{}] * len(arrays["acts"])), **arrays)
    envs = make_vec_env(CARTPOLE, rng=np.random.default_rng(0), n_envs=NUM_ENVS)
    model = PPO("MlpPolicy", envs, n_steps=num_steps, batch_size=64, n_epochs=num_epochs, device="cpu")
    spaces = envs.observation_space, envs.action_space
    options: dict[str, Any] = {"allow_variable_horizon": True, "log_dir": data / "imitation"}
    trainer = GAIL(
        demonstrations=demos,
        demo_batch_size=1_024,
        venv=envs,
        gen_algo=model,
        reward_net=BasicRewardNet(*spaces, normalize_input_layer=RunningNorm),
        n_disc_updates_per_round=updates,
        **options,
    )
    # Whole rounds, both before and during the measurement.
    return sb3_rate(model, trainer.train, steps, before=num_steps * NUM_ENVS)


def dagger_imitate(data: Path, *, steps: int, round_steps: int, round_updates: int) -> float:
    from imitate.datasets.storage.schema import DemoInfo
    from imitate.datasets.storage.writer import DemoWriter
    from imitate.envs.make import make_env
    from imitate.envs.vec import SyncVecEnv
    from imitate.experts import load_expert
    from imitate.imitators.dagger import DAgger, DAggerConfig

    expert = load_expert(data / "expert.zip", env_id=CARTPOLE)
    envs = SyncVecEnv([lambda: make_env(CARTPOLE)] * NUM_ENVS)
    updates = {"updates_per_iteration": round_updates, "final_updates": round_updates, "batch_size": 32}
    config = DAggerConfig(
        total_steps=steps, iterations=steps // round_steps, hidden=(32, 32), activation="tanh", **updates
    )
    info = DemoInfo(CARTPOLE, envs.single_observation_space, envs.single_action_space)

    def learn(steps: int) -> int:
        with (
            tempfile.TemporaryDirectory() as folder,
            DemoWriter(Path(folder, "demos.h5"), info, expert_actions=True) as store,
        ):
            learner = DAgger(config, envs=envs, expert=expert, store=store, seed=0)
            while learner.env_steps < steps:
                learner.step()
            return learner.env_steps

    learn(1)
    return rate(lambda: learn(steps))


def dagger_imitation(data: Path, *, steps: int, round_steps: int, round_updates: int) -> float:
    import numpy as np
    import torch
    from imitation.algorithms.bc import BC
    from imitation.algorithms.dagger import SimpleDAggerTrainer
    from imitation.util.util import make_vec_env
    from stable_baselines3 import PPO

    rng = np.random.default_rng(0)
    envs = make_vec_env(CARTPOLE, rng=rng, n_envs=NUM_ENVS)
    expert = PPO("MlpPolicy", envs, device="cpu")
    expert.policy.load_state_dict(torch.load(data / "expert.pt", weights_only=True))

    def learn(steps: int) -> int:
        with tempfile.TemporaryDirectory() as folder:
            spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space}
            bc = BC(**spaces, rng=rng, batch_size=32)  # its default policy has two layers of 32 units, too
            names = {"scratch_dir": folder, "expert_policy": expert, "bc_trainer": bc}
            trainer = SimpleDAggerTrainer(venv=envs, rng=rng, **names)
            trainer.train(
                steps,
                rollout_round_min_episodes=1,
                rollout_round_min_timesteps=round_steps,
                bc_train_kwargs={"n_batches": round_updates, "n_epochs": None, "progress_bar": False},
            )
            taken = int(sum(len(episode) for episode in trainer._all_demos))
            assert trainer.round_num == taken // round_steps, "as many updates a step as ours"
            return taken

    learn(1)
    return rate(lambda: learn(steps))
