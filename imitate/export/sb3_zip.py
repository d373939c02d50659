"""A policy as a Stable-Baselines3 zip, which `PPO.load` or `SAC.load` opens and trains further.

A squashed policy becomes SAC, any other PPO. SB3 knows no scaling of actions to their bounds, so that of ours is
written into the last layer. Statistics of observations become `vecnormalize.pkl` beside the zip, as in the zoo: SB3's
`VecNormalize.load` reads them. Values are no part of our policies: PPO's value network begins anew, and so do SAC's
critics, but for those of policies that SAC, TQC or TD3 learned with the same shape.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.export.deployed import Deployed, compare
from imitate.files import atomic
from imitate.nn.networks import Encoder
from imitate.nn.normalize import LEAST_VARIANCE
from imitate.nn.policy import ActorPolicy

__all__ = ["to_sb3"]

_EPSILON = 1e-8  # VecNormalize's


class _Spaces(gym.Env[Any, Any]):
    """An environment of which SB3 reads the spaces only."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def to_sb3(policy: ActorPolicy, path: Path) -> Path | None:
    """Write the zip; returns the path of `vecnormalize.pkl` if the policy normalises observations.

    Raises InputError if SB3 has no such policy, or if the zip acts differently.
    """
    policy = Deployed(policy).policy  # a copy on the CPU
    encoder, actions = policy.encoder, policy.action_space
    starts = [
        space
        for space in (policy.observation_space, actions)
        if np.any(getattr(space, "start", 0))
    ]  # fmt: skip
    if not isinstance(encoder, Encoder):
        raise InputError(
            f"Stable-Baselines3 has no such network for {policy.observation_space}: export to onnx or torchscript"
        )
    if starts:
        raise InputError(f"Stable-Baselines3 counts from 0, got {starts[0]}: export to onnx or torchscript")
    squashed = policy.head == "squashed"
    model = _model(policy, "SAC" if squashed else "PPO")
    with torch.no_grad():
        net = model.policy
        if squashed:
            _copy_linear(net.actor.latent_pi, encoder.net)
            _write_sac_head(policy, net.actor)
            _copy_critics(policy, model)
        else:
            if encoder.is_image:
                _copy_linear(net.features_extractor, encoder.net)
            else:
                _copy_linear(net.mlp_extractor.policy_net, encoder.net)
                if encoder.is_bytes and encoder.moments is None:
                    _linears(net.mlp_extractor.policy_net)[0].weight /= 255.0
            _write_ppo_head(policy, net)
    statistics = _statistics(encoder, model)
    beside = path.with_name("vecnormalize.pkl") if statistics is not None else None
    with atomic(path) as file:
        zipped = file.with_suffix(".zip")
        model.save(zipped)
        zipped.rename(file)
        _check(policy, model, statistics, path.name)
        if statistics is not None and beside is not None:
            with atomic(beside) as pickle:
                statistics.save(str(pickle))
    return beside


def _model(policy: ActorPolicy, kind: str) -> Any:
    import stable_baselines3 as sb3

    architecture, encoder = policy.architecture, policy.encoder
    hidden = [] if encoder.is_image else architecture["hidden"]
    shared: dict[str, Any] = {"activation_fn": nn.Tanh if architecture["activation"] == "tanh" else nn.ReLU}
    env = _Spaces(policy.observation_space, policy.action_space)
    if kind == "PPO":
        layers = {"pi": hidden, "vf": hidden}
        name = "CnnPolicy" if encoder.is_image else "MlpPolicy"
        return sb3.PPO(name, env, policy_kwargs=shared | {"net_arch": layers}, device="cpu", seed=0)
    shape = policy.critic
    like = shape is not None and _plain_critic(policy)
    layers = {"pi": hidden, "qf": list(architecture["critic"]["hidden"]) if like else hidden}
    several = {"n_critics": architecture["critic"]["count"]} if like else {}
    arguments = shared | several | {"net_arch": layers}
    return sb3.SAC("MlpPolicy", env, policy_kwargs=arguments, device="cpu", seed=0, buffer_size=100_000)


def _linears(module: nn.Module) -> list[Any]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]


def _copy_linear(theirs: nn.Module, ours: nn.Module) -> None:
    for into, out in zip(_linears(theirs), _linears(ours), strict=True):
        into.weight.copy_(out.weight)
        into.bias.copy_(out.bias)


def _write_ppo_head(policy: ActorPolicy, net: Any) -> None:
    weight, bias, into = policy.output.weight.data, policy.output.bias.data, net.action_net
    if isinstance(policy.action_space, spaces.MultiBinary):  # two logits of each bit are one
        weight, bias = weight[1::2] - weight[::2], bias[1::2] - bias[::2]
    if isinstance(policy.action_space, spaces.Box):
        scale, center = _tensor(policy.scale), _tensor(policy.center)
        weight, bias = scale[:, None] * weight, center + scale * bias
        net.log_std.copy_(policy.log_std + scale.log())
    into.weight.copy_(weight)
    into.bias.copy_(bias)


def _write_sac_head(policy: ActorPolicy, actor: Any) -> None:
    size = len(_tensor(policy.scale))
    actor.mu.weight.copy_(policy.output.weight[:size])
    actor.mu.bias.copy_(policy.output.bias[:size])
    if policy.state_std:
        actor.log_std.weight.copy_(policy.output.weight[size:])
        actor.log_std.bias.copy_(policy.output.bias[size:])
    else:
        actor.log_std.weight.zero_()
        actor.log_std.bias.copy_(policy.log_std)


def _plain_critic(policy: ActorPolicy) -> bool:
    """True if SB3 has critics of this shape: one value each, of a relu network without layer norm."""
    shape = policy.architecture.get("critic")
    return (
        shape is not None
        and policy.architecture["activation"] == "relu"
        and shape["outputs"] == 1
        and not shape["layer_norm"]
    )


def _copy_critics(policy: ActorPolicy, model: Any) -> None:
    if policy.critic is None or not _plain_critic(policy):
        return
    ours = list(zip(policy.critic.weights, policy.critic.biases, strict=True))
    for theirs in (model.policy.critic, model.policy.critic_target):
        for which, network in enumerate(theirs.q_networks):
            for layer, (weight, bias) in zip(_linears(network), ours, strict=True):
                layer.weight.copy_(
                    weight[which].T if layer.weight.shape != weight[which].shape else weight[which]
                )
                layer.bias.copy_(bias[which])


def _statistics(encoder: Encoder, model: Any) -> Any:
    """VecNormalize with the policy's statistics, or None."""
    if encoder.moments is None:
        return None
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = model.observation_space, model.action_space
    statistics = VecNormalize(
        DummyVecEnv([lambda: _Spaces(*env)]), norm_reward=False, clip_obs=10.0, epsilon=_EPSILON
    )
    shape = model.observation_space.shape
    moments: Any = statistics.obs_rms
    moments.mean = encoder.moments.mean.numpy().reshape(shape)
    moments.var = encoder.moments.var.numpy().reshape(shape).clip(LEAST_VARIANCE) - _EPSILON
    moments.count = float(encoder.moments.count)
    statistics.training = False
    return statistics


def _check(policy: ActorPolicy, model: Any, statistics: Any, name: str) -> None:
    """As saved in this process; that a loaded zip acts alike is a test's business."""

    def act(inputs: tuple[Tensor, ...]) -> Array:
        obs = inputs[0].numpy()
        obs = obs if statistics is None else statistics.normalize_obs(obs)
        actions: Array = model.predict(obs, deterministic=True)[0]
        return actions

    compare(Deployed(policy), act, name)


def _tensor(x: Any) -> Tensor:
    assert isinstance(x, Tensor)
    return x
