"""Random spaces and episodes go through every format and come back as they were, or are refused before anything is
written."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from converting import same, write
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imitate.datasets import DemoInfo, InputError, Trajectory
from imitate.datasets.convert import FORMATS, convert
from imitate.datasets.convert.foreign import Notes
from imitate.datasets.convert.recording import Recording, fitted

NAMES = sorted(set(FORMATS) - {"imitate", "csv"})
DTYPES = [np.float32, np.float64, np.float16, np.uint8, np.int8, np.int32, np.int64]
SHAPES = [(1,), (5,), (2, 3), (6, 4, 3), (2, 4, 4), (33, 34)]

DISCRETE = st.builds(
    spaces.Discrete,
    st.integers(1, 9),
    start=st.integers(-3, 3),
    dtype=st.sampled_from([np.int64, np.int32]),
)


@st.composite
def boxes(draw: st.DrawFn) -> Any:
    dtype: Any = draw(st.sampled_from(DTYPES))
    shape = draw(st.sampled_from(SHAPES))
    if np.dtype(dtype).kind == "f":
        low, high = draw(st.sampled_from([(-np.inf, np.inf), (-1.0, 1.0), (0.0, np.inf)]))
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return spaces.Box(low, high, shape, dtype)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[DemoInfo, list[Trajectory]]:
    observation = draw(st.one_of(boxes(), DISCRETE))
    unit = st.builds(
        lambda n, t: spaces.Box(-1.0, 1.0, (n,), t), st.integers(1, 3), st.sampled_from(DTYPES[:2])
    )
    several = st.lists(st.integers(1, 5), min_size=1, max_size=3)
    action = draw(
        st.one_of(
            unit,
            DISCRETE,
            st.builds(spaces.MultiDiscrete, several),
            st.builds(spaces.MultiBinary, st.integers(1, 3)),
        )
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    labelled, seeded = draw(st.booleans()), draw(st.booleans())

    def rows(space: Any, count: int) -> Any:
        if isinstance(space, spaces.Discrete):
            return rng.integers(space.start, space.start + space.n, count, space.dtype)
        if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
            most = getattr(space, "nvec", 2)
            return rng.integers(most, size=(count, *space.shape)).astype(space.dtype)
        if space.dtype.kind == "f":
            return rng.uniform(-1, 1, (count, *space.shape)).astype(space.dtype)
        return rng.integers(
            space.low.min(), space.high.max(), (count, *space.shape), space.dtype, endpoint=True
        )

    episodes = []
    for steps in draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)):
        episodes.append(
            Trajectory(
                rows(observation, steps + 1),
                rows(action, steps),
                rng.standard_normal(steps).astype(np.float32),
                *draw(st.sampled_from([(True, False), (False, True)])),
                info={"seed": int(rng.integers(2**31))} if seeded else {},
                expert_actions=rows(action, steps) if labelled else None,
            )
        )
    return DemoInfo(
        "Unit-v0", observation, action, env_kwargs={"a": [1, None]}, seed=draw(st.none())
    ), episodes


given_recordings = given(recordings(), st.sampled_from(NAMES))
repeatable = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@given_recordings
@settings(repeatable, max_examples=6)
def test_random_spaces_round_trip(recorded: tuple[DemoInfo, list[Trajectory]], name: str) -> None:
    round_trip(recorded, name)


@pytest.mark.attack
@pytest.mark.timeout(1800)
@given_recordings
@settings(repeatable, max_examples=400)
def test_many_random_spaces_round_trip(recorded: tuple[DemoInfo, list[Trajectory]], name: str) -> None:
    round_trip(recorded, name)


def round_trip(recorded: tuple[DemoInfo, list[Trajectory]], name: str) -> None:
    info, episodes = recorded
    if name == "imitation" and episodes[0].expert_actions is not None:
        return  # which has no place for labels
    with TemporaryDirectory() as folder:
        source = write(Path(folder) / "a.h5", info, episodes)
        out = Path(folder) / ("b" if FORMATS[name].folder else "b.npz" if name == "npz" else "b.hdf5")
        try:
            convert(source, out, format=name)
        except InputError:
            if name not in ("robomimic", "lerobot"):
                raise
            assert [path.name for path in Path(folder).iterdir()] == ["a.h5"]
            return
        convert(out, Path(folder) / "c.h5")
        same(source, Path(folder) / "c.h5")


def test_actions_and_labels_are_clipped_to_the_bounds_of_each_column() -> None:
    space = spaces.Box(np.float32([-1, -2]), np.float32([1, 2]))
    info = DemoInfo("Unit-v0", spaces.Box(-1.0, 1.0, (1,), np.float32), space)
    obs, rewards = np.zeros((3, 1), np.float32), np.zeros(2, np.float32)
    actions, labels = np.float32([[-3, -1.5], [1.5, 3]]), np.float32([[0.5, 5], [-5, 0]])
    episode = Trajectory(obs, actions, rewards, True, False, expert_actions=labels)
    read = Recording(lambda: iter([iter([episode])]), labelled=True)
    ((piece,),) = (list(pieces) for pieces in fitted(read, info, Notes(), clip=True))
    assert piece.actions.tolist() == [[-1, -1.5], [1, 2]]
    assert piece.labels.tolist() == [[0.5, 2], [-1, 0]]
