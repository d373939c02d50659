"""Statistics that move under a network leave what it computes."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces

from imitate.nn.following import first_layer, follow
from imitate.nn.networks import Encoder


def test_the_network_computes_what_it_did_before_the_statistics_moved() -> None:
    encoder = Encoder(spaces.Box(-9, 9, (2,), np.float32), (8,), "tanh", normalize=True)
    assert encoder.moments is not None
    generator = torch.Generator().manual_seed(0)
    follow(encoder.moments, torch.randn(50, 2, generator=generator), *first_layer(encoder))
    obs = torch.randn(20, 2, generator=generator)
    before = encoder(encoder.prepare(obs))
    follow(encoder.moments, 3.0 + 2.0 * torch.randn(200, 2, generator=generator), *first_layer(encoder))
    assert (encoder.moments.mean > 2.0).all()
    torch.testing.assert_close(encoder(encoder.prepare(obs)), before, rtol=1e-4, atol=1e-5)


def test_a_feature_that_was_constant_keeps_its_weights() -> None:
    """Scaled by the ratio of the deviations they would be ten thousand times as large."""
    encoder = Encoder(spaces.Box(-9, 9, (1,), np.float32), (4,), "tanh", normalize=True)
    assert encoder.moments is not None
    ((weight, _),) = first_layer(encoder)
    before = weight.detach().clone()
    follow(encoder.moments, torch.zeros(10, 1), (weight, _))
    follow(encoder.moments, torch.tensor([[-5.0], [5.0]] * 50), (weight, _))
    torch.testing.assert_close(weight.detach(), before)


def test_the_observations_may_be_single_numbers() -> None:
    encoder = Encoder(spaces.Box(-9, 9, (), np.float32), (4,), "tanh", normalize=True)
    assert encoder.moments is not None
    follow(encoder.moments, torch.tensor([1.0, 3.0]), *first_layer(encoder))
    assert encoder.moments.mean.tolist() == [2.0]
