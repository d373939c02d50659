"""A policy as one graph, from raw observations to the environment's actions."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.envs.fields import Fields, leaves
from imitate.envs.spaces import Array, random_observations
from imitate.errors import InputError
from imitate.nn.fields import FieldEncoder
from imitate.nn.policy import ActorPolicy

__all__ = ["SAMPLES", "Deployed", "compare"]

SAMPLES = 1_000
"""Random observations with which an export is compared to its policy."""
_BATCH = 50
_ACTION_TOLERANCE = 1e-5


class Deployed(nn.Module):
    """The deterministic policy: normalisation, network, squashing and the actions' bounds in one `forward`.

    Its inputs are raw observations (B, *obs_shape), one tensor for each key of a Dict, in the order of `names`; its
    output are the environment's actions (B, *action_shape). Discrete actions are int64.
    """

    def __init__(self, policy: ActorPolicy) -> None:
        super().__init__()
        self.policy = copy.deepcopy(policy).cpu().eval()
        space = policy.observation_space
        self._parts = [(name, part) for name, part, _ in leaves(space)] if isinstance(space, Fields) else []

    @property
    def names(self) -> list[str]:
        """Of the inputs: the keys of a Dict, `camera/left` in a Dict of a Dict; otherwise `observation`."""
        return [name for name, _ in self._parts] or ["observation"]

    def forward(self, *inputs: Tensor) -> Tensor:
        policy = self.policy
        encoder = policy.encoder
        if isinstance(encoder, FieldEncoder):
            features = encoder.join_parts(dict(zip(self.names if self._parts else [""], inputs, strict=True)))
        else:
            features = encoder(encoder.prepare(inputs[0]))
        return policy.to_env(policy.distribution(features).mode())

    def sample(self, count: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Random observations, one tensor (count, ...) for each input; numbers without bounds are normal."""
        rng = np.random.default_rng(seed)
        parts = [part for _, part in self._parts] or [self.policy.observation_space]
        return tuple(torch.from_numpy(random_observations(part, count, rng)) for part in parts)


def compare(deployed: Deployed, act: Callable[[tuple[Tensor, ...]], Array], name: str) -> None:
    """Raise InputError unless `act`, the export `name`, gives the policy's actions for random observations.

    Continuous actions may differ by 1e-5 of half their range. A discrete action may differ where the two best are
    nearly even, in one observation of a hundred.
    """
    pairs = []
    for seed in range(SAMPLES // _BATCH):  # large pictures would fill the memory all at once
        inputs = deployed.sample(_BATCH, seed)
        with torch.inference_mode():
            pairs.append((deployed(*inputs).numpy(), act(inputs)))
    wanted, found = map(np.concatenate, zip(*pairs, strict=True))
    if found.shape != wanted.shape:
        raise InputError(f"{name} gives actions {found.shape}, wanted {wanted.shape}; please report this")
    if isinstance(deployed.policy.action_space, spaces.Box):
        error = np.abs(found - wanted) / deployed.policy.scale.numpy()  # type: ignore[operator]
        if not error.max() <= _ACTION_TOLERANCE:
            raise InputError(f"{name} differs from the policy by {error.max():.2g} of its range")
    elif (share := float((found != wanted).reshape(SAMPLES, -1).any(1).mean())) > 0.01:
        raise InputError(f"{name} chooses other actions than the policy in {share:.1%} of observations")
