"""Oracles of an expert's Q*, on tasks whose values can be worked out in the head."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose
from stable_baselines3 import SAC
from torch import Tensor

from imitate.aggrevated.critic_check import OracleReport, _agreement, check_critic, check_oracle
from imitate.aggrevated.monte_carlo import MonteCarlo
from imitate.aggrevated.oracles import choose_oracle
from imitate.aggrevated.variants.executed import TemporalDifference
from imitate.cli import main
from imitate.configs.aggrevated import AggreVaTeDConfig
from imitate.datasets.trajectory import Transitions
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.values.fqe import FittedQ, FQEConfig
from imitate.improvement.teacher import Watched


class Corridor(gym.Env[Any, Any]):
    """Places 0 to 4. Action 1 goes on, action 0 stays; each step costs 1, place 4 ends the task. Six steps at most.

    The expert goes on: from place s it returns -(4 - s); a step of staying returns one less. `restless` is an
    environment that does not do the same again.
    """

    observation_space = spaces.Box(0, 4, (1,), np.float32)
    action_space = spaces.Discrete(2)
    resets = 0

    def __init__(self, restless: bool = False) -> None:
        self.restless = restless

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        Corridor.resets += 1
        self.place, self.steps = (Corridor.resets if self.restless else seed or 0) % 3, 0
        return np.array([self.place], np.float32), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.place += int(action)
        self.steps += 1
        return np.array([self.place], np.float32), -1.0, self.place == 4, self.steps == 6, {}


gym.register("Corridor-v0", entry_point=Corridor)


@dataclass
class GoesOn:
    """The expert of the corridor, and its Q*."""

    gamma: float = 1.0
    reward_scale: float = 2.0
    worth: float = 1.0  # of going on against staying; below 0 the oracle is wrong
    greedy: bool = False

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return np.ones(len(obs), np.int64)

    def q_all(self, obs: Tensor) -> Tensor:
        going_on = obs - 4.0  # (B, 1)
        return torch.cat([going_on - self.worth, going_on], 1) / self.reward_scale

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.heads(obs, actions)[0]

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.q_all(obs).gather(1, actions[:, None]).T


def staying_first(_obs: Array, begun: Array) -> tuple[Array, Array]:
    """Rolls in by staying once at the beginning, then going on."""
    actions = np.where(begun, 0, 1)
    return actions, actions


def test_monte_carlo_is_the_exact_cost_to_go() -> None:
    oracle = MonteCarlo(GoesOn(), lambda: SyncVecEnv([Corridor] * 2), spaces.Discrete(2))
    steps = oracle.collect(staying_first, [0, 1, 2, 3, 4], np.random.default_rng(0))
    assert steps is not None
    assert len(steps) == 10
    obs, actions = steps.obs.squeeze(1), steps.actions
    # From place s the expert needs 4 - s steps; having stayed, one more.
    assert_allclose(steps.rewards, -(4 - obs) - (actions == 0).float())
    assert_allclose(oracle.advantages(steps), -(actions == 0).float())
    assert_allclose(steps.actions[1::2], 1)
    assert len(set(steps.actions[::2].tolist())) == 2  # the other of a pair is drawn
    assert steps.terminated.all()


def test_monte_carlo_discounts_from_the_visited_state_on() -> None:
    oracle = MonteCarlo(GoesOn(), lambda: SyncVecEnv([Corridor]), spaces.Discrete(2), gamma=0.5)
    steps = oracle.collect(staying_first, list(range(12)), np.random.default_rng(0))
    remaining = 4 - steps.obs.squeeze(1) + (steps.actions == 0).float()
    assert_allclose(steps.rewards, -(1 - 0.5**remaining) / 0.5)
    assert len(set(steps.obs.squeeze(1).tolist())) == 4  # states of all times were visited


def test_monte_carlo_counts_every_step_and_query() -> None:
    def going_on(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        actions = np.ones(len(obs), np.int64)
        return actions, actions

    oracle = MonteCarlo(GoesOn(), lambda: SyncVecEnv([Corridor] * 3), spaces.Discrete(2))
    steps = oracle.collect(going_on, [0], np.random.default_rng(0))
    # The roll-in from place 0 takes 4 steps; then twice 4 again, and one more where the drawn action was to stay.
    time, stayed = int(steps.obs[0]), int(steps.actions[0] == 0)
    assert oracle.env_steps == 3 * 4 + stayed
    # Asked for the label, and for every step after that in both.
    assert oracle.expert_queries == 1 + 2 * (4 - time - 1) + stayed


def test_monte_carlo_never_takes_a_step_more_than_allowed() -> None:
    """A visit from place 0 takes 12 or 13 steps: at most 11 allow none, and all of them may be spent."""
    oracle = MonteCarlo(GoesOn(), lambda: SyncVecEnv([Corridor]), spaces.Discrete(2))
    assert oracle.collect(staying_first, [0], np.random.default_rng(0), most=11) is None
    assert oracle.env_steps <= 11
    assert oracle.collect(staying_first, [0], np.random.default_rng(0), most=20) is not None


def test_monte_carlo_refuses_an_environment_that_is_not_repeatable() -> None:
    oracle = MonteCarlo(GoesOn(), lambda: SyncVecEnv([lambda: Corridor(restless=True)]), spaces.Discrete(2))
    with pytest.raises(InputError, match="the same again"):
        oracle.collect(staying_first, list(range(6)), np.random.default_rng(0))


def td(**normalisation: Any) -> TemporalDifference:
    """An expert whose V of a state is the state itself."""
    normalised = SimpleNamespace(norm_reward=True, **normalisation) if normalisation else None
    expert: Any = SimpleNamespace(
        value=lambda obs: obs.squeeze(1), normalisation=normalised, gamma=0.5, has_value=True
    )
    return TemporalDifference(expert)


STEPS = Transitions(
    obs=torch.tensor([[1.0], [2.0], [4.0]]),
    actions=torch.zeros(3, dtype=torch.int64),
    rewards=torch.tensor([3.0, 1.0, -20.0]),
    next_obs=torch.tensor([[2.0], [6.0], [8.0]]),
    terminated=torch.tensor([False, False, True]),
    truncated=torch.tensor([False, True, False]),
)


def test_differences_of_state_values() -> None:
    # r + V(s') / 2 - V(s): 3 + 1 - 1, 1 + 3 - 2 (truncated: goes on), -20 - 4 (terminated: nothing follows).
    assert_allclose(td().advantages(STEPS), [3.0, 2.0, -24.0])


def test_differences_are_in_the_rewards_that_v_learned_from() -> None:
    # Divided by 2 and clipped to +-5: 1.5 + 1 - 1, 0.5 + 3 - 2, -5 - 4.
    assert_allclose(td(reward_scale=2.0, clip_reward=5.0).advantages(STEPS), [1.5, 1.5, -9.0])


def chosen(expert: Any, device: str = "cpu", **fields: Any) -> tuple[Any, Any]:
    """The oracle, and the critic to learn."""
    store: Any = SimpleNamespace(info=expert)  # who knows the spaces as a store does
    oracle, teacher = choose_oracle(expert, AggreVaTeDConfig(**fields), store, seed=0, device=device)
    return oracle, teacher.critic


def test_takes_the_experts_critic_or_learns_one_or_says_what_is_lacking() -> None:
    dqn, ppo = load_expert("CartPole-v1"), load_expert("CartPole-v1:ppo")
    own, fitted = chosen(dqn)
    assert fitted is None
    obs = torch.zeros(2, 4)
    assert torch.equal(own.q_all(obs), dqn.oracle.q_all(obs))  # type: ignore[union-attr]
    assert own.q_all(obs).shape == (2, 2)
    oracle, fitted = chosen(ppo)
    assert isinstance(fitted, FittedQ)
    assert oracle is fitted
    oracle, fitted = chosen(dqn, oracle="fqe", fqe=FQEConfig(gamma=0.9))
    assert oracle is fitted
    assert oracle.gamma == 0.9
    with pytest.raises(InputError, match=r"PPO.* brings no action values; take fqe"):
        chosen(ppo, oracle="critic")
    with pytest.raises(InputError, match=r"DQN brings no state values"):
        TemporalDifference(dqn)


def test_the_critic_follows_the_device_and_the_expert_goes_on_acting_where_it_is() -> None:
    expert = load_expert("CartPole-v1")
    own, _ = chosen(expert, device="meta")
    assert own.q_all(torch.zeros(2, 4, device="meta")).device.type == "meta"
    assert expert.act(np.zeros((2, 4), np.float32)).shape == (2,)
    assert expert.oracle is not None
    assert expert.oracle.q_all(torch.zeros(2, 4)).device.type == "cpu"


def test_a_critic_of_ones_own_need_be_no_module() -> None:
    own: Any = SimpleNamespace(gamma=0.9)
    expert = SimpleNamespace(act=lambda obs: obs, oracle=own, action_space=spaces.Discrete(2))
    oracle, fitted = chosen(expert)
    assert oracle is own
    assert fitted is None


def test_monte_carlo_of_a_real_expert_repeats_its_episodes() -> None:
    oracle = MonteCarlo(
        load_expert("CartPole-v1"),
        lambda: SyncVecEnv([lambda: make_env("CartPole-v1")] * 4),
        spaces.Discrete(2),
        gamma=0.99,
    )

    def push_left(obs: Array, begun: Array) -> tuple[Array, Array]:  # noqa: ARG001
        left = np.zeros(len(obs), np.int64)
        return left, left

    steps = oracle.collect(push_left, [1, 2, 3, 4], np.random.default_rng(0))
    # Falling to the left takes some 10 steps; from early on the expert saves the pole, and any action returns much.
    assert len(steps) == 8
    assert float(steps.rewards.max()) > 50
    assert (oracle.advantages(steps)[1::2] == 0).all()


def test_the_check_of_a_right_oracle() -> None:
    report = check_oracle(GoesOn(), GoesOn(), "Corridor-v0", episodes=4, probes=12)
    # In the environment's rewards, whatever the scale of the oracle's own.
    assert_allclose(report.mean_q, report.mean_return)
    assert report.bias == pytest.approx(0, abs=1e-6)
    assert report.rank_correlation == pytest.approx(1)
    assert report.better_than_random == 1
    assert report.agreement == 1
    assert report.trustworthy
    assert report.warning() is None
    assert report.env_steps > report.steps


def test_the_check_warns_of_a_wrong_oracle(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        report = check_oracle(GoesOn(worth=-1.0), GoesOn(), "Corridor-v0", episodes=2, source="zoo:sac/Other")
    assert report.better_than_random == 0
    assert not report.trustworthy
    assert "zoo:sac/Other doesn't know this task" in caplog.text


@dataclass
class Stays(GoesOn):
    """Stays in its place for ever, which costs 1 / (1 - gamma); an oracle says 3."""

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        return np.zeros(len(obs), np.int64)

    def q_all(self, obs: Tensor) -> Tensor:
        return torch.full((len(obs), 2), -3.0 / self.reward_scale)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_check_bootstraps_where_the_time_limit_hides_the_rest(scale: float) -> None:
    stays = Stays(gamma=0.5, reward_scale=scale)
    answers: Any = lambda obs: stays.act(obs).tolist()  # noqa: E731
    report = check_oracle(stays, answers, "Corridor-v0", episodes=1)
    # Of six steps the last shows only half of what it costs: none is left out, for half is enough.
    # The return with k steps shown is -2 (1 - 2^-k) - 3 * 2^-k = -2 - 2^-k, k = 6 .. 1: on average -2 - (1 - 2^-6)/6.
    assert report.steps == 6
    assert_allclose(report.mean_return, -2 - (1 - 2**-6) / 6)
    assert_allclose(report.bias, -1 + (1 - 2**-6) / 6)
    assert np.isnan(report.rank_correlation)


def test_the_check_leaves_out_steps_of_which_more_than_half_is_hidden() -> None:
    """With discount 3/4 the weight of what the limit hides is 3/4, 9/16, 27/64 ... from the last step back."""
    report = check_oracle(Stays(gamma=0.75), Stays(), "Corridor-v0", episodes=1)
    # The return with k steps shown is -4 (1 - 0.75^k) - 3 * 0.75^k = -4 + 0.75^k, k = 6 .. 3.
    assert report.steps == 4
    assert report.env_steps == 6
    assert_allclose(report.mean_return, -4 + (0.75**3 + 0.75**4 + 0.75**5 + 0.75**6) / 4)


def test_another_seed_plays_other_episodes() -> None:
    """Episodes begin in places 0 to 2, so they have 4, 3 or 2 steps."""
    found = {check_oracle(GoesOn(), GoesOn(), "Corridor-v0", episodes=1, seed=n).steps for n in range(6)}
    assert len(found) > 1


@pytest.mark.parametrize(
    ("above", "correlation", "said"),
    [
        (0.5, -0.2, None),
        (0.49, 0.9, "it puts the expert's action above random ones in 49% of states (wanted 50%)"),
        (0.9, -0.21, "it has values that fall where returns rise (rank correlation -0.21)"),
        (np.nan, np.nan, None),
    ],
)
def test_a_critic_is_trusted_up_to_two_bounds(above: float, correlation: float, said: str | None) -> None:
    report = OracleReport("me", 1, 9, -3.0, -1.0, correlation, above, 0.5, 4, np.nan, 12)
    assert report.trustworthy is (said is None)
    assert said is None or said in str(report.warning())
    assert report.bias == 2.0
    assert "nothing was at stake in 4 played-out choices" in report.describe()


def test_agreement_weighs_a_probe_by_what_is_at_stake() -> None:
    """The random action was better by 3, and then worse by 1; the critic prefers it both times."""
    steps = SimpleNamespace(obs=torch.zeros(4, 1), actions=torch.zeros(4))
    monte_carlo: Any = SimpleNamespace(
        ask=None, collect=lambda *_: steps, advantages=lambda _: torch.tensor([3.0, 0.0, -1.0, 0.0])
    )
    oracle: Any = SimpleNamespace(q=lambda *_: torch.tensor([1.0, 0.0, 1.0, 0.0]))
    assert _agreement(oracle, monte_carlo, 2, 0) == 0.75


def test_of_the_argmax_of_a_critic_the_comparison_with_random_actions_says_nothing() -> None:
    """A DQN agent's action is above others by construction, on noise too."""
    report = check_oracle(GoesOn(greedy=True), GoesOn(), "Corridor-v0", episodes=2)
    assert np.isnan(report.better_than_random)
    assert "argmax" in report.describe()
    assert report.to_json()["better_than_random"] is None

    class Falls(GoesOn):  # where returns rise
        def q_all(self, obs: Tensor) -> Tensor:
            return -super().q_all(obs)

    assert not check_oracle(Falls(greedy=True), GoesOn(), "Corridor-v0", episodes=2).trustworthy


def test_the_check_before_a_run_has_the_threshold_of_the_run(caplog: pytest.LogCaptureFixture) -> None:
    expert: Any = SimpleNamespace(oracle=GoesOn(worth=-1.0), act=GoesOn().act)
    for gate, warned in ((0.0, False), (0.5, True)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            check_critic(AggreVaTeDConfig(gate=gate), expert, "Corridor-v0")
        assert ("doesn't know this task" in caplog.text) is warned
    caplog.clear()
    with caplog.at_level(logging.INFO):
        check_critic(AggreVaTeDConfig(oracle="fqe"), expert, "Corridor-v0")
    assert not caplog.text  # its critic is not asked


@pytest.mark.parametrize(("spec", "right"), [("zoo:sac/Pendulum-v1", True), ("zoo:dqn/CartPole-v1", True)])
def test_critics_of_the_zoo(spec: str, right: bool, zoo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(zoo))
    expert = load_expert(spec)
    assert expert.oracle is not None
    report = check_oracle(expert.oracle, expert, expert.env_id, episodes=4)
    assert report.trustworthy is right


def test_the_command_line_checks_an_expert(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expert", "check", "CartPole-v1", "--episodes", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["oracle"], found["episodes"], found["trustworthy"]) == ("critic", 2, True)
    assert found["agreement"] is None
    assert main(["expert", "check", "CartPole-v1:ppo"]) == 0
    assert "fitted Q evaluation" in capsys.readouterr().out


class Parts(gym.ObservationWrapper[Any, Any, Any]):
    """Pendulum with Dict observations."""

    def __init__(self, **options: Any) -> None:
        super().__init__(gym.make("Pendulum-v1", **options))
        self.observation_space = spaces.Dict(
            tip=spaces.Box(-1, 1, (2,), np.float32), rate=spaces.Box(-8, 8, (1,), np.float32)
        )

    def observation(self, observation: Array) -> dict[str, Array]:
        return {"tip": observation[:2], "rate": observation[2:]}


gym.register("PendulumParts-v0", entry_point=Parts, max_episode_steps=10, disable_env_checker=True)


def test_a_critic_of_dict_observations_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = SAC("MultiInputPolicy", "PendulumParts-v0", buffer_size=10, device="cpu", seed=0)
    model.save(tmp_path / "PendulumParts-v0.zip")
    command = ["expert", "check", str(tmp_path / "PendulumParts-v0.zip"), "--json", "--probes", "2"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["oracle"], found["steps"], found["probes"]) == ("critic", 80, 2)
    watched = Watched(load_expert(tmp_path / "PendulumParts-v0.zip"))
    with closing(SyncVecEnv([lambda: make_env("PendulumParts-v0")])) as envs:
        watched.act(envs.reset([0]))
    assert watched.trusted(0) in (0.0, 0.5, 1.0)  # two critics, one state
