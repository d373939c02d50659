"""The critics that experts bring: the same values as SB3's, on raw observations and environment actions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.sb3.archive import policy_spec, read_archive
from imitate.experts.sb3.networks import build_networks
from imitate.experts.values.critics import CriticOracle
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.execute import execute
from imitate.training.experiment import Experiment

CONTINUOUS = {"sac": sb3.SAC, "td3": sb3.TD3, "ddpg": sb3.DDPG, "tqc": sb3_contrib.TQC}


@pytest.fixture
def raw_obs() -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))


def _saved(model: Any, path: Path, venv: VecNormalize | None = None) -> Path:
    model.save(path)
    if venv is not None:
        venv.save(str(path.parent / "vecnormalize.pkl"))
    return path


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_critics(name: str, tmp_path: Path, raw_obs: torch.Tensor) -> None:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    venv.reset()
    model = CONTINUOUS[name]("MlpPolicy", venv, buffer_size=10, device="cpu", seed=0)
    expert = load_expert(_saved(model, tmp_path / "Pendulum-v1.zip", venv))
    assert isinstance(expert.oracle, CriticOracle)
    actions = torch.linspace(-2, 2, 50).reshape(50, 1).requires_grad_()
    values = expert.oracle.q(raw_obs, actions)
    with torch.no_grad():
        seen = torch.as_tensor(venv.normalize_obs(raw_obs.numpy()))
        theirs = model.critic(
            seen, actions / 2
        )  # Pendulum's torque goes from -2 to 2, the critic's from -1 to 1
    expected = theirs.mean((1, 2)) if name == "tqc" else torch.cat(theirs, 1).min(1).values
    torch.testing.assert_close(values, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(expert.oracle.q(raw_obs, actions.double()), values)
    each = theirs.mean(2).T if name == "tqc" else torch.cat(theirs, 1).T  # (critics, B)
    torch.testing.assert_close(expert.oracle.heads(raw_obs, actions), each, atol=1e-5, rtol=0)
    shifted = torch.stack([actions.detach() * (1 - 0.1 * head) for head in range(len(each))])  # each its own
    apart = torch.stack([expert.oracle.heads(raw_obs, own)[head] for head, own in enumerate(shifted)])
    torch.testing.assert_close(expert.oracle.heads(raw_obs, shifted), apart, atol=1e-5, rtol=0)
    values.sum().backward()
    assert actions.grad is not None
    assert (actions.grad != 0).any()
    assert not any(parameter.requires_grad for parameter in expert.oracle.parameters())
    with pytest.raises(InputError, match="discrete"):
        expert.oracle.q_all(raw_obs)


def test_ddpg_and_td3_are_told_apart_by_their_noise(tmp_path: Path) -> None:
    """Either may have any number of critics, and TD3 may update its actor at each step."""
    ddpg = sb3.DDPG("MlpPolicy", "Pendulum-v1", buffer_size=10, policy_kwargs={"n_critics": 3}, device="cpu")
    td3 = sb3.TD3(
        "MlpPolicy",
        "Pendulum-v1",
        buffer_size=10,
        policy_delay=1,
        policy_kwargs={"n_critics": 1},
        device="cpu",
    )
    for name, model in (("DDPG", ddpg), ("TD3", td3)):
        assert load_expert(_saved(model, tmp_path / "Pendulum-v1.zip")).algorithm == name


def test_critics_of_a_matrix_of_actions(tmp_path: Path, raw_obs: torch.Tensor) -> None:
    def matrix(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        space = gym.spaces.Box(-2, 2, (1, 1), np.float32)
        return gym.wrappers.TransformAction(env, lambda action: action[0], space)

    venv = DummyVecEnv([lambda: matrix(gym.make("Pendulum-v1"))])
    path = _saved(sb3.SAC("MlpPolicy", venv, buffer_size=10, device="cpu", seed=0), tmp_path / "a.zip")
    spec = policy_spec(archive := read_archive(path), venv.observation_space, venv.action_space)
    oracle = CriticOracle(spec, build_networks(spec, archive.tensors, None))
    flat = load_expert(
        _saved(sb3.SAC("MlpPolicy", "Pendulum-v1", buffer_size=10, device="cpu", seed=0), tmp_path / "b.zip"),
        env_id="Pendulum-v1",
    ).oracle
    assert flat is not None
    actions = torch.linspace(-2, 2, 100).reshape(2, 50, 1)  # each head has its own
    torch.testing.assert_close(oracle.heads(raw_obs, actions[..., None]), flat.heads(raw_obs, actions))
    torch.testing.assert_close(oracle.q(raw_obs, actions[0, ..., None]), flat.q(raw_obs, actions[0]))


@pytest.mark.parametrize("algorithm", [sb3.DQN, sb3_contrib.QRDQN])
def test_discrete_critics(algorithm: type, tmp_path: Path) -> None:
    model = algorithm("MlpPolicy", "CartPole-v1", buffer_size=10, device="cpu", seed=0)
    expert = load_expert(_saved(model, tmp_path / "CartPole-v1.zip"))
    obs = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        theirs = model.q_net(obs) if algorithm is sb3.DQN else model.quantile_net(obs).mean(1)
    assert expert.oracle is not None
    torch.testing.assert_close(expert.oracle.q_all(obs), theirs, atol=1e-5, rtol=0)
    taken = torch.arange(20) % 2
    torch.testing.assert_close(
        expert.oracle.q(obs, taken), theirs[torch.arange(20), taken], atol=1e-5, rtol=0
    )
    assert expert.oracle.heads(obs, taken).shape == (1, 20)
    torch.testing.assert_close(expert.oracle.heads(obs, taken)[0], expert.oracle.q(obs, taken))
    # The greedy action is the expert's own.
    assert (expert.act(obs.numpy()) == theirs.argmax(1).numpy()).all()


def test_values_come_with_their_discount_and_their_reward_scale(tmp_path: Path) -> None:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1")]))
    venv.ret_rms.var = np.float64(24.0)
    model = sb3.TD3("MlpPolicy", venv, buffer_size=10, gamma=0.9, device="cpu", seed=0)
    expert = load_expert(_saved(model, tmp_path / "Pendulum-v1.zip", venv))
    assert expert.oracle is not None
    assert (expert.gamma, expert.oracle.gamma) == (0.9, 0.9)
    assert expert.oracle.reward_scale == pytest.approx(24.0**0.5)


def test_actor_critics_bring_state_values(tmp_path: Path, raw_obs: torch.Tensor) -> None:
    model = sb3.PPO("MlpPolicy", "Pendulum-v1", device="cpu", seed=0)
    expert = load_expert(_saved(model, tmp_path / "Pendulum-v1.zip"))
    assert expert.oracle is None
    with torch.no_grad():
        theirs = model.policy.predict_values(raw_obs).squeeze(1)
    torch.testing.assert_close(expert.value(raw_obs), theirs, atol=1e-5, rtol=0)
    sac = sb3.SAC("MlpPolicy", "Pendulum-v1", device="cpu", buffer_size=10)
    with pytest.raises(InputError, match="no state values"):
        load_expert(_saved(sac, tmp_path / "Pendulum-v1.zip")).value(raw_obs)


def test_a_sac_run_is_an_expert_with_a_critic(tmp_path: Path) -> None:
    """Its values are the minimum over its critics at the action in [-1, 1], and can be differentiated."""
    out = tmp_path / "run"
    budget = {"learning_starts": 50, "hidden": [16, 16]}
    assert execute(Experiment.create("sac", "ContinuousIdentity-v0", hyperparameters=budget, budget=100), out)
    expert = load_expert(str(out))
    assert expert.oracle is not None
    assert expert.gamma == expert.oracle.gamma == 0.99
    obs, actions = torch.tensor([[0.1], [-0.3]]), torch.tensor([[0.5], [-2.0]], requires_grad=True)
    critic = load_policy(out).critic
    assert critic is not None
    outputs = critic(torch.tensor([[0.1, 0.25], [-0.3, -1.0]]))[0].squeeze(-1)  # actions lie in [-2, 2]
    torch.testing.assert_close(expert.oracle.heads(obs, actions).detach(), outputs)
    values = expert.oracle.q(obs, actions)
    torch.testing.assert_close(values.detach(), outputs.amin(0))
    torch.testing.assert_close(expert.oracle.q(obs, actions.double()), values)
    (slope,) = torch.autograd.grad(values.sum(), actions)
    assert slope.abs().min() > 0
    separate = expert.oracle.heads(obs, actions.detach().expand(2, 2, 1))
    torch.testing.assert_close(separate.detach(), outputs)
    with pytest.raises(InputError, match="discrete actions"):
        expert.oracle.q_all(obs)
    config = json.loads((out / "config.json").read_text("utf-8"))
    for changed in (
        {"algorithm": "dac"},
        {"algorithm": "dac:random"},
        {"algorithm": "sqil"},
        {"reward": "runs/gail"},
    ):
        (out / "config.json").write_text(json.dumps(config | changed), "utf-8")
        assert load_expert(str(out)).oracle is None, "it has values of rewards that aren't the environment's"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"reward": "runs/gail"},
        {"clip_rewards": True},
        {"hyperparameters": {"gamma": 0.9, "hidden": [64, 64], "least_reward": -1.0}},
        {"algorithm": "sqil"},
        {"hyperparameters": {"gamma": "0.9"}},
        {"hyperparameters": {"gamma": 2.0}},
        {"hyperparameters": {"gamma": True}},
    ],
)
def test_a_run_of_dqn_brings_its_values_if_they_are_of_the_true_reward(
    changed: dict[str, object], tmp_path: Path
) -> None:
    with seeded(0):
        policy = ActorPolicy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), layer_norm=True)
    save_policy(tmp_path / "policy", policy)
    config = {
        "algorithm": "dqn",
        "env_id": "CartPole-v1",
        "hyperparameters": {"gamma": 0.9, "hidden": [64, 64]},
    }
    (tmp_path / "config.json").write_text(json.dumps(config | changed), "utf-8")
    expert = load_expert(str(tmp_path))
    if changed:
        assert expert.oracle is None
        return
    assert expert.oracle is not None
    assert (expert.gamma, expert.oracle.greedy) == (0.9, True)
    obs, actions = torch.randn(5, 4), torch.tensor([0, 1, 1, 0, 1])
    values = expert.oracle.q_all(obs)
    assert torch.equal(values.argmax(1), torch.from_numpy(policy.act(obs.numpy())))
    assert torch.equal(expert.oracle.q(obs, actions), values[range(5), actions])
    (tmp_path / "config.json").write_text(json.dumps(config | {"hyperparameters": {"gamma": 1}}), "utf-8")
    assert load_expert(str(tmp_path)).gamma == 1.0
