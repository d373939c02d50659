"""Recording in Python from arrays that are used again, and files of parts of episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from recordings import INFO, trajectory

from imitate.datasets import DemoReader, DemoWriter, edit, episode_seeds


def test_arrays_may_be_used_again(tmp_path: Path) -> None:
    """Episodes wait in memory after the first flush."""
    episode = trajectory(3, 0)
    with DemoWriter(tmp_path / "demos.h5", INFO) as writer:
        for number in range(5):
            for array in (episode.obs, episode.actions, episode.rewards):
                array[:] = number % 2
            writer.append(episode)
    with DemoReader(tmp_path / "demos.h5") as demos:
        for name in ("obs", "actions", "rewards"):
            assert [getattr(each, name).flat[0] for each in demos] == [0, 1, 0, 1, 0]


def test_parts_of_episodes_count_among_those_that_began_first(tmp_path: Path) -> None:
    """-1 - s is the seed of a part that begins later than the episode of seed s."""
    first, second, third = (seed for seed, _ in zip(episode_seeds(0), range(3), strict=False))
    with DemoWriter(tmp_path / "demos.h5", replace(INFO, seed=0)) as writer:
        for seed in (third, -1 - second, -1 - first):
            writer.append(trajectory(3, info={"seed": seed}))
    with DemoReader(tmp_path / "demos.h5") as demos:
        assert np.array_equal(demos.first(2), [1, 2])
        assert demos.begun() == {first: 0, second: 1, third: 2}


def test_the_first_episodes_of_a_part_are_those_that_began_first(tmp_path: Path) -> None:
    """In a file of episodes that were played side by side the short ones are first, whenever they began."""
    first, second, third = (seed for seed, _ in zip(episode_seeds(0), range(3), strict=False))
    with DemoWriter(tmp_path / "demos.h5", replace(INFO, seed=0)) as writer:
        for steps, seed in ((1, third), (2, second), (3, first)):
            writer.append(trajectory(steps, info={"seed": seed}))
    edit.keep(tmp_path / "demos.h5", tmp_path / "kept", max_length=3)
    with DemoReader(tmp_path / "kept") as demos:
        assert demos.lengths[demos.first(2)].tolist() == [3, 2]


def test_a_part_of_a_collection_is_none(tmp_path: Path) -> None:
    """It lacks seeds, which `collect --resume` would play again."""
    with DemoWriter(tmp_path / "demos.h5", replace(INFO, seed=0)) as writer:
        for seed, _ in zip(episode_seeds(0), range(4), strict=False):
            writer.append(trajectory(3, info={"seed": seed}))
    edit.split(tmp_path / "demos.h5", tmp_path / "train", tmp_path / "rest", holdout=0.5)
    edit.keep(tmp_path / "demos.h5", tmp_path / "kept", max_length=3)
    edit.subsample(tmp_path / "demos.h5", tmp_path / "some", every=2)
    edit.concat(tmp_path / "demos.h5", tmp_path / "whole")
    for name, seed in (("train", None), ("rest", None), ("kept", None), ("some", None), ("whole", 0)):
        with DemoReader(tmp_path / name) as demos:
            assert demos.info.seed == seed


def test_pieces_of_an_episode_are_truncated_except_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DemoWriter(tmp_path / "demos.h5", INFO) as writer:
        writer.append(trajectory(3, seed=0))
    monkeypatch.setattr("imitate.datasets.storage.reader.PIECE_BYTES", 1)  # a step in each piece
    with DemoReader(tmp_path / "demos.h5") as demos:
        ends = [(piece.terminated, piece.truncated) for piece in demos.pieces(0)]
    assert ends == [(False, True), (False, True), (True, False)]
