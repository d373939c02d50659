"""Hostile files: each is read or refused in one line, whatever HDF5 makes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from attacks import BASES, attack, make_bases, metadata_of
from handmade import HANDMADE, SAMPLE

pytestmark = pytest.mark.forks

MUTANTS, CAMPAIGN = 18, 5_000


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    make_bases(folder)
    for base in BASES:
        np.save(folder / f"{base}.npy", metadata_of(folder / base))
    return folder


def run(bases: Path, numbers: Sequence[int]) -> Counter[str]:
    """Outcomes of the hostile files with these numbers; those made by hand have to be refused."""
    results = attack(bases, numbers)
    assert [number for number, *_ in results] == list(numbers)
    bad = [result for result in results if result[2] not in ("read", "refused", "problems")]
    assert not bad, "\n".join(map(str, bad))
    assert [name for _, name, outcome, _ in results if name in HANDMADE and outcome != "refused"] == []
    return Counter(outcome for _, _, outcome, _ in results)


def test_a_corpus_of_hostile_files(bases: Path) -> None:
    handmade = [number for number, name in enumerate(HANDMADE) if name in SAMPLE]
    counts = run(bases, [*handmade, *range(len(HANDMADE), len(HANDMADE) + MUTANTS)])
    assert sum(counts.values()) == len(SAMPLE) + MUTANTS
    assert counts["refused"] > len(SAMPLE) + 7
    assert counts["read"] > 0


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_the_campaign(bases: Path) -> None:
    counts = run(bases, range(len(HANDMADE) + CAMPAIGN))
    print(counts)
