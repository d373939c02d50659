"""Gradient steps and networks that a GPU replays as one CUDA graph.

A gradient step is a hundred kernels and more, each of a few microseconds. The processor takes longer to launch them one
by one than the GPU to run them; a recorded graph launches them all at once.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from imitate.nn.adam import Adam

__all__ = ["Graphed"]

Columns = dict[str, Tensor]
MOST = 16
"""Recordings that are kept, each with its own memory; batches of further shapes are not recorded."""


class Graphed:
    """A function of a batch that is recorded at its second call with one shape, and replayed from then on.

    On a CPU it is called as it is.

    step        the function; it may depend on nothing else that changes, does not wait for the GPU, and draws no random
                numbers
    optimizers  those whose steps it takes; call `check` after the last of a few steps
    network     whose parameters it reads; once these have moved, it is recorded again
    """

    def __init__(
        self, step: Callable[[Columns], Columns], *optimizers: Adam, network: nn.Module | None = None
    ) -> None:
        self.step, self.optimizers = step, optimizers
        self.read = () if network is None else tuple(network.parameters())
        self._graphs: dict[object, tuple[torch.cuda.CUDAGraph, Columns, Columns]] = {}
        self._seen: set[object] = set()
        self._places: tuple[int, ...] = ()
        self._stream: torch.cuda.Stream | None = None

    @property
    def recorded(self) -> int:
        """The number of recordings."""
        return len(self._graphs)

    def __call__(self, batch: Columns) -> Columns:
        if not next(iter(batch.values())).is_cuda:
            return self.step(batch)
        places = [optimizer.place() for optimizer in self.optimizers]
        places += [parameter.data_ptr() for parameter in self.read]
        if self._places != tuple(places):
            self._places = tuple(places)
            self._graphs.clear()
            self._seen.clear()
        key = tuple((name, column.shape, column.dtype) for name, column in batch.items())
        if key not in self._seen and len(self._seen) < MOST:
            self._seen.add(key)
            return self._apart(lambda: self.step(batch))
        if key not in self._seen:
            return self.step(batch)
        if key not in self._graphs:
            self._graphs[key] = self._record(batch)
        graph, inputs, outputs = self._graphs[key]
        for name, column in batch.items():
            inputs[name].copy_(column)
        graph.replay()
        return {name: column.clone() for name, column in outputs.items()}

    def check(self) -> None:
        """Raise FloatingPointError if a step since the last call diverged."""
        for optimizer in self.optimizers:
            optimizer.check()

    def _record(self, batch: Columns) -> tuple[torch.cuda.CUDAGraph, Columns, Columns]:
        graph, inputs = torch.cuda.CUDAGraph(), {name: column.clone() for name, column in batch.items()}
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=self._stream):
            outputs = self.step(inputs)
        return graph, inputs, outputs

    def _apart(self, function: Callable[[], Columns]) -> Columns:
        """Call on the stream on which recordings are made, so that what libraries set up there is not recorded."""
        self._stream = self._stream or torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            found = function()
        torch.cuda.current_stream().wait_stream(self._stream)
        return found
