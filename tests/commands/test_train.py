"""`imitate train` as a user types it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import gymnasium as gym
import h5py
import numpy as np
import pytest
from forked import in_a_process
from gymnasium.envs.classic_control import CartPoleEnv
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typed import PPO, config, help_of, refused

from imitate.cli import main
from imitate.datasets.storage.reader import DemoReader
from imitate.imitators.roll_in.teachers import Teachers
from imitate.nn.stored_policy import load_policy

CURVE = "evaluation/mean_return"
pytestmark = pytest.mark.usefixtures("in_a_folder")


def test_mistakes_are_one_line_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert "budget must be at least 1, got -5" in refused(capsys, *PPO, "--budget", "-5", "--out", "o")
    line = refused(capsys, *PPO, "--budget", "3", "--out", "o")
    assert "too small for one update of the learner (8): give at least --budget 8" in line
    assert "--audit is for gail" in refused(capsys, *PPO, "--audit", "--out", "o")
    assert not Path("o").exists()


def test_another_network_than_that_of_init_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "300", "--out", "run"]) == 0
    line = refused(capsys, *PPO, "--init", "run", "--hidden", "32", "--budget", "300", "--out", "o")
    assert "--hidden [32], but the policy of run has hidden [64, 64]" in line
    line = refused(capsys, *PPO, "--init", "run", "--log-std-init", "-2", "--budget", "300", "--out", "o")
    assert "--log-std-init is for a new policy" in line
    assert main([*PPO, "--init", "run", "--hidden", "64", "64", "--budget", "300", "--out", "tuned"]) == 0


def test_a_run_of_sac_is_tuned_with_a_deviation_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    """SAC's depends on the state, and PPO's doesn't; a squashed policy keeps it."""
    few = ("--env", "ContinuousIdentity-v0", "--budget", "64", "--eval-every", "0")
    sac = ("train", "sac", *few, "--learning-starts", "32", "--hidden", "8", "--rounds-per-iteration", "4")
    assert main([*sac, "--out", "run"]) == 0
    init = ("train", "ppo", *few, "--num-steps", "4", "--init", "run", "--log-std-init", "-2")
    assert "has a deviation of its own" in refused(capsys, *init, "--head", "squashed", "--out", "o")
    assert main([*init, "--out", "tuned"]) == 0
    assert load_policy("tuned").log_std.tolist() == pytest.approx([-2.0], abs=0.1)


def test_several_experts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Teachers.fit, "__defaults__", (20, 0))  # gradient steps of the critics
    dagger = ("train", "dagger", "--env", "CartPole-v1", "--budget", "160", "--iterations", "1")
    few = ("--updates-per-iteration", "3", "--final-updates", "3", "--eval-every", "0")
    two = ("--expert", "CartPole-v1", "--expert", "random")
    assert main([*dagger, *few, *two, "--out", "first"]) == 0
    assert (config("first")["expert"], config("first")["other_experts"]) == ("CartPole-v1", ["random"])
    with DemoReader("first/aggregated.h5") as reader:
        assert reader.info.expert == "CartPole-v1, random"
    last = json.loads(Path("first/metrics.jsonl").read_text("utf-8").splitlines()[-1])
    assert last["expert_queries"] == last["queries_1"] + last["queries_2"] >= 320

    assert main(["train", "--config", "first/config.json", "--out", "second"]) == 0
    assert config("second")["other_experts"] == ["random"]
    again = ("train", "--config", "first/config.json", "--out", "third", "--expert", "CartPole-v1:ppo")
    assert main([*again]) == 0
    assert (config("third")["expert"], config("third")["other_experts"]) == ("CartPole-v1:ppo", [])

    for name, answer in (
        ("ppo", "ppo makes no use of --expert"),
        ("gail", "gail makes no use of --expert"),
        ("bc", "bc makes no use of --expert"),
        ("aggrevate", "aggrevate learns from one expert, got 2: give one --expert, or take one of dagger"),
    ):
        assert answer in refused(capsys, "train", name, "--env", "CartPole-v1", *two, "--out", "o")
    statistics = ("--vecnormalize", "none")
    assert "--vecnormalize is for one expert" in refused(capsys, *dagger, *two, *statistics, "--out", "o")


def test_an_expert_is_loaded_once() -> None:
    """The expert whose return is measured is the one that is imitated."""
    Path("counted.py").write_text(
        "def make_expert():\n"
        "    with open('calls', 'a') as calls:\n"
        "        calls.write('.')\n"
        "    return lambda obs: (obs[:, 2] + obs[:, 3] > 0).astype(int)\n",
        encoding="utf-8",
    )
    dagger = ("train", "dagger", "--env", "CartPole-v1", "--expert", "counted:make_expert", "--budget", "160")
    few = ("--iterations", "1", "--updates-per-iteration", "3", "--final-updates", "3", "--eval-every", "0")
    assert main([*dagger, *few, "--out", "run"]) == 0
    assert Path("calls").read_text("utf-8") == "."


OWN = """
from dataclasses import dataclass
from imitate.rl.ppo import PPO, PPOConfig

@dataclass(frozen=True)
class MineConfig(PPOConfig):
    strength: float = 0.5

class Mine(PPO):
    def __init__(self, config, *, envs, seed, device="cpu"):
        super().__init__(config, envs=envs, seed=seed, device=device)
"""


def test_a_learner_of_ones_own_is_trained_measured_and_repeated() -> None:
    Path("my_learner.py").write_text(OWN, "utf-8")
    own, others = "my_learner:Mine", ("--num-steps", "16", "--num-epochs", "1", "--budget", "300")
    assert main(["train", own, "--env", "CartPole-v1", *others, "--strength", "0.2", "--out", "run"]) == 0
    assert config("run")["hyperparameters"]["strength"] == 0.2  # type: ignore[index]
    assert main(["evaluate", "run", "--episodes", "1"]) == 0
    assert main(["train", own, "--config", "run/config.json", "--out", "again"]) == 0
    weights = [Path(run, "policy/policy.safetensors").read_bytes() for run in ("run", "again")]
    assert weights[0] == weights[1]
    # In a process that was not told so, a file chooses nothing.
    done = in_a_process("train", "--config", "run/config.json", "--out", "o")
    assert done.returncode == 2
    assert "say `imitate train` or `imitate compare --add` my_learner:Mine" in done.stderr
    # Measuring its policy needs no code of the learner's.
    assert in_a_process("evaluate", "run", "--episodes", "1").returncode == 0
    Path("run/finished.json").unlink()
    assert main(["train", own, "--resume", "run"]) == 0


def test_settings_of_ones_own_may_have_a_name_of_daggers(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rated.py").write_text(OWN.replace("strength", "alpha_rate"), "utf-8")
    own = ("train", "rated:Mine", "--env", "CartPole-v1", "--alpha-rate", "0.2")
    assert "a budget of 1 steps is too small" in refused(capsys, *own, "--budget", "1", "--out", "o")


def test_settings_of_ones_own_do_not_take_the_name_of_a_runs_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("clashing.py").write_text(OWN.replace("strength: float = 0.5", "seed: int = 3"), "utf-8")
    said = refused(capsys, "train", "clashing:Mine", "--env", "CartPole-v1", "--out", "o")
    assert "MineConfig has 'seed', which is an option of every run: give it another name" in said


@pytest.mark.parametrize("limit", [10, 10_000])
def test_the_curve_of_returns_costs_a_quarter_of_the_budget_at_most(
    limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 steps pay for ten looks of 25 steps: two episodes of 10 each, and none of 10,000."""
    env_id = f"Short{limit}-v0"
    gym.register(env_id, CartPoleEnv, max_episode_steps=limit)
    command = [option if option != "CartPole-v1" else env_id for option in PPO]
    assert main([*command, "--budget", "1000", "--out", "run"]) == 0
    events = EventAccumulator("run")
    events.Reload()
    points = [each.step for each in events.Scalars(CURVE)] if CURVE in events.Tags()["scalars"] else []
    assert len(points) == (
        9 if limit == 10 else 0
    )  # iterations of 128 steps pass eight tenths, after the start
    assert points == sorted(points)
    assert len(list(Path("run").glob("events.*"))) == 1  # a running TensorBoard follows the latest file alone
    said = capsys.readouterr().err
    assert re.search(
        r"it returns \S+ on average in 5 episodes \(\S+ to \S+\): a look outside the budget", said
    )
    totals = json.loads(Path("run/finished.json").read_text("utf-8"))
    assert totals["env_steps"] + totals["validation_steps"] <= 1_000
    assert main([*command, "--budget", "1000", "--no-looks", "--out", "blind"]) == 0
    assert "a look outside the budget" not in capsys.readouterr().err
    weights = [Path(run, "policy/policy.safetensors").read_bytes() for run in ("run", "blind")]
    assert weights[0] == weights[1]  # looks change nothing


def test_sac_learns_beside_demonstrations(capsys: pytest.CaptureFixture[str]) -> None:
    """They are optional; another's are refused, and a run without them needs none."""
    assert (
        main(["collect", "Pendulum-v1", "--env", "Pendulum-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    )
    sac = ("train", "sac", "--env", "Pendulum-v1", "--budget", "720", "--hidden", "8", "--no-looks")
    assert main([*sac, "--demos", "demos.h5", "--out", "with"]) == 0
    assert main([*sac, "--out", "without"]) == 0
    assert (config("with")["demos"] is None, config("without")["demos"]) == (False, None)
    line = refused(capsys, *sac, "--demos", "nowhere.h5", "--out", "o")
    assert "nowhere.h5" in line


def test_a_folder_with_spaces_is_quoted_in_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PPO, "--budget", "100", "--out", "my runs/ppo"]) == 0
    assert "measure it with `imitate evaluate 'my runs/ppo'`" in capsys.readouterr().err
    shutil.rmtree("my runs/ppo/policy")
    assert "go on with `imitate train --resume 'my runs/ppo'`" in refused(capsys, "evaluate", "my runs/ppo")


@pytest.mark.usefixtures("own_cache")
def test_an_offline_learner_needs_no_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    """robomimic's Lift is no environment of gymnasium: spaces are those of the data."""
    with h5py.File("robo.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1})
        for name, rows in {"actions": np.full((8, 2), 0.5), "obs/flat": np.ones((8, 3))}.items():
            file[f"data/demo_0/{name}"] = rows
    learn = ["train", "bc", "--demos", "robo.hdf5", "--max-updates", "300", "--learning-rate", "1e-2"]
    assert main([*learn, "--out", "run"]) == 0
    assert "Lift is not installed here: nothing was evaluated" in capsys.readouterr().err
    assert config("run")["env_id"] == "Lift"
    assert load_policy("run").act(np.ones(3, np.float32)).tolist() == pytest.approx([0.5, 0.5], abs=0.05)
    assert "Lift is not installed here: install it, or name one" in refused(capsys, "evaluate", "run")
    own = Path("run/config.json").read_text("utf-8").replace('"Lift"', '"robot:Lift"')
    Path("run/config.json").write_text(own, "utf-8")
    assert "if you trust it, say --env robot:Lift" in refused(capsys, "evaluate", "run")
    assert "Lift is not installed here" in refused(capsys, *learn, "--eval-every", "10", "--out", "o")
    assert "the data are of Lift, not of Lifd" in refused(capsys, *learn, "--env", "Lifd", "--out", "o")
    assert "unknown environment 'Lift': `imitate envs` lists those here, and MODULE:ENV imports" in refused(
        capsys, "train", "gail", "--env", "Lift", "--demos", "robo.hdf5", "--out", "o"
    )


@pytest.mark.usefixtures("own_cache")
def test_cameras_and_state_of_robomimic_are_learned_together(capsys: pytest.CaptureFixture[str]) -> None:
    obs = {"cams/left": np.zeros((8, 40, 40, 3), np.uint8), "state": np.ones((8, 3))}
    with h5py.File("robo.hdf5", "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1})
        for name, rows in {
            "actions": np.full((8, 2), 0.5),
            **{f"obs/{key}": obs[key] for key in obs},
        }.items():
            file[f"data/demo_0/{name}"] = rows
    assert main(["train", "bc", "--demos", "robo.hdf5", "--max-updates", "2", "--out", "run"]) == 0
    policy = load_policy("run")
    assert list(policy.observation_space) == ["cams/left", "state"]  # type: ignore[call-overload]
    assert policy.act(obs).shape == (8, 2)
    said = refused(capsys, "train", "td3bc", "--demos", "robo.hdf5", "--out", "o")
    assert "or take some of a data set's in one array with `imitate data convert --obs-keys`" in said


def test_an_offline_learner_takes_the_environment_of_its_demonstrations(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["collect", "CartPole-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    assert main(["train", "bc", "--demos", "demos.h5", "--max-updates", "20", "--out", "run"]) == 0
    assert config("run")["env_id"] == "CartPole-v1"
    assert "imitate evaluate run" in capsys.readouterr().err


@pytest.mark.usefixtures("own_cache")
def test_demonstrations_that_name_no_environment_need_a_name_but_no_simulator(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("log.csv").write_text(
        "obs_0,action_0,reward,terminated\n0.5,0.1,1,0\n0.6,0.2,1,0\n0.7,0.3,1,1\n", encoding="utf-8"
    )
    learn = ["train", "bc", "--demos", "log.csv", "--max-updates", "2", "--out", "run"]
    assert "log.csv does not name its environment: give --env ENV" in refused(capsys, *learn)
    assert "--learning-rate" in help_of(capsys, *learn)
    assert main([*learn, "--env", "MyRobot-v0"]) == 0
    Path("empty.csv").write_text("", "utf-8")
    assert "empty.csv: it is empty" in refused(capsys, "train", "bc", "--demos", "empty.csv", "--out", "o")


def test_td3bc_says_its_loss_while_it_trains(caplog: pytest.LogCaptureFixture) -> None:
    assert main(["collect", "Pendulum-v1", "--episodes", "1", "--out", "demos.h5"]) == 0
    caplog.clear()
    assert (
        main(["train", "td3bc", "--demos", "demos.h5", "--max-updates", "8", "--no-looks", "--out", "run"])
        == 0
    )
    assert caplog.messages[0].startswith("iteration 1 (100%): cloning_loss ")
