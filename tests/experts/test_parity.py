"""The same actions as Stable-Baselines3's own loader, for every algorithm, without running a pickle."""

from __future__ import annotations

import sys
import types
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from numpy.testing import assert_allclose
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.experts import known_experts, load_expert, save_expert

torch.set_num_threads(1)
BIPED, CARTPOLE, PENDULUM = "BipedalWalker-v3", "CartPole-v1", "Pendulum-v1"
PIXELS, DICT, LAKE = "ImitateTestPixels-v0", "ImitateTestDict-v0", "FrozenLake-v1"


class _Fake(gym.Env[Any, Any]):
    """An environment for its spaces alone."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        return self.observation_space.sample(), 0.0, False, False, {}


_goal = spaces.Box(-1, 1, (3,), np.float32)
gym.register(
    PIXELS,
    disable_env_checker=True,
    entry_point=lambda **_: _Fake(spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(4)),
)
gym.register(
    DICT,
    disable_env_checker=True,
    entry_point=lambda **_: _Fake(
        spaces.Dict(observation=spaces.Box(-1, 1, (6,), np.float32), desired_goal=_goal, achieved_goal=_goal),
        spaces.Box(-1, 1, (4,), np.float32),
    ),
)

_gsde, _small = {"use_sde": True}, {"buffer_size": 10}
CASES: dict[str, tuple[type, str, str, dict[str, Any]]] = {
    "ppo": (sb3.PPO, "MlpPolicy", CARTPOLE, {}),
    "ppo-gsde": (sb3.PPO, "MlpPolicy", PENDULUM, {**_gsde, "policy_kwargs": {"log_std_init": -2.0}}),
    "ppo-gsde-squashed": (sb3.PPO, "MlpPolicy", BIPED, {**_gsde, "policy_kwargs": {"squash_output": True}}),
    "ppo-net-arch": (
        sb3.PPO, "MlpPolicy", BIPED,
        {"policy_kwargs": {"net_arch": {"pi": [30], "vf": [20, 10]}, "activation_fn": torch.nn.ELU}},
    ),
    "ppo-no-layers": (sb3.PPO, "MlpPolicy", CARTPOLE, {"policy_kwargs": {"net_arch": []}}),
    "ppo-discrete-observations": (sb3.PPO, "MlpPolicy", LAKE, {}),
    "ppo-cnn": (sb3.PPO, "CnnPolicy", PIXELS, {"policy_kwargs": {"share_features_extractor": False}}),
    "ppo-dict": (sb3.PPO, "MultiInputPolicy", DICT, {}),
    "a2c": (sb3.A2C, "MlpPolicy", BIPED, {"policy_kwargs": {"activation_fn": torch.nn.ReLU}}),
    "trpo": (sb3_contrib.TRPO, "MlpPolicy", PENDULUM, {}),
    "dqn": (sb3.DQN, "MlpPolicy", CARTPOLE, {"policy_kwargs": {"net_arch": [50]}, "buffer_size": 10}),
    "dqn-cnn": (sb3.DQN, "CnnPolicy", PIXELS, {"buffer_size": 2}),
    "qrdqn": (sb3_contrib.QRDQN, "MlpPolicy", CARTPOLE, {"policy_kwargs": {"n_quantiles": 7}, **_small}),
    "sac": (sb3.SAC, "MlpPolicy", PENDULUM, {"buffer_size": 10}),
    "sac-gsde": (
        sb3.SAC, "MlpPolicy", BIPED,
        {**_gsde, "policy_kwargs": {"net_arch": [40, 30], "use_expln": True, "clip_mean": 0.5}, **_small},
    ),
    "sac-dict": (sb3.SAC, "MultiInputPolicy", DICT, {"buffer_size": 10}),
    "td3": (sb3.TD3, "MlpPolicy", BIPED, {"policy_kwargs": {"net_arch": [40, 30]}, "buffer_size": 10}),
    "ddpg": (
        sb3.DDPG, "MlpPolicy", PENDULUM,
        {"policy_kwargs": {"net_arch": {"pi": [20], "qf": [40]}}, **_small},
    ),
    "tqc": (
        sb3_contrib.TQC, "MlpPolicy", BIPED,
        {**_gsde, "policy_kwargs": {"n_quantiles": 5, "n_critics": 3, "net_arch": [32, 32]}, **_small},
    ),
    "ars": (sb3_contrib.ARS, "MlpPolicy", PENDULUM, {}),
    "ars-linear": (sb3_contrib.ARS, "LinearPolicy", BIPED, {}),
    "ars-discrete": (sb3_contrib.ARS, "LinearPolicy", CARTPOLE, {"policy_kwargs": {"with_bias": True}}),
}  # fmt: skip


def _model(case: str) -> Any:
    algorithm, policy, env_id, kwargs = CASES[case]
    model = algorithm(policy, DummyVecEnv([lambda: gym.make(env_id)]), seed=1, device="cpu", **kwargs)
    with torch.no_grad():  # SB3 starts actors near zero, which would hide mistakes
        for parameter in model.policy.parameters():
            if parameter.ndim > 1:
                spread = 0.7 / parameter[0].numel() ** 0.5
                parameter.normal_(0, spread, generator=torch.Generator().manual_seed(3))
    return model


def _observations(space: spaces.Space[Any], count: int) -> Any:
    rng = np.random.default_rng(0)
    if isinstance(space, spaces.Dict):
        return {key: _observations(inner, count) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=count)
    assert isinstance(space, spaces.Box)
    if space.dtype == np.uint8:
        return rng.integers(0, 256, (count, *space.shape), np.uint8)
    return rng.normal(size=(count, *space.shape)).astype(np.float32)


def _assert_same(ours: np.ndarray, theirs: np.ndarray, discrete: bool) -> None:
    assert ours.shape == theirs.shape
    if discrete:  # an argmax may tip where two values are equal to the last bit
        assert (ours == theirs).mean() > 0.998
    else:
        assert_allclose(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("case", CASES)
def test_same_actions_as_sb3_from_its_zip_and_from_our_folder(case: str, tmp_path: Path) -> None:
    model, env_id = _model(case), CASES[case][2]
    count = 20 if env_id == PIXELS else 1000
    obs = _observations(model.observation_space, count)
    loaded = type(model).load(_saved(model, tmp_path / f"{env_id}.zip"), device="cpu")
    theirs, _ = loaded.predict(obs, deterministic=True)
    expert = load_expert(tmp_path / f"{env_id}.zip")
    assert (expert.env_id, expert.algorithm) == (env_id, type(model).__name__)
    discrete = isinstance(model.action_space, spaces.Discrete)
    _assert_same(expert.act(obs, deterministic=True), theirs, discrete)
    assert model.action_space.contains(expert.act(obs, deterministic=False)[0])
    if env_id != DICT:
        save_expert(tmp_path / "folder", model, None, {"env_id": env_id})
        _assert_same(load_expert(tmp_path / "folder").act(obs), theirs, discrete)


def _saved(model: Any, path: Path) -> Path:
    model.save(path)
    return path


@pytest.mark.parametrize("env_id", [PENDULUM, DICT])
def test_vecnormalize_is_applied_to_raw_observations(env_id: str, tmp_path: Path) -> None:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(env_id)]), clip_obs=1.5, gamma=0.9)
    venv.reset()
    for _ in range(50):
        venv.step(np.stack([venv.action_space.sample()]))
    policy = "MultiInputPolicy" if env_id == DICT else "MlpPolicy"
    model = sb3.SAC(policy, venv, buffer_size=10, seed=0, device="cpu")
    model.save(tmp_path / f"{env_id}.zip")
    (tmp_path / env_id).mkdir()
    venv.save(str(tmp_path / env_id / "vecnormalize.pkl"))
    obs = _observations(model.observation_space, 1000)
    expert = load_expert(tmp_path / f"{env_id}.zip")
    theirs, _ = model.predict(venv.normalize_obs(obs), deterministic=True)
    _assert_same(expert.act(obs), theirs, discrete=False)
    assert expert.normalisation is not None
    assert expert.normalisation.gamma == 0.9
    assert expert.normalisation.reward_scale == pytest.approx(np.sqrt(venv.ret_rms.var + venv.epsilon))
    if env_id == PENDULUM:
        save_expert(tmp_path / "folder", model, venv, {"env_id": env_id})
        again = load_expert(tmp_path / "folder")
        _assert_same(again.act(obs), theirs, discrete=False)
        assert again.normalisation is not None
        assert again.normalisation.to_json() == expert.normalisation.to_json()


def test_stochastic_actions_follow_sb3s_distribution(tmp_path: Path) -> None:
    for case in ("ppo", "trpo", "sac", "sac-gsde", "ppo-gsde"):
        model, env_id = _model(case), CASES[case][2]
        expert = load_expert(_saved(model, tmp_path / f"{env_id}.zip"))
        one = _observations(model.observation_space, 1)
        ours = expert.act(np.repeat(one, 4000, 0), deterministic=False).reshape(4000, -1)
        batch = torch.as_tensor(np.repeat(one, 4000, 0))
        with torch.no_grad():
            if isinstance(model, sb3.SAC):
                # (gSDE's samples here share one noise matrix, so its spread is taken from the distribution)
                mean, log_std, extra = model.actor.get_action_dist_params(batch)
                drawn = model.actor.action_dist.actions_from_params(mean, log_std, **extra)
                base = model.actor.action_dist.distribution
                drawn = torch.tanh(base.sample()) if drawn is not None else drawn
            else:
                drawn = model.policy.get_distribution(batch).distribution.sample()
        theirs = drawn.numpy().reshape(4000, -1)
        if isinstance(model.action_space, spaces.Box):
            theirs = (
                model.policy.unscale_action(theirs)
                if model.policy.squash_output
                else np.clip(theirs, model.action_space.low, model.action_space.high)
            )
        assert_allclose(ours.mean(0), theirs.mean(0), atol=0.1)
        assert_allclose(ours.std(0), theirs.std(0), atol=0.1)
    expert.seed(5)
    first = expert.act(np.repeat(one, 3, 0), deterministic=False)
    expert.seed(5)
    assert (expert.act(np.repeat(one, 3, 0), deterministic=False) == first).all()


def _old_gym() -> dict[str, types.ModuleType]:
    """A stand-in for the `gym` that old archives name, so that SB3's own loader can open them at all."""
    names = ("", ".spaces", ".spaces.box", ".spaces.discrete", ".spaces.dict", ".spaces.space")
    return {f"gym{name}": sys.modules[f"gymnasium{name}"] for name in names}


@pytest.mark.parametrize("spec", [name for name in known_experts() if name.startswith("zoo:")] or ["absent"])
def test_zoo_archives_act_as_in_sb3(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if spec == "absent":
        pytest.skip("no zoo folder: set IMITATE_ZOO_DIR to a copy of rl-trained-agents")
    from imitate.experts.sources import from_zoo

    expert = load_expert(spec)
    assert expert.env_id.rpartition("-v")[0] == spec.rpartition("/")[2].rpartition("-v")[0]
    for name, module in _old_gym().items():
        monkeypatch.setitem(sys.modules, name, module)
    algorithm = getattr(sb3, expert.algorithm, None) or getattr(sb3_contrib, expert.algorithm)
    contact_forces = 84 if spec.endswith("/Ant-v3") else 0  # zeros in v3, absent in the v5 that it runs on
    observed = expert.observation_space
    if contact_forces:
        observed = spaces.Box(-np.inf, np.inf, (27 + contact_forces,))
    spaces_now = {"observation_space": observed, "action_space": expert.action_space}
    schedules = ("lr_schedule", "clip_range", "exploration_schedule", "delta_std_schedule")
    replaced = {**spaces_now, **dict.fromkeys(schedules, lambda _: 0.0), "buffer_size": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = from_zoo(spec.removeprefix("zoo:")).path
        model = algorithm.load(path, device="cpu", custom_objects=replaced)
    obs = _observations(expert.observation_space, 1000)
    seen = np.pad(obs, ((0, 0), (0, contact_forces))) if contact_forces else obs
    if expert.normalisation is not None:
        n = expert.normalisation
        assert n.mean is not None
        assert n.var is not None
        seen = (seen - n.mean) / np.sqrt(n.var + n.epsilon)
        seen = np.clip(seen, -n.clip_obs, n.clip_obs).astype(np.float32)
    theirs, _ = model.predict(seen, deterministic=True)
    _assert_same(expert.act(obs), theirs, isinstance(expert.action_space, spaces.Discrete))
