"""Stacked networks: outputs and gradients are those of autograd, up to rounding."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from imitate.nn.adam import Adam
from imitate.nn.networks import seeded
from imitate.nn.stacked import CriticShape, Stack

SIZES = (5, 8, 6, 3)


def stack_of(count: int = 3, *, layer_norm: bool = False, dropout: float = 0.0) -> Stack:
    with seeded(0):
        stack = Stack.of_sizes(count, SIZES, layer_norm=layer_norm, dropout=dropout)
    for parameter in stack.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)  # `backward` replaces this
    return stack


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, SIZES[0], generator=generator), torch.randn(3, 4, SIZES[-1], generator=generator)


def test_one_network_by_hand() -> None:
    """relu(2 * 3 - 1) = 5 and relu(-1 * 3) = 0; 5 * 10 + 0 * 20 + 0.5."""
    first, second = nn.Parameter(torch.tensor([[2.0], [-1.0]])), nn.Parameter(torch.tensor([[10.0, 20.0]]))
    biases = nn.Parameter(torch.tensor([-1.0, 0.0])), nn.Parameter(torch.tensor([0.5]))
    stack = Stack([first, second], biases)
    for parameter in stack.parameters():
        parameter.grad = torch.zeros_like(parameter)
    outputs, tape = stack(torch.tensor([[3.0]]))
    assert outputs.tolist() == [[50.5]]
    slope = stack.backward(tape, torch.ones(1, 1), inputs=slice(0, 1))
    assert slope is not None
    assert slope.tolist() == [[20.0]]  # 10 * 2; the second unit is off
    assert second.grad is not None
    assert second.grad.tolist() == [[5.0, 0.0]]
    assert first.grad is not None
    assert first.grad.tolist() == [[30.0], [0.0]]
    assert [bias.grad.tolist() for bias in biases if bias.grad is not None] == [[10.0, 0.0], [1.0]]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_gradients_are_those_of_autograd(layer_norm: bool) -> None:
    stack, (x, weights) = stack_of(layer_norm=layer_norm), batch()
    outputs, tape = stack(x)
    slope = stack.backward(tape, weights, inputs=slice(2, None))
    found = [parameter.grad.clone() for parameter in stack.parameters() if parameter.grad is not None]
    stack.zero_grad()
    through = x.clone().requires_grad_()
    expected = stack.values(through)
    torch.testing.assert_close(outputs, expected.detach(), rtol=1e-5, atol=1e-6)
    (weights * expected).sum().backward()  # type: ignore[no-untyped-call]
    assert through.grad is not None
    torch.testing.assert_close(slope, through.grad[:, 2:], rtol=1e-5, atol=1e-6)
    wanted = [parameter.grad for parameter in stack.parameters() if parameter.grad is not None]
    assert len(found) == len(wanted) == 6
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def test_networks_are_those_of_torch() -> None:
    stack, (x, _) = stack_of(2), batch()
    for number in range(2):
        layers: list[nn.Module] = []
        for layer, (inputs, outputs) in enumerate(itertools.pairwise(SIZES)):
            linear = nn.Linear(inputs, outputs)
            linear.weight.data, linear.bias.data = stack.weights[layer][number], stack.biases[layer][number]
            layers += [linear, nn.ReLU()]
        torch.testing.assert_close(stack(x)[0][number], nn.Sequential(*layers[:-1])(x).detach())


def test_without_learning_gradients_stay() -> None:
    stack, (x, weights) = stack_of(), batch()
    assert stack.backward(stack(x)[1], weights, learn=False) is None
    assert all(bool((parameter.grad == 7).all()) for parameter in stack.parameters())


@pytest.mark.parametrize("layer_norm", [False, True])
def test_dropped_units_have_no_gradient(layer_norm: bool) -> None:
    """With dropout the outputs are linear in the last weights: finite differences are exact."""
    stack, (x, weights) = stack_of(layer_norm=layer_norm, dropout=0.5), batch()

    def value() -> Tensor:
        return (weights * stack(x, torch.Generator().manual_seed(3))[0]).sum()

    outputs, tape = stack(x, torch.Generator().manual_seed(3))
    assert not torch.equal(outputs, stack(x)[0])  # without a generator nothing is dropped
    stack.backward(tape, weights)
    for parameter in stack.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad
        assert gradient is not None
        for index in (0, flat.numel() // 2, flat.numel() - 1):
            before = flat[index].clone()
            flat[index] = before + 1e-3
            above = value()
            flat[index] = before - 1e-3
            below = value()
            flat[index] = before
            torch.testing.assert_close((above - below) / 2e-3, gradient.view(-1)[index], rtol=2e-2, atol=2e-2)


def test_a_step_goes_down_the_gradient() -> None:
    stack, (x, _) = stack_of(), batch()
    optimizer = Adam(stack.parameters(), 1e-2)

    def loss(outputs: Tensor) -> Tensor:
        return outputs.square().mean()

    before = float(loss(stack(x)[0]))
    for _ in range(200):
        outputs, tape = stack(x)
        found = loss(outputs.requires_grad_())
        (gradient,) = torch.autograd.grad(found, outputs)
        optimizer.collect_views()
        stack.backward(tape, gradient)
        optimizer.descend(found.detach())
    assert float(loss(stack(x)[0])) < 0.01 * before


def test_critics_have_their_shape() -> None:
    stack = CriticShape(2, 5, (8, 8), 0.99).stack(4)
    assert stack(torch.zeros(3, 4))[0].shape == (2, 3, 5)
