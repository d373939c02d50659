"""Train an expert with Stable-Baselines3 (or sb3-contrib) and tuned hyperparameters.

The state of a run is kept as data: `weights_only` tensors and NumPy arrays, never SB3's own pickled archives.
A checkpoint holds parameters, optimisers and the replay buffer; environments start new episodes on resume, so a
resumed run continues the training but does not repeat it byte for byte.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from tqdm import tqdm

from imitate.envs.make import make_env, resolve_env_id
from imitate.envs.seeds import TEST_SEED, Stream, draw_seed
from imitate.errors import InputError, did_you_mean, one_line
from imitate.experts.folder import save_expert
from imitate.files import atomic, sweep

__all__ = ["ALGORITHMS", "preset", "train_expert"]

logger = logging.getLogger(__name__)

ALGORITHMS = {
    "ppo": "stable_baselines3.PPO",
    "a2c": "stable_baselines3.A2C",
    "dqn": "stable_baselines3.DQN",
    "sac": "stable_baselines3.SAC",
    "td3": "stable_baselines3.TD3",
    "ddpg": "stable_baselines3.DDPG",
    "tqc": "sb3_contrib.TQC",
    "qrdqn": "sb3_contrib.QRDQN",
    "trpo": "sb3_contrib.TRPO",
    "ars": "sb3_contrib.ARS",
}
_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "elu": torch.nn.ELU}
NEVER = 10**9


def preset(algorithm: str, env_id: str) -> dict[str, Any]:
    """The tuned hyperparameters of `algorithm` on `env_id`, or the algorithm's defaults."""
    text = (resources.files("imitate.experts") / "presets" / f"{algorithm}.toml").read_text("utf-8")
    table = tomllib.loads(text)
    return dict(table.get("default", {}) | table.get(env_id, {}))


def train_expert(
    algorithm: str,
    env_id: str,
    out: Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 20,
    test_episodes: int = 50,
    keep: Sequence[float] = (),
    resume: bool = False,
    command: str = "",
    **overrides: Any,
) -> Path:
    """Train, keep the best policy by validation, and write the expert folder `out` (safetensors and JSON).

    `out/log.jsonl` has a row per validation; `out/training/` holds TensorBoard events and, until the run is
    finished, the checkpoint. `overrides` replace entries of the preset. Ctrl-C saves, and `resume` goes on.

    `keep` names shares of the steps, in (0, 1): the policy of that time becomes an expert of lower grade, in
    `out/0.25` for 0.25, measured as the best one is.

    Raises InputError for an unknown algorithm or environment, and where `out` holds an expert already.
    """
    if algorithm not in ALGORITHMS:
        raise InputError(
            f"unknown algorithm {algorithm!r}{did_you_mean(algorithm, ALGORITHMS)}; known: {', '.join(ALGORITHMS)}"
        )
    env_id = resolve_env_id(env_id)
    for name, value in (("steps", steps), ("eval_every", eval_every), ("eval_episodes", eval_episodes)):
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if wrong := [share for share in keep if not 0 < share < 1]:
        raise InputError(f"shares of the training to keep must be between 0 and 1, got {wrong[0]}")
    if seed < 0:
        raise InputError(f"a seed must be at least 0, got {seed}")
    training = out / "training"
    if (out / "expert.json").exists() or (training.exists() and not resume):
        raise InputError(f"{out} exists; choose another --out, or --resume an unfinished training")
    hyperparameters = preset(algorithm, env_id) | overrides
    total_steps = int(steps or hyperparameters["n_timesteps"])
    checked = {
        key: value
        for key, value in hyperparameters.items()
        if key not in ("n_timesteps", "n_envs", "normalize")
    }

    def make_venv(num_envs: int, first_seed: int) -> VecEnv:
        return make_vec_env(lambda: make_env(env_id, env_kwargs), n_envs=num_envs, seed=first_seed)

    venv = make_venv(int(hyperparameters.get("n_envs", 1)), seed)
    normalize = bool(hyperparameters.get("normalize", False))
    if normalize:
        venv = VecNormalize(venv, gamma=float(checked.get("gamma", 0.99)))
    model = _build(algorithm, venv, seed, checked)
    training.mkdir(parents=True, exist_ok=True)
    model.set_logger(configure(str(training), ["tensorboard"]))

    def write(folder: Path) -> None:
        """The model as it is now as an expert, with what it gets in the test episodes."""
        test_env = keeper.normalized(make_venv(min(test_episodes, 10), TEST_SEED), model)
        returns, _ = evaluate_policy(
            model, test_env, n_eval_episodes=test_episodes, return_episode_rewards=True
        )
        meta = {
            "env_id": env_id,
            "env_kwargs": dict(env_kwargs or {}),
            "algorithm": algorithm,
            "hyperparameters": hyperparameters,
            "steps": total_steps,
            "best_step": model.num_timesteps,
            "seed": seed,
            "command": command,
            "measured": {
                "mean": float(np.mean(returns)),
                "std": float(np.std(returns)),
                "episodes": test_episodes,
            },
        }
        save_expert(folder, model, model.get_vec_normalize_env(), meta)

    keeper = _KeepBest(
        training,
        make_venv(min(eval_episodes, 10), 0),
        seed=draw_seed(Stream.VALIDATION, seed) % 2**31,  # SB3 adds the number of the environment to it
        every=eval_every or max(total_steps // 50, 1),
        episodes=eval_episodes,
        total_steps=total_steps,
        grades={
            int(share * total_steps): partial(write, out / f"{share:g}")
            for share in keep
            if not (out / f"{share:g}" / "expert.json").exists()  # by what is resumed
        },
    )
    if resume and (training / "checkpoint" / "checkpoint.pt").exists():
        sweep(training / "checkpoint")
        keeper.load(model)
    try:
        if model.num_timesteps < total_steps:
            remaining = total_steps - model.num_timesteps
            model.learn(remaining, callback=keeper, reset_num_timesteps=False, log_interval=NEVER)
            keeper.validate()
            keeper.save()
    except KeyboardInterrupt:
        keeper.save()
        logger.warning(
            "interrupted at %d of %d steps and saved; --resume continues", model.num_timesteps, total_steps
        )
        raise
    keeper.restore_best(model)
    write(out)
    shutil.rmtree(training / "checkpoint")
    return out


def _build(algorithm: str, venv: VecEnv, seed: int, hyperparameters: Mapping[str, Any]) -> BaseAlgorithm:
    module, _, name = ALGORITHMS[algorithm].partition(".")
    algorithm_class = getattr(__import__(module), name)
    arguments = dict(hyperparameters)
    policy_kwargs = dict(arguments.pop("policy_kwargs", {}))
    if "activation_fn" in policy_kwargs:
        policy_kwargs["activation_fn"] = _ACTIVATIONS[policy_kwargs["activation_fn"]]
    for key in ("learning_rate", "clip_range"):
        if isinstance(arguments.get(key), str):
            arguments[key] = _linear(arguments[key])
    if arguments.pop("action_noise_std", None) is not None:
        from stable_baselines3.common.noise import NormalActionNoise

        size = np.prod(venv.action_space.shape or ())
        arguments["action_noise"] = NormalActionNoise(
            np.zeros(int(size)), np.full(int(size), hyperparameters["action_noise_std"])
        )
    policy = arguments.pop("policy", "MlpPolicy")
    try:
        model: BaseAlgorithm = algorithm_class(
            policy, venv, seed=seed, policy_kwargs=policy_kwargs, **arguments
        )
    except (TypeError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{algorithm} can't be set up with this environment and these hyperparameters: {reason}"
        ) from error
    return model


def _linear(spec: str) -> Callable[[float], float]:
    """`"lin_3e-4"`: from 3e-4 down to 0 as SB3's remaining progress goes from 1 to 0."""
    if not spec.startswith("lin_"):
        raise InputError(f"a schedule is a number or 'lin_NUMBER', got {spec!r}")
    initial = float(spec.removeprefix("lin_"))
    return lambda remaining: remaining * initial


class _KeepBest(BaseCallback):
    """Progress bar, validation on fixed seeds, best parameters, and the checkpoint to resume from."""

    def __init__(
        self,
        folder: Path,
        venv: VecEnv,
        *,
        seed: int,
        every: int,
        episodes: int,
        total_steps: int,
        grades: Mapping[int, Callable[[], None]],
    ) -> None:
        """`grades`: what to do once so many steps were taken."""
        super().__init__()
        self._grades = dict(sorted(grades.items()))
        self._folder, self._venv, self._every, self._episodes = folder, venv, every, episodes
        self._seed = seed
        self._bar = tqdm(total=total_steps, unit="step", file=sys.stderr)
        self._next_validation, self._best = every, -np.inf

    def _on_step(self) -> bool:
        self._bar.update(self.num_timesteps - self._bar.n)
        while self._grades and self.num_timesteps >= next(iter(self._grades)):
            self._grades.pop(next(iter(self._grades)))()
        if self.num_timesteps >= self._next_validation:
            self._next_validation += self._every
            self.validate()
            self.save()
        return True

    def normalized(self, venv: VecEnv, model: BaseAlgorithm) -> VecEnv:
        """`venv` seen through the statistics that `model` was trained with, rewards raw."""
        trained_with = model.get_vec_normalize_env()
        if trained_with is None:
            return venv
        wrapped = VecNormalize(venv, training=False, norm_reward=False)
        wrapped.obs_rms, wrapped.ret_rms = trained_with.obs_rms, trained_with.ret_rms
        return wrapped

    def validate(self) -> None:
        self._venv.seed(self._seed)
        venv = self.normalized(self._venv, self.model)
        returns, _ = evaluate_policy(
            self.model, venv, n_eval_episodes=self._episodes, return_episode_rewards=True
        )
        mean, std = float(np.mean(returns)), float(np.std(returns))
        self.logger.record("eval/mean_return", mean)
        self.logger.dump(self.model.num_timesteps)
        with (self._folder.parent / "log.jsonl").open("a") as log:
            log.write(json.dumps({"step": self.model.num_timesteps, "mean_return": mean, "std": std}) + "\n")
        # A policy that sometimes falls is no expert: among equal means the steadier one is kept.
        score = mean - 0.1 * std
        # Of equal ones the later: its critic has seen more.
        if score >= self._best:
            self._best = score
            self._write("best", self.model, with_buffer=False)
        self._bar.set_postfix_str(f"return {mean:.1f} +- {std:.1f}")

    def save(self) -> None:
        self._write("checkpoint", self.model, with_buffer=True)

    def load(self, model: BaseAlgorithm) -> None:
        """Go on from the checkpoint. Raises InputError where it is damaged, or of other settings than the model's."""
        try:
            self._load(model)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            EOFError,
            UnpicklingError,
            BadZipFile,
        ) as error:
            raise InputError(
                f"{self._folder / 'checkpoint'} can't be resumed with these settings: {one_line(error)[:300]}; "
                "give the same as before, or another --out"
            ) from error

    def _load(self, model: BaseAlgorithm) -> None:
        state = self._read("checkpoint", model)
        self._best, self._next_validation = state["best"], state["next_validation"]
        if isinstance(model, OffPolicyAlgorithm):
            assert model.replay_buffer is not None
            buffer = np.load(self._folder / "checkpoint" / "replay.npz", allow_pickle=False)
            rows = len(buffer["rewards"])
            for name in buffer.files:
                getattr(model.replay_buffer, name)[:rows] = buffer[name]
            model.replay_buffer.pos = state["buffer_position"]
            model.replay_buffer.full = state["buffer_full"]

    def restore_best(self, model: BaseAlgorithm) -> None:
        self._read("best", model)

    def _write(self, name: str, model: BaseAlgorithm, *, with_buffer: bool) -> None:
        folder = self._folder / "checkpoint"
        folder.mkdir(exist_ok=True)
        normalize = model.get_vec_normalize_env()
        state = {
            "parameters": model.get_parameters(),
            "num_timesteps": model.num_timesteps,
            "updates": model._n_updates,
            "best": self._best,
            "next_validation": self._next_validation,
            "statistics": None
            if normalize is None
            else [
                (torch.as_tensor(m.mean), torch.as_tensor(m.var), float(m.count)) for m in _moments(normalize)
            ],
        }
        if with_buffer and isinstance(model, OffPolicyAlgorithm):
            buffer = model.replay_buffer
            assert buffer is not None
            rows = buffer.buffer_size if buffer.full else buffer.pos
            arrays = {
                k: v[:rows] for k, v in vars(buffer).items() if isinstance(v, np.ndarray) and len(v) >= rows
            }
            with atomic(folder / "replay.npz") as temporary, temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            state |= {"buffer_position": buffer.pos, "buffer_full": buffer.full}
        with atomic(folder / f"{name}.pt") as temporary:
            torch.save(state, temporary)

    def _read(self, name: str, model: BaseAlgorithm) -> dict[str, Any]:
        state: dict[str, Any] = torch.load(self._folder / "checkpoint" / f"{name}.pt", weights_only=True)
        model.set_parameters(state["parameters"])
        model.num_timesteps, model._n_updates = state["num_timesteps"], state["updates"]
        normalize = model.get_vec_normalize_env()
        if normalize is not None:
            for rms, values in zip(_moments(normalize), state["statistics"], strict=True):
                rms.mean, rms.var, rms.count = values[0].numpy(), values[1].numpy(), values[2]
        return state


def _moments(normalize: VecNormalize) -> list[RunningMeanStd]:
    assert isinstance(normalize.obs_rms, RunningMeanStd), (
        "observations are Box or Discrete: see check_supported"
    )
    return [normalize.obs_rms, normalize.ret_rms]
