"""Demonstrations are checked before a run is made from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.fields import Fields, as_fields
from imitate.envs.make import make_env
from imitate.envs.spaces import Space
from imitate.errors import InputError
from imitate.training.experiment import Experiment
from imitate.training.inputs import check_demos

WIDE = spaces.Box(-np.inf, np.inf, (4,), np.float64)
CAMERA = as_fields(spaces.Dict(camera=spaces.Box(0, 255, (8, 8, 3), np.uint8), state=WIDE))


@pytest.mark.parametrize(
    ("space", "remedy"),
    [
        (WIDE, "convert their source for this environment, or record them again"),
        (CAMERA, "take its own with `imitate data convert --obs-keys`"),
    ],
)
def test_demonstrations_of_other_spaces_are_refused(tmp_path: Path, space: Space, remedy: str) -> None:
    info = DemoInfo("CartPole-v1", space, spaces.Discrete(2))
    obs = np.zeros(4, space.dtype) if isinstance(space, Fields) else np.zeros((4, 4))
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(
            Trajectory(obs, np.zeros(3, np.int64), np.ones(3, np.float32), terminated=True, truncated=False)
        )
    with DemoReader(tmp_path / "demos.h5") as demos, pytest.raises(InputError) as raised:
        check_demos(demos, "CartPole-v1", {})
    assert "the demonstrations' observation_space is" in str(raised.value)
    assert str(raised.value).endswith(remedy)


def test_demonstrations_of_other_keywords_are_refused_if_spaces_differ(tmp_path: Path) -> None:
    """Training would find out only when it validates."""
    env_id = "imitate/BalancingPlate-v0"
    with make_env(env_id, {"observe_rates": True}) as env:
        info = DemoInfo(env_id, env.observation_space, env.action_space, env_kwargs={"observe_rates": True})
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        obs = np.zeros((2, 10), np.float32)
        writer.append(Trajectory(obs, np.zeros(1, np.int64), np.ones(1, np.float32), True, False))
    with DemoReader(tmp_path / "demos.h5") as demos:
        check_demos(demos, env_id, {"observe_rates": True, "plate": "notebook"})
        with pytest.raises(InputError, match=r"give --env-kwargs '{\"observe_rates\": true}', with which"):
            check_demos(demos, env_id, {})


def test_demonstrations_of_other_keywords_are_a_warning_if_spaces_agree(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with make_env("CartPole-v1") as env:
        info = DemoInfo("CartPole-v1", env.observation_space, env.action_space)
    for name, kwargs in (("of_20", {"max_episode_steps": 20}), ("unknown", {})):
        with DemoWriter(tmp_path / f"{name}.h5", replace(info, env_kwargs=kwargs)) as writer:
            obs = np.zeros((2, 4), np.float32)
            writer.append(Trajectory(obs, np.zeros(1, np.int64), np.ones(1, np.float32), True, False))
    with DemoReader(tmp_path / "of_20.h5") as demos:
        check_demos(demos, "CartPole-v1", {"max_episode_steps": 20})
        assert not caplog.records
        check_demos(demos, "CartPole-v1", {"max_episode_steps": 9})
        recorded = "recorded with --env-kwargs '{\"max_episode_steps\": 20}', and this run has"
        assert f"{recorded} '{{\"max_episode_steps\": 9}}'" in caplog.text
        check_demos(demos, "CartPole-v1", {})
        assert f"{recorded} none" in caplog.text
    caplog.clear()
    with DemoReader(tmp_path / "unknown.h5") as demos:
        check_demos(demos, "CartPole-v1", {"max_episode_steps": 9})
    assert not caplog.records


def test_demonstrations_of_a_module_say_how_to_name_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its module the environment is unknown, and nothing would be evaluated."""
    info = DemoInfo("robot:Own-v0", WIDE, spaces.Discrete(2))
    with DemoWriter(tmp_path / "demos.h5", info) as writer:
        writer.append(
            Trajectory(np.zeros((2, 4)), np.zeros(1, np.int64), np.ones(1, np.float32), True, False)
        )
    with DemoReader(tmp_path / "demos.h5") as demos:
        check_demos(demos, "Own-v0", {})
        assert "Own-v0 is not installed here" in caplog.text
        assert "--env robot:Own-v0 would import it" in caplog.text
        caplog.clear()
        check_demos(demos, "robot:Own-v0", {})  # as a run that is resumed, whose module may not be imported
        assert "--env robot:Own-v0 would import it" in caplog.text
    with DemoWriter(tmp_path / "without.h5", replace(info, env_id="Own-v0")) as writer:
        writer.append(
            Trajectory(np.zeros((2, 4)), np.zeros(1, np.int64), np.ones(1, np.float32), True, False)
        )
    with DemoReader(tmp_path / "without.h5") as demos:
        check_demos(demos, "Own-v0", {})
        assert "--env MODULE:Own-v0 would import it" in caplog.text


def test_validations_in_a_module_that_was_not_typed_say_how_to_type_it() -> None:
    """A resumed run was once told to leave out --eval-every, which it can't."""
    begun = replace(Experiment.preset("bc", "Lift"), env_id="absent:Own-v0", demos="demos.h5", eval_every=5)
    with pytest.raises(InputError, match="say --env absent:Own-v0"):
        begun.check_inputs()


def test_statistics_of_an_expert_are_named_with_their_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run goes on from any folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("x.zip", "vn.pkl"):
        (tmp_path / name).write_text("")
    told = {"expert": "x.zip", "budget": 100}
    run = Experiment.create("dagger", "CartPole-v1", vecnormalize="vn.pkl", **told)  # type: ignore[arg-type]
    assert run.to_json()["vecnormalize"] == str(tmp_path / "vn.pkl")
    none = Experiment.create("dagger", "CartPole-v1", vecnormalize="none", **told)  # type: ignore[arg-type]
    assert none.to_json()["vecnormalize"] == "none"
