"""AggreVaTeD's gradients, targets and normalisations against arithmetic by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.gate import Gate
from imitate.aggrevated.gradients import exact_loss, line_search, target, target_actions
from imitate.aggrevated.variants.estimators import score_loss
from imitate.aggrevated.variants.executed import clipped_ratio_loss
from imitate.aggrevated.variants.scene import normalised
from imitate.imitators.cloning import new_policy
from imitate.imitators.dagger import DAggerConfig
from imitate.nn.distributions import Categorical, Gaussian


def test_exact_and_score_function_gradients_agree_in_expectation() -> None:
    logits, q = torch.tensor([[0.2, -0.5, 1.0]], requires_grad=True), torch.tensor([[1.0, 3.0, -2.0]])
    (exact,) = torch.autograd.grad(exact_loss(logits, q).sum(), logits)
    probs = logits.detach().softmax(-1)
    # d/d logit_a of -sum pi Q is -pi_a (Q_a - sum pi Q)
    np.testing.assert_allclose(exact, -probs * (q - (probs * q).sum()), rtol=1e-5)
    distribution, generator = Categorical(logits.expand(40_000, 3)), torch.Generator().manual_seed(0)
    samples = [distribution.sample(generator) for _ in range(4)]
    values = torch.stack([q[0, sample] for sample in samples])  # (k, B)
    others = (values.sum(0) - values) / 3
    loss = score_loss(torch.stack([distribution.log_prob(s) for s in samples]), values - others).mean()
    (score,) = torch.autograd.grad(loss, logits)
    np.testing.assert_allclose(score, exact, atol=0.02)


def test_executed_actions_give_that_gradient_too_while_the_policy_is_the_one_that_acted() -> None:
    logits, q = torch.tensor([[0.2, -0.5, 1.0]], requires_grad=True), torch.tensor([[1.0, 3.0, -2.0]])
    (exact,) = torch.autograd.grad(exact_loss(logits, q).sum(), logits)
    distribution = Categorical(logits.expand(200_000, 3))
    executed = distribution.sample(torch.Generator().manual_seed(0))
    log_probs = distribution.log_prob(executed)
    (gradient,) = torch.autograd.grad(
        clipped_ratio_loss(log_probs, log_probs.detach(), q[0, executed]).mean(), logits
    )
    np.testing.assert_allclose(gradient, exact, atol=0.02)


def test_reparameterised_and_score_function_gradients_agree_in_expectation() -> None:
    """For -E (a - 2)^2 of a Gaussian: d/d mean = 2 (mean - 2), d/d log std = 2 std^2, both of the loss."""
    mean, log_std = (
        torch.tensor([[0.5]], requires_grad=True),
        torch.tensor([math.log(0.8)], requires_grad=True),
    )
    distribution = Gaussian(mean.expand(100_000, 1), log_std, squashed=False)
    generator = torch.Generator().manual_seed(0)
    loss = (distribution.sample(generator) - 2.0).square().sum(-1).mean()
    reparameterised = torch.autograd.grad(loss, (mean, log_std))
    with torch.no_grad():
        samples = [distribution.sample(generator) for _ in range(4)]
    values = torch.stack([-(sample - 2.0).square().sum(-1) for sample in samples])
    others = (values.sum(0) - values) / 3
    loss = score_loss(torch.stack([distribution.log_prob(s) for s in samples]), values - others).mean()
    score = torch.autograd.grad(loss, (mean, log_std))
    for gradients in (reparameterised, score):
        assert gradients[0].item() == pytest.approx(-3.0, abs=0.05)
        assert gradients[1].item() == pytest.approx(1.28, abs=0.05)


def test_targets_by_hand() -> None:
    expert = torch.tensor([[0.0, 0.0], [0.9, 0.0]])
    gradients = torch.tensor([[[0.2, 0.1], [3.0, 1.0]], [[0.4, -0.1], [3.0, 1.0]]])  # two critics
    # First state: they agree on the first dimension only; 2 / (2 * 1) * 0.3 = 0.3, shorter than 0.5.
    # Second: (3, 1) has the length sqrt(10 / 2) = 2.236; to 0.5 it is (0.671, 0.224); 0.9 + 0.671 ends at the bound.
    targets = target_actions(expert, gradients, beta=1.0, delta=0.5)
    np.testing.assert_allclose(targets, [[0.3, 0.0], [1.0, 0.2236]], atol=1e-4)
    np.testing.assert_allclose(target_actions(expert, gradients, beta=1.0, delta=0.0), expert)


def test_line_search_stops_where_the_critic_rates_the_action_highest() -> None:
    """The value falls with the distance from the observation: 0.1, 0.3, 0.9, -1 on the way from 0 to 1."""
    obs, start = torch.tensor([[0.1], [0.3], [0.9], [-1.0]]), torch.zeros(4, 1)
    found = line_search(lambda obs, actions: -(actions - obs).abs().sum(-1), obs, start, start + 1.0)
    np.testing.assert_array_equal(found, [[0.0], [0.25], [1.0], [0.0]])


class Peak:
    """Worth most 0.1 above the observation."""

    gamma, reward_scale, greedy = 0.0, 1.0, False

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return -(actions - obs - 0.1).square().sum(-1).reshape(1, -1)


@pytest.mark.parametrize(("search", "wanted"), [(False, 0.5), (True, 0.125)])
def test_the_line_search_keeps_a_target_from_passing_the_peak(search: bool, wanted: float) -> None:
    """The learner acts at -0.8, where the gradient is steep; from the expert's 0 the clipped step is 0.5 long."""
    box = spaces.Box(-1, 1, (1,))
    actor = new_policy(DAggerConfig(), box, box, seed=0)
    distribution = Gaussian(torch.full((3, 1), math.atanh(-0.8)), torch.tensor([-9.0]), squashed=True)
    gate, zeros = Gate(torch.ones(1), 1.0, True), torch.zeros(3, 1)
    targets = target(
        Peak(), gate, actor, distribution, zeros, zeros,  # type: ignore[arg-type]
        beta=1.0, delta=0.5, search=search, generator=torch.Generator(),
    )  # fmt: skip
    np.testing.assert_allclose(targets, np.full((3, 1), wanted), atol=1e-6)


def test_normalisations_by_hand() -> None:
    q, baseline = torch.tensor([[1.0, 3.0], [5.0, 7.0]]), torch.tensor([[2.0], [6.0]])
    expected = {
        "none": [[1, 3], [5, 7]],
        "minmax": [[0, 1 / 3], [2 / 3, 1]],
        "standardise": [[-3 / 5**0.5, -1 / 5**0.5], [1 / 5**0.5, 3 / 5**0.5]],
        "baseline": [[-1, 1], [-1, 1]],
        "gap": [[-0.25, 0.25], [-0.25, 0.25]],
    }
    for how, values in expected.items():
        np.testing.assert_allclose(normalised(q, baseline, 4.0, how), values, rtol=1e-5)


def test_ratios_are_clipped_where_they_would_gain() -> None:
    """PPO's loss: a gain counts to a ratio of 1.2 or 0.8, a loss in full."""
    ratios, advantages = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    found = clipped_ratio_loss(ratios.log(), torch.zeros(4), advantages)
    assert found.tolist() == pytest.approx([-1.2, 1.5, -0.5, 0.8])
