"""Guided learning: its parts by hand, what the replay keeps, learning past an expert, and the test at the end."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from guided_settings import envs_of, small

from imitate.datasets.evaluation import evaluate
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts.values.critics import PolicyOracle
from imitate.imitators.guided.advice import joined
from imitate.imitators.guided.hand_over import HandOver
from imitate.imitators.guided.learner import Guided
from imitate.imitators.guided.updates import Phase, Updates, best_of, cloning_slopes
from imitate.rl.tqc import truncated_targets

HARDLY: dict[str, Any] = {"offline_updates": 10, "updates_per_step": 0.05}
"""Settings with which it plays as ever and learns next to nothing."""


def half(obs: Array) -> Array:
    """Right where the observation is positive; elsewhere it names the opposite."""
    return np.abs(obs)


def test_the_best_candidate_by_hand() -> None:
    candidates = torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]])
    actions, best = best_of(torch.tensor([[0.0, 5.0], [7.0, 6.0]]), candidates)
    assert actions.tolist() == [[2.0], [3.0]]
    assert best.tolist() == [1, 0]


def test_cloning_slopes_by_hand() -> None:
    """Minus (1, -2) squared has the slopes (-2, 4); the second sample does not count."""
    actions, expert = torch.tensor([[1.0, 0.0], [0.0, 3.0]]), torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    assert cloning_slopes(actions, expert, torch.tensor([1.0, 0.0])).tolist() == [[-2.0, 4.0], [0.0, 0.0]]


def updates() -> Updates:
    return Guided(small(), envs=envs_of(), expert=half, seed=0).updater


def test_the_student_clones_where_the_expert_is_better_and_where_it_acted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The student's actions are worth 0 with slopes 3, 4, the experts' -1, 2, -1; in the last sample the expert acted.

    The weight is half the mean slope where cloning counts, which is 0.5 * 5.
    """
    updater = updates()
    slopes = torch.tensor([[3.0, 4.0]]).expand(3, 2)
    monkeypatch.setattr(updater.critics, "slope", lambda *_: (torch.zeros(3), slopes))
    monkeypatch.setattr(updater, "_rate", lambda _: {"values": torch.tensor([[-1.0], [2.0], [-1.0]])})
    advice = torch.full((3, 1, 2), 0.25)
    taken = torch.tensor([[0.25, 0.0], [0.0, 0.0], [0.25, 0.25]])
    batch = {"obs": torch.zeros(3, 1), "actions": taken, "advice": advice, "cloning": torch.tensor(0.5)}
    pull = updater.pull(batch, torch.zeros(3, 2), clones=True)
    assert pull.slopes is slopes
    assert pull.expert.tolist() == advice[:, 0].tolist()
    assert pull.weights.tolist() == [0.0, 2.5, 2.5]


@pytest.mark.parametrize(("offline", "guided"), [(True, True), (True, False), (False, True)])
def test_the_target_bootstraps_from_the_best_candidate(offline: bool, guided: bool) -> None:
    """Of the two experts' actions and the student's, each alone; entropy counts for the student's only.

    In the offline phase of the experts' alone, also if they retire at once.
    """
    updater = updates()
    count = 200
    batch = {
        "next_obs": torch.randn(count, 1),
        "next_advice": torch.rand(count, 2, 1) * 2 - 1,
        "returns": torch.randn(count),
        "discounts": torch.full((count,), 0.9),
        "noise": torch.randn(1, count, 1),
    }
    with torch.no_grad():
        outputs = updater.policy_net.outputs(batch["next_obs"])
        following = updater.student.gaussian(outputs)
        raw = following.mean + following.log_std.exp() * batch["noise"][0]
        bonus = -updater.temperature.now * following.log_prob(raw)
        found = updater.targets(batch, Phase(offline, guided, clones=True))
    candidates = [batch["next_advice"][:, 0], batch["next_advice"][:, 1], raw.tanh()]
    chosen = []
    for row in range(count):
        each = [updater.critics.of_target(batch["next_obs"][[row]], x[[row]]) for x in candidates]
        best = max(range(2 if offline else 3), key=lambda index: float(each[index].mean()))
        chosen.append(best)
        entropy = bonus[[row]] * (best == 2)
        one = {name: batch[name][[row]] for name in ("returns", "discounts")}
        torch.testing.assert_close(found[[row]], truncated_targets(each[best], entropy, one, 1))
    assert len(set(chosen)) == (2 if offline else 3)


def test_observations_and_advice_are_joined() -> None:
    obs, advice = np.ones((3, 2, 4)), np.zeros((3, 2, 2, 1))
    rows = joined(obs, advice)
    assert rows.shape == (3, 2, 6)
    assert rows[0, 0].tolist() == [1, 1, 1, 1, 0, 0]
    assert joined(obs[:0, 0], advice[:0, 0]).shape == (0, 6)


@pytest.mark.parametrize("n_step", [1, 3])
def test_the_replay_keeps_each_experts_answer_beside_its_observation(n_step: int) -> None:
    """Also where episodes end, and where a round begins."""
    config = small(n_step=n_step, num_steps=7, **HARDLY)
    learner = Guided(config, envs=envs_of(), expert=[half, np.negative], seed=0)
    for _ in range(4):
        learner.step()
    (batch,) = learner.batches(1)
    for obs, advice in (("obs", "advice"), ("next_obs", "next_advice")):
        told = batch[advice] * 2.0  # actions are in [-2, 2]
        torch.testing.assert_close(told[:, 0], batch[obs].abs())
        torch.testing.assert_close(told[:, 1], -batch[obs])


def test_a_question_that_the_expert_does_not_answer_is_no_query() -> None:
    def fail(obs: Array) -> Array:
        raise ConnectionError(f"no answer to {len(obs)}")

    learner = Guided(small(**HARDLY), envs=envs_of(), expert=[half, fail], seed=0)
    with pytest.raises(InputError, match="no answer to 2"):
        learner.step()
    assert learner.expert_queries == 0


def test_a_state_is_asked_about_once() -> None:
    """Rounds of five steps end within episodes of ten, and with them."""
    asked: list[float] = []

    def expert(obs: Array) -> Array:
        asked.extend(obs[:, 0].tolist())
        return half(obs)

    learner = Guided(small(num_steps=5, **HARDLY), envs=envs_of(), expert=expert, seed=0)
    while learner.env_steps < 400:
        learner.step()
    assert len(asked) == len({*asked}) == learner.expert_queries
    assert learner.expert_queries == learner.env_steps + learner.env_steps // 10  # and where episodes end


def test_actions_of_float64_are_rated_and_valued() -> None:
    space = gym.spaces.Box(-1, 1, (1,), np.float64)
    envs = SyncVecEnv(
        [lambda: gym.wrappers.TransformAction(make_env("ContinuousIdentity-v0"), lambda action: action, space)] * 2
    )  # fmt: skip
    learner = Guided(small(**HARDLY), envs=envs, expert=half, seed=0)
    learner.step(300)
    obs, actions = torch.zeros(3, 1), torch.tensor([[-0.5], [0.0], [0.5]])
    oracle = PolicyOracle(learner.policy)
    assert torch.equal(oracle.q(obs, actions.double()), oracle.q(obs, actions))


def test_once_it_has_retired_an_expert_is_not_asked() -> None:
    """A clone is then made from the states in which it was."""
    config = small(guidance_fraction=0.3, cloning_fraction=0.4, **HARDLY)
    learner = Guided(config, envs=envs_of(), expert=half, seed=0)
    asked = {}
    while not learner.done:
        learner.step()
        asked[learner.progress] = learner.expert_queries
    assert 0.4 < min(progress for progress, count in asked.items() if count == learner.expert_queries) < 0.6
    learner.clone_alone(1_000)
    obs = np.linspace(-1.0, 1.0, 50, dtype=np.float32)[:, None]
    assert np.abs(learner.policy.act(obs) - half(obs)).mean() < 0.1


def always_right(obs: Array) -> Array:
    return obs


@pytest.fixture(scope="module")
def students() -> dict[Any, Any]:
    """States of two students, by their expert, as they end to learn: a good one beside an expert that is half right,
    and one that learned nothing beside an expert that is always right."""
    states = {}
    for expert, settings in (half, {}), (always_right, {"offline_updates": 0, "updates_per_step": 0.0}):
        learner = untested(expert, **settings)
        while learner.env_steps < 1_050:  # what is left is for the test
            learner.step()
        states[expert] = learner.state_dict()
    return states


def untested(expert: Any, **settings: Any) -> HandOver:
    config = small(total_steps=1_200, clone_updates=300, **settings)
    return HandOver(config, envs=envs_of(), expert=expert, seed=3)


def test_the_student_passes_its_expert(students: dict[Any, Any]) -> None:
    """The expert makes -6.7 in ten steps; the student must be right in the other half too."""
    expert = evaluate(lambda obs: half(obs), "ContinuousIdentity-v0", episodes=50, seed=1).mean
    learner = untested(half)
    learner.load_state_dict(students[half])
    metrics: dict[str, float] = {}
    while not learner.done:
        metrics |= learner.step()
    assert learner.env_steps <= 1_200
    assert expert < -5.0
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=50, seed=1).mean > -1.0
    assert metrics["test_lost"] == 0.0
    assert metrics["test_return"] > metrics["test_expert"] + 3


def test_a_student_that_learned_nothing_is_not_handed_over() -> None:
    """The expert wins the test, and a clone of it is handed over."""
    config = small(offline_updates=0, updates_per_step=0.0, clone_updates=300, test=0.2)
    learner = HandOver(config, envs=envs_of(), expert=lambda obs: obs, seed=3)
    metrics: dict[str, float] = {}
    while not learner.done:
        metrics |= learner.step()
    assert metrics["test_lost"] == 1.0
    assert learner.env_steps <= 1_000
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20, seed=1).mean > -0.5


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("expert", "lost"), [(always_right, 1.0), (half, 0.0)])
def test_without_steps_for_a_test_returns_in_training_decide(
    students: dict[Any, Any], cut: bool, expert: Any, lost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cut:  # every episode of the test
        monkeypatch.setattr(HandOver, "_returns", lambda *_: {})
    else:  # no steps are left for it
        monkeypatch.setattr(HandOver, "_plays", lambda *_: 1_000_000)
        monkeypatch.setattr(HandOver, "_spare", lambda *_: 150)
    learner = untested(expert)
    learner.load_state_dict(students[expert])
    metrics: dict[str, float] = {}
    while not learner.done:
        metrics |= learner.step()
    assert metrics["test_lost"] == lost
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20, seed=1).mean > -1.0


def test_a_student_that_never_played_alone_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only episodes of this run are its expert's, so the latest are worth as much as the first."""
    monkeypatch.setattr(HandOver, "_plays", lambda *_: 1_000_000)  # no steps are left for the test
    monkeypatch.setattr(HandOver, "_spare", lambda *_: 60)  # the run is one iteration of 128 steps
    config = small(total_steps=188, offline_updates=0, updates_per_step=0.0, clone_updates=300)
    learner = HandOver(config, envs=envs_of(), expert=lambda obs: obs, seed=3)
    metrics: dict[str, float] = {}
    while not learner.done:
        metrics |= learner.step()
    assert metrics["test_pairs"] == 0.0
    assert metrics["test_lost"] == 1.0
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20, seed=1).mean > -1.0


def test_a_test_that_does_not_fit_into_half_of_the_run_takes_no_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HandOver, "_plays", lambda *_: 1_000_000)
    learner = HandOver(small(**HARDLY), envs=envs_of(), expert=half, seed=3)
    metrics = {"test_pairs": np.nan}
    while not learner.done:
        metrics |= learner.step()
    assert metrics["test_pairs"] == 0.0
    assert learner.env_steps >= 0.98 * learner.config.total_steps


def test_the_experts_returns_are_those_of_all_its_episodes() -> None:
    """Not of the first iteration alone, in which only short ones end."""
    learner = Guided(small(learning_starts=300, **HARDLY), envs=envs_of(), expert=half, seed=3)
    returns: list[float] = []
    popped = learner.sampler.pop_episodes

    def pop() -> dict[str, float]:
        if not learner.ready:
            returns.extend(score.episode_return for score in learner.sampler.ended)
        return popped()

    learner.sampler.pop_episodes = pop  # type: ignore[method-assign]
    while learner.env_steps < 600:
        learner.step()
    assert len(returns) == 24  # of ten steps, in two iterations of 64 steps of two environments
    assert learner.expert_return == pytest.approx(np.mean(returns))
    assert learner.expert_length == 10


def test_the_expert_retires() -> None:
    learner = Guided(small(guidance_fraction=0.3, **HARDLY), envs=envs_of(), expert=half, seed=3)
    shares = []
    while not learner.done:
        shares.append(learner.step().get("expert_share"))
    assert shares[1] is not None
    assert shares[-1] is None


def test_an_expert_that_has_retired_does_not_come_back_when_the_budget_grows() -> None:
    """A search gives a learner what validations left over. The replay has states in which the expert was not asked."""
    config = small(total_steps=2_000, guidance_fraction=0.5, **HARDLY)
    learner = Guided(config, envs=envs_of(), expert=half, seed=3)
    while learner.guided:
        learner.step(1_000 - learner.env_steps)
    asked = learner.expert_queries
    learner.step()  # 500 of 2,000
    assert not learner.guided
    assert learner.expert_queries == asked


def test_an_expert_takes_the_first_steps_of_each_episode_and_ever_fewer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    envs = envs_of()
    expert = np.full((2, *envs.single_action_space.shape), 0.75, np.float32)
    learner = Guided(small(jump_start=0.5), envs=envs, expert=lambda obs: expert[: len(obs)], seed=0)
    learner.step()
    learner.restart()
    monkeypatch.setattr(learner.updater, "values", lambda *_: torch.tensor([[1.0, 0.0]] * 2))  # the student's
    learner.expert_length = 12.0
    learner.schedule(0.25)  # the guidance lasts to 0.5: half of the jump is left, 3 steps
    obs, led = np.zeros((2, *envs.single_observation_space.shape), np.float32), []
    for step in range(6):
        _, unit = learner.choose(obs, np.array([step == 0, step in (0, 4)]))
        led.append((unit == learner.experts(obs)[:, 0]).all(1).tolist())
    assert led == [[True, True]] * 3 + [[False, False], [False, True], [False, True]]
    learner.schedule(0.5)
    assert learner.jump == 0.0


def test_the_step_size_falls_once_the_expert_has_retired() -> None:
    learner = Guided(small(guidance_fraction=0.5, learning_rate=1e-3), envs=envs_of(), expert=half, seed=0)
    for progress, rate in ((0.0, 1e-3), (0.5, 1e-3), (0.75, 5e-4), (1.0, 0.0)):
        learner.schedule(progress)
        assert learner.updater.critics.optimizer.learning_rate == pytest.approx(rate)
        assert learner.updater.policy_net.optimizer.learning_rate == pytest.approx(rate)


@pytest.mark.parametrize("residual", [0.0, 0.3])
def test_a_state_continues_byte_for_byte(residual: float) -> None:
    def made() -> HandOver:
        config = small(residual=residual, total_steps=600, updates_per_step=0.1, clone_updates=10)
        return HandOver(config, envs=envs_of(), expert=half, seed=0)

    one, other = made(), made()
    for _ in range(4):
        one.step()
    state = one.state_dict()
    one.load_state_dict(state)
    other.load_state_dict(state)
    while not one.done:
        one.step()
        other.step()
    for name, value in one.policy.state_dict().items():
        assert torch.equal(value, other.policy.state_dict()[name]), name
    assert one.expert_queries == other.expert_queries


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(InputError, match="less than total_steps, got 1000 of 1000"):
        small(learning_starts=1_000)
    with pytest.raises(
        InputError, match=r"replay_size 499 forgets what the expert was asked .* more than 500"
    ):
        small(replay_size=499)
    with pytest.raises(InputError, match="every gradient step, got actor_every 2: leave it out"):
        small(actor_every=2)
    small(replay_size=499, test=0.0)
    small(replay_size=499, cloning_fraction=0.6)
    small(replay_size=499, residual=0.1)
    with pytest.raises(InputError, match="continuous"):
        Guided(small(), envs=envs_of("CartPole-v1"), expert=half, seed=0)


def test_a_clone_takes_the_experts_actions_and_no_smaller_ones() -> None:
    """The entropy of the student's reward would pull them to 0."""
    config = small(offline_updates=0, updates_per_step=0.0, ent_coef=0.1)
    learner = Guided(config, envs=envs_of(), expert=lambda obs: 0 * obs + 1.8, seed=3)
    learner.step()
    learner.clone_alone(1_000)
    actions = learner.policy.act(np.linspace(-1, 1, 9, dtype=np.float32)[:, None])
    assert actions.ravel().tolist() == pytest.approx([1.8] * 9, abs=0.06)


def test_a_clone_does_not_depend_on_the_student_that_lost() -> None:
    """That plays its upper bound everywhere, where a tanh has no slope."""
    config = small(offline_updates=0, updates_per_step=0.0)
    learner = Guided(config, envs=envs_of(), expert=lambda obs: 0 * obs - 1.8, seed=3)
    learner.step()
    torch.nn.init.constant_(learner.student.output.bias, 12.0)
    learner.clone_alone(500)
    actions = learner.policy.act(np.linspace(-1, 1, 9, dtype=np.float32)[:, None])
    assert actions.ravel().tolist() == pytest.approx([-1.8] * 9, abs=0.06)
