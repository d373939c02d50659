"""Experts trained here: what is written, what an interruption keeps, and what comes with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.train import ALGORITHMS, preset, train_expert

SMALL: dict[str, Any] = {"eval_every": 200, "eval_episodes": 2, "test_episodes": 2}


def test_an_expert_is_written_with_its_critic_and_its_measured_return(tmp_path: Path) -> None:
    train_expert(
        "sac", "Pendulum-v1", tmp_path / "sac", steps=400, command="imitate expert train ...", **SMALL
    )
    expert = load_expert(tmp_path / "sac")
    facts = json.loads((tmp_path / "sac" / "expert.json").read_text())
    assert facts["training"]["command"] == "imitate expert train ..."
    assert facts["measured"]["episodes"] == 2
    assert expert.oracle is not None
    obs = torch.tensor([[1.0, 0.0, 0.0]])
    assert expert.oracle.q(obs, torch.zeros(1, 1)).shape == (1,)
    rows = [json.loads(line) for line in (tmp_path / "sac" / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [200, 400, 400]
    assert not (tmp_path / "sac" / "training" / "checkpoint").exists()
    with pytest.raises(InputError, match="exists"):
        train_expert("sac", "Pendulum-v1", tmp_path / "sac", steps=400, **SMALL)


def test_an_interrupted_training_goes_on_with_its_replay_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from imitate.experts.train import _KeepBest

    validate = _KeepBest.validate

    def interrupted(keeper: Any) -> None:
        validate(keeper)
        if keeper.num_timesteps >= 400:
            raise KeyboardInterrupt

    monkeypatch.setattr(_KeepBest, "validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_expert("sac", "Pendulum-v1", tmp_path / "sac", steps=600, **SMALL)
    monkeypatch.undo()
    buffer = np.load(tmp_path / "sac" / "training" / "checkpoint" / "replay.npz", allow_pickle=False)
    assert len(buffer["rewards"]) == 399  # the transition of the interrupted step is not in it yet
    with pytest.raises(InputError, match="can't be resumed with these settings"):
        train_expert("td3", "Pendulum-v1", tmp_path / "sac", steps=600, resume=True, **SMALL)
    train_expert("sac", "Pendulum-v1", tmp_path / "sac", steps=600, resume=True, **SMALL)
    rows = [json.loads(line)["step"] for line in (tmp_path / "sac" / "log.jsonl").read_text().splitlines()]
    assert rows[:3] == [200, 400, 600]


def test_normalisation_is_part_of_the_expert(tmp_path: Path) -> None:
    train_expert("ppo", "Acrobot-v1", tmp_path / "ppo", steps=4_096, **SMALL | {"eval_every": 4_096})
    expert = load_expert(tmp_path / "ppo")
    assert expert.normalisation is not None
    assert expert.oracle is None  # PPO has V only
    assert expert.value(torch.zeros(3, 6)).shape == (3,)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_a_preset(algorithm: str) -> None:
    assert preset(algorithm, "Nowhere-v0")["n_timesteps"] > 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'sac'"):
        train_expert("sca", "Pendulum-v1", tmp_path / "x")
    with pytest.raises(InputError, match="lerning_rate"):
        train_expert("sac", "Pendulum-v1", tmp_path / "x", lerning_rate=1)
    assert not (tmp_path / "x").exists()
