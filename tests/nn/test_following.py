"""Statistics that move under a network leave what it computes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.nn.following import first_layer, follow
from imitate.nn.normalize import RunningMoments
from imitate.nn.policy import ActorPolicy


def policy(shape: tuple[int, ...], *hidden: int) -> tuple[ActorPolicy, RunningMoments]:
    space = spaces.Box(-9, 9, shape, np.float32)
    made = ActorPolicy(space, spaces.Discrete(3), hidden=hidden, normalize_obs=True)
    assert made.encoder.moments is not None
    return made, made.encoder.moments


@pytest.mark.parametrize("hidden", [(8,), ()])
def test_the_network_computes_what_it_did_before_the_statistics_moved(hidden: tuple[int, ...]) -> None:
    net, moments = policy((2,), *hidden)
    generator = torch.Generator().manual_seed(0)
    follow(moments, torch.randn(50, 2, generator=generator), first_layer(net))
    obs = torch.randn(20, 2, generator=generator)
    before = net(net.encoder.prepare(obs)).logits
    follow(moments, 3.0 + 2.0 * torch.randn(200, 2, generator=generator), first_layer(net))
    assert (moments.mean > 2.0).all()
    torch.testing.assert_close(net(net.encoder.prepare(obs)).logits, before, rtol=1e-4, atol=1e-5)


def test_a_feature_that_was_constant_keeps_its_weights() -> None:
    """Scaled by the ratio of the deviations they would be ten thousand times as large."""
    net, moments = policy((1,), 4)
    weight, bias = first_layer(net)
    before = weight.detach().clone()
    follow(moments, torch.zeros(10, 1), (weight, bias))
    follow(moments, torch.tensor([[-5.0], [5.0]] * 50), (weight, bias))
    torch.testing.assert_close(weight.detach(), before)


def test_a_feature_that_became_constant_keeps_its_weights() -> None:
    """2 of 502 observations are off 0: the deviation falls to a sixteenth, below a tenth."""
    net, moments = policy((1,), 4)
    weight, bias = first_layer(net)
    before = weight.detach().clone()
    follow(moments, torch.tensor([[-5.0], [5.0]]), (weight, bias))
    follow(moments, torch.zeros(500, 1), (weight, bias))
    torch.testing.assert_close(weight.detach(), before)


def test_the_observations_may_be_single_numbers() -> None:
    net, moments = policy((), 4)
    follow(moments, torch.tensor([1.0, 3.0]), first_layer(net))
    assert moments.mean.tolist() == [2.0]
