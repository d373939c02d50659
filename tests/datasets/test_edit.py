"""New files of demonstrations from old ones, and several read as one."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from counting import Cycling, counting_envs, info_of, stacked_envs
from numpy.testing import assert_array_equal
from recordings import INFO, assert_same, trajectory

from imitate.cli import main
from imitate.datasets import DemoReader, DemoWriter, InputError, collect, describe, edit, episodes, validate
from imitate.datasets.edit import drawn
from imitate.envs.seeds import episode_seeds


def written(path: Path, seeds: Any, info: Any = INFO, **options: Any) -> Path:
    """Episode of seed s: 1 + s steps, terminated where s is even."""
    with DemoWriter(path, info, **options) as writer:
        for seed in seeds:
            writer.append(trajectory(1 + seed, seed))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Shards a, b and c with the seeds 0 1 2, 2 3 and 4."""
    for name, seeds in (("a", (0, 1, 2)), ("b", (2, 3)), ("c", (4,))):
        written(tmp_path / f"{name}.h5", seeds)
    return tmp_path


def seeds_of(source: Any) -> list[int]:
    with DemoReader(source) as reader:
        return [one.info["seed"] for one in reader]


def test_shards_are_read_as_one(folder: Path) -> None:
    for source in (folder, str(folder / "*.h5"), [folder / "a.h5", folder / "b.h5", folder / "c.h5"]):
        with DemoReader(source) as reader:
            assert (len(reader), reader.num_steps) == (6, 1 + 2 + 3 + 3 + 4 + 5)
            for seed, read in zip((0, 1, 2, 2, 3, 4), reader, strict=True):
                assert_same(read, trajectory(1 + seed, seed))
            want = np.concatenate([trajectory(1 + s, s).obs[:-1] for s in (0, 1, 2, 2, 3, 4)])
            assert_array_equal(reader.transitions().obs, want)
            for limit in (1 << 30, 1 << 12):
                batches = reader.batches(4, np.random.default_rng(0), memory_limit=limit)
                rows = np.concatenate([obs.numpy() for obs, _ in batches])
                assert_array_equal(np.sort(rows, axis=0), np.sort(want, axis=0))
    assert validate(folder) == []
    assert describe(folder)["bytes"] == sum(path.stat().st_size for path in folder.iterdir())


def test_a_slice_is_a_list_of_episodes(folder: Path) -> None:
    """The seeds are 0 1 2, 2 3 and 4, in three files."""
    with DemoReader(folder) as reader:
        for part, seeds in (
            (slice(0, 2), [0, 1]),
            (slice(2, 5), [2, 2, 3]),
            (slice(None, None, -2), [4, 2, 1]),
            (slice(4, 99), [3, 4]),
            (slice(6, None), []),
        ):
            assert [episode.info["seed"] for episode in reader[part]] == seeds
        assert_same(reader[-2:][0], reader[4])


def test_shards_with_stacked_frames_and_unlisted_rows(tmp_path: Path) -> None:
    envs = stacked_envs(2, period=9)
    played = list(episodes(Cycling(), envs, [8, 3, 5, 7], frame_stack=4))
    for name, part in (("a.h5", played[:2]), ("b.h5", played[2:])):
        with DemoWriter(tmp_path / name, info_of(envs, frame_stack=4)) as writer:
            for one in part:
                writer.append(one)
        with h5py.File(tmp_path / name, "r+") as file:
            for column in file.values():
                column.resize(len(column) + 3, axis=0)  # as an interrupted flush leaves them
    with DemoReader(tmp_path) as reader:
        for one, read in zip(played, reader, strict=True):
            assert_same(one, read)


def test_files_that_do_not_belong_together(folder: Path) -> None:
    other = written(folder / "d.h5", [0], replace(INFO, env_id="Other-v0"))
    with pytest.raises(InputError, match=r"d\.h5 has env_id Other-v0, .*a\.h5 has Made-v0"):
        DemoReader(folder)
    other.unlink()
    written(other, [5], replace(INFO, env_id="module:Made-v0"))  # the same environment
    assert len(DemoReader(folder)) == 7
    with pytest.raises(InputError, match="no file of demonstrations"):
        DemoReader(folder / "*.hdf5")


def test_merging_files_merges_their_metadata(tmp_path: Path) -> None:
    written(
        tmp_path / "a.h5", [0], replace(INFO, expert="one", expert_return=1.0, expert_sha256="aa", seed=3)
    )
    written(
        tmp_path / "b.h5", [1], replace(INFO, expert="two", expert_return=2.0, expert_sha256="bb", seed=3)
    )
    info = DemoReader(tmp_path).info
    assert (info.expert, info.expert_return, info.expert_sha256, info.seed) == ("one + two", None, "", 3)
    written(tmp_path / "c.h5", [2], replace(INFO, protocol="sticky actions 0.25", versions={"torch": "1"}))
    info = DemoReader(tmp_path).info
    assert (info.protocol, info.versions) == ("", {})


def test_two_experts_may_have_played_the_same_seeds(tmp_path: Path) -> None:
    seed = next(iter(episode_seeds(3)))
    for name, steps in ("one", 2), ("two", 3):
        with DemoWriter(tmp_path / f"{name}.h5", replace(INFO, expert=name, seed=3)) as writer:
            writer.append(trajectory(steps, seed))
    edit.merge(tmp_path, tmp_path / "both.h5")
    assert validate(tmp_path / "both.h5") == []
    edit.concat([tmp_path / "one.h5"] * 2, tmp_path / "again.h5")
    assert validate(tmp_path / "again.h5") == [f"seed {seed} is not one of collection 3, or recorded twice"]


def test_a_collection_may_have_a_seed_twice(tmp_path: Path) -> None:
    """Seeds have 31 bits: those of episodes 877 and 1223 of collection 272 are the same."""
    path = tmp_path / "twice.h5"
    with DemoWriter(path, replace(INFO, seed=272)) as writer:
        for seed in islice(episode_seeds(272), 1224):
            writer.append(trajectory(1, seed))
    assert validate(path) == []


def collected(path: Path, start: int, stop: int, stride: int = 1) -> Path:
    """Episodes of collection 272, of which 877 and 1223 have one seed and so are equal."""
    with DemoWriter(path, replace(INFO, seed=272), sync=False) as writer:
        for seed in islice(episode_seeds(272), start, stop, stride):
            writer.append(trajectory(1, seed))
    return path


def test_merge_keeps_the_episodes_of_a_seed_that_comes_twice(tmp_path: Path) -> None:
    """They are of one collection, in one file or in two shards; a copy of an episode is not."""
    whole = collected(tmp_path / "whole.h5", 0, 1224)
    shards = [collected(tmp_path / f"{k}.h5", k, 1224, 3) for k in range(3)]
    some = collected(tmp_path / "some.h5", 0, 1000)
    for number, sources in enumerate([shards, [some, whole]]):
        edit.merge(sources, tmp_path / f"merged{number}")
        with DemoReader(tmp_path / f"merged{number}") as reader:
            assert len(reader) == 1224
        assert validate(tmp_path / f"merged{number}") == []


def test_labels_of_a_shard_without_them_are_its_actions(tmp_path: Path) -> None:
    written(tmp_path / "a.h5", [1])
    with DemoWriter(tmp_path / "b.h5", INFO, expert_actions=True) as writer:
        writer.append(trajectory(2, 5, expert_actions=np.array([3, 3])))
    with DemoReader(tmp_path) as reader:
        assert_array_equal(reader[0].labels, trajectory(2, 1).actions)
        assert_array_equal(reader[1].labels, [3, 3])


def test_merge_and_concat(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("out")
    edit.merge(folder, out / "merged.h5")
    edit.concat(folder, out / "concat.h5")
    assert seeds_of(out / "merged.h5") == [0, 1, 2, 3, 4]
    assert seeds_of(out / "concat.h5") == [0, 1, 2, 2, 3, 4]
    assert validate(out / "merged.h5") == []


def test_seeds_that_failed_are_kept(tmp_path: Path) -> None:
    """Otherwise `collect --resume` would play them again."""
    for name, seed in (("a", 1), ("b", 2)):
        with DemoWriter(tmp_path / f"{name}.h5", replace(INFO, seed=0)) as writer:
            writer.append(trajectory(1, seed))
            writer.fail(10 + seed)
    sources = [tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "b.h5"]
    for put_together in (edit.merge, edit.concat):
        put_together(sources, tmp_path / put_together.__name__)
        with DemoReader(tmp_path / put_together.__name__) as reader:
            assert reader.failed_seeds == [11, 12]


def test_merge_keeps_episodes_that_differ_in_their_texts_states_or_end(tmp_path: Path) -> None:
    info = replace(INFO, has_texts=True, state_size=1)
    one = trajectory(3, 7, states=np.zeros((3, 1)), terminated=True, truncated=False)
    one = replace(one, info={"seed": 7, "task": "to the left"})
    others = (
        replace(one, info={"seed": 7, "task": "to the right"}),
        replace(one, states=np.ones((3, 1))),
        replace(one, truncated=True),
    )
    for number, episode in enumerate((one, *others, one)):
        with DemoWriter(tmp_path / f"{number}.h5", info) as writer:
            writer.append(episode)
    edit.merge(tmp_path, tmp_path / "merged.h5")
    with DemoReader(tmp_path / "merged.h5") as reader:
        assert [each.info["task"] for each in reader] == [
            "to the left",
            "to the right",
            "to the left",
            "to the left",
        ]


def test_split(folder: Path) -> None:
    edit.split(folder / "a.h5", folder / "train", folder / "rest", holdout=0.34, seed=1)
    assert sorted(seeds_of(folder / "train") + seeds_of(folder / "rest")) == [0, 1, 2]
    assert len(seeds_of(folder / "rest")) == 1


def test_the_seed_decides_which_are_drawn(folder: Path) -> None:
    """The same seed draws the same, another one others."""
    held_out, pairs, source = [], [], [folder / "a.h5", folder / "c.h5"]
    for number, seed in enumerate((3, 3, 4)):
        train, rest, some = (folder / f"{name}{number}" for name in ("train", "rest", "some"))
        edit.split(source, train, rest, holdout=0.5, seed=seed)
        held_out.append(seeds_of(rest))
        edit.subsample(source, some, pairs=9, seed=seed)
        with DemoReader(some) as reader:
            pairs.append([one.obs.tolist() for one in reader])
            # No step comes twice.
            assert len({one.obs.tobytes() for one in reader}) == 9
    for drawn_by in (held_out, pairs):
        assert drawn_by[0] == drawn_by[1]
        assert drawn_by[0] != drawn_by[2]


def test_parts_of_a_file_keep_its_labels(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "a.h5", INFO, expert_actions=True) as writer:
        for label in (1, 2):
            actions, labels = np.zeros(2, np.int64), np.full(2, label)
            writer.append(trajectory(2, label, actions=actions, expert_actions=labels))
    edit.split(tmp_path / "a.h5", tmp_path / "train", tmp_path / "rest", holdout=0.5)
    edit.keep(tmp_path / "a.h5", tmp_path / "kept", terminated=True)
    edit.subsample(tmp_path / "a.h5", tmp_path / "some", every=2)
    edit.merge([tmp_path / "train", tmp_path / "rest"], tmp_path / "merged")
    for name, seeds in (("kept", {2}), ("some", {1, 2}), ("merged", {1, 2})):
        with DemoReader(tmp_path / name) as reader:
            assert {one.info["seed"] for one in reader} == seeds
            for one in reader:
                assert one.labels.tolist() == [one.info["seed"]] * len(one)
                assert not one.actions.any()


def test_merge_keeps_episodes_that_differ_in_one_column(tmp_path: Path) -> None:
    """Their seeds, lengths and returns are the same."""
    one = trajectory(
        2,
        obs=np.zeros((3, 3), np.float32),
        actions=np.array([0, 1]),
        rewards=np.float32([1, 2]),
        expert_actions=np.array([0, 1]),
    )
    others = (
        replace(one, obs=np.ones((3, 3), np.float32)),
        replace(one, actions=np.array([1, 0])),
        replace(one, rewards=np.float32([2, 1])),
        replace(one, expert_actions=np.array([1, 0])),
    )
    for number, episode in enumerate((one, *others, one)):
        with DemoWriter(tmp_path / f"{number}.h5", INFO, expert_actions=True) as writer:
            writer.append(episode)
    edit.merge(tmp_path, tmp_path / "merged")
    with DemoReader(tmp_path / "merged") as reader:
        assert len(reader) == 5


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"min_length": 2}, [1, 2]),
        ({"max_length": 2}, [0, 1]),
        ({"terminated": True}, [0, 2]),
        ({"terminated": False}, [1]),
    ],
)
def test_filter_by_length_and_end(folder: Path, bounds: dict[str, Any], kept: list[int]) -> None:
    edit.keep(folder / "a.h5", folder / "out", **bounds)
    assert seeds_of(folder / "out") == kept


def test_filter_by_return(tmp_path: Path) -> None:
    with DemoWriter(tmp_path / "a.h5", INFO) as writer:
        for value in (1, 2, 3):
            writer.append(trajectory(1, value, rewards=np.float32([value])))
    edit.keep(tmp_path / "a.h5", tmp_path / "out", min_return=2, max_return=2)
    assert seeds_of(tmp_path / "out") == [2]
    with pytest.raises(InputError, match="no episodes are left"):
        edit.keep(tmp_path / "a.h5", tmp_path / "none", min_return=4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "out"]


def test_every_third_step(tmp_path: Path) -> None:
    """Seed s lasts 1 + s steps, in which it sees (s, 0), (s, 1) ..."""
    envs = counting_envs(1)
    with DemoWriter(tmp_path / "a.h5", info_of(envs)) as writer:
        for one in episodes(Cycling(), envs, [6, 3]):
            writer.append(one)
    edit.subsample(tmp_path / "a.h5", tmp_path / "out", every=3)
    with DemoReader(tmp_path / "out") as reader:
        pieces = [(*one.obs[:, 1], one.terminated, one.truncated) for one in reader]
    first, second = [(0, 1, False, True), (3, 4, False, True), (6, 7, True, False)], [(0, 1), (3, 4)]
    assert pieces == first + [(*steps, False, True) for steps in second]
    assert seeds_of(tmp_path / "out") == [6, -1, -1, 3, -1]  # the others don't begin at a reset
    assert validate(tmp_path / "out") == []


def test_a_later_piece_of_an_episode_does_not_begin_at_its_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.h5", [5])
    monkeypatch.setattr("imitate.datasets.storage.reader.PIECE_BYTES", 1)  # a step in each piece
    edit.subsample(tmp_path / "a.h5", tmp_path / "out", every=2)
    assert seeds_of(tmp_path / "out") == [5, -1, -1]


def test_subsample_draws_this_many_pairs(folder: Path) -> None:
    edit.subsample(folder, folder / "out", pairs=7, seed=2)
    with DemoReader(folder / "out") as reader:
        assert (len(reader), reader.num_steps) == (7, 7)
    with pytest.raises(InputError, match="the demonstrations have 18"):
        edit.subsample(folder, folder / "more", pairs=19)


def test_what_exists_is_never_replaced(folder: Path) -> None:
    before = (folder / "b.h5").read_bytes()
    for change in (lambda: edit.merge(folder, folder / "b.h5"), lambda: edit.concat(folder, folder / "b.h5")):
        with pytest.raises(InputError, match="exists already"):
            change()
    with pytest.raises(InputError, match="exists already"):
        edit.split(folder / "a.h5", folder / "new", folder / "b.h5", holdout=0.34)
    assert (folder / "b.h5").read_bytes() == before
    assert not (folder / "new").exists()


def test_a_split_writes_both_files_or_none(folder: Path) -> None:
    for held_out in ("new", "nowhere/rest"):
        with pytest.raises(InputError):
            edit.split(folder / "a.h5", folder / "new", folder / held_out, holdout=0.34)
        assert not (folder / "new").exists()
    for nothing in (0, 1):
        with pytest.raises(InputError, match=f"holdout must be above 0 and below 1, got {nothing}"):
            edit.split(folder / "a.h5", folder / "new", folder / "rest", holdout=nothing)


def test_a_negative_seed_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"a seed must be a whole number from 0 .*, got -1"):
        edit.split(folder / "a.h5", folder / "new", folder / "rest", seed=-1)
    with pytest.raises(InputError, match=r"a seed must be a whole number from 0 .*, got -1"):
        edit.subsample(folder / "a.h5", folder / "new", pairs=1, seed=-1)


def test_no_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("merge", "concat"):
        assert main(["data", command, "--out", str(folder / "new")]) == 2
        assert "no files of demonstrations were given" in capsys.readouterr().err


def test_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, out = str(folder / "a.h5"), str(folder / "out")
    assert main(["data", "merge", a, str(folder / "b.h5"), "--out", f"{out}1", "--json"]) == 0
    assert '"episodes": 4' in capsys.readouterr().out
    assert main(["data", "filter", a, "--out", f"{out}2", "--terminated", "True"]) == 0
    shown = capsys.readouterr().out
    assert "0 truncated)" in shown  # as `data info` prints it: rounded, without empty fields
    assert not re.search("^(bytes|noise|protocol|masks|tasks) ", shown, re.MULTILINE)
    assert main(["data", "subsample", a, "--out", f"{out}3", "--every", "2"]) == 0
    assert main(["data", "split", a, "--train", f"{out}4", "--held-out", f"{out}5"]) == 0
    assert "2 episodes in" in capsys.readouterr().out
    assert main(["data", "concat", a, a, "--out", f"{out}6"]) == 0
    assert main(["data", "info", str(folder / "*.h5")]) == 0


def test_drawn_pairs_are_steps_of_the_chosen_episodes(tmp_path: Path) -> None:
    envs = counting_envs(2)
    collect(Cycling(), envs, tmp_path / "a.h5", info_of(envs, seed=1), episodes=6).close()
    with DemoReader(tmp_path / "a.h5") as whole:
        episodes = np.array([1, 4])
        count = int(whole.lengths[episodes].sum())
        for pairs in (1, count):
            with drawn(whole, pairs, 0, episodes) as some:
                assert some.lengths.tolist() == [1] * pairs
                seeds = {int(seed) for seed in some.table["seed"]}
                assert seeds <= {-1, *whole.table["seed"][episodes].tolist()}
                assert {(float(t.obs[0, 0]), float(t.obs[0, 1])) for t in some} <= {
                    (float(row[0]), float(row[1])) for n in episodes for row in whole[n].obs[:-1]
                }
        with pytest.raises(
            InputError, match=f"{count + 1} pairs were asked for, the demonstrations have {count}"
        ):
            drawn(whole, count + 1, 0, episodes)
        with pytest.raises(InputError, match="1 pairs were asked for, the demonstrations have 0"):
            drawn(whole, 1, 0, np.arange(0))
        with pytest.raises(InputError, match="there are no episodes to take steps of"):
            edit.thinned(whole, 2, np.arange(0))
