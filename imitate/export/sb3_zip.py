"""A policy as a Stable-Baselines3 zip, which `PPO.load` or `SAC.load` opens and trains further.

A squashed policy becomes SAC, any other PPO. SB3 knows no scaling of actions to their bounds, so that of ours is
written into PPO's last layer. Statistics of observations become `vecnormalize.pkl` beside the zip, as in the zoo: SB3's
`VecNormalize.load` reads them. PPO's value network begins anew, as ours is no part of a policy. Critics that our SAC or
TD3 learned without layer norm are SAC's; otherwise they begin anew as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.export.deployed import Deployed, Inputs, compare, named
from imitate.files import atomic
from imitate.nn.networks import Encoder
from imitate.nn.normalize import LEAST_VARIANCE
from imitate.nn.policy import ActorPolicy

__all__ = ["class_of", "to_sb3"]

_EPSILON = 1e-8  # VecNormalize's
_REPLAY, _PIXEL_REPLAY = 1_000_000, 10_000  # steps: SAC's default, and about 1 GB of 84 x 84 x 4 pixels


class _Spaces(gym.Env[Any, Any]):
    """An environment of which SB3 reads the spaces only."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space


def class_of(policy: ActorPolicy) -> Literal["PPO", "SAC"]:
    """The class of Stable-Baselines3 whose `load` opens the policy's zip."""
    return "SAC" if policy.head == "squashed" else "PPO"


def to_sb3(policy: ActorPolicy, path: str | Path) -> Path | None:
    """Write the zip; returns the path of `vecnormalize.pkl` if the policy normalises observations.

    Raises InputError if SB3 has no such policy, if the model acts differently, or if `vecnormalize.pkl` exists.
    """
    path = Path(path)
    policy = Deployed(policy).policy  # a copy on the CPU
    encoder, actions = policy.encoder, policy.action_space
    starts = [space for space in (policy.observation_space, actions) if np.any(getattr(space, "start", 0))]
    if not isinstance(encoder, Encoder) or _is_small_picture(encoder, policy.observation_space):
        raise InputError(
            f"Stable-Baselines3 has no such network for {policy.observation_space}: export to onnx or torch"
        )
    if isinstance(policy.observation_space, spaces.Box) and not policy.observation_space.shape:
        raise InputError(
            f"Stable-Baselines3 takes no observation without an axis, got {policy.observation_space}: give the "
            "environment's the shape (1,) and train again, or export to onnx or torch"
        )
    if policy.architecture.get("layer_norm"):
        raise InputError("Stable-Baselines3's PPO has no layer norm: export to onnx or torch")
    if starts:
        raise InputError(f"Stable-Baselines3 counts from 0, got {starts[0]}: export to onnx or torch")
    if policy.state_std and policy.head != "squashed":
        raise InputError(
            "Stable-Baselines3's PPO has no deviation that depends on the state: export to onnx or torch"
        )
    beside = path.with_name("vecnormalize.pkl") if encoder.moments is not None else None
    if beside is not None and beside.exists():
        raise InputError(f"{beside} exists: move it, or write the zip to another folder")
    model = _model(policy)
    with torch.no_grad():
        _write_body(policy, model.policy)
        if policy.head == "squashed":
            _write_sac_head(policy, model.actor)
            _copy_critics(policy, model)
        else:
            _write_ppo_head(policy, model.policy)
    statistics = _statistics(encoder, model)
    _check(policy, model, statistics, path.name)
    with atomic(path) as file:
        zipped = file.with_suffix(".zip")  # SB3 would add it
        try:
            model.save(zipped)
            zipped.rename(file)
        finally:
            zipped.unlink(missing_ok=True)
        if beside is not None:  # a zip without its statistics acts on wrong inputs
            with atomic(beside, new=True) as pickle:
                statistics.save(str(pickle))
    return beside


def _model(policy: ActorPolicy) -> Any:
    """SB3's model of this shape, with new weights."""
    import stable_baselines3 as sb3

    architecture, is_image = policy.architecture, policy.encoder.is_image
    hidden = [] if is_image else architecture["hidden"]
    name = "CnnPolicy" if is_image else "MlpPolicy"
    env = _Spaces(policy.observation_space, policy.action_space)
    shape: dict[str, Any] = {"activation_fn": nn.Tanh if architecture["activation"] == "tanh" else nn.ReLU}
    if policy.head != "squashed":
        shape["net_arch"] = {"pi": hidden, "vf": hidden}
        return sb3.PPO(name, env, policy_kwargs=shape, device="cpu", seed=0)
    shape["net_arch"] = {"pi": hidden, "qf": hidden}
    gamma = 0.99  # SB3's
    if _has_sb3s_critics(policy):
        critic = architecture["critic"]
        gamma = critic["gamma"]
        shape |= {"n_critics": critic["count"], "net_arch": {"pi": hidden, "qf": list(critic["hidden"])}}
    model = sb3.SAC(name, env, gamma=gamma, policy_kwargs=shape, device="cpu", seed=0, buffer_size=1)
    # `SAC.load` makes the replay, of this size or the user's.
    model.buffer_size = _PIXEL_REPLAY if is_image else _REPLAY
    return model


def _write_body(policy: ActorPolicy, net: Any) -> None:
    """Write the encoder, into the network before the head."""
    encoder, squashed = policy.encoder, policy.head == "squashed"
    if encoder.is_image:
        body = net.actor.features_extractor if squashed else net.features_extractor
    else:
        body = net.actor.latent_pi if squashed else net.mlp_extractor.policy_net
    for into, out in zip(_linears(body), _linears(encoder.net), strict=True):
        into.weight.copy_(out.weight)
        into.bias.copy_(out.bias)
    if _is_scaled(encoder):
        first, *_ = _linears(body)
        first.weight.div_(255.0)


def _is_small_picture(encoder: Encoder, space: spaces.Space[Any]) -> bool:
    """True for pictures that count as numbers; SB3 scales them as pictures and may move their channels."""
    return encoder.is_bytes and not encoder.is_image and len(space.shape or ()) == 3


def _is_scaled(encoder: Encoder) -> bool:
    """True if we scale bytes to [0, 1] where SB3, which does so with images only, does not."""
    return encoder.is_bytes and not (encoder.is_image or encoder.one_hot) and encoder.moments is None


def _linears(module: nn.Module) -> list[Any]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]


def _write_ppo_head(policy: ActorPolicy, net: Any) -> None:
    weight, bias, into = policy.output.weight.data, policy.output.bias.data, net.action_net
    if isinstance(policy.action_space, spaces.MultiBinary):  # two logits of each bit are one
        weight, bias = weight[1::2] - weight[::2], bias[1::2] - bias[::2]
    if isinstance(policy.action_space, spaces.Box):
        scale, center = _tensor(policy.scale), _tensor(policy.center)
        weight, bias = scale[:, None] * weight, center + scale * bias
        # Equal bounds leave nothing to scale, and SB3 clips whatever is drawn to them.
        net.log_std.copy_(policy.log_std + torch.where(scale > 0, scale, 1.0).log())
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


def _has_sb3s_critics(policy: ActorPolicy) -> bool:
    """True if SB3 has critics of this shape: one value each, of a relu network without layer norm."""
    shape = policy.architecture.get("critic")
    return shape is not None and shape["outputs"] == 1 and not shape["layer_norm"]


def _copy_critics(policy: ActorPolicy, model: Any) -> None:
    if policy.critic is None or not _has_sb3s_critics(policy):
        return
    ours = list(zip(policy.critic.weights, policy.critic.biases, strict=True))
    for theirs in (model.critic, model.critic_target):
        for which, network in enumerate(theirs.q_networks):
            for layer, (weight, bias) in zip(_linears(network), ours, strict=True):
                layer.weight.copy_(weight[which])
                layer.bias.copy_(bias[which])
            if _is_scaled(policy.encoder):
                first, *_ = _linears(network)
                first.weight[:, : policy.encoder.inputs].div_(255.0)


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
    """Compare the model, before it is saved, with the policy."""

    def act(inputs: Inputs) -> Array:
        obs = named(inputs)["observation"].numpy()
        obs = obs if statistics is None else statistics.normalize_obs(obs)
        actions: Array = model.predict(obs, deterministic=True)[0]
        return actions

    compare(Deployed(policy), act, name)


def _tensor(x: Any) -> Tensor:
    assert isinstance(x, Tensor)
    return x
