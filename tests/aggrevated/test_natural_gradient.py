"""The natural gradient against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from imitate.aggrevated.variants.learner import NaturalStudent
from imitate.aggrevated.variants.natural_gradient import NaturalGradient, conjugate_gradient, kl_divergence
from imitate.configs.variants import VariantConfig
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 1_000))
def test_conjugate_gradients_solve_symmetric_positive_systems(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    matrix = torch.from_numpy(root @ root.T + np.eye(size))
    b = torch.from_numpy(rng.standard_normal(size))
    solved = conjugate_gradient(lambda vector: matrix @ vector, b, 2 * size)
    np.testing.assert_allclose(matrix @ solved, b, atol=1e-6)


@pytest.mark.parametrize("squashed", [False, True])
def test_kl_divergence_is_that_of_torch(squashed: bool) -> None:
    mean, log_std = torch.tensor([[0.3, -1.0]]), torch.tensor([0.1, -0.7])
    other_mean, other_log_std = torch.tensor([[0.0, -0.5]]), torch.tensor([0.0, -0.2])
    ours = kl_divergence(Gaussian(mean, log_std, squashed), Gaussian(other_mean, other_log_std, squashed))
    theirs = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, log_std.exp()),
        torch.distributions.Normal(other_mean, other_log_std.exp()),
    )
    np.testing.assert_allclose(ours, theirs.sum(-1), rtol=1e-5)


def test_kl_divergence_of_categoricals() -> None:
    # 0.5 log(0.5 / 0.25) + 0.5 log(0.5 / 0.75) = 0.1438
    old, new = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert float(kl_divergence(Categorical(old), Categorical(new))) == pytest.approx(0.14384, abs=1e-5)


def test_a_students_step_keeps_its_deviation_within_the_limit() -> None:
    """The loss wants another deviation, and asks for nothing else."""
    config = VariantConfig(update="natural", kl_limit=0.01).completed(discrete=False)
    box = spaces.Box(-1, 1, (2,))
    with seeded(0):
        student = NaturalStudent(config, ActorPolicy(box, box, head="squashed", log_std_init=-1.0))
    obs = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    distribution = student.actor(obs)
    old = Gaussian(distribution.mean.detach().clone(), distribution.log_std.detach().clone(), squashed=True)
    student.descend(-distribution.log_std.sum() * 3.0, obs, 0.0)
    with torch.no_grad():
        assert float(kl_divergence(old, student.actor(obs)).mean()) == pytest.approx(0.01, rel=0.1)


class Bandit:
    """A Gaussian over one action: mean m and log standard deviation s, whose Fisher information is
    diag(1 / std^2, 2)."""

    def __init__(self, mean: float, std: float) -> None:
        self.mean = nn.Parameter(torch.tensor([[mean]]))
        self.log_std = nn.Parameter(torch.tensor([math.log(std)]))

    def distribution(self) -> Gaussian:
        return Gaussian(self.mean, self.log_std, squashed=False)

    def expected_loss(self, goal: float) -> Tensor:
        """E (a - goal)^2 = (m - goal)^2 + std^2"""
        return ((self.mean - goal).square() + (2 * self.log_std).exp()).sum()


def test_the_step_on_a_gaussian_bandit_is_the_closed_form() -> None:
    bandit, limit = Bandit(mean=1.0, std=0.5), 1e-4
    old = Gaussian(bandit.mean.detach().clone(), bandit.log_std.detach().clone(), squashed=False)
    optimizer = NaturalGradient([bandit.mean, bandit.log_std], limit, damping=0.0)
    taken = optimizer.step(
        bandit.expected_loss(goal=3.0), lambda: kl_divergence(old, bandit.distribution()).sum()
    )
    # Gradient: (2 (m - goal), 2 std^2) = (-4, 0.5). Natural: (std^2 * -4, 0.5 / 2) = (-1, 0.25).
    # Its length: g F^-1 g = 4 + 0.125, so the step is sqrt(2 limit / 4.125) of it.
    step = math.sqrt(2 * limit / 4.125)
    assert bandit.mean.item() == pytest.approx(1.0 + step, abs=1e-6)
    assert bandit.log_std.item() == pytest.approx(math.log(0.5) - 0.25 * step, abs=1e-6)
    assert taken == pytest.approx(limit, rel=0.02)  # the quadratic KL is nearly the true one


def test_it_does_not_depend_on_how_the_policy_is_parameterised() -> None:
    """The mean as 100 times a parameter: plain gradients would go 10,000 times as far."""
    plain, scaled = Bandit(1.0, 0.5), Bandit(1.0, 0.5)
    scaled.mean = nn.Parameter(torch.tensor([[0.01]]))
    means = []
    for bandit, factor in ((plain, 1.0), (scaled, 100.0)):

        def distribution(bandit: Bandit = bandit, factor: float = factor) -> Gaussian:
            return Gaussian(factor * bandit.mean, bandit.log_std, squashed=False)

        old = Gaussian(distribution().mean.detach(), bandit.log_std.detach().clone(), squashed=False)
        optimizer = NaturalGradient([bandit.mean], 1e-3, damping=0.0)
        loss = (factor * bandit.mean - 3.0).square().sum()
        optimizer.step(loss, lambda: kl_divergence(old, distribution()).sum())  # noqa: B023
        means.append(distribution().mean.item())
    assert means[0] == pytest.approx(means[1], abs=1e-5)
    assert means[0] == pytest.approx(1.0 + 0.5 * math.sqrt(2e-3), abs=1e-5)


def test_a_step_beyond_the_limit_is_halved_and_one_that_never_fits_is_not_taken() -> None:
    bandit = Bandit(0.0, 1.0)
    optimizer = NaturalGradient([bandit.mean], 0.01, damping=0.0)
    # Quadratic near 0, as the optimizer takes it to be, but very steep a bit further away.
    kl = lambda: (0.5 * bandit.mean**2 + 1e3 * bandit.mean**4).sum()  # noqa: E731
    assert 0 < optimizer.step(-bandit.mean.sum(), kl) <= 0.015
    bandit.mean.data.zero_()
    never = lambda: (0.5 * bandit.mean**2).sum() + 1.0  # noqa: E731
    assert optimizer.step(-bandit.mean.sum(), never) == 0.0
    assert bandit.mean.item() == 0.0
