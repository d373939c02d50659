"""Steps are recorded at their second call, and again if parameters moved; `tests/test_gpu.py` records real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from imitate.nn.adam import Adam
from imitate.nn.graphed import MOST, Graphed


class OnGPU:
    """A column that says it is on a GPU."""

    is_cuda, dtype = True, torch.float32

    def __init__(self, size: int) -> None:
        self.shape = (size,)

    def copy_(self, _other: OnGPU) -> None:
        pass

    clone = copy_


class Replay:
    def replay(self) -> None:
        pass


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the batches that are recorded."""
    sizes: list[int] = []

    def record(_graphed: Graphed, batch: dict[str, Any]) -> tuple[Replay, dict[str, Any], dict[str, Any]]:
        sizes.append(batch["x"].shape[0])
        return Replay(), batch, {}

    def apart(_graphed: Graphed, function: Callable[[], Any]) -> Any:
        return function()

    monkeypatch.setattr(Graphed, "_record", record)
    monkeypatch.setattr(Graphed, "_apart", apart)
    return sizes


def test_each_shape_is_called_once_and_then_recorded_once(recorded: list[int]) -> None:
    called = []
    graphed = Graphed(lambda batch: called.append(batch["x"].shape[0]) or {})  # type: ignore[func-returns-value]
    for size in (4, 4, 4, 2, 4, 2, 2):
        graphed({"x": OnGPU(size)})  # type: ignore[dict-item]
    assert called == [4, 2]
    assert recorded == [4, 2]


def test_parameters_that_moved_are_recorded_again_and_nothing_is_kept_of_before(recorded: list[int]) -> None:
    layer = nn.Linear(2, 2)
    adam = Adam(layer.parameters(), 0.1)
    graphed = Graphed(lambda _batch: {}, adam, network=layer)
    for _ in range(3):
        graphed({"x": OnGPU(4)})  # type: ignore[dict-item]
    assert (recorded, graphed.recorded) == ([4], 1)
    Adam(layer.parameters(), 0.1)  # moves them
    for _ in range(3):
        graphed({"x": OnGPU(4)})  # type: ignore[dict-item]
    assert (recorded, graphed.recorded) == ([4, 4], 1)


def test_many_shapes_are_not_all_kept(recorded: list[int]) -> None:
    graphed = Graphed(lambda _batch: {})
    for size in range(1, 100):
        for _ in range(2):
            graphed({"x": OnGPU(size)})  # type: ignore[dict-item]
    assert graphed.recorded == len(recorded) == MOST


def test_on_a_processor_it_is_the_function() -> None:
    graphed = Graphed(lambda batch: {"twice": 2 * batch["x"]})
    for _ in range(3):
        assert graphed({"x": torch.ones(2)})["twice"].tolist() == [2, 2]
    assert graphed.recorded == 0
