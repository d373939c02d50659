"""A policy as one graph, from raw observations to the environment's actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.fields import Fields, leaves
from imitate.envs.spaces import Array, random_observations
from imitate.errors import InputError
from imitate.nn.fields import FieldEncoder
from imitate.nn.policy import ActorPolicy

__all__ = ["SAMPLES", "WIDE_UNSIGNED", "Deployed", "Inputs", "compare", "named"]

Inputs = Tensor | dict[str, Tensor]
"""Observations (B, *obs_shape), or those of a Dict by key."""

WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)
"""Types that torch's exporter to ONNX lacks."""
SAMPLES = 1_000
"""Random observations with which an export is compared to its policy."""
_BATCH = 50
_ACTION_TOLERANCE = 1e-5


class Deployed(nn.Module):
    """The deterministic policy: normalisation, network, squashing and the actions' bounds in one `forward`, without
    gradients.

    Its input are raw observations (B, *obs_shape); of a Dict, a dict of such tensors by key, `camera/left` in a Dict of
    a Dict, `0` in a Tuple. Its output are the environment's actions (B, *action_shape) in the type that
    `ActorPolicy.act` gives them, but int64 for uint16, uint32 and uint64.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        super().__init__()
        self.policy = copy.deepcopy(policy).cpu().eval().requires_grad_(False)
        self.action_type = _type_of(policy.action_space)
        if isinstance(space := policy.action_space, spaces.Box):
            kind = torch.promote_types(policy.center.dtype, torch.float32)  # type: ignore[arg-type]
            self.register_buffer("low", torch.as_tensor(space.low, dtype=kind))
            self.register_buffer("high", torch.as_tensor(space.high, dtype=kind))

    def forward(self, observation: Inputs) -> Tensor:
        policy = self.policy
        encoder = policy.encoder
        if isinstance(encoder, FieldEncoder):
            parts = observation if isinstance(observation, dict) else {"": observation}
            features = encoder.join_parts(parts)
        else:
            features = encoder(encoder.prepare(observation))
        actions = policy.to_env(policy.distribution(features).mode())
        if isinstance(policy.action_space, spaces.Box):
            # The tanh of onnxruntime can be a trifle above 1.
            actions = actions.clamp(self.low, self.high)  # type: ignore[arg-type]
        # A cast to the type that they have would be a node of the graph.
        return actions if self.action_type in (None, actions.dtype) else actions.to(self.action_type)

    def sample(self, count: int, seed: int = 0) -> Inputs:
        """Random observations (count, *obs_shape) as `forward` takes them; numbers without bounds are normal."""
        rng = np.random.default_rng(seed)
        space = self.policy.observation_space
        if not isinstance(space, Fields):
            return torch.from_numpy(random_observations(space, count, rng))
        return {
            name: torch.from_numpy(random_observations(part, count, rng)) for name, part, _ in leaves(space)
        }


def _type_of(space: spaces.Space[Any]) -> torch.dtype | None:
    """The type to cast actions to; None for one that exporters lack, whose actions stay int64."""
    kind = torch.from_numpy(np.empty(0, space.dtype)).dtype
    return None if kind in WIDE_UNSIGNED else kind


def named(inputs: Inputs) -> dict[str, Tensor]:
    """The inputs by name; observations that are no Dict or Tuple are named `observation`."""
    return inputs if isinstance(inputs, dict) else {"observation": inputs}


def compare(deployed: Deployed, act: Callable[[Inputs], Array], name: str) -> None:
    """Raise InputError unless `act`, the export `name`, gives the policy's actions for random observations.

    Continuous actions may differ by 1e-5 of half their range, and by rounding. A discrete action may differ where the
    two best are nearly even, in one observation of a hundred.
    """
    pairs = []
    for seed in range(SAMPLES // _BATCH):  # large pictures would fill the memory all at once
        inputs = deployed.sample(_BATCH, seed)
        pairs.append((deployed(inputs).numpy(), act(inputs)))
    wanted, found = map(np.concatenate, zip(*pairs, strict=True))
    if found.shape != wanted.shape:
        raise InputError(f"{name} gives actions {found.shape}, wanted {wanted.shape}; please report this")
    if isinstance(deployed.policy.action_space, spaces.Box):
        # Few digits are left for a narrow range far from 0. A network is of float32, whatever the space.
        eps = max(np.finfo(kind).eps for kind in (wanted.dtype, np.float32))
        scale, wanted = deployed.policy.scale.double().numpy(), wanted.astype(np.float64)  # type: ignore[operator]
        rounding = eps * np.abs(wanted)
        error = np.maximum(np.abs(found - wanted) - rounding, 0) / np.where(scale > 0, scale, 1)
        if not error.max() <= _ACTION_TOLERANCE:
            raise InputError(f"{name} differs from the policy by {error.max():.2g} of its range")
    elif (share := float((found != wanted).reshape(SAMPLES, -1).any(1).mean())) > 0.01:
        raise InputError(f"{name} chooses other actions than the policy in {share:.1%} of observations")
