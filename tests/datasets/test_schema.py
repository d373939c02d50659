"""Files that older releases wrote stay readable."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path

import h5py
import numpy as np
import pytest
from counting import Cycling

from imitate.datasets import DemoReader, DemoWriter, InputError, episode_seeds, validate

FIXTURE = Path(__file__).parent / "fixtures" / "schema-1.h5.gz"
"""Six episodes of the counting environment with random:0.2, from before there was a command or a protocol."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "old.h5"
    path.write_bytes(gzip.decompress(FIXTURE.read_bytes()))
    return path


def test_a_file_of_schema_1_is_read(old: Path) -> None:
    assert validate(old) == []
    with DemoReader(old) as reader:
        assert (reader.info.expert, reader.info.expert_return, reader.info.noise) == (
            "somebody",
            1.5,
            "random:0.2",
        )
        assert (reader.info.command, reader.info.protocol) == ("", "")
        assert sorted(reader.table["seed"]) == sorted(islice(episode_seeds(1), 6))
        for episode in reader:
            assert episode.obs[:, 1].tolist() == list(range(len(episode) + 1))
            np.testing.assert_array_equal(episode.labels, Cycling().act(episode.obs[:-1]))


def test_it_can_be_resumed_and_is_then_of_today(old: Path) -> None:
    DemoWriter.resume(old).close()
    with h5py.File(old) as file:
        assert file.attrs["command"] == ""
        assert "T + 1 rows" in file["obs"].attrs["description"]
    with DemoReader(old) as reader:
        assert len(reader) == 6


def test_a_file_of_the_future_says_what_to_do(old: Path) -> None:
    with h5py.File(old, "a") as file:
        file.attrs["schema_version"] = 3
    with pytest.raises(InputError, match="schema 3, this release reads 1 and 2: upgrade"):
        DemoReader(old)
