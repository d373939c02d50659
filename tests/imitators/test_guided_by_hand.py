"""guided: who is handed over, its updates and its values, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from guided_settings import envs_of, small
from test_guided_kept import play

from imitate.errors import InputError
from imitate.imitators.guided.advice import NOT_ASKED
from imitate.imitators.guided.hand_over import HandOver
from imitate.imitators.guided.kept import Kept
from imitate.imitators.guided.learner import Guided


@pytest.mark.parametrize(("experts", "behind"), [([2.0, 0.0], True), ([0.0, 2.0], True), ([0.0, 0.5], False)])
def test_one_of_several_experts_that_is_ahead_is_enough(
    experts: list[float], behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The student makes 1."""
    returns = iter([dict.fromkeys(range(3), mean) for mean in experts])
    monkeypatch.setattr(HandOver, "_returns", lambda *_: next(returns))
    whole = HandOver(small(), envs=envs_of(), expert=[np.abs, np.negative], seed=0)
    assert whole._behind(dict.fromkeys(range(3), 1.0), range(3), 100, {}) is behind


def test_the_score_of_an_own_episode_leaves_out_the_one_before() -> None:
    """An episode with noise made 50; the three that follow make 1, 2 and 3."""
    kept = Kept(HandOver(small(), envs=envs_of(), expert=np.abs, seed=0).policy, 1, 1.0)
    play(kept, [[50.0]], [[True]], [False])
    for reward in (1.0, 2.0, 3.0):
        play(kept, [[reward]], [[True]], [True])
    assert (kept.score, kept.latest) == (2.0, [1.0, 2.0, 3.0])


def test_an_expert_plays_until_learning_starts_even_if_it_should_have_retired() -> None:
    """Learning starts at 800 of 1,000 steps, and the expert retires at 100."""
    settings = small(learning_starts=800, guidance_fraction=0.1, cloning_fraction=0.1, rounds_per_iteration=1)
    learner = Guided(settings, envs=envs_of(), expert=np.zeros_like, seed=0)
    while not learner.ready:
        learner.step()
    assert not learner.replay.actions.any()  # the expert's are 0
    assert (learner.replay.frames != NOT_ASKED).all()


def test_the_weight_of_cloning_falls_to_0() -> None:
    """2 at first; half of the way to 0 at a quarter of the run."""
    learner = Guided(small(cloning=2.0, cloning_fraction=0.5), envs=envs_of(), expert=np.abs, seed=0)
    given: list[Any] = []
    learner.updater.step = lambda _, phase, cloning, __: given.append((cloning, phase.clones)) or {}  # type: ignore[method-assign]
    for progress in (0.0, 0.25, 0.5, 0.75):
        learner.progress = progress
        learner.update({})
    assert given == [(2.0, True), (1.0, True), (0.0, False), (0.0, False)]


def test_offline_updates_come_on_top_of_those_that_are_due() -> None:
    """100, and half an update for each step after the first 100."""
    config = small(offline_updates=100, updates_per_step=0.5, learning_starts=100)
    learner = Guided(config, envs=envs_of(), expert=np.abs, seed=0)
    learner.step()
    assert learner.env_steps > 100
    assert learner.updates == 100 + (learner.env_steps - 100) // 2


def test_the_least_steps_end_with_the_first_update() -> None:
    """Without offline updates it is due a step after learning starts, also if the test could have that step."""
    for offline_updates, least in (0, 101), (1, 100):
        config = small(
            total_steps=101, offline_updates=offline_updates, updates_per_step=1.0, clone_updates=1
        )
        for rounds in 8, 1:
            config = replace(config, rounds_per_iteration=rounds)
            whole = HandOver(config, envs=envs_of(count=1), expert=np.abs, seed=0)
            with pytest.raises(
                InputError, match=f"takes at least {least} steps, but only {least - 1} are left"
            ):
                whole.step(least - 1)
            while not whole.done:
                whole.step()
            assert whole.learner.updates == 1
            assert whole.env_steps in (100, 101)


def test_a_candidate_is_worth_the_mean_of_all_quantiles() -> None:
    """Two critics of two quantiles: 0, 4 and 6, 6 of the first candidate, 2, 2 and 1, 1 of the second."""
    updater = Guided(small(), envs=envs_of(), expert=np.abs, seed=0).updater
    outputs = torch.tensor([[[0.0, 4.0], [2.0, 2.0]], [[6.0, 6.0], [1.0, 1.0]]])
    updater.critics.online.values = lambda _: outputs  # type: ignore[method-assign]
    assert updater._rate({"obs": torch.zeros(1, 1), "candidates": torch.zeros(1, 2, 1)})[
        "values"
    ].tolist() == [[4.0, 1.5]]


def test_the_critics_target_follows_by_a_quarter() -> None:
    learner = Guided(
        small(tau=0.25, updates_per_step=0.0, offline_updates=0), envs=envs_of(), expert=np.abs, seed=0
    )
    learner.step()
    critics = learner.updater.critics
    before = [each.clone() for each in critics.target.parameters()]
    learner.update(learner.batches(1)[0])
    for now, was, new in zip(critics.target.parameters(), before, critics.online.parameters(), strict=True):
        torch.testing.assert_close(now, was.lerp(new.detach(), 0.25))
        assert not torch.equal(was, new)


def test_the_replay_sums_rewards_as_the_settings_say() -> None:
    replay = Guided(
        small(n_step=3, gamma=0.5, least_reward=-1.0), envs=envs_of(), expert=np.abs, seed=0
    ).replay
    assert (replay.n_step, replay.gamma, replay.least_reward) == (3, 0.5, -1.0)
