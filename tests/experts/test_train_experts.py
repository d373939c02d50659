"""Experts trained here: what is written, what an interruption keeps, and what comes with it."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import PendulumEnv

from imitate.envs.make import resolve_env_id
from imitate.envs.trust import trust
from imitate.errors import Fault, InputError
from imitate.experts import load_expert
from imitate.experts.training.models import SB3_CLASSES, make_model, zoo_settings
from imitate.experts.training.train import train_expert

gym.register("BriefPendulum-v0", entry_point=PendulumEnv, max_episode_steps=20)

SMALL: dict[str, Any] = {"eval_every": 200, "eval_episodes": 2, "test_episodes": 2}
SELDOM = SMALL | {
    **{"train_freq": 10, "learning_starts": 100, "eval_episodes": 1, "policy_kwargs": {"net_arch": [16]}}
}
"""An update of a small network at every tenth step."""


def test_an_expert_is_written_with_its_critic_and_its_measured_return(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    two = SELDOM | {"eval_episodes": 2}
    train_expert(
        "sac", "BriefPendulum-v0", tmp_path / "sac", steps=400, command="imitate expert train ...", **two
    )
    expert = load_expert(tmp_path / "sac")
    facts = json.loads((tmp_path / "sac" / "expert.json").read_text("utf-8"))
    assert facts["training"]["command"] == "imitate expert train ..."
    assert facts["measured"]["episodes"] == 2
    assert expert.oracle is not None
    obs = torch.tensor([[1.0, 0.0, 0.0]])
    assert expert.oracle.q(obs, torch.zeros(1, 1)).shape == (1,)
    rows = [json.loads(line) for line in (tmp_path / "sac" / "log.jsonl").read_text("utf-8").splitlines()]
    assert [row["step"] for row in rows] == [200, 400, 400]
    assert (
        f"200 of 400 steps: return {rows[0]['mean_return']:.1f} +- " in caplog.text
    )  # no terminal, so no bar
    assert not (tmp_path / "sac" / "training" / "checkpoint").exists()
    with pytest.raises(InputError, match="exists"):
        train_expert("sac", "BriefPendulum-v0", tmp_path / "sac", steps=400, **SELDOM)


@pytest.mark.parametrize("broken", [False, True])
def test_all_environments_are_closed(broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reset, made, closed = PendulumEnv.reset, set[PendulumEnv](), set[PendulumEnv]()

    def made_known(env: PendulumEnv, **options: Any) -> Any:
        made.add(env)
        return reset(env, **options)

    monkeypatch.setattr(PendulumEnv, "reset", made_known)
    monkeypatch.setattr(PendulumEnv, "close", lambda env: closed.add(env))
    if broken:
        monkeypatch.setattr(PendulumEnv, "step", lambda *_: None)
    with pytest.raises(Fault) if broken else nullcontext():
        train_expert("ppo", "Pendulum-v1", tmp_path / "ppo", steps=64, n_steps=64, n_envs=1, **SMALL)
    assert made
    assert made == closed & made


def test_an_environment_that_returns_four_values_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PendulumEnv, "step", lambda *_: (np.zeros(3, np.float32), 1.0, False, {}))
    with pytest.raises(Fault, match=r"the environment Pendulum-v1 raised ValueError: .*: step must return"):
        train_expert("sac", "Pendulum-v1", tmp_path / "sac", steps=400, **SMALL)


def test_an_environment_of_a_users_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else has imported it where a worker trains a baseline."""
    monkeypatch.chdir(tmp_path)
    register = "gymnasium.register('OwnPoles-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    (tmp_path / "own_poles.py").write_text(f"import gymnasium\n{register}")
    trust("own_poles:OwnPoles-v0")
    model = make_model("ppo", "own_poles:OwnPoles-v0", {"n_steps": 8, "batch_size": 8}, steps=8, seed=0)
    assert model.learn(8).num_timesteps == 8


def test_an_interrupted_training_goes_on_with_its_replay_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from imitate.experts.training.keeping import KeepBest

    validate = KeepBest.validate

    def interrupted(keeper: Any) -> None:
        validate(keeper)
        if keeper.num_timesteps >= 400:
            raise KeyboardInterrupt

    monkeypatch.setattr(KeepBest, "validate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_expert("sac", "BriefPendulum-v0", tmp_path / "sac", steps=600, **SELDOM)
    monkeypatch.undo()
    buffer = np.load(tmp_path / "sac" / "training" / "checkpoint" / "replay.npz", allow_pickle=False)
    assert len(buffer["rewards"]) == 399  # the transition of the interrupted step is not in it yet
    with pytest.raises(InputError, match="can't be resumed with these settings"):
        train_expert("td3", "BriefPendulum-v0", tmp_path / "sac", steps=600, resume=True, **SELDOM)
    train_expert("sac", "BriefPendulum-v0", tmp_path / "sac", steps=600, resume=True, **SELDOM)
    rows = [
        json.loads(line)["step"] for line in (tmp_path / "sac" / "log.jsonl").read_text("utf-8").splitlines()
    ]
    assert rows[:3] == [200, 400, 600]


@pytest.mark.parametrize("algorithm", ["sac", "tqc"])
def test_a_checkpoint_has_the_entropy_coefficient_that_was_learned(algorithm: str, tmp_path: Path) -> None:
    """Stable-Baselines3 does not count it among the parameters."""
    from imitate.experts.training.keeping import KeepBest

    before, after = (make_model(algorithm, "Pendulum-v1", {}, steps=10, seed=0) for _ in range(2))
    before.log_ent_coef.data.fill_(-3.0)
    keeper = KeepBest(tmp_path, before.get_env(), seed=0, every=10, episodes=1, total_steps=10, grades={})
    keeper.model = before
    keeper.save()
    keeper.load(after)
    assert after.log_ent_coef.item() == -3.0
    assert after.ent_coef_optimizer.param_groups[0]["params"][0] is after.log_ent_coef


def test_graded_experts_are_the_policies_of_earlier_times(tmp_path: Path) -> None:
    def trained(name: str, **options: Any) -> Path:
        return train_expert("td3", "BriefPendulum-v0", tmp_path / name, steps=400, **SELDOM, **options)

    grades = trained("graded", keep=[0.5, 0.25])
    facts = [json.loads((grades / name / "expert.json").read_text("utf-8")) for name in ("0.25", "0.5", ".")]
    assert [each["training"]["best_step"] for each in facts[:2]] == [100, 200]
    assert all(each["measured"]["episodes"] == 2 for each in facts)
    assert facts[0]["sha256"] != facts[1]["sha256"]
    assert load_expert(grades / "0.25").env_id == "BriefPendulum-v0"
    # Keeping them changes nothing of the training.
    assert facts[2]["sha256"] == json.loads((trained("plain") / "expert.json").read_text("utf-8"))["sha256"]
    with pytest.raises(InputError, match="between 0 and 1, got 25"):
        trained("wrong", keep=[25.0])


def test_a_resumed_training_leaves_its_graded_experts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from imitate.experts.training.keeping import KeepBest

    save = KeepBest.save

    def interrupted(keeper: Any) -> None:
        save(keeper)
        raise KeyboardInterrupt

    options: dict[str, Any] = {"steps": 400, "keep": [0.25, 0.75], **SELDOM}
    monkeypatch.setattr(KeepBest, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_expert("sac", "BriefPendulum-v0", tmp_path / "sac", **options)
    monkeypatch.undo()
    first = (tmp_path / "sac/0.25/expert.json").read_bytes()
    assert not (tmp_path / "sac/0.75").exists()
    train_expert("sac", "BriefPendulum-v0", tmp_path / "sac", resume=True, **options)
    assert (tmp_path / "sac/0.25/expert.json").read_bytes() == first
    assert json.loads((tmp_path / "sac/0.75/expert.json").read_text("utf-8"))["training"]["best_step"] == 300


def test_normalisation_is_part_of_the_expert(tmp_path: Path) -> None:
    """As with Acrobot's preset, in an environment whose episodes are short."""
    assert zoo_settings("ppo", "Acrobot-v1")["normalize"] is True
    small = SMALL | {"normalize": True, "batch_size": 64}
    train_expert("ppo", "CartPole-v1", tmp_path / "ppo", steps=128, n_steps=16, **small)
    expert = load_expert(tmp_path / "ppo")
    assert expert.normalisation is not None
    assert expert.oracle is None  # PPO has V only
    assert expert.value(torch.zeros(3, 4)).shape == (3,)


@pytest.mark.parametrize("algorithm", SB3_CLASSES)
def test_every_algorithm_has_a_preset(algorithm: str) -> None:
    assert zoo_settings(algorithm, "Nowhere-v0")["n_timesteps"] > 0


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'sac'"):
        train_expert("sca", "Pendulum-v1", tmp_path / "x")
    with pytest.raises(InputError, match="lerning_rate"):
        train_expert("sac", "Pendulum-v1", tmp_path / "x", lerning_rate=1)
    with pytest.raises(
        InputError, match="100 steps are too few for one rollout of ppo, 8192 steps: give more"
    ):
        train_expert("ppo", "Acrobot-v1", tmp_path / "x", steps=100, n_envs=4, n_steps=2_048)
    with pytest.raises(
        InputError, match="sac begins to learn after 10000 steps here, and 9000 are all it has"
    ):
        train_expert("sac", "MountainCarContinuous-v0", tmp_path / "x", steps=9_000, learning_starts=10_000)
    for wrong, message in (
        ({"n_envs": 0}, "n_envs must be a whole number of at least 1, got 0"),
        ({"n_envs": None}, "n_envs must be a whole number of at least 1, got None"),
        ({"n_envs": 1.5}, "n_envs must be a whole number of at least 1, got 1.5"),
        ({"n_envs": "x"}, "n_envs must be a whole number of at least 1, got 'x'"),
        ({"n_timesteps": "1e4"}, "n_timesteps must be a whole number"),
        ({"policy_kwargs": {"activation_fn": "gelu"}}, "activation_fn is one of tanh, relu, elu, got 'gelu'"),
        ({"normalize": True, "gamma": "a"}, "can't be set up"),
        ({"test_episodes": 0}, "test_episodes must be at least 1, got 0"),
    ):
        with pytest.raises(InputError, match=message):
            train_expert("ppo", "CartPole-v1", tmp_path / "x", **wrong)
    assert not (tmp_path / "x").exists()


def test_norm_reward_reaches_vecnormalize() -> None:
    small = {"n_steps": 8, "batch_size": 8, "normalize": True}
    for given, wanted in (({}, True), ({"norm_reward": False}, False)):
        model = make_model("ppo", "CartPole-v1", small | given, steps=8, seed=0)
        normalize = model.get_vec_normalize_env()
        assert normalize is not None
        assert (normalize.norm_obs, normalize.norm_reward) == (True, wanted)
    with pytest.raises(InputError, match="norm_reward is a part of normalize: set that too"):
        make_model("ppo", "CartPole-v1", {"norm_reward": False}, steps=8, seed=0)
    with pytest.raises(InputError, match="norm_reward must be true or false, got 'no'"):
        make_model("ppo", "CartPole-v1", small | {"norm_reward": "no"}, steps=8, seed=0)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c", "dqn", "qrdqn"])
def test_atari_has_the_settings_of_stable_baselines3(algorithm: str) -> None:
    ids = [resolve_env_id(name) for name in ("ALE/Breakout-v5", "BreakoutNoFrameskip-v4")]
    ours, older = (zoo_settings(algorithm, env_id) for env_id in ids)
    assert ours["n_timesteps"] == 10_000_000
    assert older == ours


def test_a_game_is_learned_life_by_life_from_pictures(tmp_path: Path) -> None:
    """`expert train --algo dqn --env ALE/Breakout-v5` once asked for 26 GiB, and for a flat network."""
    settings = zoo_settings("dqn", resolve_env_id("ALE/Breakout-v5"))
    model = make_model("dqn", "ALE/Breakout-v5", settings, steps=10_000_000, seed=0)
    buffer = model.replay_buffer
    assert (buffer.buffer_size, buffer.optimize_memory_usage) == (100_000, True)
    assert buffer.observations.nbytes == 100_000 * 4 * 84 * 84  # 2.6 GiB, filled as it goes
    assert type(model.policy).__name__ == "CnnPolicy"
    venv = model.get_env()
    venv.reset()
    steps = 0
    while not (ended := venv.step(np.array([0]))[2][0]):  # nobody moves the paddle: a life is lost
        steps += 1
    assert ended
    assert venv.envs[0].unwrapped.ale.lives() == 4
    small = {"learning_starts": 50, "eval_every": 1_000, "eval_episodes": 1, "test_episodes": 1}
    folder = train_expert("dqn", "ALE/Breakout-v5", tmp_path / "dqn", steps=60, **small)
    assert load_expert(folder).observation_space.shape == (4, 84, 84)
