"""Steps that a GPU would record as graphs neither wait for results nor draw random numbers, and know their device.

`tests/test_gpu.py` records them; this runs without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import maker
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from imitate.nn.adam import Adam
from imitate.nn.graphed import Graphed
from imitate.rl.sac import Temperature

WAITS = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal", "item")
DRAWS = ("rand", "bernoulli", "normal", "uniform", "multinomial", "exponential", "dropout")


class Watched(TorchDispatchMode):
    """Fails at calls that a graph can't record."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        assert name not in WAITS, f"{name} waits for the GPU"
        assert not name.startswith(DRAWS), f"{name} draws random numbers"
        for tensor in tree_leaves((args, kwargs)):
            if isinstance(tensor, Tensor):
                assert not (tensor.is_meta and tensor.dim()), f"{name} takes a tensor made without a device"
        return func(*args, **(kwargs or {}))


class Seen(Exception):
    """All steps that were wanted have been watched, and one of them comes again."""


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the steps that end a test with `Seen`; all are watched at their first call."""
    wanted: set[str] = set()
    ran: set[str] = set()

    def watched(graphed: Graphed, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        name = getattr(graphed.step, "func", graphed.step).__name__
        if name in ran:
            if wanted <= ran:
                raise Seen
            return graphed.step(batch)
        ran.add(name)
        with Watched(), torch.device("meta"):
            return graphed.step(batch)

    # On a GPU these do not wait: Adam checks later, the temperature stays there.
    monkeypatch.setattr(
        Adam, "descend", lambda adam, _=0.0: adam._descend(torch.ones(()), adam.learning_rate)
    )
    monkeypatch.setattr(Temperature, "_publish", lambda self: setattr(self, "now", self.log.detach().exp()))
    monkeypatch.setattr(Graphed, "__call__", watched)
    return wanted


@pytest.mark.parametrize(
    ("name", "stepped"),
    [
        ("sac", {"_descend"}),
        ("tqc", {"_descend"}),
        ("td3", {"_descend"}),
        ("guided", {"_step", "_rate"}),
        ("dac", {"_descend", "_judge"}),
        ("gaifo", {"_descend", "_judge"}),
        ("iq-continuous", {"_descend"}),
        ("ppo", {"_descend"}),
        ("dqn", {"_step", "_values"}),
    ],
)
def test_a_recorded_step_neither_waits_nor_draws(
    wanted: set[str], name: str, stepped: set[str], tmp_path: Path
) -> None:
    wanted |= stepped
    learner = maker(name, tmp_path, "cpu")()
    with pytest.raises(Seen):
        list(iter(learner.step, None))


def test_the_watch_sees_what_it_looks_for() -> None:
    with Watched():
        with pytest.raises(AssertionError, match="waits"):
            float(torch.ones(1))
        with pytest.raises(AssertionError, match="draws"):
            torch.rand(2)
        with torch.device("meta"), pytest.raises(AssertionError, match="without a device"):
            torch.ones(3, device="cpu").add_(torch.arange(3))
