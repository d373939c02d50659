"""The distance from demonstrations, by hand; and runs that keep the closest policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from handwritten import Namer, named

from imitate.cli import main
from imitate.commands.progress import chosen
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.gail import GAIL
from imitate.imitators.likeness import Likeness, _one_hot, energy_distance
from imitate.rl.rollout import Rollout, whole_episodes
from imitate.training.execute import execute, make_learner
from imitate.training.experiment import Experiment
from imitate.training.inputs import open_inputs
from imitate.training.validation import validation_of

ENV = "ContinuousIdentity-v0"


def test_the_energy_distance_by_hand() -> None:
    """Between {0} and {1, 3}: twice a mean of 2, minus 0, minus the 2 between 1 and 3 that half of the pairs are."""
    x, y = torch.tensor([[0.0]]), torch.tensor([[1.0], [3.0]])
    one, halves = torch.ones(1), torch.full((2,), 0.5)
    assert energy_distance(x, y, one, halves) == pytest.approx(2 * 2 - 0 - 1)
    assert energy_distance(y, x, halves, one) == pytest.approx(3)
    assert energy_distance(y, y, halves, halves) == pytest.approx(0)
    assert energy_distance(x, y, one, torch.tensor([1.0, 0.0])) == pytest.approx(2)


def played(act: Callable[[Array], Array]) -> Rollout:
    envs = SyncVecEnv([lambda: make_env(ENV)] * 4)
    return whole_episodes(envs, lambda obs, _begun: (act(obs), act(obs)), range(4))


def test_a_state_among_millions_is_a_vector_without_the_square_of_them() -> None:
    vector = _one_hot(spaces.Discrete(10_000_000, start=5), np.array([9]))
    assert (vector.shape, vector.dtype, vector[0, 4], vector.sum()) == ((1, 10_000_000), torch.float32, 1, 1)


def test_who_does_as_the_expert_is_closest(tmp_path: Path) -> None:
    with DemoReader(named(tmp_path / "demos.h5", ENV)) as demos:
        likeness = Likeness(demos, np.arange(10))
        few = Likeness(demos, np.arange(10), every=5)
    expert, wrong, still = (
        likeness.distance(played(act)) for act in (Namer().act, lambda obs: -obs, lambda obs: 0 * obs)
    )
    assert few.points.shape == (20 + 1, 3)  # each fifth step of ten, and the absorbing state
    assert 0 <= expert < 0.1
    assert expert < 0.5 * min(still, wrong)


def test_pairs_that_the_learner_is_not_shown_choose_nothing(tmp_path: Path) -> None:
    """The policy is chosen by the pairs that GAIL draws; how often the expert's episodes end, the whole file says."""
    path = named(tmp_path / "demos.h5", ENV)
    distances = []
    for few in ({}, {"demo_every": 3, "demo_pairs": 7}):
        run = Experiment.create(
            "gail", ENV, demos=path, seed=3, validate_by="demos", eval_every=300,
            hyperparameters={"bc_updates": 0, **few},
        )  # fmt: skip
        with ExitStack() as stack:
            inputs = open_inputs(run, stack)
            learner = make_learner(run, inputs)
            distances.append(validation_of(run, inputs)(learner.policy, 1_000).distance)
    assert distances[0] != distances[1]
    assert isinstance(learner, GAIL)
    with DemoReader(path) as demos:
        likeness = Likeness(demos, every=3, pairs=7, seed=draw_seed(3, 2))
        whole = Likeness(demos)
    drawn = learner.demos.transitions()
    points = likeness.points[:-1, :-1] * likeness.std + likeness.mean
    torch.testing.assert_close(points, torch.cat([drawn.obs, drawn.labels], 1))
    torch.testing.assert_close(likeness.weights[-1], whole.weights[-1])


def test_ends_count_as_often_as_the_steps_that_are_shown(tmp_path: Path) -> None:
    """Of 21 steps each 20th are two."""
    info = DemoInfo("Named-v0", spaces.Box(-1e3, 1e3, (1,)), spaces.Box(-1, 1, (1,)))
    obs = np.linspace(0, 1, 22, dtype=np.float32)[:, None]
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(Trajectory(obs, obs[1:], np.ones(21, np.float32), terminated=True, truncated=False))
    with DemoReader(tmp_path / "demos.h5") as demos:
        few, whole = Likeness(demos, every=20), Likeness(demos)
    torch.testing.assert_close(few.weights[-1], whole.weights[-1])


def test_an_end_that_the_expert_never_meets_is_far(tmp_path: Path) -> None:
    with DemoReader(named(tmp_path / "demos.h5", ENV)) as demos:
        likeness = Likeness(demos)
        episode = demos[0]
    whole = Rollout.of_episode(episode, episode.actions, episode.rewards)
    fallen = Trajectory(episode.obs, episode.actions, episode.rewards, terminated=True, truncated=False)
    assert likeness.distance(Rollout.of_episode(fallen, fallen.actions, fallen.rewards)) > 2 * (
        likeness.distance(whole)
    )


def test_falling_is_farther_than_being_where_the_expert_never_was(tmp_path: Path) -> None:
    """The demonstrations stay around 0. A policy that wanders off to 3 does not fall; another falls early, close by."""
    info = DemoInfo("Named-v0", spaces.Box(-1e3, 1e3, (1,)), spaces.Box(-1, 1, (1,)))
    near = np.sin(np.arange(101.0, dtype=np.float32))[:, None]
    actions, rewards = near[1:], np.ones(100, np.float32)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(Trajectory(near, actions, rewards, terminated=False, truncated=True))

    def rollout(obs: Array, length: int, *, falls: bool) -> Rollout:
        cut = Trajectory(
            obs[: length + 1], actions[:length], rewards[:length], terminated=falls, truncated=not falls
        )
        return Rollout.of_episode(cut, cut.actions, cut.rewards)

    with DemoReader(tmp_path / "demos.h5") as demos:
        likeness = Likeness(demos)
    away = near + np.linspace(0, 3, 101, dtype=np.float32)[:, None]
    assert (
        0
        < likeness.distance(rollout(away, 100, falls=False))
        < likeness.distance(rollout(near, 20, falls=True))
    )
    assert likeness.distance(rollout(near, 100, falls=False)) == pytest.approx(0, abs=1e-6)


def test_pixels_have_no_distance(tmp_path: Path) -> None:
    info = DemoInfo("Pixels-v0", spaces.Box(0, 255, (4, 8, 8), np.uint8), spaces.Discrete(2))
    obs, actions = np.zeros((3, 4, 8, 8), np.uint8), np.zeros(2, np.int64)
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(Trajectory(obs, actions, np.zeros(2, np.float32), terminated=True, truncated=False))
    with (
        DemoReader(tmp_path / "demos.h5") as demos,
        pytest.raises(InputError, match=r"got Box.*: add --eval-every 0, which keeps the last policy"),
    ):
        Likeness(demos)


@pytest.mark.parametrize("env_id", ["Identity-v0", ENV])
def test_a_run_keeps_the_closest_policy_and_reports_them_all(tmp_path: Path, env_id: str) -> None:
    demos = named(tmp_path / "demos.h5", env_id)
    settings = {
        "dqn": {"learning_starts": 50, "hidden": (16,), "num_updates": 1, "rounds_per_iteration": 5},
        "sac": {"learning_starts": 50, "hidden": (16,), "updates_per_step": 0.1, "rounds_per_iteration": 5},
    }
    run = Experiment.create(
        "sqil", env_id, demos=demos, budget=1_600, eval_every=300, eval_episodes=3, validate_by="demos",
        hyperparameters=settings,
    )  # fmt: skip
    execute(run, tmp_path / "run")
    rows = [
        json.loads(line) for line in (tmp_path / "run" / "evaluations.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(rows) > 2
    distances = [row["distance"] for row in rows]
    assert [row["best"] for row in rows] == [
        distance <= min(distances[: number + 1]) for number, distance in enumerate(distances)
    ]
    assert all(row["steps"] == 30 for row in rows)  # three episodes of ten steps
    assert {"mean_return", "std_return", "returns"} <= rows[0].keys()
    kept = [row for row in rows if row["best"]][-1]
    said = chosen(tmp_path / "run")
    assert (
        f"of {len(rows)} policies that were validated this one was closest to the demonstrations, after "
        f"{kept['env_steps']:,} steps" in said
    )
    assert said.endswith(
        f"return of {kept['mean_return']:.4g}; the last one is in {tmp_path / 'run' / 'last_policy'}"
    )
    assert not chosen(tmp_path)
    (tmp_path / "evaluations.jsonl").write_text(
        "".join(json.dumps(row | {"env_steps": 0}) + "\n" for row in rows)
    )
    place = rows.index(kept) + 1
    assert f"closest to the demonstrations, as number {place} with" in chosen(tmp_path)  # an offline learner


def test_a_distance_wants_demonstrations() -> None:
    with pytest.raises(
        InputError, match="--validate-by demos compares with demonstrations: give --demos FILE"
    ):
        Experiment.create("ppo", "CartPole-v1", validate_by="demos")


def test_a_choice_among_no_validations_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The preset of dac never validates, so the option would do nothing."""
    words = f"train dac --env Pendulum-v1 --demos {tmp_path / 'demos.h5'} --out {tmp_path / 'run'}"
    assert main([*words.split(), "--validate-by", "demos"]) == 2
    assert "--validate-by is of validations, and there are none: add --eval-every" in capsys.readouterr().err
