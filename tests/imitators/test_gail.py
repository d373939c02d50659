"""GAIL: signs and rewards by hand, the absorbing state's arithmetic, and that it imitates, from the environment's own
reward it is never shown."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gail_settings import ENVS, IDENTITY, learner
from gymnasium import spaces
from handwritten import named
from torch import Tensor, nn

from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.imitators.absorbing import absorbed_share
from imitate.imitators.discriminator import Discriminator, bce, gradient_penalty, reward_of
from imitate.imitators.gail import GAIL, GAILConfig
from imitate.nn.state import load_state, save_state
from imitate.rl.rollout import Rollout
from imitate.training.experiment import Experiment


def test_the_discriminator_gives_the_probability_of_the_expert() -> None:
    sure = torch.tensor([100.0, -100.0])
    assert bce(sure, torch.tensor([1.0, 0.0])) < 1e-6  # the first is the expert's, the second the learner's
    assert bce(sure, torch.tensor([0.0, 1.0])) == pytest.approx(100)
    assert bce(torch.zeros(2), torch.tensor([1.0, 0.0])) == pytest.approx(math.log(2))


def test_rewards_by_hand() -> None:
    logits = torch.tensor([0.0, math.log(3)])  # D = 1/2 and 3/4
    wanted = {
        "positive": [math.log(2), math.log(4)],  # -log(1 - D)
        "negative": [-math.log(2), math.log(3 / 4)],  # log D
        "logit": [0, math.log(3)],
        "plus_one": [1, 1],
        "minus_one": [-1, -1],
    }
    for form, rewards in wanted.items():
        np.testing.assert_allclose(reward_of(logits, form), rewards, rtol=1e-6)  # type: ignore[arg-type]
    large = torch.tensor([-1e4, 1e4])
    assert torch.isfinite(reward_of(large, "positive")).all()
    assert torch.isfinite(reward_of(large, "negative")).all()


def test_a_round_of_the_discriminator_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of logits that are all 1 half are right: cross-entropy (log(1 + 1/e) + log(1 + e)) / 2, and 0.1 times 16."""
    gail, losses = (
        learner(DemoReader(named(tmp_path / "demos.h5", ENVS["continuous"], 5)), gradient_penalty=0.1),
        [],
    )
    monkeypatch.setattr("imitate.imitators.gail.gradient_penalty", lambda *_: torch.tensor(16.0))
    gail.discriminator.forward = lambda obs, _actions: torch.ones(len(obs))  # type: ignore[method-assign]
    gail.optimizer.step = lambda loss: losses.append(float(loss))  # type: ignore[method-assign]
    metrics = gail.step()
    assert (metrics["expert_accuracy"], metrics["learner_accuracy"]) == (1.0, 0.0)
    assert losses == [pytest.approx((math.log(1 + 1 / math.e) + math.log(1 + math.e)) / 2 + 1.6)] * len(
        losses
    )
    assert losses


def test_the_noise_on_pixels_is_a_share_of_their_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gail = learner(DemoReader(named(tmp_path / "demos.h5", ENVS["discrete"], 5)), input_noise=0.2)
    assert float(gail._noisy(torch.zeros(64, 36)).std()) == pytest.approx(0.2, rel=0.1)
    monkeypatch.setattr(gail.discriminator.encoder, "is_image", True)
    assert float(gail._noisy(torch.zeros(64, 4, 36, 36)).std()) == pytest.approx(51.0, rel=0.01)


class Linear(nn.Module):
    def __init__(self, *weights: float) -> None:
        super().__init__()
        self.weights = torch.tensor(weights)

    def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
        return torch.cat([obs, actions], -1) @ self.weights


def test_the_gradient_penalty_wants_gradients_of_norm_one() -> None:
    generator = torch.Generator().manual_seed(0)
    expert = torch.randn(5, 1, generator=generator), torch.randn(5, 1, generator=generator)
    ours = torch.randn(5, 1, generator=generator), torch.randn(5, 1, generator=generator)
    mix = torch.rand(5, generator=generator)
    assert gradient_penalty(Linear(0.6, 0.8), expert, ours, mix) == pytest.approx(0, abs=1e-10)
    assert gradient_penalty(Linear(3.0, 4.0), expert, ours, mix) == pytest.approx((5 - 1) ** 2)


def test_the_gradient_is_taken_between_the_pairs() -> None:
    """x^2 / 2 has the slope x: 2.5 between 3 and 1, three quarters of the way to the expert."""

    class Squares(nn.Module):
        def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
            return obs.square().sum(-1) / 2 + 0 * actions.sum(-1)

    expert, ours = ((torch.full((1, 1), x), torch.zeros(1, 1)) for x in (3.0, 1.0))
    penalty = gradient_penalty(Squares(), expert, ours, torch.tensor([0.75])).detach()
    assert float(penalty) == pytest.approx(1.5**2)


def test_the_gradient_penalty_counts_pixels_from_0_to_1() -> None:
    """A slope of 1 for a brightness from 0 to 1 is 1/255 for the bytes that are stored."""
    pixels, actions = torch.rand(5, 1, 2, 2), torch.zeros(5, 1)

    class Bright(nn.Module):
        def forward(self, obs: Tensor, actions: Tensor) -> Tensor:
            return obs[:, 0, 0, 0] / 255 + 0 * actions[:, 0]

    pairs, mix = (pixels, actions), torch.rand(5)
    assert gradient_penalty(Bright(), pairs, pairs, mix, units=(255.0, 1.0)) == pytest.approx(0, abs=1e-10)


def test_spectral_norm_bounds_the_slope() -> None:
    space = spaces.Box(-1, 1, (3,), np.float32)
    torch.manual_seed(0)
    discriminator = Discriminator(space, space, GAILConfig(spectral_norm=True, activation="relu"))
    for _ in range(50):  # its power iteration takes a few steps
        discriminator(torch.zeros(1, 3), torch.zeros(1, 3))
    a, b = torch.randn(2, 100, 3)
    slopes = (discriminator(a, a) - discriminator(b, b)).abs() / (2**0.5 * (a - b).norm(dim=1))
    assert slopes.max() <= 1 + 1e-3


def test_time_in_the_absorbing_state() -> None:
    assert absorbed_share(9, 1, gamma=0.9) == pytest.approx(0.5)  # .9 + .81 + ... = 9 steps' worth
    assert absorbed_share(100, 0, gamma=0.9) == 0.01  # none was seen: not taken for impossible
    assert absorbed_share(1, 1_000, gamma=0.9) == 0.99


@pytest.fixture
def terminated(tmp_path: Path) -> DemoReader:
    path = named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 1, terminated=True)
    return DemoReader(path)


def rollout(steps: int, *, terminated: bool) -> Rollout:
    end = np.zeros((steps, 1), bool)
    end[-1] = True
    obs = np.linspace(-1, 1, steps, dtype=np.float32)[:, None, None]
    return Rollout(
        obs=obs,
        actions=np.zeros((steps, 1, 1), np.float32),
        rewards=np.ones((steps, 1), np.float32),
        terminated=end & terminated,
        truncated=end & (not terminated),
        ends=np.array([[steps - 1, 0]]),
        end_obs=obs[-1],
        last_obs=obs[-1],
    )


class Spy:
    """In the place of PPO: gives a rollout, keeps what it is handed back."""

    def __init__(self, gail: GAIL, given: Rollout) -> None:
        self.policy, self.given = gail.policy, given
        self.env_steps, self.least_steps = 0, 1

    def collect(self, limit: int | None) -> Rollout:  # noqa: ARG002
        return self.given

    def update(self, rollout: Rollout, progress: float) -> dict[str, float]:  # noqa: ARG002
        self.handed = rollout
        return {}

    def pop_episodes(self) -> dict[str, float]:
        return {}


def relabelled(gail: GAIL, given: Rollout) -> Array:
    spy = Spy(gail, given)
    gail.learner = spy  # type: ignore[assignment]
    gail.step()
    for name in ("obs", "actions", "terminated", "truncated", "ends", "end_obs", "last_obs"):
        assert getattr(spy.handed, name) is getattr(given, name)  # only rewards are another's
    assert (given.rewards == 1).all()
    return spy.handed.rewards[:, 0]


def test_a_termination_is_worth_the_absorbing_state_for_good(terminated: DemoReader) -> None:
    gail = learner(terminated, ppo={"gamma": 0.9}, reward="plus_one")
    assert gail.expert_share == pytest.approx(9 / (10 + 9))
    # 1 a step, and 1 + .9 + .81 + ... = 10 for good, of which the first is a step away: 9
    np.testing.assert_allclose(relabelled(gail, rollout(3, terminated=True)), [1, 1, 10])
    np.testing.assert_allclose(relabelled(gail, rollout(3, terminated=False)), [1, 1, 1])  # a time limit
    gail = learner(terminated, ppo={"gamma": 0.9}, reward="plus_one", absorbing=False)
    np.testing.assert_allclose(relabelled(gail, rollout(3, terminated=True)), [1, 1, 1])


def test_the_clock_forgets_slowly(terminated: DemoReader) -> None:
    """It counts steps and ends, of which 1,000 steps leave nine tenths."""
    gail = learner(terminated, ppo={"gamma": 0.9}, reward="plus_one")
    for steps, ends in ((3, True), (1_000, False)):
        relabelled(gail, rollout(steps, terminated=ends))
    assert gail.clock.tolist() == pytest.approx([3 * 0.9 + 1_000, 0.9])


def test_a_learner_that_terminates_sooner_than_the_expert_is_paid_less(terminated: DemoReader) -> None:
    gail = learner(terminated, ppo={"gamma": 0.9}, reward="logit", learning_rate=0.0)
    gail.discriminator.output.requires_grad_(False).weight.zero_()
    gail.discriminator.output.bias.zero_()  # the pairs themselves tell nothing
    rewards = relabelled(gail, rollout(3, terminated=True))
    # Absorbed are 9 / (10 + 9) of the expert's time and 9 / (3 + 9) of the learner's.
    alive, absorbed = math.log((10 / 19) / (3 / 12)), math.log((9 / 19) / (9 / 12))
    np.testing.assert_allclose(rewards, [alive, alive, alive + 9 * absorbed], rtol=1e-5)
    gail = learner(terminated, ppo={"gamma": 0.9}, reward="logit", learning_rate=0.0)
    gail.discriminator.output.requires_grad_(False).weight.zero_()
    gail.discriminator.output.bias.zero_()
    rewards = relabelled(gail, rollout(10, terminated=True))  # as the expert: nothing to gain either way
    np.testing.assert_allclose(rewards, 0, atol=1e-6)


SPECTRAL = {"spectral_norm": True, "activation": "relu"}


@pytest.mark.parametrize(
    ("env", "steps", "settings"),
    [
        ("discrete", 4_000, {"ppo": IDENTITY}),
        pytest.param(
            *("discrete", 4_000, {"ppo": IDENTITY, "reward": "negative"} | SPECTRAL), marks=pytest.mark.slow
        ),
        ("discrete", 4_000, {"learner": "reinforce", "reinforce": {"gamma": 0.5}}),
        (
            "discrete",
            4_000,
            {"learner": "a2c", "a2c": {"gamma": 0.5, "num_steps": 16, "learning_rate": 5e-3}},
        ),
        pytest.param(
            *("continuous", 12_000, {"ppo": IDENTITY, "gradient_penalty": 0.1}), marks=pytest.mark.slow
        ),
        pytest.param("continuous", 6_000, {"ppo": IDENTITY, "input_noise": 0.2}, marks=pytest.mark.slow),
        pytest.param(
            *("continuous", 8_000, {"ppo": IDENTITY | {"log_std_init": -0.5}, "reward": "logit"}),
            marks=pytest.mark.slow,
        ),
        ("continuous", 6_000, {"ppo": IDENTITY | {"rpo_alpha": 0.1, "log_std_init": -0.5}} | SPECTRAL),
    ],
)
def test_it_imitates(tmp_path: Path, env: str, steps: int, settings: dict[str, Any]) -> None:
    with DemoReader(named(tmp_path / "demos.h5", ENVS[env])) as demos:
        gail = learner(demos, total_steps=steps, **settings)
        while gail.env_steps < steps:
            metrics = gail.step()
    assert all(map(math.isfinite, metrics.values()))
    mean = evaluate(gail.policy, ENVS[env], episodes=20).mean
    assert mean == 10 if env == "discrete" else mean > -0.3  # random actions: 3.3 and -17


def test_pixels() -> None:
    space, actions = spaces.Box(0, 255, (4, 36, 36), np.uint8), spaces.Discrete(3)
    config = GAILConfig(gradient_penalty=1.0)
    discriminator = Discriminator(space, actions, config)
    obs = torch.randint(256, (5, 4, 36, 36), dtype=torch.uint8)
    pairs = discriminator.prepare(obs, torch.tensor([0, 1, 2, 0, 1]))
    assert discriminator(*pairs).shape == (5,)
    halves = pairs[0].float(), pairs[1]
    assert gradient_penalty(discriminator, halves, halves, torch.rand(5)).isfinite()


def test_demo_pairs_are_drawn_by_the_seed(tmp_path: Path) -> None:
    with DemoReader(named(tmp_path / "demos.h5", "Identity-v0", 2)) as demos:
        first, again = (learner(demos, demo_pairs=5).demos.transitions() for _ in range(2))
        assert len(first.obs) == 5
        assert torch.equal(first.obs, again.obs)
        assert torch.equal(first.labels, again.labels)
        with pytest.raises(InputError, match="21 pairs were asked for, the demonstrations have 20"):
            learner(demos, demo_pairs=21)


def test_settings_that_can_not_be_used_are_named() -> None:
    with pytest.raises(InputError, match="gamma 1"):
        GAILConfig(ppo={"gamma": 1.0})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has no hyperparameter 'rewards'; did you mean 'reward'"):
        Experiment.create("gail", "CartPole-v1", demos="x", hyperparameters={"rewards": "logit"})
    with pytest.raises(InputError, match="has no hyperparameter 'gama'; did you mean 'gamma'"):
        Experiment.create("gail", "CartPole-v1", demos="x", hyperparameters={"ppo": {"gama": 0.9}})


def test_the_learners_settings_come_one_by_one_over_the_presets() -> None:
    run = Experiment.create("gail", "CartPole-v1", demos="x", hyperparameters={"ppo": {"num_epochs": 3}})
    plain = Experiment.create("gail", "CartPole-v1", demos="x")
    assert run.hyperparameters["ppo"] == plain.hyperparameters["ppo"] | {"num_epochs": 3}
    assert GAILConfig(total_steps=7, ppo={"total_steps": 9}).learner_config.total_steps == 7  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"ppo": IDENTITY},
        {"ppo": IDENTITY, "bc_updates": 20, "demo_pairs": 50},
        {"learner": "a2c", "updates_per_round": 1},
        {"learner": "reinforce", "demo_pairs": 7, "spectral_norm": True},
    ],
)
def test_a_checkpoint_goes_on_in_the_same_bytes(tmp_path: Path, settings: dict[str, Any]) -> None:
    with DemoReader(named(tmp_path / "demos.h5", "Identity-v0")) as demos:
        whole, resumed = learner(demos, **settings), learner(demos, **settings)
        for file in ("first", "second"):  # the second shows that episodes are not those of the first again
            whole.step()
            save_state(tmp_path / file, whole.state_dict())
            whole.load_state_dict(load_state(tmp_path / file))
        resumed.load_state_dict(load_state(tmp_path / "second"))
        assert whole.step() == resumed.step()
    for a, b in zip(whole.policy.state_dict().values(), resumed.policy.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_rollouts_differ_after_every_checkpoint(tmp_path: Path) -> None:
    with DemoReader(named(tmp_path / "demos.h5", "Identity-v0")) as demos:
        for name in ("ppo", "a2c", "reinforce"):
            gail = learner(demos, learner=name, updates_per_round=1)
            begun = []
            for _ in range(2):
                gail.step()
                gail.load_state_dict(gail.state_dict())
                begun.append(gail.learner.collect().obs[0])
            assert not np.array_equal(*begun)
