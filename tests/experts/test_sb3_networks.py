"""Networks from tensors: layouts that today's SB3 no longer writes, and those that can't be rebuilt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose, assert_array_equal
from torch import Tensor, nn

from imitate.errors import InputError
from imitate.experts.sb3.acting import AgentPolicy
from imitate.experts.sb3.archive import make_spec
from imitate.experts.sb3.layers import ONE, ZERO, Columns, Flat, MeanOverQuantiles, Normalise, compiled
from imitate.experts.sb3.networks import PolicySpec, build_networks
from imitate.experts.sb3.vecnormalize import Normalisation
from imitate.experts.zips import agent_parts

BOX = spaces.Box(-1, 1, (3,), np.float32)
SPEC = PolicySpec("PPO", BOX, spaces.Box(-2, 2, (2,), np.float32), "Tanh", squash_output=False)


def _random(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


HEADS = {
    "action_net.weight": (2, 4),
    "action_net.bias": (2,),
    "value_net.weight": (1, 5),
    "value_net.bias": (1,),
}
SHARED = {  # net_arch=[6, dict(pi=[4], vf=[5])] of SB3 before 2.0
    **HEADS,
    "log_std": (2,),
    "mlp_extractor.shared_net.0.weight": (6, 3),
    "mlp_extractor.shared_net.0.bias": (6,),
    "mlp_extractor.policy_net.0.weight": (4, 6),
    "mlp_extractor.policy_net.0.bias": (4,),
    "mlp_extractor.value_net.0.weight": (5, 6),
    "mlp_extractor.value_net.0.bias": (5,),
}


def test_shared_layers_of_old_archives() -> None:
    t = _random(SHARED)
    networks = build_networks(SPEC, t, None)
    obs = torch.randn(7, 3)
    shared = torch.tanh(obs @ t["mlp_extractor.shared_net.0.weight"].T + t["mlp_extractor.shared_net.0.bias"])
    policy = torch.tanh(
        shared @ t["mlp_extractor.policy_net.0.weight"].T + t["mlp_extractor.policy_net.0.bias"]
    )
    value = torch.tanh(shared @ t["mlp_extractor.value_net.0.weight"].T + t["mlp_extractor.value_net.0.bias"])
    actions = (policy @ t["action_net.weight"].T + t["action_net.bias"]).clamp(-2, 2)
    assert_allclose(AgentPolicy(SPEC, networks).act(obs.numpy()), actions.numpy(), atol=1e-5)
    assert networks.value is not None
    torch.testing.assert_close(networks.value(obs), value @ t["value_net.weight"].T + t["value_net.bias"])


def test_gsde_on_the_observation_itself() -> None:
    """`sde_net_arch=[]` of SB3 1.x: the noise is observation @ weights, weights ~ N(0, exp(log_std))."""
    t = _random(SHARED) | {"log_std": torch.full((3, 2), np.log(0.1))}
    actor = AgentPolicy(SPEC, build_networks(SPEC, t, None))
    obs = np.zeros((20_000, 3), np.float32)
    obs[:, 0] = 0.3
    spread = actor.act(obs, deterministic=False).std(0)
    clipped = np.abs(actor.act(obs[:1])[0]) == 2
    assert_allclose(spread[~clipped], np.sqrt(0.3**2 * 0.1**2 + 1e-6), rtol=0.05)


def test_each_environment_explores_by_itself() -> None:
    """A fifth of the actions is drawn, and half of these are the other one of two."""
    spec = replace(SPEC, algorithm="DQN", action_space=spaces.Discrete(2), exploration_rate=0.2)
    values = {"q_net.q_net.0.weight": torch.zeros(2, 3), "q_net.q_net.0.bias": torch.tensor([1.0, 0.0])}
    actor, obs = AgentPolicy(spec, build_networks(spec, values, None)), np.zeros((4_000, 3), np.float32)
    assert actor.act(obs, deterministic=False).mean() == pytest.approx(0.1, abs=0.02)
    assert not actor.act(obs).any()


@pytest.mark.parametrize(("log_std", "kept"), [(-10.0, -10.0), (5.0, 2.0)])
def test_sacs_deviation_is_clipped_as_in_sb3(log_std: float, kept: float) -> None:
    """The mean is 0 and actions are in [-1, 1], so that their median is tanh of 0.6745 deviations."""
    unit = spaces.Box(-1, 1, (1,), np.float64)
    spec = replace(SPEC, algorithm="SAC", action_space=unit, squash_output=True)
    values = {f"actor.{name}.weight": torch.zeros(1, 3) for name in ("mu", "log_std")}
    values |= {"actor.mu.bias": torch.zeros(1), "actor.log_std.bias": torch.tensor([log_std])}
    actor = AgentPolicy(spec, build_networks(spec, values, None))
    drawn = actor.act(np.zeros((20_000, 3), np.float32), deterministic=False)
    beyond = np.arctanh(np.median(np.abs(drawn))) / np.exp(kept)
    assert beyond == pytest.approx(0.6745, rel=0.05, abs=0)


def test_another_seed_draws_other_actions() -> None:
    spec = replace(SPEC, algorithm="PPO", action_space=spaces.Discrete(9))
    values = {"action_net.weight": torch.zeros(9, 3), "action_net.bias": torch.zeros(9)}
    values |= {"value_net.weight": torch.zeros(1, 3), "value_net.bias": torch.zeros(1)}
    actor, drawn = AgentPolicy(spec, build_networks(spec, values, None)), []
    for seed in (5, 6, 5):
        actor.seed(seed)
        drawn.append(actor.act(np.zeros((40, 3), np.float32), deterministic=False).tolist())
    assert drawn[0] == drawn[2] != drawn[1]
    # Each environment draws for itself.
    assert len(set(drawn[0])) == 9


def test_squashed_actions_stay_within_their_bounds() -> None:
    """SB3's formula, -0.5 + (1 + 1) * 0.3, is the float32 above 0.1."""
    arm = spaces.Box(-0.5, 0.1, (1,), np.float32)
    spec = replace(SPEC, algorithm="TD3", action_space=arm, squash_output=True)
    saturated = {"actor.mu.0.weight": torch.zeros(1, 3), "actor.mu.0.bias": torch.tensor([12.0])}
    actor = AgentPolicy(spec, build_networks(spec, saturated, None))
    assert_array_equal(actor.act(np.zeros((2, 3), np.float32)), [arm.high] * 2)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"lstm_actor.weight_ih_l0": (4, 3)}, "can't be rebuilt without its code"),
        ({"features_extractor.mine.weight": (3, 3)}, "can't be rebuilt without its code"),
        ({"mlp_extractor.policy_net.1.weight": (4,)}, "no plain MLP"),
        ({"mlp_extractor.shared_net.0.weight": (6, 9)}, "don't fit"),
        ({"action_net.weight": (3, 4), "action_net.bias": (3,)}, "too many or too few"),
        ({"value_net.weight": (1, 5, 1)}, "not a linear layer"),
        ({"action_net.bias": (1,)}, "not a linear layer"),
        ({"value_net.weight": (1, 9)}, "don't fit"),
        ({"value_net.weight": (2, 5), "value_net.bias": (2,)}, "don't fit"),
        ({"log_std": (3,)}, "don't fit"),
        ({"log_std": (4, 3)}, "don't fit"),
    ],
)
def test_what_does_not_fit_is_refused(shapes: dict[str, tuple[int, ...]], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        build_networks(SPEC, _random({**SHARED, **shapes}), None)


def test_a_number_that_no_float_holds_is_refused() -> None:
    with pytest.raises(InputError, match="where an array of numbers was expected"):
        make_spec("SAC", "SACPolicy", {"clip_mean": 10**400}, BOX, BOX)


def test_a_critic_of_other_actions_is_refused() -> None:
    shapes = {"actor.mu.0.weight": (2, 3), "actor.mu.0.bias": (2,), "critic.qf0.0.bias": (1,)}
    spec = replace(SPEC, algorithm="TD3", squash_output=True)
    build_networks(spec, _random(shapes | {"critic.qf0.0.weight": (1, 3 + 2)}), None)
    with pytest.raises(InputError, match="don't fit"):
        build_networks(spec, _random(shapes | {"critic.qf0.0.weight": (1, 3 + 3)}), None)


def test_a_missing_tensor_is_named() -> None:
    tensors = _random(SHARED)
    del tensors["action_net.weight"]
    with pytest.raises(InputError, match=r"lacks the tensor 'action_net\.weight'"):
        build_networks(SPEC, tensors, None)


def test_few_rows_in_numpy_and_many_in_torch_agree() -> None:
    forward = compiled(build_networks(SPEC, _random(SHARED), None).trunk)
    obs = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    parts = np.concatenate([forward(part) for part in np.split(obs, 100)])
    assert_allclose(parts, forward(obs), atol=1e-6)


@pytest.mark.parametrize("layer", [
    nn.Linear(3, 2, bias=False), nn.Tanh(), nn.ReLU(), nn.Hardtanh(-0.5, 0.7), Columns([2, ONE, ZERO, 0]),
    Normalise(Normalisation(np.array([1.0, 2, 3]), np.array([4.0, 9, 1e-9]), 1e-8, 0.6, False, 1.0, 10.0, 0.99)),
], ids=lambda layer: type(layer).__name__)  # fmt: skip
def test_a_layer_in_numpy_is_that_of_torch(layer: nn.Module) -> None:
    """Five rows go through NumPy; each layer does something to some of their numbers."""
    network = nn.Sequential(layer).requires_grad_(False)
    obs = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    assert_allclose(compiled(network)(obs), network(torch.from_numpy(obs)).numpy(), atol=1e-6)


def test_normalised_observations_are_clipped() -> None:
    """Deviations of 2/3 and 7/2 are clipped to 0.6, in NumPy and in torch."""
    mean, var = np.array([1.0, 2.0, 3.0]), np.array([9.0, 4.0, 1.0])
    statistics = Normalisation(mean, var, 1e-10, 0.6, False, 1.0, 10.0, 0.99)
    obs = np.array([[3.0, 1.0, 3.0], [0.0, 9.0, 3.0]], np.float32)
    wanted = [[0.6, -0.5, 0.0], [-1 / 3, 0.6, 0.0]]
    for rows in (1, 100):
        found = compiled(nn.Sequential(Normalise(statistics)))(np.repeat(obs, rows, 0))
        assert_allclose(found[[0, -1]], wanted, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 100])
def test_means_are_subtracted_in_float64(rows: int) -> None:
    """The float32 nearest to 1/3 is above it by 9.93e-9, a tenth of a deviation."""
    mean, var = np.array([1 / 3]), np.array([0.0])
    layer = Normalise(Normalisation(mean, var, 1e-14, 10.0, False, 1.0, 10.0, 0.99))
    obs = np.full((rows, 1), 1 / 3, np.float32)
    assert_allclose(compiled(nn.Sequential(layer))(obs), np.full((rows, 1), 0.0993), atol=1e-3)


def test_of_no_observations_there_are_no_values() -> None:
    """With six quantiles of two actions."""
    network = nn.Sequential(Flat(), nn.Linear(4, 12), MeanOverQuantiles(2))
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    forward = compiled(network)
    for count in (0, 1, 200):
        obs = np.ones((count, 2, 2), np.float32)
        assert_allclose(forward(obs), network(torch.from_numpy(obs)), atol=1e-6)
        assert forward(obs).shape == (count, 2)


@pytest.mark.parametrize(
    ("algorithm", "actions"),
    [("DQN", BOX), ("QRDQN", BOX), ("SAC", spaces.Discrete(2)), ("TD3", spaces.Discrete(2))],
)
def test_an_algorithm_that_can_not_have_these_actions_is_refused(
    algorithm: str, actions: spaces.Space[int]
) -> None:
    values = _random({"q_net.q_net.0.weight": (3, 3), "q_net.q_net.0.bias": (3,)})
    spec = PolicySpec(algorithm, BOX, actions, "Tanh", squash_output=False)
    with pytest.raises(InputError, match="can't have the stored action space"):
        agent_parts(spec, values, None, None)
