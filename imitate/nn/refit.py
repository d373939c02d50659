"""A policy with another head that acts as a given one.

Imitators squash continuous actions by a tanh. Where the expert's actions are at their bounds, the inputs of that tanh
grow to 10 and more. There noise changes no action and no gradient leads back, so reinforcement would learn nothing. A
Gaussian that is clipped to the bounds, fitted to the imitator's actions, can be moved.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from imitate.configs.shared import Head
from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy

__all__ = ["refit", "with_head"]

_LEARNING_RATE = 1e-3  # at the start; it decays to 0


def with_head(
    policy: ActorPolicy, head: Head, *, seed: int, log_std_init: float | None = None
) -> ActorPolicy:
    """A policy with the hidden layers and input statistics of the given one, and an untrained head.

    log_std_init    by default the given policy's own; if that depends on the state, 0

    Raises InputError if the head does not fit the action space.
    """
    kept = ("hidden", "activation", "normalize_obs", "layer_norm")
    architecture = {name: value for name, value in policy.architecture.items() if name in kept}
    with seeded(seed):
        new = ActorPolicy(
            policy.observation_space,
            policy.action_space,
            **architecture,
            head=head,
            log_std_init=log_std_init or 0.0,
        )
    new.encoder.load_state_dict(policy.encoder.state_dict())
    if log_std_init is None and not policy.state_std:
        new.log_std.data.copy_(policy.log_std)
    return new.to(policy.output.weight.device)


def refit(policy: ActorPolicy, imitator: ActorPolicy, batches: Iterable[Tensor], count: int) -> Tensor:
    """Regress the action of the policy's mean on the imitator's; returns the last batch's mean squared error ().

    batches     `count` of raw observations (B, *obs_shape)
    """
    optimizer, loss = Adam(policy.parameters(), _LEARNING_RATE), torch.zeros(())
    for update, obs in enumerate(batches):
        prepared = imitator.encoder.prepare(obs)
        with torch.no_grad():
            wanted = imitator.to_unit(imitator.to_env(imitator(prepared).mode()))
        optimizer.learning_rate = _LEARNING_RATE * (1.0 - update / count)
        fitted = policy(prepared).mode()
        loss = F.mse_loss(fitted.tanh() if policy.head == "squashed" else fitted, wanted)
        optimizer.step(loss)
    return loss.detach()
