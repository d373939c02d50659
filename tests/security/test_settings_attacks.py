"""Hostile settings, results and checkpoints: opened or refused in one line, within 1 GB and 20 s, and nothing runs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forked import run
from settings_mutants import HANDMADE, make_bases

GIGABYTE = 1 << 30
CORPUS, CAMPAIGN, BATCH = 10, 2_500, 250
WORK = """
import os, sys
from pathlib import Path
folder = Path(sys.argv[1]).resolve()
os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
from open_settings import work
work(folder, *map(int, sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        (folder / "bases").mkdir()
        make_bases(folder / "bases")
    return folder


def opened(folder: Path, seed: int, start: int, stop: int) -> list[dict[str, Any]]:
    """The outcomes of the files with these numbers, in a child process, which is started again where one ended it."""
    found: dict[int, dict[str, Any]] = {}
    while start < stop:
        child = run(WORK, str(folder), *map(str, (seed, start, stop)))
        assert child.stdout, child.stderr
        found |= {entry["number"]: entry for entry in map(json.loads, child.stdout.splitlines())}
        start = max(found) + 1
    return list(found.values())


def check(results: list[dict[str, Any]]) -> Counter[str]:
    kinds = ("refused", "opened")
    bad = [each for each in results if each["outcome"].partition(":")[0] not in kinds or each["seconds"] > 20]
    assert not bad, json.dumps(bad, indent=1)[:20_000]
    assert max(each["peak"] for each in results) < GIGABYTE
    return Counter(each["outcome"].partition(":")[0] for each in results)


def test_a_corpus_of_hostile_settings(folder: Path) -> None:
    results = opened(folder, 0, 0, len(HANDMADE) + CORPUS)
    check(results)
    accepted = [
        each["name"] for each in results[: len(HANDMADE)] if not each["outcome"].startswith("refused")
    ]
    assert accepted == []
    assert {"refused", "opened"} == set(check(results[len(HANDMADE) :]))


@pytest.mark.attack
@pytest.mark.timeout(7200)
def test_the_campaign(folder: Path) -> None:
    counts: Counter[str] = Counter()
    for batch in range(CAMPAIGN // BATCH):
        results = opened(folder, 1 + batch, len(HANDMADE), len(HANDMADE) + BATCH)
        assert len(results) == BATCH
        counts += check(results)
    print(dict(counts))
