"""Several policies of one architecture as one policy, which computes the mean of their outputs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from imitate.nn.networks import Encoder
from imitate.nn.policy import ActorPolicy

__all__ = ["can_merge", "merge_into", "wider"]


def can_merge(policy: ActorPolicy) -> bool:
    """True if the policy's body is one multilayer perceptron with hidden layers: no CNN, no part for each field, and no
    layer norm, which would be over the units of all members."""
    encoder, architecture = policy.encoder, policy.architecture
    if not isinstance(encoder, Encoder) or encoder.is_image or architecture.get("layer_norm"):
        return False
    return bool(architecture["hidden"])


def wider(policy: ActorPolicy, times: int) -> ActorPolicy:
    """A policy with hidden layers `times` as wide, and this one's statistics of observations; for `merge_into`."""
    widths = [times * width for width in policy.architecture["hidden"]]
    found = ActorPolicy.from_description(policy.describe() | {"hidden": widths}).to(
        policy.output.weight.device
    )
    for kept, new in zip(found.buffers(), policy.buffers(), strict=True):
        kept.copy_(new)
    return found


@torch.no_grad()
def merge_into(policy: ActorPolicy, members: Sequence[ActorPolicy]) -> None:
    """Set a policy's weights so that its outputs (B, A) are the mean of those of K `members`; it is `wider` K times.

    The outputs are an action before it is squashed, or logits. The members' units stand side by side in the layers,
    and the weights between units of different members are 0. The standard deviation is the first member's.
    """
    layers = zip(*(_layers(member) for member in members), strict=True)
    for number, (layer, parts) in enumerate(zip(_layers(policy), layers, strict=True)):
        weights = [part.weight for part in parts]
        joined = torch.block_diag(*weights) if number else torch.cat(weights)  # type: ignore[no-untyped-call]
        layer.weight.copy_(joined)
        layer.bias.copy_(torch.cat([part.bias for part in parts]))
    policy.output.weight.copy_(torch.cat([member.output.weight for member in members], 1) / len(members))
    policy.output.bias.copy_(torch.stack([member.output.bias for member in members]).mean(0))
    if policy.head != "categorical":
        policy.log_std.copy_(members[0].log_std)


def _layers(policy: ActorPolicy) -> list[nn.Linear]:
    return policy.encoder.net.linear  # type: ignore[no-any-return]
