"""Every learner draws all its random numbers from its seed, and its saved state is all that it goes on from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import TINY, maker

from imitate.algorithms import ALGORITHMS
from imitate.nn.state import load_state, save_state

STORED = [name for name, algorithm in ALGORITHMS.items() if "store" in algorithm.needs]
"""Learners whose state is of use only beside their data on disk; their own tests are elsewhere."""


def state_of(learner: Any, path: Path) -> bytes:
    save_state(path, learner.state_dict())
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize("name", sorted({*TINY} - {*STORED}))
def test_one_seed_gives_the_same_bytes_and_another_one_others(tmp_path: Path, name: str) -> None:
    make, states = maker(name, tmp_path, "cpu"), []
    for number, seed in enumerate((0, 0, 1)):
        learner = make(seed)
        learner.step()  # which only clones, or plays the expert, for some
        learner.step()
        states.append(state_of(learner, tmp_path / f"state{number}"))
    assert states[0] == states[1] != states[2]


@pytest.mark.parametrize("name", sorted({*TINY} - {*STORED}))
def test_a_saved_state_goes_on_to_the_byte(tmp_path: Path, name: str) -> None:
    """A checkpoint is a reset point, so the learner that goes on loads it too."""
    make, states = maker(name, tmp_path, "cpu"), []
    first = make()
    first.step()
    state_of(first, tmp_path / "state")
    for number, learner in enumerate((first, make())):
        learner.load_state_dict(load_state(tmp_path / "state"))
        learner.step()
        states.append(state_of(learner, tmp_path / f"later{number}"))
    assert states[0] == states[1]
