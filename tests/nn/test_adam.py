"""Our Adam goes where torch's does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from imitate.nn.adam import Adam


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def loss_of(model: nn.Module, generator: torch.Generator) -> torch.Tensor:
    return model(torch.randn(7, 3, generator=generator)).square().sum()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("weight_decay", "max_grad_norm"), [(0.0, float("inf")), (0.1, float("inf")), (0.0, 0.5)]
)
def test_the_steps_are_those_of_torch(weight_decay: float, max_grad_norm: float) -> None:
    ours, reference = network(), network()
    adam = Adam(ours.parameters(), 0.01, eps=1e-5, weight_decay=weight_decay, max_grad_norm=max_grad_norm)
    adamw = torch.optim.AdamW(reference.parameters(), lr=0.01, eps=1e-5, weight_decay=weight_decay)
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    for _ in range(50):
        adam.step(loss_of(ours, generators[0]))
        adamw.zero_grad()
        loss_of(reference, generators[1]).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(reference.parameters(), max_grad_norm)
        adamw.step()
    for a, b in zip(ours.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_the_state_goes_on_where_it_was_left() -> None:
    first, second = network(), network()
    a, b = Adam(first.parameters(), 0.01), Adam(second.parameters(), 0.01)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        a.step(loss_of(first, generator))
    second.load_state_dict(first.state_dict())
    b.load_state_dict(a.state_dict())
    state = generator.get_state()
    a.step(loss_of(first, generator))
    b.step(loss_of(second, generator.set_state(state)))
    for left, right in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize(
    ("loss", "said"), [(float("nan"), "the loss is nan"), (float("inf"), "the loss is inf")]
)
def test_a_loss_that_is_not_finite_is_named_and_nothing_is_changed(loss: float, said: str) -> None:
    model = network()
    adam = Adam(model.parameters(), 0.01)
    generator = torch.Generator().manual_seed(1)
    adam.step(loss_of(model, generator))
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(FloatingPointError, match=f"{said}.*in update 2: training diverged"):
        adam.step(loss_of(model, generator) * loss)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    adam.step(loss_of(model, generator))  # and it can go on


def test_a_gradient_that_is_not_finite_is_refused_too() -> None:
    weight = nn.Parameter(torch.zeros(1))
    with pytest.raises(FloatingPointError, match="the loss is 0 and its gradient's norm inf"):
        Adam([weight], 0.01).step(weight.sqrt().sum())  # the slope of the root at 0


def test_parameters_that_the_loss_does_not_depend_on_stay() -> None:
    model, other = network(), nn.Parameter(torch.ones(2))
    adam = Adam([*model.parameters(), other], 0.01)
    adam.step(loss_of(model, torch.Generator().manual_seed(1)))
    assert other.tolist() == [1, 1]


def test_two_optimisers_of_the_same_parameters_both_take_their_steps() -> None:
    """The first one used to go on in memory that the parameters had left."""
    model, reference = network(), network()
    optimisers = [Adam(model.parameters(), rate) for rate in (0.01, 0.1)]
    references = [torch.optim.AdamW(reference.parameters(), rate, weight_decay=0.0) for rate in (0.01, 0.1)]
    generators = [torch.Generator().manual_seed(1) for _ in range(2)]
    for number in (0, 1, 0, 0, 1):
        optimisers[number].step(loss_of(model, generators[0]))
        reference.zero_grad()
        loss_of(reference, generators[1]).backward()  # type: ignore[no-untyped-call]
        references[number].step()
    for a, b in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_gradients_that_somebody_cleared_are_no_obstacle() -> None:
    model, other = network(), network()
    optimisers = [Adam(each.parameters(), 0.01) for each in (model, other)]
    model.zero_grad()  # sets them to None
    for each, optimiser in zip((model, other), optimisers, strict=True):
        optimiser.step(loss_of(each, torch.Generator().manual_seed(1)))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
