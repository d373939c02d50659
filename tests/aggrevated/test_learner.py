"""AggreVaTeD on problems that a reader can solve by hand, and on CartPole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from problems import Bowl, ChainOracle, Same, aggrevated, chain_expert, learning, trained

from imitate.aggrevated import gradients
from imitate.aggrevated.variants.aggrevate import AggreVaTe
from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.configs.variants import VariantConfig
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.values.fqe import FQEConfig

CHAIN = {
    "total_steps": 480,
    "iterations": 4,
    "updates_per_iteration": 80,
    "learning_rate": 1e-2,
    "hidden": (8,),
}


def test_all_mistakes_are_not_equal(tmp_path: Path) -> None:
    """Who can't be right in both states is wrong in the rarer one by DAgger's loss: 10 mistakes of 10 in 30 steps;
    in the cheaper one by AggreVaTeD's: 20 mistakes of 1."""
    dagger = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0), **CHAIN)
    aggrevated = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), beta=0.0, **CHAIN)
    mixed = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), **CHAIN)
    returns = [evaluate(m.policy, "TwoStateChain-v0", episodes=1).mean for m in (dagger, aggrevated, mixed)]
    assert returns == [-100.0, -20.0, -20.0]


def test_a_critic_that_has_it_the_wrong_way_round_costs_nothing(tmp_path: Path) -> None:
    learner = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0), **CHAIN)
    assert learner.metrics["gate"] < 0.1
    assert learner.metrics["policy_loss"] == 0.0
    believed = trained(
        tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(-1.0), gate=0.0, beta=0.0, **CHAIN
    )
    assert (
        evaluate(believed.policy, "TwoStateChain-v0", episodes=1).mean == -100.0
    )  # it takes the worse mistake


@pytest.mark.parametrize(
    ("schedule", "rate", "expected"),
    [
        ("inverse", 0.9, [1.0, 1 / 2, 1 / 3, 0.3, 0.3]),
        ("exponential", 0.5, [1.0, 0.5, 0.3, 0.3, 0.3]),
        ("linear", 0.25, [1.0, 0.75, 0.5, 0.3, 0.3]),
        ("constant", 0.4, [0.4, 0.4, 0.4, 0.4, 0.4]),
    ],
)
def test_the_experts_share_follows_its_schedule_down_to_the_floor(
    tmp_path: Path, schedule: Any, rate: float, expected: list[float]
) -> None:
    fields: dict[str, Any] = {"alpha_schedule": schedule, "alpha_rate": rate, "alpha_floor": 0.3}
    fields["updates_per_iteration"] = 1
    with learning(
        tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), total_steps=200, iterations=5, **fields
    ) as learner:
        assert [learner.step()["alpha"] for _ in range(5)] == pytest.approx(expected)


@pytest.mark.parametrize(("per", "changes"), [("step", 0.5), ("segment", 0.05), ("episode", 1 / 60)])
def test_the_actor_is_drawn_by_step_by_segment_or_by_episode(
    tmp_path: Path, per: Any, changes: float
) -> None:
    """With shares of 1/2 a fresh draw changes who acts every second time."""
    fields: dict[str, Any] = {"alpha_schedule": "constant", "alpha_rate": 0.5, "alpha_per": per}
    with learning(
        tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), total_steps=12_000, iterations=1, num_envs=12,
        switch_probability=0.1, updates_per_iteration=1, **fields,
    ) as learner:  # fmt: skip
        learner.step()
        turns = aggrevated(learner).roll_in.mixture.turns
    assert turns.mean() == pytest.approx(0.5, abs=0.12 if per == "episode" else 0.06)
    # Segments may also change at the ends of the episodes, every 30 steps.
    expected = changes + (0.5 - changes) / 30 if per == "segment" else changes
    assert (turns[1:] != turns[:-1]).mean() == pytest.approx(expected, rel=0.25)


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


@pytest.mark.parametrize("name", DISCRETE)
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


@pytest.mark.parametrize("estimator", CONTINUOUS)
def test_every_form_names_continuous_observations(tmp_path: Path, estimator: Any) -> None:
    """Random actions get about -16 an episode."""
    base: dict[str, Any] = {
        "total_steps": 800,
        "iterations": 8,
        "updates_per_iteration": 60,
        "learning_rate": 5e-3,
    }
    learner = trained(
        tmp_path, "ContinuousIdentity-v0", lambda obs: obs.copy(), Bowl(),
        **base | {"hidden": (16,), "estimator": estimator, "ema": 0.98} | CONTINUOUS[estimator],
    )  # fmt: skip
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=10).mean >= -0.5


def test_a_target_passes_a_poor_expert_and_cloning_does_not(tmp_path: Path) -> None:
    """The expert is off by 0.5 in every step: 10 * 0.5^2 = 2.5 an episode."""
    expert: Callable[[Array], Array] = lambda obs: obs + 0.5  # noqa: E731
    base: dict[str, Any] = {
        "total_steps": 800,
        "iterations": 8,
        "updates_per_iteration": 50,
        "learning_rate": 1e-2,
    }
    means = []
    for delta in (0.0, 0.5):
        learner = trained(tmp_path, "ContinuousIdentity-v0", expert, Bowl(), delta=delta, **base)
        means.append(evaluate(learner.policy, "ContinuousIdentity-v0", episodes=10).mean)
    assert means[0] == pytest.approx(-2.5, abs=0.4)
    assert means[1] > -0.6


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


CARTPOLE = {"total_steps": 800, "iterations": 8, "updates_per_iteration": 100, "learning_rate": 3e-3}


def test_cartpole_within_800_steps_from_the_experts_own_critic(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1")
    learner = trained(tmp_path, "CartPole-v1", expert, expert.oracle, **CARTPOLE)
    assert evaluate(learner.policy, "CartPole-v1", episodes=10).mean >= 450


def test_cartpole_within_800_steps_from_a_critic_learned_along_the_way(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1:ppo")
    learner = trained(tmp_path, "CartPole-v1", expert, fqe_updates=100, **CARTPOLE)
    assert evaluate(learner.policy, "CartPole-v1", episodes=10).mean >= 450


def test_aggrevate_plays_on_with_the_expert_to_learn_what_actions_are_worth(tmp_path: Path) -> None:
    """The states of Identity follow from the seed alone, so the action's own reward is all that differs."""

    def expert(obs: Array) -> Array:
        return obs.copy()

    learner = trained(
        tmp_path, "Identity-v0", expert, kind=AggreVaTe, estimator="regression", beta=0.0, total_steps=2_000,
        iterations=2, updates_per_iteration=100, fqe_updates=200, fqe={"gamma": 0.5}, hidden=(16,), learning_rate=1e-2,
    )  # fmt: skip
    assert 1_900 < learner.env_steps <= 2_000
    assert evaluate(learner.policy, "Identity-v0", episodes=10).mean >= 9.5


class _Varied(gym.Env[Any, Any]):
    """Episodes of 2 to 31 steps, as the seed says."""

    observation_space = action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self._left = 2 + int(self.np_random.integers(30))
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self._left -= 1
        return 0, 1.0, self._left == 0, False, {}


gym.register("Varied-v0", entry_point=_Varied)
gym.register("Bounded-v0", entry_point=_Varied, max_episode_steps=12)


def test_aggrevate_ends_well_where_the_last_visits_are_the_dearest(tmp_path: Path) -> None:
    for total_steps in range(100, 200, 5):
        learner = trained(
            tmp_path, "Varied-v0", lambda obs: obs, kind=AggreVaTe, total_steps=total_steps, iterations=5,
            updates_per_iteration=1, final_updates=1, fqe_updates=1, hidden=(4,),
        )  # fmt: skip
        assert learner.env_steps <= total_steps


def test_aggrevate_names_the_least_budget(tmp_path: Path) -> None:
    """A visit is three episodes of at most 12 steps."""
    fields: dict[str, Any] = {
        "iterations": 1,
        "updates_per_iteration": 1,
        "final_updates": 1,
        "fqe_updates": 1,
    }
    make = partial(trained, tmp_path, "Bounded-v0", lambda obs: obs, kind=AggreVaTe, **fields)
    with pytest.raises(InputError, match="give at least --budget 36, which always suffices"):
        make(total_steps=5)
    assert make(total_steps=36).env_steps <= 36


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


def test_a_v_only_expert_weighs_executed_actions(tmp_path: Path) -> None:
    expert = load_expert("CartPole-v1:ppo")
    fields: dict[str, Any] = {
        "total_steps": 400,
        "iterations": 2,
        "updates_per_iteration": 20,
        "alpha_rate": 0.0,
    }
    learner = trained(tmp_path, "CartPole-v1", expert, td=True, **fields)
    assert learner.config.estimator == "executed"
    assert np.isfinite(learner.metrics["policy_loss"])
    with pytest.raises(InputError, match="td, which values executed actions only"):
        trained(tmp_path, "CartPole-v1", expert, td=True, estimator="exact")


def test_the_critics_settings_are_those_of_the_config() -> None:
    of_a_preset = AggreVaTeDConfig(fqe={"hidden": [8], "gamma": 0.9})  # type: ignore[arg-type]
    assert of_a_preset.fqe == FQEConfig(hidden=(8,), gamma=0.9)
    with pytest.raises(InputError, match="tau must be in"):
        AggreVaTeDConfig(fqe={"tau": 2.0})  # type: ignore[arg-type]


@pytest.mark.parametrize(("total", "limits"), [(1_000, (None,)), (1_000, (350, 210, 4)), (10, (None,))])
def test_no_step_takes_more_than_its_limit_and_the_last_one_fits_the_policy_for_long(
    tmp_path: Path, total: int, limits: tuple[int | None, ...]
) -> None:
    updates: list[float] = []
    with learning(
        tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), total_steps=total, iterations=7,
        updates_per_iteration=1, final_updates=9, hidden=(2,),
    ) as learner:  # fmt: skip
        for limit in itertools.chain(limits, itertools.repeat(None)):
            before = learner.env_steps
            updates.append(learner.step(limit)["updates"])
            assert learner.env_steps - before <= (limit or total)
            if learner.done or limit == 4:
                break
    # 4 environments: two steps of a budget of 10 can't be spent.
    assert learner.env_steps == {1_000: 1_000, 10: 8}[total] or limits[-1] == 4
    assert updates[-1] == 9
    assert set(updates[:-1]) <= {1}


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


def test_continuous_actions_without_the_imitation_term_are_a_variant(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="aggrevated:beta-0"),
        learning(tmp_path, "ContinuousIdentity-v0", lambda obs: obs, Bowl(), beta=0.0),
    ):
        pass


@pytest.mark.parametrize(("aggregate", "known"), [(True, {0.0, 1.0}), (False, {1.0})])
def test_without_aggregation_only_the_last_roll_in_is_learned_from(
    tmp_path: Path, aggregate: bool, known: set[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two roll-ins, whose labels are all 0 and all 1."""
    labels: list[int] = [0]
    with learning(
        tmp_path, "TwoStateChain-v0", lambda obs: np.full(len(obs), labels[-1]), ChainOracle(), total_steps=80,
        iterations=2, updates_per_iteration=4, gate=0.0, alpha_schedule="constant", alpha_rate=1.0,
        aggregate=aggregate,
    ) as learner:  # fmt: skip
        learner.step()
        labels.append(1)
        seen: set[float] = set()
        student = aggrevated(learner).student
        original = student.fit

        def fit(loss: Any, minibatches: Any, count: int) -> dict[str, float]:
            columns = list(minibatches)
            seen.update(float(label) for _, expert in columns for label in expert)
            return original(loss, columns, count)

        monkeypatch.setattr(student, "fit", fit)
        learner.step()
    assert seen == known


def test_every_question_to_the_expert_is_counted(tmp_path: Path) -> None:
    """By the critic that is learned, too. 4 environments, so 4 pieces are cut in each iteration; a state's label is
    asked for once, whoever acts there."""
    asked = 0

    def expert(obs: Array) -> Array:
        nonlocal asked
        asked += len(obs)
        return chain_expert(obs)

    fields: dict[str, Any] = {
        "total_steps": 80,
        "iterations": 2,
        "updates_per_iteration": 2,
        "fqe_updates": 5,
    }
    learner = trained(tmp_path, "TwoStateChain-v0", expert, **fields)
    assert learner.expert_queries == asked == 80 + 2 * 4


def test_input_statistics_are_of_all_states_and_those_of_a_first_roll_in_no_longer_rule(
    tmp_path: Path,
) -> None:
    with learning(
        tmp_path, "ContinuousIdentity-v0", lambda obs: obs.copy(), Bowl(), total_steps=400, iterations=4,
        updates_per_iteration=1,
    ) as learner:  # fmt: skip
        while not learner.done:
            learner.step()
        inner = aggrevated(learner)
        everything = inner.roll_in.store.reader().transitions().obs
    for policy in (inner.policy, inner.student.actor):
        np.testing.assert_allclose(policy.encoder.moments.mean, everything.mean(0), rtol=1e-4, atol=1e-6)
