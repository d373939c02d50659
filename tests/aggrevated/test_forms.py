"""Every estimator and normalisation learns to name what it observes; those that can't are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems import Bowl, Same, learning, trained

from imitate.aggrevated import gradients
from imitate.configs.variants import VariantConfig
from imitate.datasets.evaluation import evaluate
from imitate.errors import InputError

DISCRETE: dict[str, dict[str, Any]] = {
    "exact": {"beta": 0.0},
    "score": {"beta": 0.0, "learning_rate": 3e-3},
    "regression": {"beta": 0.0},
    "executed": {  # a clipped ratio goes only so far in an iteration
        "beta": 0.0, "alpha_floor": 0.0, "alpha_rate": 0.2, "total_steps": 2_400, "iterations": 20,
        "updates_per_iteration": 30, "ema": 0.9,
    },
    "natural": {"beta": 0.0, "update": "natural", "batch_size": 1_024, "updates_per_iteration": 20, "ema": 0.9},
    "paper": {
        **{"estimator": "score", "normalisation": "baseline", "update": "natural", "aggregate": False},
        **{"beta": 0.0, "gate": 0.0, "alpha_floor": 0.0, "alpha_rate": 0.8, "ema": 0.0},
        **{"total_steps": 1_600, "iterations": 20, "updates_per_iteration": 5},
    },
    "notebook b": {  # without a horizon (gamma 0) its baseline is not the mistake that it is elsewhere
        "estimator": "executed", "normalisation": "learner_value", "beta": 0.0, "gate": 0.0, "alpha_floor": 0.0,
        "alpha_schedule": "constant", "alpha_rate": 0.0, "total_steps": 2_400, "iterations": 20,
        "updates_per_iteration": 30, "ema": 0.0,
    },
    "notebook a": {
        "estimator": "executed", "importance": "none", "normalisation": "minmax", "beta": 0.0, "gate": 0.0,
        "alpha_schedule": "linear", "alpha_rate": 0.1, "alpha_floor": 0.0,
    },
}  # fmt: skip


def slow_if(name: str, *dear: str) -> Any:
    return pytest.param(name, marks=pytest.mark.slow) if name in dear else name


@pytest.mark.parametrize("name", [slow_if(name, "score", "notebook a", "notebook b") for name in DISCRETE])
def test_every_form_names_discrete_observations(tmp_path: Path, name: str) -> None:
    estimator = {} if name[:8] in ("natural", "paper", "notebook") else {"estimator": name}
    base = {
        "total_steps": 800,
        "iterations": 8,
        "updates_per_iteration": 60,
        "learning_rate": 1e-2,
        "hidden": (16,),
    }
    learner = trained(
        tmp_path, "Identity-v0", lambda obs: obs.copy(), Same(), **base | estimator | DISCRETE[name]
    )
    assert evaluate(learner.policy, "Identity-v0", episodes=10).mean >= 9.9


CONTINUOUS: dict[str, dict[str, Any]] = {
    "target": {},
    "reparameterised": {"beta": 0.0},
    "score": {"beta": 0.0},
    "executed": {"beta": 0.0, "alpha_floor": 0.0, "alpha_rate": 0.2, "updates_per_iteration": 100},
}


@pytest.mark.parametrize("estimator", [slow_if(name, "score") for name in CONTINUOUS])
def test_every_form_names_continuous_observations(tmp_path: Path, estimator: Any) -> None:
    """Random actions get about -16 an episode."""
    base: dict[str, Any] = {
        "total_steps": 800,
        "iterations": 8,
        "updates_per_iteration": 60,
        "learning_rate": 5e-3,
    }
    aside = 0.5 if estimator == "target" else 0.0  # it clones as well, so its expert is a poor one: -2.5
    learner = trained(
        tmp_path, "ContinuousIdentity-v0", lambda obs: obs + aside, Bowl(),
        **base | {"hidden": (16,), "estimator": estimator, "ema": 0.98} | CONTINUOUS[estimator],
    )  # fmt: skip
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=10).mean >= -0.6


def test_an_estimator_that_does_not_fit_the_actions_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="use exact, score or regression"),
        learning(tmp_path, "Identity-v0", lambda obs: obs, Same(), estimator="target"),
    ):
        pass
    with (
        pytest.raises(InputError, match="use target, reparameterised or score"),
        learning(tmp_path, "ContinuousIdentity-v0", lambda obs: obs, Bowl(), estimator="exact"),
    ):
        pass


@pytest.mark.parametrize(
    ("oracle", "asked", "searched"),
    [("fqe", None, True), ("fqe", False, False), (Bowl(), None, False), (Bowl(), True, True)],
)
def test_only_a_fitted_critic_says_how_far_unless_told(
    oracle: Any, asked: bool | None, searched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[Any] = []
    monkeypatch.setattr(gradients, "line_search", lambda *args: ends.append(args[-1]) or args[-1])
    fields: dict[str, Any] = {
        "total_steps": 80,
        "iterations": 2,
        "updates_per_iteration": 2,
        "fqe_updates": 2,
    }
    identity = "ContinuousIdentity-v0", lambda obs: obs.copy()
    trained(tmp_path, *identity, oracle, gate=0.0, line_search=asked, **fields)
    assert bool(ends) == searched


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ema": 1.0}, "ema must be in"),
        ({"beta": -0.1}, "beta must be at least 0"),
        ({"ent_coef": -1.0}, "ent_coef must be at least 0"),
        ({"estimator": "target", "beta": 0.0}, "learns nothing"),
    ],
)
def test_settings_that_learn_nothing_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        VariantConfig(**wrong)


def test_what_only_executed_actions_or_one_expert_can_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="learner_value is for estimator executed, got 'exact'"):
        VariantConfig(normalisation="learner_value").completed(discrete=True)
    experts: Any = [lambda obs: obs.copy()] * 2
    with (
        pytest.raises(InputError, match="td takes the V of one expert"),
        learning(tmp_path, "ContinuousIdentity-v0", experts, None, td=True),
    ):
        pass


def test_continuous_actions_without_the_imitation_term_are_a_variant(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="aggrevated:beta-0"),
        learning(tmp_path, "ContinuousIdentity-v0", lambda obs: obs, Bowl(), beta=0.0),
    ):
        pass


@pytest.mark.parametrize("std", ["learned", "fixed"])
@pytest.mark.parametrize("update", ["adam", "natural"])
def test_a_fixed_deviation_stays_where_it_began(std: Any, update: Any, tmp_path: Path) -> None:
    fields: dict[str, Any] = {"total_steps": 80, "iterations": 2, "updates_per_iteration": 5, "beta": 0.0}
    learner = trained(
        tmp_path, "ContinuousIdentity-v0", lambda obs: obs.copy(), Bowl(),
        **fields, estimator="score", update=update, std=std, log_std_init=-0.5,
    )  # fmt: skip
    assert (learner.policy.log_std == -0.5).all().item() == (std == "fixed")


@pytest.mark.parametrize("update", ["adam", "natural"])
def test_another_seed_acts_by_other_noise(update: Any, tmp_path: Path) -> None:
    noise = []
    for seed in (1, 2):
        fields: dict[str, Any] = {"update": update, "total_steps": 80, "iterations": 2}
        with learning(
            tmp_path, "ContinuousIdentity-v0", lambda obs: obs, Bowl(), seed=seed, **fields
        ) as learner:
            noise.append(learner.core.student._rng.random())
    assert noise[0] != noise[1]


def test_discrete_actions_have_no_deviation_to_fix(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="std 'fixed' is for a Gaussian"),
        learning(tmp_path, "Identity-v0", lambda obs: obs, Same(), std="fixed"),
    ):
        pass
