"""The ends of episodes are the same after a conversion and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from converting import UNIT, recording, write

from imitate.datasets import DemoReader
from imitate.datasets.convert import FORMATS, convert

ENDS = [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("imitate", "d4rl")])
def test_an_episode_may_terminate_at_its_time_limit(name: str, tmp_path: Path) -> None:
    """D4RL's readers take an episode for one or the other."""
    played = [
        replace(each, terminated=terminated, truncated=truncated)
        for each, (terminated, truncated) in zip(recording(UNIT, lengths=(2, 3, 2)), ENDS, strict=True)
    ]
    write(tmp_path / "a.h5", UNIT, played)
    out = tmp_path / ("b" if FORMATS[name].folder else {"npz": "b.npz", "csv": "b.csv"}.get(name, "b.hdf5"))
    convert(tmp_path / "a.h5", out, format=name)
    convert(out, tmp_path / "c.h5", env_id=UNIT.env_id)
    with DemoReader(tmp_path / "c.h5") as demos:
        assert [(bool(row["terminated"]), bool(row["truncated"])) for row in demos.table] == ENDS
