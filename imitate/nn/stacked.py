"""Several multilayer perceptrons of the same shape, computed at once, with a backward pass written by hand.

An update takes gradients of small networks many times. Autograd would compute more than is needed there (gradients of
critics that only the actor's step looks through), move every product once more in memory, and take as long for its
records as small products do. Losses stay functions of the outputs that also return their gradient by these; `backward`
takes it the rest of the way.
`tests/nn/test_stacked.py` compares it with autograd.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import torch
import torch.nn.functional as F
from msgspec import Meta
from torch import Tensor, nn

from imitate.configs.shared import Widths
from imitate.nn.adam import Adam
from imitate.nn.networks import MLP, Encoder

__all__ = ["CriticShape", "Graded", "Stack", "Tape", "stack_of"]

Graded = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function of a network's outputs (..., B, A), such as a loss (), and the gradient of its sum by them."""

_aten = torch.ops.aten


@dataclass(frozen=True)
class CriticShape:
    """The architecture of a policy's critics and the meaning of their values.

    count, outputs  critics, and outputs of each: 1, or its quantiles
    gamma           discount of the values
    mean            the value is the mean over critics, otherwise their minimum
    """

    count: Annotated[int, Meta(ge=1)]
    outputs: Annotated[int, Meta(ge=1)]
    hidden: Widths
    gamma: Annotated[float, Meta(ge=0, le=1)]
    layer_norm: bool = False
    dropout: float = 0.0
    mean: bool = False

    def stack(self, inputs: int) -> Stack:
        """Critics of this shape with new weights, for observations and actions of together `inputs` numbers."""
        sizes = [inputs, *self.hidden, self.outputs]
        return Stack.of_sizes(self.count, sizes, layer_norm=self.layer_norm, dropout=self.dropout)


@dataclass(frozen=True, slots=True)
class Tape:
    """Record of a forward pass, layer by layer, for `backward`.

    inputs  of each layer, (C, B, in); of the first (B, in)
    norms   of each hidden layer: the values before layer norm (C, B, out), mean and reciprocal deviation; or None
    kept    of each hidden layer: the mask of dropout, with its scale (C, B, out); or None
    """

    inputs: list[Tensor]
    norms: list[tuple[Tensor, Tensor, Tensor] | None]
    kept: list[Tensor | None]


class Stack(nn.Module):
    """C networks of linear layers, with relu or tanh between them: inputs (B, in), which all share, to outputs
    (C, B, out).

    A single network made from layers has weights (out, in), and everything below is without the axis C: products of
    matrices take half the time of stacks of one, if they are small.

    layer_norm  normalise before each activation, without a learned scale (arXiv:2302.02948)
    dropout     share of units that are dropped before that, in `forward` with a generator (DroQ, arXiv:2110.02034)
    """

    def __init__(
        self,
        weights: Sequence[nn.Parameter],
        biases: Sequence[nn.Parameter],
        *,
        activation: Literal["relu", "tanh"] = "relu",
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        """Each layer has weights (C, out, in) and biases (C, out), or (out, in) and (out,)."""
        super().__init__()
        self.weights, self.biases = nn.ParameterList(weights), nn.ParameterList(biases)
        self._layers = tuple(zip(weights, biases, strict=True))  # a list of parameters is slow to walk
        self.activation, self.layer_norm, self.dropout = activation, layer_norm, dropout
        self._function = torch.relu if activation == "relu" else torch.tanh

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._layers = tuple(zip(self.weights, self.biases, strict=True))  # some devices replace parameters
        return self

    @classmethod
    def of_sizes(
        cls, count: int, sizes: Sequence[int], *, layer_norm: bool = False, dropout: float = 0.0
    ) -> Self:
        """`count` networks with layers of these sizes, initialised as `nn.Linear`."""
        weights, biases = [], []
        for inputs, outputs in itertools.pairwise(sizes):
            bound = 1.0 / math.sqrt(inputs)
            weights.append(nn.Parameter(torch.empty(count, outputs, inputs).uniform_(-bound, bound)))
            biases.append(nn.Parameter(torch.empty(count, outputs).uniform_(-bound, bound)))
        return cls(weights, biases, layer_norm=layer_norm, dropout=dropout)

    @property
    def learns(self) -> bool:
        """True if no parameter is frozen; `backward` would write a gradient for it."""
        return all(parameter.requires_grad for parameter in self.parameters())

    def outputs(self, x: Tensor) -> Tensor:
        """Outputs (C, B, out) of inputs (B, in)."""
        outputs: Tensor = self(x)[0]
        return outputs

    def values(self, x: Tensor) -> Tensor:
        """Outputs (C, B, out) of inputs (B, in) or (C, B, in) through autograd, without dropout."""
        for number, (weight, bias) in enumerate(self._layers):
            if number:
                x = self._function(F.layer_norm(x, x.shape[-1:]) if self.layer_norm else x)
            x = linear(x, weight, bias)
        return x

    @torch.no_grad()
    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tape]:
        """Outputs (C, B, out) of inputs (B, in), and the tape. Units are only dropped if there is a generator."""
        tape = Tape([], [], [])
        last = len(self._layers) - 1
        for number, (weight, bias) in enumerate(self._layers):
            tape.inputs.append(x)
            x = linear(x, weight, bias)  # (C, B, out)
            if number == last:
                break
            kept, norm = None, None
            if self.dropout and generator is not None:
                kept = torch.rand(x.shape, generator=generator, device=x.device).ge_(self.dropout)
                x.mul_(kept.div_(1.0 - self.dropout))
            if self.layer_norm:
                raw = x
                x, mean, reciprocal = torch.native_layer_norm(raw, raw.shape[-1:], None, None, 1e-5)
                norm = raw, mean, reciprocal
            x = x.relu_() if self.activation == "relu" else x.tanh_()
            tape.norms.append(norm)
            tape.kept.append(kept)
        return x, tape

    @torch.no_grad()
    def backward(
        self, tape: Tape, gradient: Tensor, *, learn: bool = True, inputs: slice | None = None
    ) -> Tensor | None:
        """Take the gradient (C, B, out) of a loss back.

        learn   write the parameters' gradients into their `grad`, replacing what was there
        inputs  return the gradient of these columns of the inputs (B, columns), summed over the C networks
        """
        for number in reversed(range(len(self._layers))):
            weight, bias = self._layers[number]
            x = tape.inputs[number]
            if learn:
                many = x.expand(len(weight), *x.shape) if x.dim() < weight.dim() else x
                assert weight.grad is not None
                assert bias.grad is not None
                if number:
                    torch.matmul(gradient.mT, many, out=weight.grad)
                else:  # few inputs: this product is twice as fast the other way round
                    weight.grad.copy_(torch.matmul(many.mT, gradient).mT)
                torch.sum(gradient, -2, out=bias.grad)
            if not number:
                break
            gradient = torch.matmul(gradient, weight)  # (C, B, in)
            if self.activation == "relu":
                gradient = _aten.threshold_backward.grad_input(gradient, x, 0.0, grad_input=gradient)
            else:
                gradient = _aten.tanh_backward.grad_input(gradient, x, grad_input=gradient)
            norm, kept = tape.norms[number - 1], tape.kept[number - 1]
            if norm is not None:
                raw, mean, reciprocal = norm
                gradient = _aten.native_layer_norm_backward(
                    gradient, raw, raw.shape[-1:], mean, reciprocal, None, None, [True, False, False]
                )[0]
            if kept is not None:
                gradient.mul_(kept)
        if inputs is None:
            return None
        first = self._layers[0][0][..., inputs].mT.contiguous()  # of few columns: see above
        product = torch.matmul(first, gradient.mT)  # (C, columns, B)
        return (product.sum(0) if product.dim() == 3 else product).t()

    @torch.no_grad()
    def descend(
        self, x: Tensor, loss: Graded, optimizer: Adam, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """One gradient step at inputs (B, in); returns the loss () and the outputs before it."""
        outputs, tape = self(x, generator)
        found, gradient = loss(outputs)
        optimizer.collect_views()
        self.backward(tape, gradient)
        optimizer.descend(found)
        return found, outputs


def stack_of(network: nn.Module) -> Stack | None:
    """The network of a policy or a value function, whose parameters it shares; None for pixels and Dicts."""
    body, output = network.encoder, network.output
    if not isinstance(body, Encoder) or not isinstance(body.net, MLP) or not isinstance(output, nn.Linear):
        return None
    layers = [*body.net.linear, output]
    weights, biases = zip(*((layer.weight, layer.bias) for layer in layers), strict=True)
    return Stack(weights, biases, activation=body.net.activation, layer_norm=body.net.layer_norm)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Inputs (B, in) or (C, B, in) through layers of weights (C, out, in); or (B, in) through one (out, in)."""
    if weight.dim() == 2:
        return F.linear(x, weight, bias)
    return torch.baddbmm(bias.unsqueeze(1), x.expand(len(weight), *x.shape[-2:]), weight.mT)
