"""DAgger: the returns of what it learns, from experts that a reader can check, and what it spends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handwritten import Balancer, Namer
from numpy.testing import assert_allclose
from structured import Knower

from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.dagger import DAgger, DAggerConfig
from imitate.imitators.roll_in.mixture import Mixture, mixing_coefficient


@contextmanager
def learning(folder: Path, env_id: str, expert: Any, **options: Any) -> Iterator[DAgger]:
    envs = SyncVecEnv([lambda: make_env(env_id)] * 4)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space)
    with DemoWriter(folder / "store.h5", info, expert_actions=True) as store:
        yield DAgger(DAggerConfig(**options), envs=envs, expert=expert, store=store, seed=0)


@contextmanager
def learned(folder: Path, env_id: str, expert: Any, **options: Any) -> Iterator[DAgger]:
    with learning(folder, env_id, expert, **options) as learner:
        while not learner.done:
            learner.step()
        for policy in (learner.policy, learner.student.actor):
            moments = policy.encoder.moments
            assert moments is not None
            assert moments.count == learner.env_steps
        yield learner


@pytest.mark.parametrize(("per", "expert"), [("step", Balancer().act), ("episode", Balancer())])
def test_dagger_balances_with_any_expert(tmp_path: Path, per: str, expert: Any) -> None:
    shape: dict[str, Any] = {
        "total_steps": 3_000,
        "iterations": 10,
        "updates_per_iteration": 80,
        "hidden": (32,),
    }
    with learned(tmp_path, "CartPole-v1", expert, alpha_per=per, final_updates=500, **shape) as learner:
        assert evaluate(learner.policy, "CartPole-v1", episodes=8).mean == 500
        assert learner.roll_in.store.num_steps == learner.env_steps == learner.expert_queries == 3_000


def test_dagger_learns_from_dict_observations(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"total_steps": 800, "iterations": 4, "updates_per_iteration": 50}
    with learned(
        tmp_path, "Told-tuple-v0", Knower(), final_updates=300, learning_rate=3e-3, **shape
    ) as learner:
        assert evaluate(learner.policy, "Told-tuple-v0").mean == 20.0  # random: 20 / 3
        assert learner.config.alpha_floor == 0.0  # as for all discrete actions


def test_dagger_labels_are_the_experts_and_actions_are_what_was_done(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        **{"total_steps": 800, "iterations": 4, "updates_per_iteration": 5, "final_updates": 5},
        **{"alpha_schedule": "constant", "alpha_rate": 0.0},
    }
    with learned(tmp_path, "CartPole-v1", Balancer(), **options) as learner:
        pieces = list(learner.roll_in.store.reader())
    for piece in pieces:
        assert piece.expert_actions is not None
        np.testing.assert_array_equal(piece.expert_actions, Balancer().act(piece.obs[:-1]))
    assert (pieces[0].actions != pieces[0].labels).any()  # an untrained learner acted in the first iteration


def test_the_experts_share() -> None:
    shares = [
        [mixing_coefficient(s, r, n) for n in range(4)] for s, r in (("linear", 0.4), ("exponential", 0.5))
    ]  # type: ignore[arg-type]
    assert_allclose(shares, [[1, 0.6, 0.2, 0], [1, 0.5, 0.25, 0.125]])
    assert_allclose([mixing_coefficient("inverse", 0.9, n) for n in range(3)], [1, 1 / 2, 1 / 3])
    assert mixing_coefficient("constant", 0.3, 7) == 0.3


@pytest.mark.parametrize("live", [True, False])
def test_each_environment_gets_the_experts_answer_to_its_own_state(live: bool) -> None:
    """A live expert is asked about all states, another one only where it acts; the learner does nothing."""
    mixture = Mixture(lambda obs: 10 * obs, 8, "step", 1.0, live)
    mixture.restart(np.random.default_rng(0))
    mixture.begin(np.zeros_like, alpha=0.5)
    obs = np.arange(1, 9)
    actions, _ = mixture(obs, np.ones(8, bool))
    assert 0 < mixture.turns.sum() < 8
    assert actions.tolist() == np.where(mixture.turns[0], 10 * obs, 0).tolist()


def test_per_episode_one_of_both_acts_until_the_end(tmp_path: Path) -> None:
    class Marker(Namer):
        def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
            return np.full_like(obs, 2.0)  # no fresh learner comes near this

    with learned(
        tmp_path, "ContinuousIdentity-v0", Marker(), total_steps=400,
        iterations=1, final_updates=1, alpha_schedule="constant", alpha_rate=0.5, alpha_per="episode",
    ) as learner:  # fmt: skip
        by_expert = [(piece.actions == 2.0).mean() for piece in learner.roll_in.store.reader()]
    assert set(by_expert) == {0.0, 1.0}


def test_a_limit_shortens_the_roll_in_and_the_last_one_spends_what_is_left(tmp_path: Path) -> None:
    """Budget 1,000, 4 environments, 3 roll-ins: a third of 1,000 is 333, rounded down to 332; with a limit of 299, half
    of it, 148; then everything that remains."""
    updates = {"updates_per_iteration": 2, "final_updates": 7}
    with learning(tmp_path, "CartPole-v1", Balancer(), total_steps=1_000, iterations=3, **updates) as learner:
        spent, trained = [], []
        for limit in (None, 299, None):
            assert not learner.done
            before = learner.env_steps
            trained.append(learner.step(limit)["updates"])
            spent.append(learner.env_steps - before)
        assert (spent, learner.done, learner.least_steps) == ([332, 148, 520], True, 4)
        assert trained == [2, 2, 7]


def test_a_limit_below_one_step_of_each_environment_is_refused(tmp_path: Path) -> None:
    with learning(tmp_path, "CartPole-v1", Balancer()) as learner:
        with pytest.raises(InputError, match="a limit of 3 steps is less than one step of each of 4"):
            learner.step(3)
        assert learner.env_steps == 0


def test_the_learning_rate_goes_to_0_in_every_iteration_and_the_policy_is_an_average(tmp_path: Path) -> None:
    """The last of 4 updates has a quarter of the learning rate. Decays of the average: 1/10, 2/11, 3/12, 4/13."""
    options: dict[str, Any] = {"total_steps": 40, "iterations": 2, "final_updates": 4, "hidden": ()}
    with learning(tmp_path, "ContinuousIdentity-v0", Namer(), updates_per_iteration=4, **options) as learner:
        bias, expected = [], learner.policy.output.bias.item()
        optimizer = learner.student.optimizer
        original = optimizer.descend

        def descend(*arguments: Any) -> None:
            original(*arguments)
            bias.append(learner.student.actor.output.bias.item())

        optimizer.descend = descend  # type: ignore[method-assign]
        learner.step()
        assert learner.student.optimizer.learning_rate == pytest.approx(1e-3 / 4)
        for decay, value in zip((1 / 10, 2 / 11, 3 / 12, 4 / 13), bias, strict=True):
            expected = decay * expected + (1 - decay) * value
        assert learner.policy.output.bias.item() == pytest.approx(expected, abs=1e-6)
        learner.step()
        assert learner.student.optimizer.learning_rate == pytest.approx(1e-3 / 4)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"alpha_rate must be in \[0, 1\], got 2"):
        DAggerConfig(alpha_rate=2.0)
    with pytest.raises(InputError, match=r"ema must be in \[0, 1\), got 1"):
        DAggerConfig(ema=1.0)
