"""Action values that are stored as a policy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from imitate.errors import InputError
from imitate.nn.policy import ActorPolicy

__all__ = ["QNet", "QValues"]

QValues = Callable[[Tensor], Tensor]
"""Prepared observations (B, ...) to action values (B, A)."""


class QNet(nn.Module):
    """Action values (B, A) of prepared observations; they are the policy's logits.

    With `dueling`, Q = V + A - mean A, where V and A are each linear in half of the features (the paper gives each
    stream a full layer). The sum is linear in the features, so `fold` can write it into the policy's output layer.

    Raises InputError with `dueling` if there is a single feature.
    """

    def __init__(self, policy: ActorPolicy, *, dueling: bool) -> None:
        super().__init__()
        self.policy, self.dueling = policy, dueling
        if dueling:
            width = policy.output.in_features // 2
            if not width:
                raise InputError(
                    "dueling shares the last hidden layer between two streams: give it 2 units or more"
                )
            self.value = nn.Linear(width, 1)
            self.advantage = nn.Linear(policy.output.in_features - width, policy.output.out_features)

    def forward(self, prepared: Tensor) -> Tensor:
        features: Tensor = self.policy.encoder(prepared)
        if not self.dueling:
            return self.policy.output(features)  # type: ignore[no-any-return]
        of_value, of_advantage = features.split(  # type: ignore[no-untyped-call]
            [self.value.in_features, self.advantage.in_features], dim=-1
        )
        advantages = self.advantage(of_advantage)
        return self.value(of_value) + advantages - advantages.mean(-1, keepdim=True)  # type: ignore[no-any-return]

    def learned(self) -> list[nn.Parameter]:
        """The parameters that `forward` uses."""
        if not self.dueling:
            return list(self.policy.parameters())
        streams = [*self.value.parameters(), *self.advantage.parameters()]
        return [*self.policy.encoder.parameters(), *streams]

    @torch.no_grad()
    def fold(self) -> None:
        """Write these values into the policy, as its logits."""
        if self.dueling:
            advantage, value = self.advantage, self.value
            centered = advantage.weight - advantage.weight.mean(0)
            actions = len(centered)
            self.policy.output.weight.copy_(torch.cat([value.weight.expand(actions, -1), centered], 1))
            self.policy.output.bias.copy_(value.bias + advantage.bias - advantage.bias.mean())
