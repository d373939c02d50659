"""Update input statistics under a network that has already learned."""

from __future__ import annotations

import torch
from torch import Tensor

from imitate.nn.networks import MLP
from imitate.nn.normalize import RunningMoments
from imitate.nn.policy import ActorPolicy

__all__ = ["first_layer", "follow"]

_MOST = 10.0  # standard deviations at which inputs are clipped


@torch.no_grad()
def follow(moments: RunningMoments, obs: Tensor, *layers: tuple[Tensor, Tensor]) -> None:
    """Update the statistics with observations (B, ...) and rescale the first layers so that their outputs don't change.

    layers  weight (..., outputs, features) and bias (..., outputs), changed in place

    A feature whose spread changes by a factor of more than 10 keeps its weights: it was constant or unseen so far, so
    the network has learned nothing from it that rescaling could preserve.
    """
    begun, mean, std = bool(moments.count > 0), moments.mean.clone(), moments.std
    moments.update(obs.reshape(-1, *moments.mean.shape))
    if not begun:
        return
    factor, offset = moments.std / std, (moments.mean - mean) / std
    kept = (factor < _MOST) & (factor > 1.0 / _MOST)
    factor, offset = torch.where(kept, factor, 1.0), torch.where(kept, offset, 0.0)
    for weight, bias in layers:
        bias.add_((weight.double() @ offset).to(bias.dtype))
        weight.mul_(factor.to(weight.dtype))


def first_layer(policy: ActorPolicy) -> tuple[Tensor, Tensor]:
    """Weight (outputs, features) and bias (outputs,) of the layer that a policy's standardised observations enter.

    Without hidden layers that is the output layer, where the features of images come after them.
    """
    net, moments = policy.encoder.net, policy.encoder.moments
    assert isinstance(net, MLP)
    assert moments is not None
    if net.linear:
        return net.linear[0].weight, net.linear[0].bias
    return policy.output.weight[:, : moments.mean.numel()], policy.output.bias
