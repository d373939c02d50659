"""Moving averages of weights, by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from imitate.nn.average import Average


def constant(weight: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    nn.init.constant_(layer.weight, weight)
    return layer


def test_the_decay_rises_to_the_given_one() -> None:
    """It is 1/10, then 0.15, since 2/11 is more: 0.9 of the way from 0 to 1, then 0.85 of what is left."""
    kept = constant(0.0)
    average, found = Average(kept, constant(1.0), decay=0.15), []
    for _ in range(3):
        average.update()
        found.append(kept.weight.item())
    assert found == pytest.approx([0.9, 0.985, 0.99775])


def test_a_state_goes_on_from_its_count() -> None:
    """After 8 updates the decay is 9/18."""
    kept = constant(0.0)
    average = Average(kept, constant(1.0), decay=0.99)
    average.load_state_dict({"count": 8})
    average.update()
    assert torch.equal(kept.weight, torch.tensor([[0.5]]))
    assert average.state_dict() == {"count": 9}
