"""Collections that are interrupted and resumed: the file is as if they had not been."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from counting import Cycling, counting_envs, info_of, seeds_in
from forked import Script
from numpy.testing import assert_array_equal

from imitate.datasets import DemoReader, InputError, collect, episode_seeds, validate


class Slow(Cycling):
    """Never ends, so that the test can interrupt it: after about half of the episodes it waits."""

    calls = 0

    def act(self, obs: Any, **_: Any) -> Any:
        Slow.calls += 1
        time.sleep(0.002 if Slow.calls < 900 else 600.0)
        return super().act(obs)


COLLECT = """
import sys
from test_collect_resumed import *
envs = counting_envs(4, period=60)
try:
    collect(Slow(), envs, sys.argv[1], info_of(envs, seed=7, noise="random:0.1"), episodes=200)
except KeyboardInterrupt:
    sys.exit(130)
"""


def interrupt(path: Path, how: signal.Signals) -> int:
    """Collect in another process until some episodes are on disk, then send it a signal."""
    with Script(COLLECT, str(path)) as process:
        for _ in range(10_000):
            time.sleep(0.02)
            if path.exists() and path.stat().st_size > 100_000 and len(seeds_in(path)) > 20:
                break
        process.send_signal(how)
        return process.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_interrupted_and_resumed_is_as_if_it_had_not_been(tmp_path: Path, how: signal.Signals) -> None:
    path, whole = tmp_path / "demos.h5", tmp_path / "whole.h5"
    assert interrupt(path, how) == (-9 if how == signal.SIGKILL else 130)
    assert 20 < len(seeds_in(path)) < 200
    assert validate(path) == []
    envs = counting_envs(4, period=60)
    info = info_of(envs, seed=7, noise="random:0.1")
    collect(Cycling(), envs, path, info, episodes=200, resume=True)
    collect(Cycling(), envs, whole, info, episodes=200)
    with DemoReader(path) as resumed, DemoReader(whole) as expected:
        assert len(resumed) == len(expected) == 200
        for one, other in zip(
            np.argsort(resumed.table["seed"]), np.argsort(expected.table["seed"]), strict=True
        ):
            had, wanted = resumed[one], expected[other]
            for name in ("obs", "actions", "rewards", "labels"):
                assert_array_equal(getattr(had, name), getattr(wanted, name))


def test_resuming_what_is_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    collect(Cycling(), envs, path, info_of(envs, seed=1), episodes=5, resume=True)
    before = path.read_bytes()
    collect(Cycling(), envs, path, info_of(envs, seed=1), episodes=5, resume=True)
    assert path.read_bytes() == before
    collect(Cycling(), envs, path, info_of(envs, seed=1), episodes=8, resume=True)
    assert seeds_in(path) == sorted(islice(episode_seeds(1), 8))


def test_resuming_under_the_name_with_its_module(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    info = replace(info_of(envs, seed=1), env_id="Counting-v0", env_kwargs={"size": (3, 4)})
    collect(Cycling(), envs, path, info, episodes=5).close()
    named = replace(info, env_id="counting:Counting-v0")
    with collect(Cycling(), envs, path, named, episodes=6, resume=True) as demos:
        assert len(demos) == 6


@pytest.mark.parametrize(
    "changed",
    [{"seed": 2}, {"noise": "random:0.1"}, {"deterministic": False}, {"normalisation_sha256": "ab"}],
)
def test_resuming_something_else_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    collect(Cycling(), envs, path, info_of(envs, seed=1), episodes=5)
    before = path.read_bytes()
    with pytest.raises(InputError, match=next(iter(changed))):
        collect(Cycling(), envs, path, info_of(envs, **{"seed": 1} | changed), episodes=9, resume=True)
    with pytest.raises(InputError, match="exists already"):
        collect(Cycling(), envs, path, info_of(envs, seed=1), episodes=9)
    assert path.read_bytes() == before


def test_labels_are_not_mixed_with_actions(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    info = info_of(envs, seed=1)
    collect(Cycling(), envs, path, info, episodes=3, expert=Cycling()).close()
    collect(Cycling(), envs, path, info, episodes=3, resume=True).close()  # nothing is lacking
    with pytest.raises(InputError, match="has labels, and would go on without an expert that labels"):
        collect(Cycling(), envs, path, info, episodes=5, resume=True)
    collect(Cycling(), envs, path, info, episodes=5, expert=Cycling(), resume=True).close()
    without = tmp_path / "without.h5"
    collect(Cycling(), envs, without, info, episodes=3).close()
    with pytest.raises(InputError, match="has no labels, and would go on with an expert that labels"):
        collect(Cycling(), envs, without, info, episodes=5, expert=Cycling(), resume=True)
