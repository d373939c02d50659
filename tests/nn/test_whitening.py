"""Whitening against arithmetic by hand."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose

from imitate.nn.policy import ActorPolicy
from imitate.nn.whitening import Whitening, whitening


def test_whitening_makes_correlated_inputs_uncorrelated() -> None:
    """Correlation 0.9 is shrunk to 0.873; along (1, 1) and (1, -1) the variances are 1.873 and 0.127."""
    matrix = whitening(torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64))
    along, across = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
    assert_allclose(matrix @ along, along / 1.873**0.5)
    assert_allclose(matrix @ across, across / 0.127**0.5)


def vectors(**options: bool) -> ActorPolicy:
    torch.manual_seed(0)
    return ActorPolicy(spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2), **options)


def test_a_policy_that_was_folded_takes_inputs_that_are_not_whitened() -> None:
    policy, obs = vectors(normalize_obs=True), torch.randn(40, 3) @ torch.randn(3, 3)
    policy.encoder.observe(obs)
    whiten = Whitening.fit(policy.encoder, [obs[:30], obs[30:]])
    assert whiten is not None
    prepared = policy.encoder.prepare(obs)
    spread = torch.cov(whiten(prepared).T)
    assert (spread - spread.diag().diag()).abs().max() < 0.1 < torch.cov(prepared.T).triu(1).abs().max()
    wanted = policy(whiten(prepared)).logits
    whiten.fold(policy)
    assert_allclose(policy(prepared).logits.detach(), wanted.detach(), atol=1e-5)


def test_uncorrelated_inputs_stay_as_they_are_however_they_are_batched() -> None:
    policy = vectors(normalize_obs=True)
    signs = torch.tensor([[a, b, a * b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    obs = 5 + 2 * signs
    policy.encoder.observe(obs)
    for batches in ([obs], [obs[:3], obs[3:]]):
        whiten = Whitening.fit(policy.encoder, batches)
        assert whiten is not None
        assert_allclose(whiten.matrix, np.eye(3), atol=1e-4)


def test_inputs_that_are_not_standardised_are_not_whitened() -> None:
    assert Whitening.fit(vectors(normalize_obs=False).encoder, [torch.randn(5, 3)]) is None
