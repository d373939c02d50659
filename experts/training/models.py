"""Stable-Baselines3's learners by name: their tuned hyperparameters, their environments, and models made of both."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from importlib import import_module, resources
from numbers import Real
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.atari_wrappers import ClipRewardEnv, EpisodicLifeEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from imitate.envs.answers import Checked
from imitate.envs.atari import game_ids, is_atari
from imitate.envs.make import make_env, resolve_env_id
from imitate.errors import InputError, check_switches, did_you_mean

__all__ = [
    "RUN_SETTINGS",
    "SB3_CLASSES",
    "check_counts",
    "iteration_steps",
    "make_model",
    "make_venv",
    "sb3_class",
    "zoo_settings",
]

SB3_CLASSES = {
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
RUN_SETTINGS = ("n_timesteps", "n_envs", "normalize", "norm_reward")
"""Settings of the training that are not arguments of the model."""
_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU, "elu": torch.nn.ELU}


def sb3_class(algorithm: str) -> type[BaseAlgorithm]:
    """The class of an algorithm. Raises InputError for an unknown one."""
    if algorithm not in SB3_CLASSES:
        raise InputError(
            f"unknown algorithm {algorithm!r}{did_you_mean(algorithm, SB3_CLASSES)}; known: {', '.join(SB3_CLASSES)}"
        )
    module, _, name = SB3_CLASSES[algorithm].partition(".")
    found: type[BaseAlgorithm] = getattr(import_module(module), name)
    return found


def zoo_settings(algorithm: str, env_id: str) -> dict[str, Any]:
    """The tuned settings of `algorithm` on `env_id`: the environment's, or Atari's if it is a game, override the
    algorithm's defaults."""
    text = (resources.files("imitate.experts.training") / "presets" / f"{algorithm}.toml").read_text("utf-8")
    table = tomllib.loads(text)
    tuned: dict[str, Any] = next((table[name] for name in game_ids(env_id) if name in table), {})
    return dict(table.get("default", {}) | tuned)


def make_venv(
    env_id: str,
    env_kwargs: Mapping[str, Any] | None,
    num_envs: int,
    seed: int,
    *,
    training: bool = False,
) -> VecEnv:
    """Environments for SB3, each with a Monitor. In training, Atari games end with every life and their rewards are
    clipped to their sign, as SB3 does by default. Scores are measured without either."""
    learned_from = training and is_atari(resolve_env_id(env_id))
    return make_vec_env(
        lambda: Checked(make_env(env_id, env_kwargs)),
        n_envs=num_envs,
        seed=seed,
        wrapper_class=(lambda env: ClipRewardEnv(EpisodicLifeEnv(env))) if learned_from else None,
    )


def make_model(
    algorithm: str,
    env_id: str,
    settings: Mapping[str, Any],
    *,
    steps: int,
    seed: int,
    env_kwargs: Mapping[str, Any] | None = None,
    device: str = "auto",
) -> BaseAlgorithm:
    """A new model with its training environments.

    VecNormalize standardises observations and divides rewards if `settings` have `normalize`, and leaves rewards as
    they are if `norm_reward` is False. A replay buffer is no larger than `steps` can fill.

    Raises InputError for an unknown algorithm, or if Stable-Baselines3 does not take these settings in this
    environment.
    """
    made_by = sb3_class(algorithm)
    check_counts(settings)
    venv = make_venv(env_id, env_kwargs, int(settings.get("n_envs", 1)), seed, training=True)
    normalize, rewards = settings.get("normalize", False), settings.get("norm_reward", True)
    check_switches(normalize=normalize, norm_reward=rewards)
    if not normalize and "norm_reward" in settings:
        raise InputError("norm_reward is a part of normalize: set that too, or leave norm_reward out")
    try:
        if normalize:
            venv = VecNormalize(venv, gamma=float(settings.get("gamma", 0.99)), norm_reward=rewards)
        arguments = _arguments(made_by, venv, settings, steps)
        model: BaseAlgorithm = made_by(env=venv, seed=seed, device=device, **arguments)
    except InputError:
        raise
    except (TypeError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{algorithm} can't be set up with this environment and these hyperparameters: {reason}"
        ) from error
    return model


def check_counts(settings: Mapping[str, Any]) -> None:
    """Raise InputError unless the numbers of environments and of steps are whole and at least 1."""
    for name in ("n_envs", "n_timesteps"):
        value = settings.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, Real) or value < 1 or value % 1:
            raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")


def iteration_steps(model: BaseAlgorithm) -> int:
    """Environment steps of an iteration, which SB3 always finishes: a rollout, or a step of each environment."""
    return model.n_envs * (model.n_steps if isinstance(model, OnPolicyAlgorithm) else 1)


def _arguments(
    made_by: type[BaseAlgorithm], venv: VecEnv, settings: Mapping[str, Any], steps: int
) -> dict[str, Any]:
    """Settings as SB3's constructor takes them."""
    arguments = {name: value for name, value in settings.items() if name not in RUN_SETTINGS}
    policy_kwargs = dict(arguments.pop("policy_kwargs", {}))
    if "activation_fn" in policy_kwargs:
        if (wanted := policy_kwargs["activation_fn"]) not in _ACTIVATIONS:
            raise InputError(f"activation_fn is one of {', '.join(_ACTIVATIONS)}, got {wanted!r}")
        policy_kwargs["activation_fn"] = _ACTIVATIONS[wanted]
    if policy_kwargs.get("optimizer_class") == "RMSpropTFLike":
        from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

        policy_kwargs["optimizer_class"] = RMSpropTFLike
    for key in ("learning_rate", "clip_range"):
        if isinstance(arguments.get(key), str):
            arguments[key] = _linear(arguments[key])
    if (std := arguments.pop("action_noise_std", None)) is not None:
        from stable_baselines3.common.noise import NormalActionNoise

        size = int(np.prod(venv.action_space.shape or ()))
        arguments["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, std))
    defaults = inspect.signature(made_by).parameters
    if "buffer_size" in defaults:
        room = int(arguments.get("buffer_size", defaults["buffer_size"].default))
        arguments["buffer_size"] = min(room, steps + venv.num_envs)
    pictures = is_image_space(venv.observation_space)
    return {"policy": "CnnPolicy" if pictures else "MlpPolicy", "policy_kwargs": policy_kwargs} | arguments


def _linear(spec: str) -> Callable[[float], float]:
    """`"lin_3e-4"`: from 3e-4 down to 0 as SB3's remaining progress goes from 1 to 0."""
    if not spec.startswith("lin_"):
        raise InputError(f"a schedule is a number or 'lin_NUMBER', got {spec!r}")
    initial = float(spec.removeprefix("lin_"))
    return lambda remaining: remaining * initial
