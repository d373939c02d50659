"""Collecting to a file: which episodes are in it, and what it says of them."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from counting import CountingEnv, Cycling, counting_envs, info_of, seeds_in
from numpy.testing import assert_allclose, assert_array_equal

from imitate.cli import main
from imitate.datasets import DemoReader, InputError, collect, episode_seeds, make_env, validate
from imitate.datasets.collect import _part
from imitate.datasets.play import RandomPolicy
from imitate.datasets.storage.validate import describe
from imitate.envs.vec import SyncVecEnv
from imitate.errors import Fault


def test_exactly_the_first_seeds(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(4)
    collect(Cycling(), envs, path, info_of(envs, seed=3), episodes=10)
    assert seeds_in(path) == sorted(islice(episode_seeds(3), 10))
    assert validate(path) == []


@pytest.mark.parametrize("num_envs", [1, 4])
def test_steps_in_whole_episodes(tmp_path: Path, num_envs: int) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(num_envs, period=20)
    collect(Cycling(), envs, path, info_of(envs, seed=0), steps=500)
    with DemoReader(path) as reader:
        # Nothing is begun once 500 are recorded or in flight; what is in flight adds less than 20 each.
        assert 500 <= reader.num_steps < 500 + 20 * num_envs
        assert sorted(reader.table["seed"]) == sorted(islice(episode_seeds(0), len(reader)))
        assert (reader.lengths == 1 + reader.table["seed"] % 20).all()
    assert validate(path) == []


class Breaking(CountingEnv):
    """Raises in the second step of every episode whose seed is a multiple of 5."""

    def step(self, action: Any) -> Any:
        if self.seed % 5 == 0 and self.steps == 1:
            raise ZeroDivisionError("broken")
        return super().step(action)


def breaking(num_envs: int, period: int) -> SyncVecEnv:
    return SyncVecEnv([lambda: Breaking(period)] * num_envs)


def test_episodes_that_fail_are_skipped_and_recorded_as_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With period 4, episodes of one step end before the second one."""
    path, envs = tmp_path / "demos.h5", breaking(3, 4)
    collect(Cycling(), envs, path, info_of(envs, seed=0), episodes=40, on_failure="skip")
    planned = list(islice(episode_seeds(0), 40))
    bad = [seed for seed in planned if seed % 5 == 0 and seed % 4]
    assert len(bad) > 3
    with DemoReader(path) as reader:
        assert sorted(reader.failed_seeds) == sorted(bad)
        assert describe(path)["failed_seeds"] == reader.failed_seeds
        assert sorted(reader.table["seed"].tolist()) == sorted(set(planned) - set(bad))
    assert validate(path) == []
    assert sum("it is skipped" in message for message in caplog.messages) == len(bad)
    # It is complete: nothing is tried again. With more episodes it goes on, and remembers.
    before = path.read_bytes()
    collect(Cycling(), envs, path, info_of(envs, seed=0), episodes=40, resume=True)
    assert path.read_bytes() == before
    collect(Cycling(), envs, path, info_of(envs, seed=0), episodes=60, resume=True, on_failure="skip")
    with DemoReader(path) as reader:
        assert set(bad) < set(reader.failed_seeds)
        assert len(reader) + len(reader.failed_seeds) == 60


def test_an_episode_that_fails_stops_a_collection_and_may_be_skipped_later(tmp_path: Path) -> None:
    path, envs = tmp_path / "demos.h5", breaking(1, 4)
    amount: dict[str, Any] = {"episodes": 40}
    for resume in (False, True):
        with pytest.raises(Fault, match=r"Breaking raised ZeroDivisionError: broken .*seed") as stopped:
            collect(Cycling(), envs, path, info_of(envs, seed=0), resume=resume, **amount)
    collect(Cycling(), envs, path, info_of(envs, seed=0), resume=True, on_failure="skip", **amount)
    with DemoReader(path) as reader:
        assert reader.failed_seeds[0] == stopped.value.seed


def test_an_environment_that_always_fails_is_given_up(tmp_path: Path) -> None:
    envs = SyncVecEnv([lambda: gym.wrappers.TransformObservation(CountingEnv(), np.sum, None)] * 2)
    with pytest.raises(Fault, match=r"40 episodes in a row failed; the last time .*observation"):
        collect(Cycling(), envs, tmp_path / "d.h5", info_of(envs, seed=0), steps=40, on_failure="skip")
    assert not list(tmp_path.iterdir())


def test_a_file_without_episodes_is_a_failure_that_says_why(tmp_path: Path) -> None:
    envs = SyncVecEnv([lambda: gym.wrappers.TransformObservation(CountingEnv(), np.sum, None)] * 2)
    with pytest.raises(Fault, match=r"all 4 episodes failed; the last time .*observation"):
        collect(Cycling(), envs, tmp_path / "d.h5", info_of(envs, seed=0), episodes=4, on_failure="skip")
    assert not list(tmp_path.iterdir())


class Blinking(CountingEnv):
    """Seeds that are multiples of 5 observe NaN after the first step."""

    def _obs(self) -> Any:
        return super()._obs() * (np.float32(np.nan) if self.seed % 5 == 0 and self.steps else 1)


class Blind:
    """Pushes by the observation."""

    def act(self, obs: Any, **_: Any) -> Any:
        return np.clip(obs, 0, 1)


def test_an_episode_whose_observation_is_nan_fails_before_the_expert(tmp_path: Path) -> None:
    """An expert can't act on it, so it comes to no end."""
    path = tmp_path / "demos.h5"
    envs = SyncVecEnv([lambda: Blinking(4, continuous=True)] * 3)
    info = info_of(envs, seed=0)
    bad = {seed for seed in islice(episode_seeds(0), 40) if seed % 5 == 0}
    with pytest.raises(Fault, match=r"NaN or infinity in step 1, in the episode with seed") as stopped:
        collect(Blind(), envs, path, info, episodes=40)
    assert stopped.value.seed in bad
    collect(Blind(), envs, path, info, episodes=40, resume=True, on_failure="skip")
    with DemoReader(path) as reader:
        assert set(reader.failed_seeds) == bad
        assert len(reader) == 40 - len(bad)


def test_observations_outside_their_box_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    envs = counting_envs(2)
    box = envs.single_observation_space
    assert isinstance(box, gym.spaces.Box)
    narrow = gym.spaces.Box(-0.5, 0.5, box.shape, np.float32)  # observations count from 0 up
    for name, space in (("wide", box), ("narrow", narrow)):
        collect(
            Cycling(),
            envs,
            tmp_path / f"{name}.h5",
            replace(info_of(envs, seed=3), observation_space=space),
            episodes=4,
        )
    assert ["observations outside its observation_space" in said for said in caplog.messages] == [True]
    assert len(seeds_in(tmp_path / "narrow.h5")) == 4


def test_noise_keeps_the_clean_actions(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = counting_envs(2)
    collect(Cycling(), envs, path, info_of(envs, seed=0, noise="random:0.5"), episodes=30)
    with DemoReader(path) as reader:
        assert reader.info.noise == "random:0.5"
        for trajectory in reader:
            assert_array_equal(trajectory.labels, Cycling().act(trajectory.obs[:-1]))
        assert any((trajectory.labels != trajectory.actions).any() for trajectory in reader)


def test_what_was_written_is_returned_and_a_seed_can_be_given(tmp_path: Path) -> None:
    envs = counting_envs(2)
    with collect(
        Cycling(), envs, str(tmp_path / "demos.h5"), info_of(envs, seed=1), episodes=4, seed=3
    ) as demos:
        assert sorted(demos.table["seed"]) == sorted(islice(episode_seeds(3), 4))
        assert demos.info.seed == 3
    again = collect(Cycling(), envs, tmp_path / "demos.h5", info_of(envs, seed=3), episodes=4, resume=True)
    assert len(again) == 4
    again.close()


@pytest.mark.parametrize("wanted", [{}, {"episodes": 3, "steps": 3}, {"episodes": 0}, {"steps": -1}])
def test_how_much_has_to_be_said(tmp_path: Path, wanted: dict[str, int]) -> None:
    envs = counting_envs(2)
    with pytest.raises(InputError, match="number of episodes or of steps"):
        collect(Cycling(), envs, tmp_path / "demos.h5", info_of(envs, seed=1), **wanted)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "asked",
    [{"shard": (3, 2)}, {"shard": (-1, 2)}, {"shard": (0, 0)}, {"on_failure": "raise"}],
)
def test_what_can_not_be_asked_for_leaves_no_file(tmp_path: Path, asked: dict[str, Any]) -> None:
    envs = counting_envs(2)
    with pytest.raises(InputError, match=next(iter(asked))):
        collect(Cycling(), envs, tmp_path / "a.h5", info_of(envs, seed=0), episodes=2, **asked)
    assert list(tmp_path.iterdir()) == []


def test_a_shard_without_episodes_is_named(tmp_path: Path) -> None:
    """Shards 0 and 1 have the two episodes; a third job of an array has none."""
    envs = counting_envs(2)
    with pytest.raises(InputError, match=r"shard 2 of 3 has none of 2 episodes.*: take at most 2 shards"):
        collect(Cycling(), envs, tmp_path / "a.h5", info_of(envs, seed=0), episodes=2, shard=(2, 3))
    assert list(tmp_path.iterdir()) == []


def test_shards_take_together_what_was_asked_for() -> None:
    """Of ten steps each of three takes four, rounded up; episodes 1, 4 and 7 of ten are the second's."""
    assert _part(None, 10, (0, 3)) == (None, 4)
    assert _part(10, None, (1, 3)) == (3, None)


def test_a_policy_that_fails_leaves_no_file(tmp_path: Path) -> None:
    class Broken:
        def act(self, obs: Any, **_: Any) -> Any:
            raise InputError(f"can't act on {obs.shape}")

    envs = counting_envs(2)
    with pytest.raises(InputError, match="can't act"):
        collect(Broken(), envs, tmp_path / "demos.h5", info_of(envs, seed=1), episodes=3)
    assert list(tmp_path.iterdir()) == []


def test_progress_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    envs = counting_envs(2)
    collect(Cycling(), envs, tmp_path / "demos.h5", info_of(envs, seed=1), episodes=3, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "3/3" in captured.err


def test_observations_that_are_numbers(tmp_path: Path) -> None:
    path = tmp_path / "demos.h5"
    envs = SyncVecEnv([partial(make_env, "Identity-v0")] * 2)
    policy = RandomPolicy(envs.single_action_space)
    collect(policy, envs, path, info_of(envs, seed=0), episodes=3)
    with DemoReader(path) as reader:
        assert reader.transitions().obs.shape == (30,)


def test_a_file_says_how_it_was_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is in `data info --json`; the name of the file is not, so that equal recordings are equal files."""
    for name in ("a.h5", "b.h5"):
        command = [
            "collect",
            "CartPole-v1",
            "--out",
            str(tmp_path / name),
            "--episodes",
            "2",
            "--noise",
            "random:0.1",
        ]
        assert main(command) == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    capsys.readouterr()
    assert main(["data", "info", str(tmp_path / "a.h5"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["command"] == "imitate collect CartPole-v1 --episodes 2 --noise random:0.1"
    assert (facts["expert"], facts["env_id"], facts["seed"], facts["protocol"]) == (
        "CartPole-v1",
        "CartPole-v1",
        0,
        "",
    )
    assert len(facts["expert_sha256"]) == 64
    assert facts["expert_return"] == 500
    assert facts["versions"]["gymnasium"]


def test_spaces_that_are_not_those_of_the_environments_are_named(tmp_path: Path) -> None:
    envs = counting_envs(2)
    info = replace(info_of(envs), observation_space=gym.spaces.Box(-1, 1, (3,), np.float32))
    with pytest.raises(
        InputError, match=r"obs are \w+ \(2,\), the space is Box\(-1.0, 1.0, \(3,\), float32\)"
    ):
        collect(Cycling(), envs, tmp_path / "demos.h5", info, episodes=2, seed=0)


class Scaling:
    """Scales observations in place, takes no `deterministic`, and was trained for wider bounds."""

    action_space = gym.spaces.Box(-3, 3, (1,), np.float32)

    def act(self, obs: Any) -> Any:
        obs *= 0
        return np.full((len(obs), 1), 2.5, np.float32)


@pytest.mark.parametrize("policy", [Scaling(), Scaling().act], ids=["object", "function"])
def test_a_policy_of_ones_own_is_asked_as_everywhere_and_changes_no_record(
    policy: Any, tmp_path: Path
) -> None:
    envs = SyncVecEnv([lambda: make_env("Pendulum-v1")])  # its actions are in [-2, 2]
    info = replace(info_of(envs, seed=0), env_id="Pendulum-v1")
    if isinstance(policy, Scaling):
        with collect(policy, envs, tmp_path / "demos.h5", info, episodes=1) as demos:
            assert (demos[0].actions == 2).all()
            assert_allclose(np.hypot(demos[0].obs[:, 0], demos[0].obs[:, 1]), 1, rtol=1e-6)  # cosine and sine
    else:  # nobody knows what it was trained for
        with pytest.raises(Fault, match=r"the policy answered with 2.5, which is not in Box"):
            collect(policy, envs, tmp_path / "demos.h5", info, episodes=1)


def test_environments_that_are_no_vec_env_are_refused(tmp_path: Path) -> None:
    envs = counting_envs(1)
    with pytest.raises(InputError, match=r"^envs must be a vector environment .*got str"):
        collect(Cycling(), "CartPole-v1", tmp_path / "d.h5", info_of(envs), episodes=1)  # type: ignore[arg-type]
