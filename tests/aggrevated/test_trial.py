"""The trial of AggreVaTeD against DAgger: who is kept, and what it costs."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from problems import ChainOracle, chain_expert, learning, trained
from torch import Tensor

from imitate.aggrevated.gate import GATE
from imitate.datasets.evaluation import evaluate
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.nn.state import check_like
from imitate.rl.paired import lead, paired, played, wins
from imitate.rl.rollout import Rollout, Sampler

FIELDS: dict[str, Any] = {"total_steps": 1_500, "iterations": 10, "updates_per_iteration": 30}


def test_lead_is_in_standard_errors() -> None:
    assert lead(np.array([3.0, 4.0, 5.0]), np.zeros(3)) == pytest.approx(4 * math.sqrt(3))
    assert lead(np.array([1.0, 3.0, 1.0, 3.0]), np.full(4, 3.0)) == pytest.approx(-1 / math.sqrt(4 / 3 / 4))
    # Differences 1, 2 and 3, whatever the episodes give to both: mean 2, standard error 1 / sqrt(3)
    assert lead(np.array([1.0, 502.0, 9.0]), np.array([0.0, 500.0, 6.0])) == pytest.approx(2 * math.sqrt(3))


def test_episodes_that_the_limit_cut_do_not_decide() -> None:
    """A makes 3,000 and B 2,700 an episode, but of twelve episodes 8 of A's are cut at 1,000 and 11 of B's at 2,400."""
    cut_own, cut_others = np.array([3_000.0] * 4 + [1_000.0] * 8), np.array([2_700.0] + [2_400.0] * 11)
    assert wins(cut_others, cut_own)  # counted as whole ones they keep B: 2,425 against 1,667
    own, others = dict.fromkeys(range(4), 3_000.0), {0: 2_700.0}
    assert paired(own, others, wanted=12) is None
    assert paired(dict.fromkeys(range(5), 3_000.0), dict.fromkeys(range(12), 2_700.0), wanted=12) is None
    both = paired(
        dict.fromkeys(range(12), 3_000.0), {**dict.fromkeys(range(6, 12), 2_700.0), 99: 9e9}, wanted=12
    )
    assert both is not None
    assert [len(returns) for returns in both] == [6, 6]
    assert not wins(both[1], both[0])
    assert wins(*both)
    assert paired({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}, wanted=3) is None  # two tell nothing


class Marathon(gym.Env[Any, Any]):
    """10 steps with a seed below 4 and 30 with others; all 3,000 of the return come with the last."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:  # noqa: ARG002
        assert seed is not None
        self._left = 10 if seed < 4 else 30
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self._left -= 1
        return np.zeros(1, np.float32), 0.0 if self._left else 3_000.0, False, not self._left, {}


class Runner:
    def act(self, obs: Array, *, deterministic: bool = True) -> Array:
        assert deterministic
        return np.zeros(len(obs), np.int64)


@pytest.mark.parametrize(
    ("limit", "whole"),
    [
        (39, []),
        (40, [0, 1, 2, 3]),  # the limit is spent with their last steps: nothing of them is cut
        (100, [0, 1, 2, 3]),  # 60 steps of the 120 that the next four need
        (160, [0, 1, 2, 3, 4, 5, 6, 7]),
        (280, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    ],
)
def test_only_whole_episodes_have_a_return(limit: int, whole: list[int]) -> None:
    """Twelve episodes in four environments: 40, 120 and 120 steps."""
    policy: Any = Runner()
    sampler = Sampler(SyncVecEnv([Marathon] * 4))
    rollout, returns = played(policy.act, sampler, range(12), limit)
    assert returns == dict.fromkeys(whole, 3_000.0)
    assert int(rollout.steps.sum()) == sampler.env_steps <= limit


def test_a_small_lead_without_falls_does_not_win() -> None:
    """Six walks each, none of which fell: DAgger's is 2 % faster by many standard errors."""
    faster, slower = np.full(6, 304.0) + np.arange(6), np.full(6, 298.0) + np.arange(6)
    assert lead(faster, slower) > 4
    assert not wins(faster, slower)
    assert wins(faster, slower - 6)  # 4 %
    assert not wins(np.array([303.0, 304.0, 305.0]), np.array([304.0, 304.0, -100.0]))  # one fall
    assert wins(np.full(6, -100.0), np.full(6, -110.0))
    assert not wins(np.full(6, -100.0), np.full(6, -102.0))  # 2 %
    assert not wins(np.full(6, 103.05), np.full(6, 100.0))  # 3 % of the winner's are 3.09


@pytest.mark.parametrize(
    ("episodes", "falls", "won"),
    [(3, 1, False), (7, 1, False), (20, 1, False), (7, 2, False), (7, 3, True), (20, 3, True)],
)
def test_a_fall_or_two_do_not_decide(episodes: int, falls: int, won: bool) -> None:
    """The walker's 302 a walk and -100 a fall against DAgger's 304 without one."""
    own, others = np.full(episodes, 302.0), np.full(episodes, 304.0)
    own[:falls] = -100
    exact = math.sqrt(falls * (episodes - 1) / (episodes - falls))
    assert exact < lead(others, own) < 1.1 * exact
    assert wins(others, own) == won


def whole(rewards: Array, running: Array, ends: list[tuple[int, int]]) -> Rollout:
    """Two environments; the observation is the step's number."""
    steps, obs = len(rewards), np.arange(len(rewards), dtype=np.float32)
    done = np.zeros(rewards.shape, bool)
    done[tuple(np.transpose(ends))] = True
    return Rollout(
        np.stack([obs, obs], 1)[..., None], np.zeros((steps, 2), np.int64), rewards, done, ~done & False,
        ends=np.array(ends), end_obs=np.array([[t + 1.0] for t, _ in ends], np.float32),
        last_obs=np.zeros((2, 1), np.float32), running=running,
    )  # fmt: skip


def test_pieces_leave_out_the_rows_in_which_an_environment_idles() -> None:
    """The first plays episodes of 1 + 2 and 4; the second one of 10, then idles."""
    rewards = np.array([[1, 10], [2, 99], [4, 99]], np.float32)
    running = np.array([[True, True], [True, False], [True, False]])
    rollout = whole(rewards, running, [(0, 1), (1, 0), (2, 0)])
    pieces = list(rollout.segments(rollout.actions))
    assert [len(piece) for piece in pieces] == [2, 1, 1]
    assert all(piece.terminated for piece in pieces)
    np.testing.assert_array_equal(pieces[0].obs.ravel(), [0, 1, 2])


class Beside:
    """A critic that rates the action half a unit beside the right one highest, and random ones lower than both."""

    gamma, reward_scale, greedy = 0.0, 1.0, False

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return -(actions - obs - 0.5).square().sum(-1)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.q(obs, actions).reshape(1, -1)

    def q_all(self, obs: Tensor) -> Tensor:
        raise NotImplementedError


def test_a_wrong_critic_that_the_gate_lets_through_ends_as_dagger(tmp_path: Path) -> None:
    """The step goes half of the way to where the critic points, and costs 0.7 in ten steps."""
    given = (tmp_path, "ContinuousIdentity-v0", lambda obs: obs.copy(), Beside())
    trusting, wary = trained(*given, trial=0.0, **FIELDS), trained(*given, **FIELDS)
    assert trusting.metrics["gate"] > GATE
    assert evaluate(trusting.policy, "ContinuousIdentity-v0").mean < -0.5
    assert (wary.learner.trusted, wary.rival) == (False, None)
    assert evaluate(wary.policy, "ContinuousIdentity-v0").mean > -0.05
    # The trial's steps are DAgger's too: no budget is lost.
    assert wary.learner.roll_in.store.num_steps == wary.env_steps


def test_only_the_learner_itself_rolls_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the states from DAgger's policy left too few of the learner's own."""
    with learning(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), **FIELDS) as learner:
        assert learner.rival is not None
        monkeypatch.setattr(learner.rival, "act", lambda _: pytest.fail("the rival rolled in"))
        learner.step()


def test_a_right_critic_stays(tmp_path: Path) -> None:
    """A mistake in every third state costs DAgger 100; with the critic it makes the cheaper ones, which cost 20."""
    right = trained(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), **FIELDS)
    assert (right.learner.trusted, right.rival) == (True, None)
    assert evaluate(right.policy, "TwoStateChain-v0", episodes=1).mean == -20
    kept = right.learner.roll_in.store.num_steps  # without the trial's
    assert 1_000 < kept < right.env_steps <= FIELDS["total_steps"]


def test_a_step_of_0_for_continuous_actions_leaves_discrete_ones_their_trial(tmp_path: Path) -> None:
    with learning(tmp_path, "TwoStateChain-v0", chain_expert, ChainOracle(), **FIELDS, delta=0.0) as learner:
        assert learner.rival is not None


@pytest.mark.parametrize("steps", [3, 8])
def test_a_state_restores_the_rival_and_the_verdict(tmp_path: Path, steps: int) -> None:
    """After 3 iterations both learn; after 8 the rival has won."""
    given = (tmp_path, "ContinuousIdentity-v0", lambda obs: obs.copy(), Beside())
    with learning(*given, **FIELDS) as one, learning(*given, **FIELDS) as other:
        for _ in range(steps):
            one.step()
        assert one.learner.trusted == (one.rival is not None) == (steps == 3)
        for piece in one.learner.roll_in.store.reader():
            other.learner.roll_in.store.append(piece)
        state = copy.deepcopy(one.state_dict())
        check_like(other.state_dict(), state)  # as a resumed run does
        for learner in (one, other):
            learner.load_state_dict(state)
            learner.step()
        for name, weights in one.policy.state_dict().items():
            assert torch.equal(weights, other.policy.state_dict()[name])
        assert one.env_steps == other.env_steps
