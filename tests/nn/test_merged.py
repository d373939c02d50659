"""Policies merged into one: its outputs are the mean of theirs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose

from imitate.nn.merged import can_merge, merge_into, wider
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy

VECTOR = spaces.Box(-1, 1, (3,))


@pytest.mark.parametrize("hidden", [(4,), (4, 5)])
@pytest.mark.parametrize(
    "actions", [spaces.Discrete(3), spaces.Box(-2, 2, (2,)), spaces.MultiDiscrete([2, 3])]
)
def test_the_outputs_of_the_whole_are_the_mean_of_the_members(
    actions: spaces.Space[object], hidden: tuple[int, ...]
) -> None:
    with seeded(0):
        members = [ActorPolicy(VECTOR, actions, hidden=hidden, normalize_obs=True) for _ in range(3)]
        obs = torch.randn(7, 3)
    for member in members:
        member.encoder.observe(obs)
    whole = wider(members[0], 3)
    merge_into(whole, members)
    prepared = whole.encoder.prepare(obs)
    assert torch.equal(prepared, members[0].encoder.prepare(obs))
    outputs = [policy.output(policy.encoder(prepared)).detach() for policy in (whole, *members)]
    assert_allclose(outputs[0], torch.stack(outputs[1:]).mean(0), atol=1e-6)
    assert whole.encoder.features == 3 * hidden[-1]


def test_pictures_fields_and_networks_without_hidden_layers_are_not_merged() -> None:
    picture = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    fields = spaces.Dict({"a": VECTOR, "b": VECTOR})
    for space, hidden, possible in (
        (VECTOR, (4,), True),
        (VECTOR, (), False),
        (picture, (4,), False),
        (fields, (4,), False),
    ):
        assert can_merge(ActorPolicy(space, spaces.Discrete(2), hidden=hidden)) == possible
    assert not can_merge(ActorPolicy(VECTOR, spaces.Discrete(2), hidden=(4,), layer_norm=True))
