"""The encoder of observations of several parts, and actions of several parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from structured import Told

from imitate.datasets.trajectory import tensor_of
from imitate.envs.fields import as_fields, in_rows
from imitate.nn.distributions import Categorical, Choices
from imitate.nn.fields import FieldEncoder
from imitate.nn.following import first_layer, follow
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy


def rows(count: int, picture: bool = False) -> Any:
    env = Told(picture=picture)
    space = as_fields(env.observation_space)
    return space, np.stack([in_rows(space, env.reset(seed=seed)[0]) for seed in range(count)])


def test_numbers_are_one_hot_scaled_or_as_they_are() -> None:
    space = as_fields(
        spaces.Dict(
            a=spaces.MultiDiscrete([2, 3], start=[0, 7]),
            b=spaces.Box(0, 255, (2,), np.uint8),
            c=spaces.Box(-1.0, 1.0, (), np.float64),
            d=spaces.MultiBinary(2),
            e=spaces.Discrete(2, start=4),
        )
    )
    obs = {"a": [1, 7], "b": [51, 255], "c": 0.25, "d": [0, 1], "e": 5}
    encoder = FieldEncoder(space, (), "tanh", normalize=False)
    numbers = encoder.numbers(tensor_of(in_rows(space, obs)[None]))
    wanted = [0, 1, 1, 0, 0, 0.2, 1, 0.25, 0, 1, 0, 1]
    torch.testing.assert_close(numbers, torch.tensor([wanted]))
    assert encoder.features == len(wanted)


def test_small_images_are_numbers_and_larger_ones_have_a_network_each() -> None:
    image = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    small = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    stack = spaces.Box(0, 255, (4, 36, 36), np.uint8)
    encoder = FieldEncoder(as_fields(spaces.Dict(a=image, b=small, c=stack)), (7,), "relu", normalize=True)
    assert len(encoder.cnns) == 2
    assert encoder.moments is not None
    assert encoder.moments.mean.shape == (8 * 8 * 3,)
    assert encoder.join[0].in_features == 7 + 2 * 512
    obs = torch.randint(0, 256, (5, 36 * 40 * 3 + 192 + 4 * 36 * 36), dtype=torch.uint8)
    assert encoder(encoder.prepare(obs)).shape == (5, 7)


def test_images_alone_and_no_hidden_layers_will_do() -> None:
    space = as_fields(spaces.Dict(a=spaces.Box(0, 255, (3, 36, 36), np.uint8)))
    obs = torch.zeros((2, 3 * 36 * 36), dtype=torch.uint8)
    for hidden in ((), (7,)):
        encoder = FieldEncoder(space, hidden, "relu", normalize=True)
        assert encoder(obs).shape == (2, encoder.features)


def test_every_part_matters() -> None:
    space, obs = rows(2, picture=True)
    with seeded(0):
        encoder = FieldEncoder(space, (16,), "tanh", normalize=True)
    for name in space.dtype.names:
        other = obs[:1].copy()
        other[name] = 2 + obs[name][:1]
        assert not torch.equal(encoder(tensor_of(other)), encoder(tensor_of(obs[:1]))), name


def test_one_row_is_encoded_as_in_a_batch() -> None:
    """Bytes of one row that don't begin at a multiple of 8 must be copied before they are viewed as numbers."""
    space, obs = rows(9)
    policy = ActorPolicy(space, spaces.MultiDiscrete([3, 3], start=[5, 0]))
    together = policy.act(obs)
    assert [policy.act(obs[n]).tolist() for n in range(9)] == together.tolist()
    env = Told()
    assert policy.act(env.reset(seed=4)[0]).tolist() == together[4].tolist()  # a dict as Gymnasium has it


@pytest.mark.parametrize("hidden", [(16,), ()])
def test_statistics_follow_new_data_without_a_change_of_outputs(hidden: tuple[int, ...]) -> None:
    space, obs = rows(40, picture=True)
    with seeded(0):
        policy = ActorPolicy(space, spaces.Discrete(2), hidden=hidden, normalize_obs=True)
    encoder, rows_ = policy.encoder, tensor_of(obs)
    assert encoder.moments is not None
    follow(encoder.moments, encoder.numbers(rows_[:20]), first_layer(policy))
    before, mean = policy(rows_).logits, encoder.moments.mean.clone()
    follow(encoder.moments, encoder.numbers(rows_[20:]), first_layer(policy))
    assert not torch.equal(encoder.moments.mean, mean)
    torch.testing.assert_close(policy(rows_).logits, before, atol=1e-5, rtol=0)


def test_choices_are_independent_categoricals() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0, 0.0], [1.0, 0.0, 0.0, 1.0, 5.0]])
    choices, parts = Choices(logits, (2, 3)), (Categorical(logits[:, :2]), Categorical(logits[:, 2:]))
    assert choices.mode().tolist() == [[1, 1], [0, 2]]
    actions = torch.tensor([[0, 2], [1, 1]])
    each = [part.log_prob(actions[:, n]) for n, part in enumerate(parts)]
    torch.testing.assert_close(choices.log_prob(actions), each[0] + each[1])
    torch.testing.assert_close(choices.entropy(), parts[0].entropy() + parts[1].entropy())
    many = Choices(logits[:1].expand(20_000, 5), (2, 3)).sample(torch.Generator().manual_seed(0))
    assert many.shape == (20_000, 2)
    joint = ((many[:, 0] == 1) & (many[:, 1] == 1)).float().mean()
    p = parts[0].logits.softmax(1)[0, 1] * parts[1].logits.softmax(1)[0, 1]
    assert abs(float(joint - p)) < 0.015


def test_a_policy_of_several_parts_describes_itself() -> None:
    space, obs = rows(5)
    policy = ActorPolicy(space, spaces.MultiBinary(3), hidden=(8,), normalize_obs=True)
    again = ActorPolicy.from_description(policy.describe())
    again.load_state_dict(policy.state_dict())
    assert again.act(obs).tolist() == policy.act(obs).tolist()
    assert policy.act(obs).dtype == np.int8
    assert policy.to_unit(policy.to_env(torch.tensor([[0, 1, 1]]))).tolist() == [[0, 1, 1]]
