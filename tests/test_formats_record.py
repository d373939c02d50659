"""The check of conversions says that a field is equal only if all of it is there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "formats" / "verify.py"
REWARDS = np.arange(4.0)
FRAMES = np.arange(40, dtype=np.uint8).reshape(10, 2, 2)


@pytest.fixture(scope="module")
def verify() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_formats", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ({"0/rewards": REWARDS, "1/rewards": REWARDS}, ["rewards"]),
        ({"0/rewards": REWARDS, "1/rewards": REWARDS[:3]}, ["rewards but for the final rows"]),
        ({"0/rewards": REWARDS, "1/rewards": REWARDS[:2]}, ["rewards DIFFER"]),
        ({"0/rewards": REWARDS, "1/obs": REWARDS}, ["rewards DIFFER"]),
        ({"0/obs": REWARDS, "1/obs": REWARDS}, []),
    ],
)
def test_a_field_is_equal_if_it_is_so_in_all_episodes(
    verify: ModuleType, theirs: dict[str, object], said: list[str]
) -> None:
    assert verify.compared({"0/rewards": REWARDS, "1/rewards": REWARDS}, theirs) == said


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (10, "obs within 2 of 255 in the mean, from lossy video"),
        (9, "obs within 2 of 255 in the mean, from lossy video"),
        (5, "obs DIFFER"),
        (11, "obs DIFFER"),
    ],
)
def test_lossy_video_has_all_frames_but_the_last(verify: ModuleType, rows: int, said: str) -> None:
    theirs = np.resize(FRAMES + 2, (rows, 2, 2))
    assert verify.compared({"0/obs": FRAMES}, {"0/obs": theirs}) == [said]
