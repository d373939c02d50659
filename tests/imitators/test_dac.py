"""DAC: its losses and rewards by hand, and that it imitates, from rewards it is never shown."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from handwritten import named
from tiny import record
from torch import Tensor

from imitate.cli import main
from imitate.configs.dac import DACConfig
from imitate.configs.gaifo import GAIfOConfig
from imitate.configs.iq import IQConfig
from imitate.configs.sqil import SQILConfig
from imitate.datasets.evaluation import evaluate
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.absorbing import absorbed_share
from imitate.imitators.dac import DAC, PairNet, zero_centred_penalty
from imitate.imitators.gaifo import GAIfO
from imitate.imitators.gail import GAIL, GAILConfig
from imitate.imitators.iq import IQ
from imitate.imitators.sqil import SQIL
from imitate.nn.stored_policy import load_policy

SMALL: dict[str, Any] = {
    "total_steps": 1_000, "learning_starts": 100, "hidden": (32, 32), "batch_size": 64, "replay_size": 10_000,
    "rounds_per_iteration": 8, "learning_rate": 3e-3, "discriminator_learning_rate": 3e-3,
}  # fmt: skip
ENV = "ContinuousIdentity-v0"


def learner_of(folder: Path, *, terminated: bool = False, **settings: Any) -> DAC:
    path = folder / "demos.h5"
    demos = DemoReader(path if path.exists() else named(path, ENV, 5, terminated=terminated))
    return DAC(
        DACConfig(**SMALL | settings), envs=SyncVecEnv([lambda: make_env(ENV)] * 2), demos=demos, seed=3
    )


def filled(learner: DAC) -> DAC:
    while not learner.ready:
        learner.replay.add(learner.collect())
    return learner


def test_the_penalty_is_the_squared_slope() -> None:
    points = torch.randn(5, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert float(zero_centred_penalty(points @ torch.tensor([3.0, 4.0]), points)) == pytest.approx(25.0)


def test_dropping_keeps_the_mean_and_is_off_by_default() -> None:
    net = PairNet(spaces.Box(-9, 9, (2,)), 1, DACConfig(discriminator_dropout=0.5, input_dropout=0.0))
    pair = net.prepare({"obs": torch.zeros(1, 2), "actions": torch.ones(1, 1)})
    kept = net.kept("kept", 20_000, torch.Generator().manual_seed(0))
    assert kept.keys() == {"kept_1"}  # no inputs are dropped
    logits = net(pair.expand(20_000, -1), [None, kept["kept_1"]])
    assert logits.std() > 0.01
    assert float(logits.mean().detach()) == pytest.approx(float(net(pair).detach()), abs=0.02)


def test_rewards_and_the_absorbing_state_by_hand(tmp_path: Path) -> None:
    """The expert's 5 episodes are terminated, no step of the learner is."""
    learner = filled(learner_of(tmp_path, terminated=True, gamma=0.9))
    expert = absorbed_share(50, 5, 0.9)
    assert learner.expert_share == expert == pytest.approx(45 / 95)
    alive, absorbed = learner.ends()
    learners = absorbed_share(len(learner.replay), 0, 0.9)
    assert alive == pytest.approx(math.log((1 - expert) / (1 - learners)))
    assert absorbed == pytest.approx(9 * math.log(expert / learners), rel=1e-5)
    (batch,) = learner.batches(1)
    learner.discriminator.forward = lambda pairs, _kept=(): pairs[:, 0] * 0 + 2.0  # type: ignore[method-assign]
    ends = {"alive": torch.tensor(alive), "absorbed": torch.tensor(absorbed)}
    rewards = learner.rewards(batch | ends)
    ended = batch["discounts"] == 0
    assert ended[:32].any()
    torch.testing.assert_close(rewards, 2.0 + alive + ended * absorbed)


def test_half_of_a_batch_are_the_experts_and_no_reward_of_the_environment_is_used(tmp_path: Path) -> None:
    learner = filled(learner_of(tmp_path, updates_per_step=0.25, mix_demos=False))
    learner.replay.rewards[:] = 1e9
    batches: list[dict[str, Tensor]] = []
    update = learner.update
    learner.update = lambda batch: (batches.append(batch), update(batch))[1]  # type: ignore[method-assign]
    learner.step()
    assert {len(batch["returns"]) for batch in batches} == {32}
    assert max(float(batch["returns"].abs().max()) for batch in batches) < 100


def test_without_the_demonstrations_sac_learns_from_its_own_steps(tmp_path: Path) -> None:
    learner = filled(learner_of(tmp_path, mix_demos=False))
    learner.replay.add(learner.collect())
    learner.replay.actions[:], learner.demos.actions[:] = 0.25, 0.75
    seen: list[Tensor] = []
    update = learner.update
    learner.update = lambda batch: (seen.append(batch["actions"]), update(batch))[1]  # type: ignore[method-assign]
    learner.learn()
    assert {float(action) for actions in seen for action in actions} == {0.25}


def test_a_step_of_the_discriminator_by_hand(tmp_path: Path) -> None:
    """The logits are 3 and 3 for the expert's pairs, -3 and 9 for the learner's; their slope has the length 5."""
    found = {}
    for penalty in (0.0, 0.4):
        learner = learner_of(tmp_path, gradient_penalty=penalty, mixup=0.0, weight_decay=0.0)
        net: Any = learner.discriminator
        net.observe, net.prepare = lambda _batch: None, lambda batch: batch["obs"]
        learned = 0 * net.output.weight.sum()
        net.forward = lambda pairs, _kept=(), zero=learned: pairs @ torch.tensor([3.0, 4.0]) + zero
        batch = {"obs": torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [3.0, 0.0]])}
        found[penalty] = learner._discriminate(batch | learner._drawn(2), 2)
    assert found[0.4]["expert_accuracy"] == 1.0
    assert found[0.4]["learner_accuracy"] == 0.5
    assert float(found[0.4]["discriminator_loss"] - found[0.0]["discriminator_loss"]) == pytest.approx(10.0)


def test_values_far_from_the_replay_are_bounded_and_were_not_without_layer_norm(tmp_path: Path) -> None:
    for settings, bounded in ({}, True), ({"layer_norm": False}, False):
        critics = learner_of(tmp_path, **settings).critics.online
        near, far = (
            float(critics.values(torch.tensor([[0.0, a]])).detach().abs().max()) for a in (1.0, 1_000.0)
        )
        assert (far < 10 * near) == bounded


@pytest.mark.parametrize(("mixup", "steps"), [(0.0, 260), pytest.param(1.0, 400, marks=pytest.mark.slow)])
def test_it_imitates(tmp_path: Path, mixup: float, steps: int) -> None:
    """The expert's return is 0, random actions make -17."""
    learner = learner_of(tmp_path, mixup=mixup, spectral_norm=mixup == 0.0, total_steps=steps)
    while not learner.done:
        metrics = learner.step()
    assert {"discriminator_loss", "expert_accuracy", "learner_accuracy", "reward", "q_loss"} <= metrics.keys()
    assert evaluate(learner.policy, ENV, episodes=10).mean > -4


def test_a_discriminator_that_is_always_right_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learner_of(tmp_path)
    right = [{"expert_accuracy": torch.tensor(0.97), "learner_accuracy": torch.tensor(0.99)}]
    with caplog.at_level(logging.WARNING):
        learner.end_iteration(right)
        learner.end_iteration(right)
    assert [record.message[:47] for record in caplog.records] == [
        "the discriminator is right about 97 % of the pa"
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_step": 3}, "n_step must be 1"),
        ({"batch_size": 1}, "batch_size at least 2"),
        ({"gamma": 1.0}, "gamma 1"),
        ({"input_dropout": 0.95}, "input_dropout"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DACConfig(**settings)


@pytest.mark.filterwarnings("error")
def test_gamma_may_be_1_without_an_absorbing_state(tmp_path: Path) -> None:
    learner = learner_of(tmp_path, terminated=True, gamma=1.0, absorbing=False)
    assert learner.ends() == (0.0, 0.0)


def test_its_reward_can_be_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos = named(tmp_path / "demos.h5", ENV, 3)
    words = f"train dac --env {ENV} --demos {demos} --budget 100 --out {tmp_path / 'run'} --audit --hidden 8"
    assert main([*words.split(), "--learning-starts", "50", "--num-envs", "1"]) == 0
    assert "constant reward -1" in capsys.readouterr().out


def test_noise_in_the_demonstrations_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With noise, the next observation does not follow from the label. The discriminator alone sees no successors."""
    env = make_env(ENV)
    info = DemoInfo(ENV, env.observation_space, env.action_space, noise="gaussian:0.5")
    labels, executed = np.zeros((9, 1), np.float32), np.ones((9, 1), np.float32)
    with DemoWriter(tmp_path / "demos.h5", info, expert_actions=True) as writer:
        writer.append(
            Trajectory(
                np.zeros((10, 1), np.float32),
                executed,
                np.ones(9, np.float32),
                False,
                True,
                expert_actions=labels,
            )
        )
    learner_of(tmp_path, mix_demos=False)
    assert not caplog.messages
    learner_of(tmp_path)
    envs, demos = SyncVecEnv([lambda: make_env(ENV)] * 2), DemoReader(tmp_path / "demos.h5")
    SQIL(SQILConfig(), envs=envs, demos=demos, seed=0)
    IQ(IQConfig(), envs=envs, demos=demos, seed=0)
    GAIfO(GAIfOConfig(), envs=envs, demos=demos, seed=0)
    GAIL(GAILConfig(bc_updates=0), envs=envs, demos=demos, seed=0)  # sees no next observation
    GAIL(GAILConfig(bc_updates=0, reward="airl"), envs=envs, demos=demos, seed=0)
    for name, said in zip(("dac", "sqil", "iq", "gaifo", "airl"), caplog.messages, strict=True):
        assert f"noise in their actions: {name} learns" in said


def test_what_it_can_not_learn_names_it_and_another_imitator(tmp_path: Path) -> None:
    envs = SyncVecEnv([lambda: make_env("CartPole-v1")])
    with (
        DemoReader(record(tmp_path, "CartPole-v1")) as demos,
        pytest.raises(InputError, match=r"dac wants continuous actions, got Discrete\(2\); use gail"),
    ):
        DAC(DACConfig(**SMALL), envs=envs, demos=demos, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("seed", [0, 1])
def test_it_swings_the_pendulum_up_from_ten_episodes(tmp_path: Path, seed: int) -> None:
    demos, out = str(tmp_path / "demos.h5"), str(tmp_path / "run")
    assert main(["collect", "Pendulum-v1", "--out", demos, "--episodes", "10"]) == 0
    assert (
        main(["train", "dac", "--env", "Pendulum-v1", "--demos", demos, "--out", out, "--seed", str(seed)])
        == 0
    )
    assert evaluate(load_policy(out), "Pendulum-v1", episodes=50).mean > -200


def test_the_discriminators_loss_by_hand(tmp_path: Path) -> None:
    """Mixup between the expert at 1 and the learner at -1, where D says 3 / 4, less half of its entropy."""
    learner = learner_of(tmp_path, mixup=1.0, entropy_bonus=0.5, gradient_penalty=0.0)
    net, seen = learner.discriminator, list[torch.Tensor]()

    def sure(pairs: torch.Tensor, kept: Any = ()) -> torch.Tensor:  # noqa: ARG001
        seen.append(pairs)
        return 0 * net.output.weight.sum() + torch.full((len(pairs),), math.log(3))

    net.forward = sure  # type: ignore[method-assign]
    batch = {
        "obs": torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]),
        "actions": torch.zeros(4, 1),
        "shares": torch.tensor([1.0, 0.25]),
    }
    loss = float(learner._discriminate(batch, 2)["discriminator_loss"])
    assert seen[0][:, 0].tolist() == pytest.approx([1.0, -0.5])
    yes, no = math.log(0.75), math.log(0.25)
    assert loss == pytest.approx(-(1.25 * yes + 0.75 * no) / 2 + 0.5 * (0.75 * yes + 0.25 * no))
