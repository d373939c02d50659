"""Steps as tensors: every step once, exact successors, shuffled, in bounded memory."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from counting import Cycling, counting_envs, info_of, stacked_envs
from gymnasium import spaces
from numpy.testing import assert_array_equal

from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Trajectory, episodes
from imitate.datasets.edit import drawn
from imitate.datasets.storage.columns import Column

FIELDS = ("obs", "next_obs", "actions", "labels", "rewards", "terminated", "truncated")
SMALL = 1 << 16


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,000 episodes of 1 to 49 steps; seed s lasts 1 + s % 49."""
    return record(tmp_path_factory.mktemp("batches") / "demos.h5", range(1000), period=49)


def record(path: Path, seeds: Any, period: int) -> Path:
    """Episodes as Cycling plays them in a CountingEnv, without playing."""
    with DemoWriter(path, info_of(counting_envs(1, period=period))) as writer:
        for seed in seeds:
            steps = np.arange(2 + seed % period)
            obs = np.stack([np.full_like(steps, seed), steps], axis=1).astype(np.float32)
            actions = (seed + steps[:-1]) % 5
            rewards = (steps[:-1] + actions / 10).astype(np.float32)
            even = seed % 2 == 0
            writer.append(Trajectory(obs, actions, rewards, even, not even, info={"seed": seed}))
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[DemoReader]:
    with DemoReader(path) as opened:
        yield opened


def steps_of(obs: Any) -> list[tuple[int, int]]:
    """Observations (s, t) as pairs, sorted."""
    return sorted(map(tuple, np.asarray(obs).astype(int).tolist()))


@pytest.mark.parametrize("memory_limit", [1 << 30, SMALL])
@pytest.mark.parametrize("batch_size", [1000, 7])
def test_an_epoch_has_every_step_once(reader: DemoReader, memory_limit: int, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    epoch = list(reader.batches(batch_size, rng, fields=FIELDS, memory_limit=memory_limit))
    sizes = [len(batch[0]) for batch in epoch]
    assert set(sizes[:-1]) == {batch_size}
    obs, next_obs, actions, labels, rewards, terminated, truncated = (
        torch.cat(f) for f in zip(*epoch, strict=True)
    )
    assert steps_of(obs) == [(s, t) for s in range(1000) for t in range(1 + s % 49)]
    seed, step = obs.T
    assert_array_equal(next_obs, torch.stack([seed, step + 1], 1))
    assert_array_equal(actions, (seed + step) % 5)
    assert_array_equal(labels, actions)
    torch.testing.assert_close(rewards, step + actions / 10)
    last = step == seed % 49
    assert_array_equal(terminated, last & (seed % 2 == 0))
    assert_array_equal(truncated, last & (seed % 2 == 1))


@pytest.mark.parametrize("memory_limit", [1 << 30, SMALL])
def test_only_the_selected_episodes(reader: DemoReader, memory_limit: int) -> None:
    train, held_out = reader.split(0.1, np.random.default_rng(1))
    assert (len(train), len(held_out)) == (900, 100)
    assert sorted([*train, *held_out]) == list(range(1000))
    for chosen in (held_out, train, [5, 3]):
        epoch = reader.batches(64, np.random.default_rng(0), episodes=chosen, memory_limit=memory_limit)
        seeds = reader.table["seed"][np.sort(chosen)]
        want = sorted((s, t) for s in seeds.tolist() for t in range(1 + s % 49))
        assert steps_of(torch.cat([obs for obs, _ in epoch])) == want


@pytest.mark.parametrize("memory_limit", [1 << 30, 1 << 18])
def test_the_order_is_shuffled_and_repeatable(reader: DemoReader, memory_limit: int) -> None:
    def order(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        return torch.cat([obs[:, 0] for obs, _ in reader.batches(32, rng, memory_limit=memory_limit)]).numpy()

    one = order(0)
    assert_array_equal(one, order(0))
    assert (one != order(1)).mean() > 0.9
    # Neither does the place in the file tell the place in the epoch, nor one sample its neighbour.
    assert abs(np.corrcoef(one, np.arange(len(one)))[0, 1]) < 0.05
    assert abs(np.corrcoef(one[1:], one[:-1])[0, 1]) < 0.05
    per_batch = [len(set(batch)) for batch in np.split(one[: len(one) // 32 * 32], len(one) // 32)]
    assert np.mean(per_batch) > 25  # of 32 samples


def test_streaming_keeps_to_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that fit are read once, by the first minibatch; others are read again."""
    read: list[str] = []
    original = Column.read

    def spy(column: Column, *rows: Any) -> Any:
        read.append(column.name)
        return original(column, *rows)

    monkeypatch.setattr(Column, "read", spy)
    path = record(
        tmp_path / "demos.h5", range(960, 1000), period=1000
    )  # 39,220 steps, about 1.9 MB in memory
    with DemoReader(path) as reader:
        for limit, streams in ((1 << 20, True), (1 << 24, False)):
            rng = np.random.default_rng(0)
            next(reader.batches(32, rng, memory_limit=limit))
            read.clear()
            tracemalloc.start()
            count = sum(len(labels) for _, labels in reader.batches(32, rng, memory_limit=limit))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert count == 39_220
            assert peak < limit
            assert bool(read) == streams


def test_what_fits_is_read_once_and_what_was_appended_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    original = Column.read

    def spy(column: Column, start: int, stop: int, into: Any = None) -> Any:
        if column.name == "actions":
            read.append(stop - start)
        return original(column, start, stop, into)

    monkeypatch.setattr(Column, "read", spy)
    envs = counting_envs(1, period=50)
    rng = np.random.default_rng(0)
    with DemoWriter(tmp_path / "store.h5", info_of(envs)) as writer:
        for round in range(3):
            for trajectory in episodes(Cycling(), envs, [50 * round + 9, 50 * round + 19]):  # 10 and 20 steps
                writer.append(trajectory)
            for _ in range(2):
                epoch = [obs for obs, _ in writer.reader().batches(8, rng)]
                seeds = [50 * n + more for n in range(round + 1) for more in (9, 19)]
                assert steps_of(torch.cat(epoch)) == [(s, t) for s in seeds for t in range(1 + s % 50)]
    assert read == [30, 30, 30]


@pytest.mark.parametrize("memory_limit", [1 << 30, 1 << 13])
def test_frame_stacks(tmp_path: Path, memory_limit: int) -> None:
    envs = stacked_envs(2, period=40)
    path = tmp_path / "pixels.h5"
    with DemoWriter(path, info_of(envs, frame_stack=4)) as writer:
        for trajectory in episodes(Cycling(), envs, range(25), frame_stack=4):
            writer.append(trajectory)
    with DemoReader(path) as reader:
        everything = list(
            reader.batches(16, np.random.default_rng(0), fields=FIELDS, memory_limit=memory_limit)
        )
        obs, next_obs, actions, _, _, terminated, _ = (torch.cat(f) for f in zip(*everything, strict=True))
        assert obs.shape == (sum(range(1, 26)), 4, 6, 5)
        seed, step = obs[:, -1, 0, 1].int(), obs[:, -1, 0, 0].int()
        for age in range(4):  # the newest frame is the last; before the first one, the first is repeated
            assert_array_equal(obs[:, 3 - age, 0, 0], (step - age).clamp(min=0))
            assert_array_equal(next_obs[:, 3 - age, 0, 0], (step + 1 - age).clamp(min=0))
        assert_array_equal(next_obs[:, 0, 0, 1], seed)
        assert_array_equal(actions, ((step - 3).clamp(min=0) + seed) % 5)  # Cycling looks at the oldest frame
        assert_array_equal(terminated, (step == seed) & (seed % 2 == 0))
        for chosen in ([3], [2, 3, 7]):
            transitions = reader.transitions(chosen)
            trajectories = [reader[episode] for episode in chosen]
            assert_array_equal(transitions.obs, np.concatenate([t.obs[:-1] for t in trajectories]))
            assert_array_equal(transitions.next_obs, np.concatenate([t.obs[1:] for t in trajectories]))


@pytest.mark.parametrize("chosen", [[4], [4, 5, 6], [999, 0, 7, 8], None])
def test_transitions(reader: DemoReader, chosen: list[int] | None) -> None:
    transitions = reader.transitions(chosen)
    trajectories = [reader[episode] for episode in (range(1000) if chosen is None else chosen)]
    assert len(transitions) == sum(map(len, trajectories))
    assert_array_equal(transitions.obs, np.concatenate([t.obs[:-1] for t in trajectories]))
    assert_array_equal(transitions.next_obs, np.concatenate([t.obs[1:] for t in trajectories]))
    assert_array_equal(transitions.labels, np.concatenate([t.actions for t in trajectories]))
    assert_array_equal(transitions.rewards, np.concatenate([t.rewards for t in trajectories]))
    ends = np.cumsum([len(t) for t in trajectories]) - 1
    assert_array_equal(transitions.terminated[ends], [t.terminated for t in trajectories])
    assert_array_equal(transitions.truncated[ends], [t.truncated for t in trajectories])
    assert int((transitions.terminated | transitions.truncated).sum()) == len(trajectories)


@pytest.mark.parametrize("chosen", [[1], [0, 1], [1, 0]])
def test_transitions_have_the_labels_of_the_expert(chosen: list[int], tmp_path: Path) -> None:
    info = info_of(counting_envs(1, period=3))
    with DemoWriter(tmp_path / "demos.h5", info, expert_actions=True) as writer:
        for seed in (0, 1):
            executed = np.array([seed, 4])
            writer.append(
                Trajectory(
                    np.zeros((3, 2), np.float32),
                    executed,
                    np.zeros(2, np.float32),
                    True,
                    False,
                    expert_actions=executed - seed,
                )
            )
    with DemoReader(tmp_path / "demos.h5") as reader:
        transitions = reader.transitions(chosen)
        (labels,) = next(reader.batches(8, np.random.default_rng(0), episodes=chosen, fields=["labels"]))
    assert transitions.expert_actions is not None
    assert transitions.actions.tolist() == [action for seed in chosen for action in (seed, 4)]
    assert transitions.labels.tolist() == [label for seed in chosen for label in (0, 4 - seed)]
    assert sorted(labels.tolist()) == sorted(transitions.labels.tolist())


def test_transitions_of_one_episode_are_views(reader: DemoReader) -> None:
    transitions = reader.transitions([48])
    assert transitions.obs.untyped_storage().data_ptr() == transitions.next_obs.untyped_storage().data_ptr()


def test_what_can_not_be_asked_for(reader: DemoReader) -> None:
    with pytest.raises(InputError, match="MiB"):
        reader.transitions(memory_limit=1 << 19)
    with pytest.raises(InputError, match="no episodes"):
        reader.transitions([])
    with pytest.raises(InputError, match="the file has 1000"):
        reader.transitions([1000])
    with pytest.raises(InputError, match="hold out"):
        reader.split(0.9999, np.random.default_rng(0))
    assert list(reader.batches(8, np.random.default_rng(0), episodes=[])) == []


def test_what_is_no_batch_is_one_line(reader: DemoReader) -> None:
    """A negative size gave an epoch without batches, and the index 0.7 gave episode 0."""
    asks: list[tuple[dict[str, Any], str]] = [
        ({"batch_size": -1}, "batch_size must be at least 1, got -1"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"batch_size": 8.0}, r"batch_size must be a whole number, got 8\.0"),
        (
            {"fields": ["expert_actions"]},
            r"some of obs, next_obs, actions, labels, .*, got \['expert_actions'\]",
        ),
        ({"fields": "obs"}, "fields must be a list of some of .*, got 'obs'"),
        ({"fields": []}, r"fields must be a list of some of .*, got \[\]"),
        ({"episodes": [0.7]}, r"episodes must be a list of their indices, got \[0\.7\]"),
        ({"episodes": 1}, "episodes must be a list of their indices, got 1"),
        ({"episodes": [[0, 1]]}, "episodes must be a list of their indices"),
    ]
    for wrong, said in asks:
        with pytest.raises(InputError, match=said):
            reader.batches(**{"batch_size": 8, "rng": np.random.default_rng(0)} | wrong)
    (obs,) = next(reader.batches(np.int64(8), np.random.default_rng(0), fields=["obs"]))  # type: ignore[arg-type]
    assert len(obs) == 8


@pytest.mark.parametrize("memory_limit", [1 << 30, 1 << 10])
def test_an_episode_that_is_given_twice_counts_twice(reader: DemoReader, memory_limit: int) -> None:
    given = [40, 41, 41, 7]
    batches = reader.batches(
        9, np.random.default_rng(0), fields=["obs"], episodes=given, memory_limit=memory_limit
    )
    wanted = np.concatenate([reader[episode].obs[:-1] for episode in given])
    assert steps_of(torch.cat([obs for (obs,) in batches])) == steps_of(wanted)


def test_an_episode_that_is_given_twice_is_on_no_two_sides(reader: DemoReader) -> None:
    given, rng = [40, 41, 41, 7], np.random.default_rng(0)
    with pytest.raises(InputError, match="episode 41 is given twice and could be on both sides: give each"):
        reader.split(0.5, rng, np.array(given))
    assert reader.split(0, rng, np.array(given))[0].tolist() == [7, 40, 41, 41]


def test_the_table_of_a_reader_can_not_be_changed(reader: DemoReader) -> None:
    """`minibatches` finds the steps of an episode by its length."""
    for rows in (reader.lengths, reader.returns, reader.table["start"]):
        with pytest.raises(ValueError, match="read-only"):
            rows += 1
    reader.refresh()
    with pytest.raises(ValueError, match="read-only"):
        reader.lengths[0] = 3


def test_a_mask_of_episodes_is_refused(reader: DemoReader) -> None:
    """As indices, it would be the first two episodes again and again."""
    mask, rng = reader.lengths > 10, np.random.default_rng(0)
    asks: list[Callable[[], object]] = [
        lambda: reader.minibatches(5, rng, episodes=mask),
        lambda: reader.transitions(mask),
        lambda: reader.split(0.1, rng, mask),
        lambda: drawn(reader, 5, 0, mask),
    ]
    for ask in asks:
        with pytest.raises(
            InputError, match=r"episodes are a mask, wanted their indices: take np.flatnonzero"
        ):
            ask()


def test_holding_out_a_little_holds_out_one(tmp_path: Path) -> None:
    with DemoReader(record(tmp_path / "demos.h5", [0, 1, 2], 3)) as reader:
        train, held_out = reader.split(0.01, np.random.default_rng(0))
        assert (len(train), len(held_out)) == (2, 1)
        assert len(reader.split(0, np.random.default_rng(0))[1]) == 0


def test_a_reader_goes_to_another_process(reader: DemoReader, path: Path) -> None:
    """As DataLoader's spawned workers get it."""
    with pickle.loads(pickle.dumps(reader)) as again:
        assert len(again) == len(reader)
        assert_array_equal(again[7].obs, reader[7].obs)
    with DemoWriter(path.with_name("open.h5"), reader.info) as writer:
        writer.append(reader[0])
        with pytest.raises(TypeError, match="a writer holds open"):
            pickle.dumps(writer.reader())


@pytest.mark.parametrize(("size", "rows"), [(84, 64), (300, 5), (1000, 1)])
def test_large_pictures_lie_in_small_chunks(tmp_path: Path, size: int, rows: int) -> None:
    """Half a megabyte each, since a whole chunk is unpacked to read one picture."""
    pictures = spaces.Box(0, 255, (size, size), np.uint8)
    black = np.zeros((2, size, size), np.uint8)
    with DemoWriter(tmp_path / "a.h5", DemoInfo("Unit-v0", pictures, spaces.Discrete(2))) as writer:
        writer.append(Trajectory(black, np.zeros(1, np.int64), np.zeros(1, np.float32), True, False))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["obs"].chunks == (rows, size, size)
