"""Mistakes on the command line are answered by one line."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from typed import in_work, work  # noqa: F401

from imitate.cli import main

pytestmark = pytest.mark.usefixtures("in_work")


MISTAKES = {
    "command": ("colect", "did you mean 'collect'"),
    "subcommand": ("data inof x", "did you mean 'info'"),
    "environment": ("train ppo --env CartPol-v1 --out o", "did you mean 'CartPole-v1'"),
    "module": ("train ppo --env nowhere:X-v0 --out o", "module 'nowhere'"),
    "environment keywords": (
        "train ppo --env CartPole-v1 --env-kwargs '{\"mass\": 1}' --out o",
        "does not take",
    ),
    "time limit": (
        "train ppo --env CartPole-v1 --max-episode-steps 9 --out o",
        '{"max_episode_steps": 1000}',
    ),
    "module of a player": (
        "collect human --env CartPole-v1 --intervene nowhere:make --out o.h5",
        "module 'nowhere'",
    ),
    "algorithm": ("train pppo --env CartPole-v1 --out o", "did you mean 'ppo'"),
    "no algorithm": ("train --env CartPole-v1", "which algorithm"),
    "expert": ("collect CartPole-v7 --episodes 1 --out o.h5", "did you mean 'CartPole-v1"),
    "environment twice": (
        "train ppo --env CartPole-v1 --env Acrobot-v1 --out o",
        "--env is given twice: give it once",
    ),
    "settings of a resumed run": (
        "train --resume bc --budget 9",
        "bc goes on with its own settings: leave --budget out, or begin a new run with --out",
    ),
    "hyperparameters of a resumed run": (
        "train --resume bc --learning-rate 0.1",
        "leave --learning-rate out",
    ),
    "infinite learning rate": (
        "train ppo --env CartPole-v1 --learning-rate inf --out o",
        "learning_rate of ppo must be finite, got inf",
    ),
    "validation's episodes without validations": (
        "train ppo --env CartPole-v1 --eval-every 0 --eval-episodes 3 --out o",
        "--eval-episodes is of validations, and there are none: add --eval-every STEPS",
    ),
    "a rate for a schedule without one": (
        "train dagger --env CartPole-v1 --expert CartPole-v1:ppo --alpha-schedule inverse --alpha-rate 0.5 --out o",
        "--alpha-rate has no effect on the inverse schedule",
    ),
    "too few steps for guided": (
        "train guided --env Pendulum-v1 --expert Pendulum-v1 --budget 300 --out o",
        "got 500 of 300: give a larger budget, or fewer learning_starts",
    ),
    "negative time limit": (
        "train ppo --env CartPole-v1 --env-kwargs '{\"max_episode_steps\": -1}' --out o",
        "CartPole-v1 has max_episode_steps -1: wanted a whole number above 0",
    ),
    "no amount": ("collect CartPole-v1:ppo --out o.h5", "either --episodes N or --steps N"),
    "noise": ("collect CartPole-v1:ppo --episodes 1 --noise gaussian:1 --out o.h5", "use random:P"),
    "unknown noise": (
        "collect CartPole-v1:ppo --episodes 1 --noise dort:bc --out o.h5",
        "also takes dart:RUN",
    ),
    "no share of the steps": (
        "data subsample demos.h5 --out o.h5",
        "give either --every N or --pairs N, got neither",
    ),
    "both parts in one file": (
        "data split demos.h5 --train o.h5 --held-out ./o.h5",
        "o.h5 can't be both parts: name two files",
    ),
    "output exists": ("collect CartPole-v1:ppo --episodes 1 --out demos.h5", "exists"),
    "run exists": ("train ppo --env CartPole-v1 --out bc", "finished run"),
    "no demos": ("train bc --env CartPole-v1 --out o", "--demos FILE"),
    "no expert": ("train dagger --env CartPole-v1 --out o", "--expert SPEC"),
    "demos of another environment": (
        "train bc --env Acrobot-v1 --demos demos.h5 --out o",
        "are of CartPole-v1, not of Acrobot-v1: give --env CartPole-v1, or record some of Acrobot-v1",
    ),
    "expert of another environment": (
        "train dagger --env Acrobot-v1 --expert CartPole-v1:ppo --out o",
        "CartPole-v1:ppo is not for Acrobot-v1",
    ),
    "truncated HDF5": ("data info truncated.h5", "truncated.h5"),
    "foreign HDF5": ("train bc --env CartPole-v1 --demos foreign.h5 --out o", "foreign.h5"),
    "not HDF5": ("data validate text.h5", "text.h5"),
    "missing file": ("data info absent.h5", "absent.h5"),
    "NaN in demonstrations": ("train bc --env CartPole-v1 --demos nan.h5 --out o", "NaN"),
    "foreign zip": ("evaluate foreign.zip", "foreign.zip"),
    "truncated zip": ("evaluate truncated.zip", "truncated.zip"),
    "a person as expert": (
        "train aggrevated --env CartPole-v1 --expert human --out o",
        "--expert human is for dagger",
    ),
    "not a run": ("evaluate nothing", "no expert 'nothing'"),
    "not a run to start from": ("train ppo --env CartPole-v1 --init nothing --out o", "no folder nothing"),
    "start for BC": (
        "train bc --env CartPole-v1 --demos demos.h5 --init bc --out o",
        "--init is for gail, ppo, rpo",
    ),
    "unsupported space": ("train ppo --env Blackjack-v1 --out o", "Tuple"),
    "hyperparameter out of range": ("train ppo --env CartPole-v1 --gamma 1.5 --out o", "gamma"),
    "compared algorithm": ("compare --env CartPole-v1 --algorithms bcc --out o", "did you mean 'bc'"),
    "no environments": ("evaluate bc --num-envs 0", "num_envs"),
    "seed": ("evaluate bc --seed -1", "whole number from 0 to 2**64 - 1, got -1"),
    "evaluated elsewhere": ("evaluate bc --env Acrobot-v1", "observation_space"),
    "not a number": (
        "train bc --env CartPole-v1 --demos demos.h5 --learning-rate nan --out o",
        "learning_rate must be at least 0, got nan",
    ),
    "no such choice": (
        "train gail --env CartPole-v1 --reward vail --out o",
        "'plus_one', 'minus_one'); see `imitate train gail --help`",
    ),
    "not a whole number": (
        "evaluate bc --episodes x",
        "not a whole number, such as 20000, 20k or 1e5: 'x'; wanted --episodes INT episodes to play",
    ),
    "width": ("train ppo --env CartPole-v1 --hidden 0 --out o", "width of at least 1"),
    "unused option": ("train ppo --env CartPole-v1 --demos demos.h5 --out o", "makes no use of --demos"),
    "environments without a use": (
        "train bc --env CartPole-v1 --demos demos.h5 --num-envs 4 --out o",
        "bc makes no use of --num-envs",
    ),
    "a game's lives without a game": (
        "train bc --env CartPole-v1 --demos demos.h5 --episodic-life --out o",
        "bc makes no use of --episodic-life",
    ),
    "episodes of no demonstrations": (
        "train sac --env Pendulum-v1 --demo-episodes 3 --out o",
        "--demo-episodes is of demonstrations, and there are none: add --demos FILE",
    ),
    "several environments before a person": (
        "train dagger --env CartPole-v1 --expert human --num-envs 4 --out o",
        "num_envs must be 1 and backend gymnasium, got 4 and gymnasium",
    ),
    "steps that follow the budget": (
        "train gail --env CartPole-v1 --demos demos.h5 --ppo.total-steps 9 --out o",
        "unknown option --ppo.total-steps",
    ),
    "no config": ("train ppo --env CartPole-v1 --out o --config", "--config lacks its value"),
    "an expert that is and is not measured": (
        "expert show CartPole-v1:ppo --no-measure --remeasure",
        "--no-measure and --remeasure contradict each other",
    ),
    "an expert's statistics without an expert": (
        "train ppo --env CartPole-v1 --vecnormalize none --out o",
        "ppo makes no use of --vecnormalize",
    ),
    "budget": (
        "train bc --env CartPole-v1 --demos demos.h5 --budget 100 --out o",
        "a budget of 100 steps is too small for the demonstrations (1500): give at least --budget 1500",
    ),
    "file as a folder": ("train ppo --env CartPole-v1 --out demos.h5/x", "demos.h5/x"),
    "file as a run": ("train ppo --env CartPole-v1 --init demos.h5 --out o", "demos.h5 has no policy"),
    "no folder": ("collect CartPole-v1:ppo --episodes 1 --out no/such.h5", "create it first"),
    "seed of a collection": (
        "collect CartPole-v1:ppo --episodes 1 --seed -1 --out o",
        "imitate: a seed must be a whole number from 0 to 2**64 - 1, got -1",
    ),
    "number": (
        "collect CartPole-v1:ppo --episodes two --out o",
        "imitate: Error parsing --episodes: not a whole number, such as 20000, 20k or 1e5: 'two'; wanted",
    ),
    "keyword arguments": (
        "collect CartPole-v1:ppo --episodes 1 --env-kwargs '[1]' --out o",
        "imitate: Error parsing --env-kwargs: wanted a JSON object such as",
    ),
    "suite": ("compare clasic --out o", "did you mean 'classic'"),
    "too large a seed": (
        "collect CartPole-v1:ppo --episodes 1 --seed 1e30 --out o",
        "above 9007199254740992: 1e30",
    ),
    "nested without end": (
        "evaluate bc --env-kwargs '" + '{"a":' * 9_999 + "'",
        "Error parsing --env-kwargs: not JSON",
    ),
    "probes": ("expert check BipedalWalker-v3 --probes -1", "probes must be at least 0, got -1"),
    "no episode to film": (
        "data video demos.h5 --out o.mp4 --episodes",
        "no episode to film: give --episodes N",
    ),
    "films without actions": (
        "data video unknown.h5 --out o.mp4 --episodes 0",
        "the actions of these demonstrations are unknown",
    ),
    "not a share": ("data split demos.h5 --train o --held-out p --holdout nan", "below 1, got nan"),
    "an option as a hyperparameter": (
        "expert train --algo ppo --env X --hyperparameters '{\"steps\": 1}' --out o",
        "steps is no hyperparameter: give it as an option of its own",
    ),
    "experts measured in no episode": (
        "expert list --measure --episodes 0",
        "episodes must be at least 1, got 0",
    ),
    "statistics for a policy of ours": (
        "evaluate bc/policy --env CartPole-v1 --vecnormalize x.pkl",
        "--vecnormalize is for experts in SB3's zips",
    ),
    "environments of a collection": (
        "collect CartPole-v1:ppo --episodes 1 --num-envs -3 --out o",
        "--num-envs must be in [1,",
    ),
    "empty name": ("train bc --env CartPole-v1 --demos demos.h5 --out ''", "an empty name"),
    "empty name of an expert": ("evaluate ''", "an empty name"),
    "audit of what has none": ("train --resume bc --audit", "--audit is for gail"),
    "workers": ("compare --env CartPole-v1 --workers 0 --out o", "workers must be at least 1"),
    "overrides": (
        "compare --env CartPole-v1 --hyperparameters '{\"ppo\": 3}' --out o",
        "Expected `object`, got `int`",
    ),
    "expert's actions": ("expert train --algo sac --env CartPole-v1 --out o", "can't be set up"),
    "trained expert": ("expert train --algo sca --env CartPole-v1 --out o", "did you mean 'sac'"),
}
"""The command, and what its line says."""


def _damage(path: str, change: Any) -> str:
    shutil.copy("demos.h5", path)
    change(Path(path))
    return path


def _nan(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["obs"][7] = np.nan


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_status_2(mistake: str, capsys: pytest.CaptureFixture[str]) -> None:
    _damage("truncated.h5", lambda path: path.write_bytes(path.read_bytes()[:2_000]))
    _damage("nan.h5", _nan)
    Path("text.h5").write_text("not HDF5", "utf-8")
    Path("foreign.zip").write_text("not a zip", "utf-8")
    Path("truncated.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with h5py.File("foreign.h5", "w") as file:
        file["data"] = [1, 2, 3]
    command, wanted = MISTAKES[mistake]
    capsys.readouterr()
    assert main(shlex.split(command)) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if "expert" in mistake or "measured" not in line]
    assert wanted in lines[-1]
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not Path("o").exists()
    assert not Path("o.h5").exists()
