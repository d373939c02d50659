"""The settings of every algorithm keep their promises."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitate import A2CConfig, GAILConfig, PPOConfig, SACConfig
from imitate.algorithms import ALGORITHMS
from imitate.compare import Comparison
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.improvement.task import Task
from imitate.training.execute import execute
from imitate.training.experiment import Experiment
from imitate.training.settings import make_config

GAUSSIAN = [
    name
    for name, algorithm in ALGORITHMS.items()
    if "log_std_init" in {field.name for field in dataclasses.fields(algorithm.config)}
]


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("value", [math.nan, math.inf, -10.5, 2.5])
def test_a_log_std_that_no_policy_can_have_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=r"log_std_init must be in \[-10\.0, 2\.0\], got"):
        ALGORITHMS[name].config(log_std_init=value)


def test_the_gaussian_policies_are_all_there() -> None:
    assert {"bc", "dagger", "aggrevated", "ppo", "a2c", "reinforce"} <= set(GAUSSIAN)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_without_a_step_is_refused(name: str) -> None:
    config = ALGORITHMS[name].config
    if "total_steps" in {field.name for field in dataclasses.fields(config)}:
        with pytest.raises(InputError, match="total_steps must be at least 1, got 0"):
            config(total_steps=0)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_without_a_preset_python_and_the_command_line_have_the_same_settings(name: str) -> None:
    run = Experiment.preset(name, "Swimmer-v5")
    own = {"total_steps": run.budget} if "total_steps" in run.hyperparameters else {}
    own |= {"rpo_alpha": 0.5} if name == "rpo" else {}  # which is PPO but for this
    assert make_config(name, run.hyperparameters) == ALGORITHMS[name].config(**own)


@pytest.mark.parametrize(
    ("name", "inner", "field"),
    [
        ("gail", "ppo", "num_epochs"),
        ("sqil", "dqn", "n_step"),
        ("sqil", "sac", "batch_size"),
        ("iq", "sac", "actor_every"),
    ],
)
def test_of_nested_settings_the_others_keep_the_outer_algorithms_defaults(
    name: str, inner: str, field: str
) -> None:
    config = ALGORITHMS[name].config
    wanted = dataclasses.replace(getattr(config(), inner), **{field: 3})
    assert getattr(config(**{inner: {field: 3}}), inner) == wanted


def test_an_offline_learner_has_room_for_its_demonstrations() -> None:
    """Their steps count, and it takes no others; no preset is needed for that."""
    assert Experiment.preset("bc", "Acrobot-v1").budget == Experiment.preset("bc").budget == 100_000_000
    assert Experiment.preset("ppo", "Acrobot-v1").budget < 100_000_000


class Neither:
    """A value that no setting takes."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_setting_of_another_type_is_refused_by_its_name(name: str) -> None:
    config = ALGORITHMS[name].config
    for each in dataclasses.fields(config):
        for wrong in ("cosine", Neither()):
            with pytest.raises(InputError, match=f"^{each.name} must be .*, got "):
                config(**{each.name: wrong})


def test_a_settings_choices_are_listed() -> None:
    with pytest.raises(InputError, match=r"^lr_schedule must be 'constant' or 'linear', got 'cosine'$"):
        PPOConfig(lr_schedule="cosine")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^ent_coef must be a number or None, got 'none'$"):
        SACConfig(ent_coef="none")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^ppo must be a PPOConfig, got a A2CConfig$"):
        GAILConfig(ppo=A2CConfig())  # type: ignore[arg-type]


def test_numbers_of_numpy_and_lists_are_taken() -> None:
    given: dict[str, Any] = {
        "num_steps": np.int64(8), "gamma": np.float32(0.5), "hidden": [np.int64(32), 16], "total_steps": 1e6,
        "clip_value": np.True_,
    }  # fmt: skip
    config = PPOConfig(**given)
    same = PPOConfig(num_steps=8, gamma=0.5, hidden=(32, 16), total_steps=1_000_000, clip_value=True)
    assert json.dumps(dataclasses.asdict(config)) == json.dumps(dataclasses.asdict(same))


@dataclass(frozen=True)
class OwnConfig(PPOConfig):
    """One of a user's, with fields that ours don't have."""

    table: dict[str, float] = field(default_factory=dict)
    pairs: tuple[tuple[int, int], ...] = ()


def test_a_config_of_ones_own_may_have_other_fields() -> None:
    assert OwnConfig(table={"a": 1.0}, pairs=((1, 2),)).table == {"a": 1.0}
    with pytest.raises(InputError, match=r"^pairs must be a tuple of "):
        OwnConfig(pairs="a")  # type: ignore[arg-type]


def test_numbers_of_numpy_and_paths_become_plain(tmp_path: Path) -> None:
    made = Experiment.create(
        "gail",
        "CartPole-v1",
        demos=Path("demos.h5"),
        seed=np.int64(1),
        num_envs=np.int32(2),
        budget=np.int64(2_000),
        env_kwargs={"x": np.bool_(True), "sizes": (np.float64(0.5),)},
        hyperparameters={"updates_per_round": np.int64(3)},
    )
    made.write(tmp_path / "config.json")
    assert (made.seed, made.num_envs, made.demos) == (1, 2, "demos.h5")
    assert made.env_kwargs == {"x": True, "sizes": (0.5,)}
    assert made.hyperparameters["updates_per_round"] == 3
    assert made.hyperparameters["total_steps"] == 2_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"budget": "50k"}, "budget must be a whole number, got '50k'"),
        ({"budget": 5e3 + 0.5}, "budget must be a whole number, got 5000.5"),
        ({"seed": None}, "seed must be a whole number, got None"),
        ({"seed": 1.5}, "seed must be a whole number, got 1.5"),
        ({"validate_by": "loss"}, "validate_by must be 'return' or 'demos', got 'loss'"),
        ({"env_kwargs": {"x": object}}, "env_kwargs must be a dict.*not JSON serializable"),
        (
            {"hyperparameters": make_config("ppo", {})},
            "must be a dict such as .'gamma': 0.99., got a PPOConfig",
        ),
        ({"num_env": 2}, "a run has no setting 'num_env'; did you mean 'num_envs'"),
        ({"gamma": 0.9}, "no setting 'gamma': it belongs in its hyperparameters"),
    ],
)
def test_settings_of_another_type_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Experiment.create("ppo", "CartPole-v1", **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"expert": load_expert}, "expert must be a text or None, got .*name an expert by its spec"),
        (
            {"other_experts": "CartPole-v1"},
            r"other_experts must be a tuple of texts, got 'CartPole-v1'; name",
        ),
        ({"demos": object()}, "demos must be a text or None, got .*; give its path"),
    ],
)
def test_experts_and_demonstrations_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Experiment.create("dagger", "CartPole-v1", **{"expert": "CartPole-v1"} | given)


def test_paths_of_experts_become_text() -> None:
    made = Experiment.create("dagger", "CartPole-v1", expert=Path("a"), other_experts=[Path("b"), "c"])
    assert made.experts == ("a", "b", "c")
    searched: Any = Path("a")
    assert Task(searched, "CartPole-v1", 1_000).expert == "a"
    assert Comparison("CartPole-v1", ("bc",), expert=searched).to_json()["expert"] == "a"


@pytest.mark.parametrize(("count", "got"), [(None, "a Expert"), (2, "2"), (0, "a list")])
def test_loaded_experts_are_those_that_the_run_names(tmp_path: Path, count: int | None, got: str) -> None:
    expert = load_expert("CartPole-v1")
    given: Any = expert if count is None else [expert] * count or ["CartPole-v1"]
    run = Experiment.create("dagger", "CartPole-v1", expert="CartPole-v1", budget=500)
    with pytest.raises(
        InputError, match=f"experts must be a list of 1 from load_expert, .* got {got}: leave"
    ):
        execute(run, tmp_path / "run", experts=given)
    assert not (tmp_path / "run").exists()


def test_an_algorithm_is_named() -> None:
    other: Any = ALGORITHMS["ppo"].learner
    with pytest.raises(InputError, match="an algorithm is named, such as 'ppo'"):
        Experiment.create(other, "CartPole-v1")
