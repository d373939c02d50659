"""Guided learning hands over the student as it was when its own episodes went best, if the last one is worse."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from guided_settings import envs_of, small

from imitate.envs.spaces import Array
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.imitators.guided import hand_over
from imitate.imitators.guided.hand_over import HandOver
from imitate.imitators.guided.kept import Kept
from imitate.imitators.guided.learner import Guided
from imitate.training.checkpoint import Checkpoint
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

LEARNS: dict[str, Any] = {"offline_updates": 100, "updates_per_step": 0.1}


def learner(**settings: Any) -> HandOver:
    """It plays as ever and learns next to nothing, unless told."""
    config = small(**{"offline_updates": 10, "updates_per_step": 0.02} | settings)
    return HandOver(config, envs=envs_of(), expert=lambda obs: np.abs(obs), seed=3)


def finish(whole: HandOver) -> None:
    while not whole.done:
        whole.step()


def play(kept: Kept, rewards: list[list[float]], done: list[list[bool]], greedy: list[bool]) -> None:
    """A round in which these environments play the policy's own episodes."""
    kept.greedy = np.array(greedy)
    for _ in rewards:
        kept.note()
    kept.score_episodes(SimpleNamespace(rewards=np.array(rewards), done=np.array(done)))  # type: ignore[arg-type]


def test_a_score_is_the_mean_of_the_latest_three_episodes_without_noise() -> None:
    policy = learner().policy
    kept = Kept(policy, 2, 0.25)
    bias = policy.output.bias
    torch.nn.init.constant_(bias, 1.0)
    # Two rounds of two steps. The first environment is greedy: an episode of 1 + 2, then one of 3 + 4 and so on.
    play(kept, [[1.0, 50.0], [2.0, 50.0]], [[False, True], [True, True]], [True, False])
    play(kept, [[3.0, 50.0], [4.0, 50.0]], [[False, True], [True, True]], [True, False])
    assert not kept.found
    torch.nn.init.constant_(bias, 2.0)
    play(kept, [[5.0, 0.0], [6.0, 0.0]], [[False, False], [True, False]], [True, False])
    assert kept.score == (3 + 7 + 11) / 3
    torch.nn.init.constant_(bias, 3.0)
    play(kept, [[0.0, 0.0]], [[True, False]], [True, False])
    assert kept.best.output.bias.tolist() == [2.0, 2.0]  # (7 + 11 + 0) / 3 is less
    play(kept, [[30.0, 0.0]], [[True, False]], [True, False])
    assert kept.score == (11 + 0 + 30) / 3
    assert kept.best.output.bias.tolist() == [3.0, 3.0]


def test_an_episode_keeps_its_player_to_its_end() -> None:
    kept = Kept(learner().policy, 2, 0.5)
    obs, noisy = np.zeros((2, 1), np.float32), np.full((2, 1), 0.9, np.float32)
    rng, own = np.random.default_rng(0), []
    for step in range(40):
        unit = kept.choose(obs, noisy, np.array([step % 10 == 0, step == 0]), rng)
        own.append((unit != noisy)[:, 0].tolist())
    first, second = zip(*own, strict=True)
    assert (
        len({first[n : n + 10] for n in range(0, 40, 10)}) == 2
    )  # some episodes are its own, all of it or nothing
    assert all(len(set(first[n : n + 10])) == 1 for n in range(0, 40, 10))
    assert len(set(second)) == 1


def test_no_episode_is_its_own_before_the_expert_retires() -> None:
    guided = learner(guidance_fraction=0.5, greedy_share=1.0).learner
    greedy: list[tuple[bool, bool]] = []
    while not guided.done:
        guided.step()
        greedy.append((guided.guided, bool(guided.kept.greedy.any())))
    assert {own for guidance, own in greedy if guidance} == {False}
    assert greedy[-1] == (False, True)
    assert guided.kept.found


def spoil(policy: Any) -> None:
    torch.nn.init.constant_(policy.output.bias, 5.0)


def test_the_kept_student_is_handed_over_if_the_last_one_is_worse() -> None:
    whole = learner(test=0.2, **LEARNS)
    guided = whole.learner
    while not whole.done:
        metrics = whole.step()
        if (
            not whole.done and guided.kept.found
        ):  # from now on the last student is bad, the kept one as good as it was
            guided.kept.score = np.inf
            spoil(guided.policy)
    best: Array = guided.kept.best.output.bias.detach().numpy()
    assert metrics["test_kept"] == 1.0
    assert metrics["test_lost"] == 0.0
    assert whole.policy.output.bias.tolist() == best.tolist()


@pytest.mark.parametrize(("kept", "taken"), [([5.0, 0.0, 6.0, 0.0], 0.0), ([5.0, 4.0, 6.0, 6.0], 1.0)])
def test_the_kept_student_must_be_clearly_ahead(
    kept: list[float], taken: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one makes 2 on average. With 2.75 the kept one may have been lucky."""
    played = iter([[4.0, 0.0, 0.0, 4.0], kept, [1.0] * 4, [0.0] * 4])  # last, kept, then the test's
    monkeypatch.setattr(HandOver, "_returns", lambda *_: dict(enumerate(next(played))))
    whole = learner(test=0.2)
    while not whole.done:
        metrics = whole.step()
    assert metrics["test_kept"] == taken


def test_three_lucky_episodes_do_not_choose_the_kept_student(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lead of two standard errors is clear in many pairs; in three it is Student's t of 2.92 that counts."""
    played = iter([[0.0] * 3, [1.0, 3.0, 5.6], [1.0] * 3, [0.0] * 3])  # last, kept, then the test's
    monkeypatch.setattr(HandOver, "_returns", lambda *_: dict(enumerate(next(played))))
    whole = learner(test=0.2)
    while not whole.done:
        metrics = whole.step()
    assert metrics["test_kept"] == 0.0


@pytest.mark.parametrize(
    ("student", "expert", "clone", "lost"),
    [
        ([0.0, 5.0, 5.0], [2.0, 2.0, 2.0], [], 0.0),
        ([0.0, 0.0, 5.0], [2.0, 2.0, 2.0], [2.0, 2.0, 0.5], 0.0),
        ([0.0, 0.0, 5.0], [2.0, 2.0, 2.0], [2.0, 2.0, 1.5], 1.0),
        ([3.0, 3.0, 3.0], [9.0, 9.0, 9.0], [2.0, 2.0, 1.5], 0.0),
    ],
    ids=["ahead of the expert", "ahead of the clone", "behind both", "clearly behind the expert alone"],
)
def test_a_student_behind_the_expert_meets_a_clone(
    student: list[float],
    expert: list[float],
    clone: list[float],
    lost: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = iter([[1.0] * 3, [1.0] * 3, student, expert, clone])  # first the last student and the kept one
    monkeypatch.setattr(HandOver, "_returns", lambda *_: dict(enumerate(next(played))))
    whole = learner(test=0.2, clone_updates=300 if lost else 1)
    while not whole.done:
        before = whole.learner.policy.output.bias.tolist()
        metrics = whole.step()
    assert metrics["test_lost"] == lost
    assert metrics.get("test_clone") == (None if not clone else pytest.approx(np.mean(clone)))
    assert (whole.policy.output.bias.tolist() == before) == (not lost)
    obs = np.linspace(-1.0, 1.0, 20, dtype=np.float32)[:, None]
    if lost:
        assert np.abs(whole.policy.act(obs) - np.abs(obs)).mean() < 0.2


@pytest.mark.parametrize("fails", [1, 4, 5])
def test_a_failure_in_the_test_leaves_it_to_the_resumed_run(
    fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plays are: last and kept student, the student, the expert, and a clone of it."""
    plays, real = [0], hand_over.played

    def failing(*given: Any) -> Any:
        plays[0] += 1
        if plays[0] == fails:
            raise RuntimeError
        return real(*given)

    monkeypatch.setattr(hand_over, "played", failing)
    settings = {"test": 0.2, "clone_updates": 20, "offline_updates": 0, "updates_per_step": 0.0}
    whole, resumed = (
        HandOver(small(**settings), envs=envs_of(), expert=lambda obs: obs.copy(), seed=3) for _ in range(2)
    )
    with pytest.raises(RuntimeError):
        finish(whole)
    assert not whole.tested
    last = whole.learner.policy.output.bias.tolist()
    assert last == whole.learner.kept.best.output.bias.tolist()  # nothing was learned, and the clone is gone
    resumed.load_state_dict(whole.state_dict())
    while not resumed.done:
        metrics = resumed.step()
    assert resumed.tested
    assert "test_lost" in metrics


def test_a_run_that_ends_as_it_would_begin_to_learn_hands_over_a_clone() -> None:
    whole = HandOver(
        small(total_steps=104, learning_starts=100, clone_updates=300), envs=envs_of(), expert=np.abs, seed=3
    )
    while not whole.done:
        metrics = whole.step()
    assert metrics["test_lost"] == 1.0
    obs = np.linspace(-1.0, 1.0, 20, dtype=np.float32)[:, None]
    assert np.abs(whole.policy.act(obs) - np.abs(obs)).mean() < 0.2


def test_a_clone_without_gradient_steps_is_refused() -> None:
    with pytest.raises(InputError, match="clone_updates must be at least 1"):
        small(clone_updates=0)


@pytest.mark.parametrize("length", [754.83, 100.0, 33.3])
def test_the_steps_that_are_kept_last_for_three_pairs(length: float) -> None:
    """Lengths are means: with twelve times 754.83 steps each play had 2,264, a step too few for three episodes."""
    whole = learner(test=0.001, total_steps=100_000, replay_size=200_000)
    whole.learner.expert_length = length
    share = whole._spare() // whole._plays(kept=True)
    assert 3 * length <= share < 3 * length + 1


def test_without_a_test_the_kept_student_is_handed_over() -> None:
    whole = learner(test=0.0)
    while not whole.learner.kept.found:
        assert whole.policy is whole.learner.policy
        whole.step()
    assert not whole.done  # the budget may end here too
    spoil(whole.learner.policy)
    assert whole.policy.output.bias.max() < 4.0


def test_a_run_without_a_test_ends_where_no_round_fits() -> None:
    whole = learner(test=0.0, total_steps=203)
    finish(whole)
    assert whole.env_steps == 202  # two environments


def test_the_last_student_is_handed_over_if_it_is_better() -> None:
    whole = learner(test=0.2, **LEARNS)
    guided = whole.learner
    while not whole.done:
        if guided.kept.found:
            guided.kept.score = np.inf
            spoil(guided.kept.best)
        metrics = whole.step()
    assert metrics["test_kept"] == 0.0
    assert whole.policy is guided.policy
    assert whole.policy.output.bias.max() < 4.0


def test_the_episodes_that_choose_the_student_do_not_test_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the expert is asked in the test is counted."""
    asked, seen = [0], []
    real = hand_over.played

    def noted(act: Any, envs: Any, seeds: Any, limit: int) -> Any:
        seen.append(list(seeds))
        return real(act, envs, seeds, limit)

    def expert(obs: Array) -> Array:
        asked[0] += len(obs)
        return np.abs(obs)

    monkeypatch.setattr(hand_over, "played", noted)
    config = small(test=0.2, clone_updates=1, **LEARNS)
    whole = HandOver(config, envs=envs_of(count=1), expert=expert, seed=3)
    while not whole.done:
        whole.step()
    last, kept, student, teacher, *_ = seen
    assert last == kept
    assert student == teacher
    assert not set(last) & set(student)
    assert len(set(last + student)) == 2 * len(last) >= 6
    assert whole.expert_queries == asked[0]


def test_what_is_kept_survives_a_checkpoint() -> None:
    guided = learner(greedy_share=1.0).learner
    while not guided.kept.found:
        guided.step()
    state = guided.state_dict()
    other: Guided = learner().learner
    other.load_state_dict(state)
    assert (other.kept.score, other.kept.latest) == (guided.kept.score, guided.kept.latest)
    assert other.kept.best.output.bias.tolist() == guided.kept.best.output.bias.tolist()


def test_a_run_goes_on_from_the_checkpoint_in_which_it_had_kept_a_student(tmp_path: Path) -> None:
    trust("handwritten:Namer")
    settings = {
        "learning_starts": 100, "offline_updates": 10, "updates_per_step": 0.02, "hidden": (16, 16),
        "guidance_fraction": 0.1, "greedy_share": 1.0, "rounds_per_iteration": 8, "clone_updates": 10,
    }  # fmt: skip
    run = Experiment.create(
        "guided", "ContinuousIdentity-v0", expert="handwritten:Namer", budget=800, num_envs=2, eval_every=0,
        hyperparameters=settings,
    )  # fmt: skip
    execute(run, tmp_path / "run", until=400)
    before = Checkpoint.read(tmp_path / "run")
    assert before is not None
    assert np.isfinite(before.learner["kept"]["latest"]).all()
    assert execute(run, tmp_path / "run", resume=True)
