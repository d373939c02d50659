"""Gradients of cloning by hand are those of autograd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.imitators.cloning import Cloning, Loss, bc_loss, imitation_loss, losses_of
from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy

SPACE = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 5], np.float32))


def policy_of(action_space: spaces.Space, **options: object) -> ActorPolicy:
    with seeded(0):
        return ActorPolicy(SPACE, action_space, hidden=(6, 5), **options)  # type: ignore[arg-type]


def labels_of(action_space: spaces.Space, count: int = 16) -> Tensor:
    action_space.seed(0)
    labels = torch.from_numpy(np.array([action_space.sample() for _ in range(count)]))
    if action_space is BOX:
        labels[:3] = torch.from_numpy(BOX.high)  # at the bounds, where the tanh has no slope
    return labels


def gradients(policy: ActorPolicy, descend: Callable[[Adam], Tensor]) -> tuple[Tensor, Tensor]:
    """The loss, and what Adam is given."""
    optimizer = Adam(policy.parameters(), 1e-3)
    taken: list[Tensor] = []
    optimizer.descend = lambda _loss=0.0: taken.append(optimizer._gradient.clone())  # type: ignore[method-assign]
    return descend(optimizer), taken[0]


@pytest.mark.parametrize("loss", [bc_loss, imitation_loss])
@pytest.mark.parametrize(
    ("action_space", "options"),
    [
        (spaces.Discrete(4, start=2), {}),
        (BOX, {"head": "squashed"}),
        (BOX, {"head": "squashed", "activation": "relu"}),
        (BOX, {"head": "clipped"}),
        (BOX, {"head": "squashed", "state_std": True}),
        (spaces.MultiDiscrete([3, 2]), {}),
    ],
)
def test_a_step_is_that_of_autograd(
    loss: Loss, action_space: spaces.Space, options: dict[str, object]
) -> None:
    policy, labels = policy_of(action_space, **options), labels_of(action_space)
    obs = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(1))

    def by_autograd(optimizer: Adam) -> Tensor:
        found = losses_of(loss, policy, policy(obs), labels).mean()
        optimizer.step(found)
        return found.detach()

    wanted = gradients(policy, by_autograd)
    mine = gradients(policy, lambda optimizer: Cloning(policy, loss, optimizer).descend(obs, labels))
    assert wanted[1].abs().max() > 1e-3
    for found, expected in zip(mine, wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_networks_of_numbers_take_no_autograd() -> None:
    for action_space, head in ((spaces.Discrete(3), "categorical"), (BOX, "squashed")):
        policy, labels = policy_of(action_space, head=head), labels_of(action_space)
        optimizer = Adam(policy.parameters(), 1e-3)
        optimizer.step = lambda _: pytest.fail("autograd")  # type: ignore[assignment,method-assign]
        for loss in (bc_loss, imitation_loss):
            Cloning(policy, loss, optimizer).descend(torch.zeros(len(labels), 3), labels)


def test_a_dimension_with_equal_bounds_has_no_slope() -> None:
    """It is 0 in the policy's units, whatever the network says. Its slope was NaN, so that learning diverged."""
    flat = spaces.Box(np.array([-1, 3], np.float32), np.array([1, 3], np.float32))
    policy, labels = policy_of(flat, head="squashed"), labels_of(flat, 2)
    _, gradient = gradients(
        policy, lambda adam: Cloning(policy, imitation_loss, adam).descend(torch.ones(2, 3), labels)
    )
    assert gradient.abs().max() > 0
    assert policy.output.bias.grad is not None
    assert policy.output.bias.grad[1] == 0
