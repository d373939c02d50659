"""The audit of GAIL and DAC: its controls, on the command line and in a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from handwritten import named

from imitate.cli import main
from imitate.compare import Comparison
from imitate.compare.execute import worker
from imitate.compare.execute.audit import CONTROLS, OneAction, controls
from imitate.compare.execute.training import training
from imitate.compare.plan.comparison import jobs
from imitate.datasets.storage.reader import DemoReader
from imitate.training import execute as execution
from imitate.training.experiment import Experiment


def test_controls_are_the_run_but_for_what_they_are_about(tmp_path: Path) -> None:
    demos = named(tmp_path / "demos.h5", "Identity-v0", 3)
    run = Experiment.create(
        "gail", "Identity-v0", demos=str(demos), demo_episodes=2, hyperparameters={"reward": "logit"}
    )
    found = dict(controls(run, tmp_path / "audit"))
    rewards = {name: control.hyperparameters["reward"] for name, control in found.items()}
    assert rewards == {
        "plus-one": "plus_one",
        "minus-one": "minus_one",
        "one-action": "logit",
        "random": "logit",
    }
    for control in found.values():
        assert control.hyperparameters | {"reward": ""} == run.hyperparameters | {"reward": ""}
        assert (control.budget, control.seed) == (run.budget, run.seed)
    assert found["plus-one"].demos == run.demos
    with (
        DemoReader(str(found["one-action"].demos)) as always,
        DemoReader(str(found["random"].demos)) as random,
    ):
        assert always.num_steps == random.num_steps == 20  # of the expert's, too, 2 episodes
        assert not always.transitions().actions.any()
        assert len(random.transitions().actions.unique()) == 3


def test_the_expert_does_not_choose_the_policy_of_a_constant_reward(tmp_path: Path) -> None:
    demos = named(tmp_path / "demos.h5", "Identity-v0", 3)
    run = Experiment.create("gail", "Identity-v0", demos=str(demos), eval_every=300, validate_by="demos")
    found = {name: each.eval_every for name, each in controls(run, tmp_path / "audit")}
    assert found == {"plus-one": 0, "minus-one": 0, "one-action": 300, "random": 300}


def test_a_control_of_dac_sees_no_transition_of_the_expert(tmp_path: Path) -> None:
    """SAC would learn from the expert's half of a batch which actions survive, whatever the reward."""
    demos = named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 2)
    run = Experiment.create("dac", "ContinuousIdentity-v0", demos=str(demos))
    found = dict(controls(run, tmp_path / "audit"))
    assert run.hyperparameters["mix_demos"]
    mixed = {name: control.hyperparameters["mix_demos"] for name, control in found.items()}
    assert mixed == {"plus-one": False, "minus-one": False, "one-action": True, "random": True}


def test_the_audit_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos = named(tmp_path / "demos.h5", "Identity-v0", 3)
    words = f"train gail --env Identity-v0 --demos {demos} --budget 300 --out {tmp_path / 'run'} --audit"
    options = "--bc-updates 20 --ppo.num-steps 32 --ppo.num-epochs 1 --eval-every 0 --no-looks"
    assert main([*words.split(), *options.split()]) == 0
    assert not list(tmp_path.rglob("look.json"))
    written = (tmp_path / "run" / "audit.json").read_bytes()
    assert main(words.split()) == 0  # of a finished run: nothing is trained again
    assert (tmp_path / "run" / "audit.json").read_bytes() == written
    rows = json.loads((tmp_path / "run" / "audit.json").read_text("utf-8"))["rows"]
    assert [row["who"] for row in rows] == ["this run", "random actions", *CONTROLS.values()]
    assert all(0 <= row["mean_return"] <= 10 == row["mean_length"] for row in rows)
    assert "constant reward -1" in capsys.readouterr().out
    assert main(["train", "ppo", "--env", "Identity-v0", "--out", str(tmp_path / "ppo"), "--audit"]) == 2
    assert not (tmp_path / "ppo").exists()


def test_an_audit_that_was_interrupted_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    demos, run = named(tmp_path / "demos.h5", "Identity-v0", 3), tmp_path / "run"
    words = f"train gail --env Identity-v0 --demos {demos} --budget 300 --out {run} --audit --no-looks"
    options = "--bc-updates 20 --ppo.num-steps 32 --ppo.num-epochs 1 --eval-every 0"
    with monkeypatch.context() as patch:
        whole = execution.execute
        patch.setattr(
            execution, "execute", lambda *given, **more: given[1] == run and whole(*given, **more)
        )  # Ctrl-C in the first control
        assert main([*words.split(), *options.split()]) == 130
    go_on = f"imitate train --resume {run} --no-looks --audit"
    assert f"interrupted and saved; go on with `{go_on}`" in capsys.readouterr().err

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for where in ("imitate.training.execute._prepare", "imitate.compare.execute.audit.write_audit"):
        with monkeypatch.context() as patch:
            patch.setattr(where, interrupted)
            assert main(go_on.split()[1:]) == 130
        assert f"go on with `{go_on}`" in capsys.readouterr().err
    assert main(go_on.split()[1:]) == 0
    assert (run / "audit.json").exists()


@pytest.mark.parametrize(
    ("space", "action"),
    [(spaces.Discrete(3, start=5), 5), (spaces.Box(np.float32([-1, 0]), np.float32([1, 4])), [0, 2])],
)
def test_one_action(space: spaces.Space[Any], action: Any) -> None:
    actions = OneAction(space).act(np.zeros((4, 2)))
    assert actions.dtype == space.dtype
    np.testing.assert_array_equal(actions, [action] * 4)


def test_compare_runs_the_controls_beside_it(tmp_path: Path) -> None:
    overrides = {"gail": {"reward": "logit", "bc_updates": 20, "ppo": {"num_steps": 32, "num_epochs": 1}}}
    settings: dict[str, Any] = {"expert": "CartPole-v1", "seeds": 2, "budget": 2_000, "episodes": 2}
    settings |= {"curve_episodes": 1, "hyperparameters": overrides}
    comparison = Comparison("CartPole-v1", ("gail",), **settings)
    assert Comparison.from_json(comparison.to_json()) == comparison
    planned = {job.name: job for job in jobs(comparison, tmp_path, episode_steps=50)}
    variants = [f"gail:{control}-seed0" for control in CONTROLS]
    recordings = {"demos-seed0", "demos-seed1", "demos:one-action-seed0", "demos:random-seed0"}
    assert set(planned) == {"gail-seed0", "gail-seed1", *variants} | recordings
    rewards = [
        training(comparison, planned[name]).hyperparameters["reward"] for name in ("gail-seed0", *variants)
    ]
    assert rewards == ["logit", "plus_one", "minus_one", "logit", "logit"]
    for name in ("demos:one-action-seed0", "gail:one-action-seed0"):
        worker.run(tmp_path, comparison, planned[name], progress=lambda _steps: None)
        assert worker.is_done(comparison, planned[name])
    with DemoReader(str(planned["demos:one-action-seed0"].demos)) as demos:
        assert 480 < demos.num_steps <= 500  # 10 episodes of 50 are as long as the expert's
        assert not demos.transitions().actions.any()
    result = json.loads((planned["gail:one-action-seed0"].folder / "result.json").read_text("utf-8"))
    assert result["demo_steps"] == demos.lengths.sum()
