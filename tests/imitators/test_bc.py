"""Behavioural cloning: the returns of what it learns, from experts that a reader can check."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from handwritten import Balancer, Namer
from numpy.testing import assert_allclose
from structured import Knower
from torch import Tensor

from imitate.datasets.collect import collect
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.imitators.bc import BC, BCConfig
from imitate.imitators.cloning import agreement, bc_loss, imitation_loss
from imitate.nn.distributions import Distribution
from imitate.nn.policy import ActorPolicy


def recorded(tmp_path: Path, env_id: str, expert: Any, episodes: int) -> DemoReader:
    envs = SyncVecEnv([lambda: make_env(env_id)] * 4)
    info = DemoInfo(env_id, envs.single_observation_space, envs.single_action_space, seed=0)
    collect(expert, envs, tmp_path / "demos.h5", info, episodes=episodes)
    return DemoReader(tmp_path / "demos.h5")


def cloned(demos: DemoReader, **options: Any) -> BC:
    learner = BC(BCConfig(**options), demos=demos, seed=0)
    while not learner.done:
        learner.step()
    return learner


def test_one_episode_of_the_bundled_expert_is_enough_for_500(tmp_path: Path) -> None:
    learner = cloned(recorded(tmp_path, "CartPole-v1", load_expert("CartPole-v1:ppo"), 1))
    assert learner.updates == 500 * 2  # passes over 500 steps in minibatches of 256
    assert evaluate(learner.policy, "CartPole-v1", episodes=8).mean == 500


@pytest.mark.parametrize(
    ("env_id", "best"), [("Told-multi-v0", 20.0), ("Told-tuple-v0", 20.0), ("Told-binary-v0", 10.0)]
)
def test_dict_observations_and_actions_of_several_parts_are_cloned(
    tmp_path: Path, env_id: str, best: float
) -> None:
    """Random play returns 20 / 3 and 10 / 8."""
    demos = recorded(tmp_path, env_id, Knower(env_id.split("-")[1]), 20)
    learner = cloned(demos, max_updates=300, batch_size=50, learning_rate=3e-3, weight_decay=0.0)
    assert evaluate(learner.policy, env_id).mean == best


def test_pictures_in_dict_observations_are_cloned(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "ToldByPicture-v0", Knower(), 20)
    learner = cloned(demos, max_updates=150, batch_size=50, learning_rate=3e-3, weight_decay=0.0)
    assert evaluate(learner.policy, "ToldByPicture-v0").mean == 20.0  # random: 20 / 3


def test_continuous_actions_are_cloned(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "ContinuousIdentity-v0", Namer(), 50)
    learner = cloned(demos, hidden=(64, 64), learning_rate=3e-3, max_updates=300)
    assert evaluate(learner.policy, "ContinuousIdentity-v0").mean > -0.05  # random: about -16


def test_no_hidden_layers_are_a_linear_policy_that_can_not_have_members(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "ContinuousIdentity-v0", Namer(), 1)
    linear = BC(BCConfig(hidden=(), members=1), demos=demos, seed=0)
    assert len(list(linear.policy.encoder.net.parameters())) == 0
    with pytest.raises(InputError, match=r"hidden \[\]; take members 1"):
        BC(BCConfig(hidden=(), members=5), demos=demos, seed=0)
    with pytest.raises(InputError, match="whiten decorrelates standardised observations"):
        BCConfig(whiten=True, normalize_obs=False)


def test_the_learning_rate_goes_to_0_over_the_updates_and_the_policy_is_an_average(tmp_path: Path) -> None:
    """Four passes of 2 updates (500 steps in minibatches of 256), of which 7 are allowed: the last has a seventh of the
    learning rate, and is alone in its pass. The average's first decay is 1/10."""
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    learner = BC(BCConfig(max_updates=7, ema=0.995), demos=demos, seed=0)
    start = learner.policy.output.bias.detach().clone()
    rates = []
    while not learner.done:
        learner.step()
        rates.append(learner.members[0].optimizer.learning_rate)
    assert_allclose(rates, [1e-3 * (1 - n / 7) for n in (1, 3, 5, 6)])
    assert learner.updates == 7
    one = BC(BCConfig(max_updates=1), demos=demos, seed=0)
    one.step()
    average = 0.1 * start + 0.9 * one.members[0].actor.output.bias
    assert_allclose(one.policy.output.bias.detach(), average.detach(), rtol=1e-5)


def test_a_step_after_the_end_is_refused(tmp_path: Path) -> None:
    learner = BC(BCConfig(max_updates=1), demos=recorded(tmp_path, "CartPole-v1", Balancer(), 1), seed=0)
    learner.step()
    with pytest.raises(InputError, match=r"^training has ended with gradient step 1: make another learner$"):
        learner.step()


def test_the_loss_on_held_out_episodes_is_reported_and_they_are_not_trained_on(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 4)
    assert "heldout_loss" not in BC(BCConfig(holdout=0.2), demos=demos, seed=0).step()  # of 4 that is none
    learner = BC(BCConfig(holdout=0.25, max_epochs=3), demos=demos, seed=0)
    assert len(learner.heldout) == 1
    assert set(learner.heldout).isdisjoint(learner.trained_on)
    while not learner.done:
        metrics = learner.step()
    obs, labels = next(demos.batches(10_000, np.random.default_rng(0), episodes=learner.heldout))
    with torch.no_grad():
        distribution = learner.policy(learner.policy.encoder.prepare(obs))
        loss = bc_loss(learner.policy, distribution, learner.policy.to_unit(labels)).mean()
    assert_allclose(float(loss), metrics["heldout_loss"], rtol=1e-5)


@pytest.mark.parametrize("side", [36, 8])
def test_pixels_are_cloned(side: int, tmp_path: Path) -> None:
    """Pictures that are too small for a NatureCNN count as numbers."""
    space = spaces.Box(0, 255, (1, side, side), np.uint8)
    rng = np.random.default_rng(0)
    info = DemoInfo("Bright-v0", space, spaces.Discrete(2))
    with DemoWriter(tmp_path / "pixels.h5", info) as writer:
        for _ in range(10):
            bright = rng.integers(0, 2, 21)
            obs = rng.integers(0, 100, (21, 1, side, side)) + 150 * bright[:, None, None, None]
            writer.append(
                Trajectory(obs.astype(np.uint8), bright[:-1], np.zeros(20, np.float32), False, True)
            )
    learner = cloned(DemoReader(tmp_path / "pixels.h5"), max_epochs=20)
    frames = np.stack([np.full((1, side, side), level, np.uint8) for level in (50, 200)])
    assert learner.policy.act(frames, deterministic=True).tolist() == [0, 1]


def test_a_loss_that_is_handed_in_takes_the_place_of_bcs(tmp_path: Path) -> None:
    """One minibatch, so that what is logged is the loss before the first gradient step."""
    demos = recorded(tmp_path, "ContinuousIdentity-v0", Namer(), 4)
    config = BCConfig(batch_size=1_000)

    def doubled(policy: ActorPolicy, distribution: Distribution, actions: Tensor) -> Tensor:
        return 2 * bc_loss(policy, distribution, actions)

    plain, twice = (BC(config, demos=demos, seed=0, loss=loss).step() for loss in (None, doubled))
    assert twice["loss"] == pytest.approx(2 * plain["loss"])


def test_the_logged_loss_is_the_mean_over_one_epochs_steps_and_members(tmp_path: Path) -> None:
    def three(policy: ActorPolicy, distribution: Distribution, actions: Tensor) -> Tensor:
        return 0 * bc_loss(policy, distribution, actions) + 3.0

    demos = recorded(tmp_path, "ContinuousIdentity-v0", Namer(), 4)
    learner = BC(BCConfig(batch_size=10, members=2), demos=demos, seed=0, loss=three)
    assert [learner.step()["loss"] for _ in range(2)] == [3.0, 3.0]


def test_the_optimizer_decays_the_weights_as_the_config_says(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    assert BC(BCConfig(weight_decay=0.5), demos=demos, seed=0).members[0].optimizer.weight_decay == 0.5


@pytest.mark.parametrize("shape", ["()", "(32, 1)", "(32, 32)"])
def test_a_loss_that_is_not_one_number_a_pair_is_refused(shape: str, tmp_path: Path) -> None:
    """The mean of a column minus a row would be taken over all pairs of pairs."""
    demos = recorded(tmp_path, "CartPole-v1", load_expert("CartPole-v1:ppo"), 1)
    wrong: dict[str, Callable[[Tensor], Tensor]] = {
        "()": torch.mean,
        "(32, 1)": lambda losses: losses[:, None],
        "(32, 32)": lambda losses: losses[:, None] - losses,
    }
    learner = BC(
        BCConfig(batch_size=32),
        demos=demos,
        seed=0,
        loss=lambda policy, distribution, actions: wrong[shape](bc_loss(policy, distribution, actions)),
    )
    with pytest.raises(InputError, match=re.escape(f"the loss has the shape {shape}, wanted (32,)")):
        learner.step()


def test_the_loss_of_continuous_actions_is_in_units_of_half_the_range() -> None:
    policy = ActorPolicy(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), head="clipped", hidden=())
    torch.nn.init.zeros_(policy.output.weight)
    torch.nn.init.constant_(policy.output.bias, 0.25)  # acts 0.5
    loss = imitation_loss(policy, policy(torch.zeros(1, 1)), policy.to_unit(torch.tensor([[1.0]])))
    assert_allclose(loss.item(), 0.25**2)  # (0.5 - 1) / 2 squared


def test_a_squashed_policy_learns_before_its_tanh() -> None:
    """Actions at the bounds count as 0.99, for which the input of the tanh is finite."""
    policy = ActorPolicy(spaces.Box(-1, 1, (1,)), spaces.Box(-2, 2, (1,)), head="squashed", hidden=())
    torch.nn.init.zeros_(policy.output.weight)
    torch.nn.init.constant_(policy.output.bias, 0.25)
    distribution = policy(torch.zeros(2, 1))
    loss = bc_loss(policy, distribution, torch.tensor([[0.5], [1.0]]))
    assert_allclose(loss.detach(), [(0.25 - np.arctanh(0.5)) ** 2, (0.25 - np.arctanh(0.99)) ** 2], rtol=1e-5)


@pytest.mark.parametrize(
    ("env_id", "wanted"), [("ContinuousIdentity-v0", (64, 3e-3, 5)), ("CartPole-v1", (256, 1e-3, 1))]
)
def test_defaults_depend_on_the_kind_of_actions(
    tmp_path: Path, env_id: str, wanted: tuple[int, float, int]
) -> None:
    demos = recorded(tmp_path, env_id, Namer() if "Identity" in env_id else Balancer(), 4)
    learner = BC(BCConfig(), demos=demos, seed=0)
    assert (learner.batch_size, learner.learning_rate, len(learner.members)) == wanted
    assert learner.policy.architecture["hidden"][0] == (5 * 256 if wanted[2] == 5 else 64)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"holdout must be in \[0, 1\), got 1"):
        BCConfig(holdout=1.0)


def test_the_policy_takes_what_the_network_learned_on_whitened_inputs(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    learner = BC(BCConfig(demo_pairs=30), demos=demos, seed=0)
    learner.step()
    obs = demos.transitions().obs
    x = learner.policy.encoder.prepare(obs)
    whitened, _ = learner.inputs(obs, obs)
    assert not torch.allclose(x, whitened)
    assert_allclose(
        learner.policy(x).logits.detach(), learner.members[0].mean(whitened).logits.detach(), atol=1e-5
    )
    assert len(learner.heldout) == 0  # 30 pairs are too few to spare some


def test_more_than_500_pairs_are_not_whitened_unless_asked(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 2)
    for episodes, options, wanted in ([0], {}, True), ([0, 1], {}, False), ([0, 1], {"whiten": True}, True):
        learner = BC(BCConfig(**options), demos=demos, episodes=np.array(episodes), seed=0)
        assert (learner.whitening is not None) == wanted


def test_many_inputs_are_not_whitened_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A float picture of 48 x 48 has 6,912: its correlations would take minutes."""
    monkeypatch.setattr("imitate.imitators.bc._MOST_WHITENED", 3)
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    for options, wanted in ({}, False), ({"whiten": True}, True):
        assert (BC(BCConfig(**options), demos=demos, seed=0).whitening is not None) == wanted


def test_observations_of_several_parts_can_not_be_whitened(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "Told-multi-v0", Knower("multi"), 20)
    assert BC(BCConfig(), demos=demos, seed=0).whitening is None
    with pytest.raises(
        InputError, match=r"whiten needs observations of one vector, got Dict\(.*; leave it out"
    ):
        BC(BCConfig(whiten=True), demos=demos, seed=0)


def test_three_members_learn_from_the_same_pairs_and_act_as_one(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    learner = cloned(demos, demo_pairs=100, members=3, max_updates=300)
    obs = demos.transitions().obs
    whitened, _ = learner.inputs(obs, obs)
    outputs = [member.mean.output(member.mean.encoder(whitened)).detach() for member in learner.members]
    assert not torch.allclose(outputs[0], outputs[1])
    whole = learner.policy.output(learner.policy.encoder(learner.policy.encoder.prepare(obs))).detach()
    assert_allclose(whole, torch.stack(outputs).mean(0), atol=1e-4)
    assert evaluate(learner.policy, "CartPole-v1", episodes=8).mean > 400


def test_a_resumed_run_of_members_goes_on_with_the_same_weights(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "CartPole-v1", Balancer(), 1)
    whole, part, resumed = (BC(BCConfig(members=2, max_updates=4), demos=demos, seed=0) for _ in range(3))
    part.step()
    resumed.load_state_dict(part.state_dict())
    for learner, passes in (whole, 2), (resumed, 1):
        for _ in range(passes):
            learner.step()
    assert all(
        torch.equal(*pair)
        for pair in zip(whole.policy.parameters(), resumed.policy.parameters(), strict=True)
    )


def test_members_of_pictures_are_refused(tmp_path: Path) -> None:
    demos = recorded(tmp_path, "ToldByPicture-v0", Knower(), 2)
    with pytest.raises(
        InputError,
        match=r"^3 members need one observation of numbers and a hidden layer, got Dict.*take members 1$",
    ):
        BC(BCConfig(members=3), demos=demos, seed=0)


def test_agreement_is_within_a_tenth_of_half_the_range_in_every_dimension() -> None:
    """The policy's action is 0, and half the range is 2."""
    box = spaces.Box(-2.0, 2.0, (2,), np.float32)
    policy = ActorPolicy(spaces.Box(-1.0, 1.0, (1,), np.float32), box, hidden=(), head="squashed")
    for weights in policy.output.parameters():
        torch.nn.init.zeros_(weights)
    labels = torch.tensor([[0.19, -0.19], [0.0, 0.21], [0.21, 0.0]])
    assert agreement(policy, policy(torch.zeros(3, 1)), labels).tolist() == [1.0, 0.0, 0.0]
