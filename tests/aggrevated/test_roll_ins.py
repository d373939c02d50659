"""Roll-ins of AggreVaTeD: their mixture of actors, their limits, and the questions and statistics that they bring."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import Bowl, ChainOracle, aggrevated, chain_expert, learning, trained

from imitate.envs.spaces import Array


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
    # 4 environments: two steps of a budget of 10 can't be spent, and limits of 350, 210 and 4 leave 12, 8 and 1 rounds.
    assert learner.env_steps == (4 * (12 + 8 + 1) if limits[-1] == 4 else {1_000: 1_000, 10: 8}[total])
    assert updates[-1] == 9
    assert set(updates[:-1]) <= {1}


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
