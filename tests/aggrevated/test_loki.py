"""LOKI: imitation up to the expert, reinforcement beyond."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from imitate.aggrevated.guidance import ExpertsValue, Guidance
from imitate.aggrevated.loki import LOKI, LOKIConfig
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.make import make_env
from imitate.envs.spaces import Array
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.nn.state import load_state, save_state
from imitate.rl.ppo import PPO
from imitate.rl.returns import gae
from imitate.rl.rollout import Rollout

IMITATION: dict[str, Any] = {
    **{"iterations": 4, "updates_per_iteration": 60, "final_updates": 300, "learning_rate": 5e-3},
    **{"delta": 0.0, "fqe_updates": 1, "hidden": (16,)},
}


SHORT = IMITATION | {"updates_per_iteration": 5, "final_updates": 5}


def off_by_a_half(obs: Array) -> Array:
    """An expert that loses 0.5^2 in each of ten steps: 2.5 an episode."""
    return obs + np.float32(0.5)


@contextmanager
def learning(
    path: Path, *, expert: Callable[[Array], Array] = off_by_a_half, **fields: Any
) -> Iterator[LOKI]:
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")] * 8)
    info = DemoInfo("ContinuousIdentity-v0", envs.single_observation_space, envs.single_action_space)
    ppo = {"num_steps": 64, "learning_rate": 3e-3, "gamma": 0.5, "value_warmup": 2}
    given: dict[str, Any] = {
        "total_steps": 16_800,
        "imitation_steps": 800,
        "aggrevated": IMITATION,
        "ppo": ppo,
    }
    with DemoWriter(path, info, expert_actions=True) as store:
        yield LOKI(LOKIConfig(**given | fields), envs=envs, expert=expert, store=store, seed=0)


def test_reinforcement_goes_on_where_imitation_ends_and_passes_the_expert(tmp_path: Path) -> None:
    with learning(tmp_path / "store.h5", total_steps=5_600) as learner:
        while not learner.imitation.done:
            learner.step()
        imitated = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
        learner.step()
        obs = np.linspace(-1, 1, 9, dtype=np.float32)[:, None]
        own, imitators = learner.policy.act(obs), learner.imitation.policy.act(obs)
        np.testing.assert_allclose(own, imitators, atol=0.1)
        before = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
        learner.step()  # these two: the value function alone
        after = learner.policy.state_dict()
        assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
        while not learner.done:
            learner.step()
        assert learner.env_steps <= 5_600
        assert learner.expert_queries == learner.imitation.expert_queries >= 800
    assert imitated == pytest.approx(-2.5, abs=0.4)
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.7


def at_the_bound(obs: Array) -> Array:
    """An expert that always takes the largest action: AggreVaTeD's tanh is soon saturated."""
    return np.ones_like(obs)


@pytest.mark.slow
def test_reinforcement_can_leave_the_bounds_of_the_actions(tmp_path: Path) -> None:
    """PPO once learned nothing behind a saturated tanh: here, and on HalfCheetah, where its input was about 10."""
    with learning(tmp_path / "store.h5", expert=at_the_bound) as learner:
        while not learner.imitation.done:
            learner.step()
        with torch.no_grad():  # as after a long run
            learner.imitation.policy.output.bias.fill_(10.0)
        imitated = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
        learner.step()
        distilled = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
        while not learner.done:
            learner.step()
        reinforced = evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean
    assert imitated < -30.0
    assert distilled == pytest.approx(imitated, rel=0.1)
    assert reinforced > -1.0


def test_a_squashed_head_is_aggrevateds_own_policy(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "aggrevated": SHORT,
        "ppo": {"num_steps": 64, "head": "squashed", "value_warmup": 1},
    }
    with learning(tmp_path / "store.h5", **settings) as learner:
        while not learner.imitation.done:
            learner.step()
        learner.step()
        assert learner.ppo is not None
        own = learner.imitation.policy.state_dict()
        assert all(torch.equal(tensor, own[name]) for name, tensor in learner.policy.state_dict().items())


def test_a_head_that_does_not_fit_the_actions_is_refused_before_the_imitation(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="'categorical' does not fit"),
        learning(tmp_path / "store.h5", ppo={"head": "categorical"}),
    ):
        pass


@pytest.mark.parametrize("guidance", [0.0, 0.5])
@pytest.mark.parametrize("steps", [2, 4, 5])
def test_a_checkpoint_of_either_phase_goes_on(
    tmp_path: Path, steps: int, guidance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imitate.aggrevated.loki.VALUE_UPDATES", 20)
    with learning(tmp_path / "store.h5", total_steps=2_000, guidance=guidance, aggrevated=SHORT) as learner:
        for _ in range(steps):
            learner.step()
        grid = np.linspace(-1.0, 1.0, 5, dtype=np.float32)[:, None]
        kept = learner.experts_value and learner.experts_value(grid)
        assert (kept is not None) == (steps > 4 and guidance > 0)
        save_state(tmp_path / "state", learner.state_dict())
        policy = {name: tensor.clone() for name, tensor in learner.policy.state_dict().items()}
        learner.step()
        learner.load_state_dict(load_state(tmp_path / "state"))
        assert (learner.ppo is None) == (steps <= 4)
        if kept is not None:
            np.testing.assert_array_equal(learner.experts_value(grid), kept)
        assert all(torch.equal(tensor, policy[name]) for name, tensor in learner.policy.state_dict().items())


def test_guidance_bootstraps_from_the_better_of_two_values() -> None:
    zeros = np.zeros((2, 1), np.float32)
    rollout = Rollout(
        obs=np.array([[[1.0]], [[2.0]]], np.float32),
        actions=zeros,
        rewards=np.array([[5.0], [7.0]], np.float32),
        terminated=zeros > 0,
        truncated=zeros > 0,
        ends=np.zeros((0, 2), int),
        end_obs=np.zeros((0, 1), np.float32),
        last_obs=np.array([[3.0]], np.float32),
    )
    own, rewards = np.array([[30.0], [10.0]]), rollout.rewards / 2
    # The expert's values of the successors 2 and 3 are 40 and 60 of the environment's rewards, 20 and 30 of PPO's.
    for weight, following in ((0.0, [30.0, 10.0]), (0.5, [30.0, 20.0]), (1.0, [30.0, 30.0])):
        guide = Guidance(lambda obs: 20.0 * obs[:, 0], weight)
        assert guide.next_values(rollout, own, reward_scale=2.0)[:, 0].tolist() == following
        assert guide.trace == 1.0 - weight
        mixed = guide.next_values(rollout, own, reward_scale=2.0)
        advantages = gae(
            rewards, zeros + 4.0, mixed, zeros > 0, zeros > 0, gamma=0.5, gae_lambda=0.8 * guide.trace
        )
        last = 3.5 + 0.5 * following[1] - 4.0
        first = 2.5 + 0.5 * following[0] - 4.0 + 0.5 * 0.8 * (1.0 - weight) * last
        assert advantages[:, 0].tolist() == pytest.approx([first, last])


def test_without_guidance_reinforcement_is_plain_ppo(tmp_path: Path) -> None:
    with learning(tmp_path / "store.h5", total_steps=2_000, aggrevated=SHORT) as learner:
        while not learner.imitation.done:
            learner.step()
        learner.step()  # the value function alone
        policy = copy.deepcopy(learner.policy)
        assert learner.ppo is not None
        limit = 2_000 - learner.imitation.env_steps
        plain = PPO(learner.ppo.config, envs=learner.envs, seed=0, policy=copy.deepcopy(policy))
        plain.step(limit)
        guided = PPO(learner.ppo.config, envs=learner.envs, seed=0, policy=copy.deepcopy(policy))
        guided.update(guided.collect(limit), 0.0, Guidance(lambda obs: 1e6 + obs[:, 0], 0.0))
        for ppo in (plain, guided):
            for net, others in ((ppo.value_net, learner.ppo.value_net), (ppo.policy, learner.policy)):
                for one, other in zip(net.parameters(), others.parameters(), strict=True):
                    assert torch.equal(one, other)


def test_guidance_falls_linearly_over_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts of 512 of 3,200 steps, 16 percent each, of which half are guided: 0.32 less each time, then none."""
    monkeypatch.setattr("imitate.aggrevated.loki.VALUE_UPDATES", 20)
    fields: dict[str, Any] = {"total_steps": 4_000, "guidance": 1.0, "guidance_fraction": 0.5}
    with learning(tmp_path / "store.h5", aggrevated=SHORT, **fields) as learner:
        while not learner.imitation.done:
            learner.step()
        weights = [learner.step().get("guidance") for _ in range(5)]
    assert weights == [*map(pytest.approx, (1.0, 0.68, 0.36, 0.04)), None]


@pytest.mark.slow
def test_ppo_begins_from_the_experts_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The expert loses 0.25 a step, 0.5 discounted by 1/2 each: its value is -0.25 / (1 - 0.5) = -0.5."""
    monkeypatch.setattr("imitate.aggrevated.loki.VALUE_UPDATES", 300)
    imitation = IMITATION | {"fqe_updates": 150, "fqe": {"gamma": 0.5, "tau": 0.05}}
    with learning(tmp_path / "store.h5", total_steps=5_600, guidance=1.0, aggrevated=imitation) as learner:
        while not learner.imitation.done:
            learner.step()
        metrics = learner.step()
        assert metrics["guidance"] == 1.0
        assert learner.experts_value is not None
        values = learner.experts_value(np.linspace(-1, 1, 9, dtype=np.float32)[:, None])
        assert values == pytest.approx(np.full(9, -0.5), abs=0.15)
        while not learner.done:
            metrics = learner.step()
        assert "guidance" not in metrics  # it has fallen to 0
    assert evaluate(learner.policy, "ContinuousIdentity-v0", episodes=20).mean > -0.7


def test_a_quarter_of_the_steps_is_imitation_unless_said_otherwise(tmp_path: Path) -> None:
    for given, expected in ((None, 200), (600, 600), (9_000, 800)):
        with learning(tmp_path / f"{given}.h5", total_steps=800, imitation_steps=given) as learner:
            assert learner.imitation.config.total_steps == expected


def test_settings_of_ppo_that_do_not_fit_are_refused_before_any_step(tmp_path: Path) -> None:
    envs = SyncVecEnv([lambda: make_env("Identity-v0")] * 8)
    info = DemoInfo("Identity-v0", envs.single_observation_space, envs.single_action_space)
    config = LOKIConfig(aggrevated=IMITATION, ppo={"rpo_alpha": 0.1})
    with (
        DemoWriter(tmp_path / "store.h5", info, expert_actions=True) as store,
        pytest.raises(InputError, match="rpo_alpha moves the mean of a Gaussian"),
    ):
        LOKI(config, envs=envs, expert=lambda obs: obs.argmax(-1), store=store, seed=0)


def test_a_warm_start_that_failed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the disk is gone")

    with learning(tmp_path / "store.h5", total_steps=2_000, guidance=1.0, aggrevated=SHORT) as learner:
        while not learner.imitation.done:
            learner.step()
        with monkeypatch.context() as patched:
            patched.setattr(ExpertsValue, "fit", fail)
            with pytest.raises(OSError, match="the disk is gone"):
                learner.step()
        assert learner.experts_value is None
        learner.load_state_dict(learner.state_dict())
        made = learner._warm_start
        begun: list[PPO] = []
        monkeypatch.setattr(learner, "_warm_start", lambda ppo, value: (begun.append(ppo), made(ppo, value)))
        for _ in range(2):
            learner.step()
        assert begun == [learner.ppo]
