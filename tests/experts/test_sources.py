"""Experts come from the zoo's folders, from zips and from our own folders."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import structured  # noqa: F401  # registers Told-multi-v0
from conftest import Identity
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from zoo_entries import CARTPOLE, zoo_entry

from imitate.envs.make import make_env
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.experts import known_experts, load_expert, save_expert
from imitate.experts.load import expert_files
from imitate.experts.placing import spaces_here
from imitate.experts.sources import BUNDLED
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import save_policy


def test_zoo_takes_the_highest_run_and_reads_its_folder_at_call_time(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("CartPole-v1_2", "CartPole-v1_10", "CartPole-v1_9"):
        zoo_entry(tmp_path / "a2c", model, run, CARTPOLE)
    expected = hashlib.sha256((tmp_path / "a2c/CartPole-v1_10/CartPole-v1.zip").read_bytes()).hexdigest()
    (tmp_path / "a2c/CartPole-v1_9/CartPole-v1.zip").write_bytes(b"damaged")
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path))
    expert = load_expert("zoo:a2c/CartPole-v1")
    assert (expert.env_id, expert.algorithm, expert.sha256) == (CARTPOLE, "A2C", expected)
    assert expert.published_return == 500.0
    assert "zoo:a2c/CartPole-v1" in known_experts()
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path / "elsewhere"))
    with pytest.raises(InputError, match="IMITATE_ZOO_DIR"):
        load_expert("zoo:a2c/CartPole-v1")


def test_an_old_id_resolves_with_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lander = sb3.A2C("MlpPolicy", "LunarLander-v3", device="cpu")
    zoo_entry(tmp_path / "a2c", lander, "LunarLander-v2_1", "LunarLander-v2")
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path))
    for name in ("LunarLander-v2", "LunarLander-v3"):
        caplog.clear()
        expert = load_expert(f"zoo:a2c/{name}")
        assert expert.env_id == "LunarLander-v3"
        assert expert.published_return == 155.751
        assert "LunarLander-v2 is not in gymnasium" in caplog.text
        assert load_expert(f"zoo:a2c/{name}", env_id="LunarLander-v3").published_return == 155.751


@pytest.mark.parametrize("spec", ["CartPole-v1", "random"])
def test_an_expert_acts_on_one_observation_too(spec: str) -> None:
    expert = load_expert(spec, env_id=CARTPOLE)
    expert.seed(0)
    obs = np.array(
        [[0.0, 0.0, 0.1, 1.0], [0.0, 0.0, -0.1, -1.0]], np.float32
    )  # it falls to the right, to the left
    both, state = expert.predict(obs)
    assert both.shape == (2,)
    assert state is None
    assert np.shape(expert.act(obs[0])) == ()
    if spec != "random":
        assert [int(expert.act(row)) for row in obs] == both.tolist() == [1, 0]


def test_a_controller_of_dicts_acts_on_what_the_environment_gives() -> None:
    """One observation of Gymnasium's, and a batch of them as Stable-Baselines3 stacks them."""
    trust("structured:make_knower")
    expert = load_expert("structured:make_knower", env_id="Told-multi-v0")
    obs, _ = gym.make("Told-multi-v0").reset(seed=0)
    hand = {name: np.stack([value] * 3) for name, value in obs["hand"].items()}
    batch = {"goal": np.stack([obs["goal"]] * 3), "noise": np.stack([obs["noise"]] * 3), "hand": hand}
    one, _ = expert.predict(obs)
    assert one.tolist() == [obs["goal"][0] + 5, obs["hand"]["digit"] - 1]
    assert expert.act(batch).tolist() == [one.tolist()] * 3


def test_a_single_option_in_config_yml_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Here it says that the agent was trained on normalised observations; there are no statistics."""
    path = zoo_entry(tmp_path, sb3.A2C("MlpPolicy", CARTPOLE, device="cpu"), "CartPole-v1_1", CARTPOLE)
    config = "!!python/object/apply:collections.OrderedDict\n- - - normalize\n    - true\n"
    (path.parent / CARTPOLE / "config.yml").write_text(config)
    load_expert(path)
    assert "trained on normalised observations, but has no vecnormalize.pkl" in caplog.text


def test_checkpoints_and_the_best_model_of_a_run_are_normalised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SB3's callbacks write both beside the folder ENV of the zoo; a checkpoint may have statistics of its own."""
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(CARTPOLE)]))
    model = sb3.A2C("MlpPolicy", venv, device="cpu").learn(5)
    path = zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE)
    run = path.parent
    for name in ("best_model", "rl_model_10_steps", "rl_model_20_steps", "copy"):
        model.save(run / name)
    venv.save(str(run / "rl_model_vecnormalize_10_steps.pkl"))
    venv.obs_rms.mean += 1.0
    venv.save(str(run / CARTPOLE / "vecnormalize.pkl"))
    last = load_expert(path)
    for name, wanted in (("best_model", True), ("rl_model_20_steps", True), ("rl_model_10_steps", False)):
        expert = load_expert(run / f"{name}.zip")
        assert (expert.env_id, expert.normalisation is not None) == (CARTPOLE, True)
        assert (expert.normalisation_sha256 == last.normalisation_sha256) == wanted
        assert sorted(expert_files(str(run / f"{name}.zip"))) == sorted(
            ["CartPole-v1/args.yml", "CartPole-v1/config.yml", "CartPole-v1/vecnormalize.pkl", f"{name}.zip"]
            + (["rl_model_vecnormalize_10_steps.pkl"] if "10" in name else [])
        )
    monkeypatch.chdir(run)
    assert load_expert("best_model.zip").normalisation_sha256 == last.normalisation_sha256
    assert not caplog.text
    load_expert(run / "copy.zip", env_id=CARTPOLE)  # any other zip may be of another agent
    assert "copy.zip was trained under VecNormalize, but no vecnormalize.pkl is beside it" in caplog.text
    load_expert(run / "copy.zip", env_id=CARTPOLE, vecnormalize="none")
    assert len(caplog.records) == 1
    downloads = run.rename(tmp_path / "downloads")  # beside the folder of another agent
    assert load_expert(downloads / "best_model.zip", env_id=CARTPOLE).normalisation is None


def test_an_agent_that_was_not_normalised_needs_no_statistics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, algorithm in (("a2c", sb3.A2C), ("dqn", sb3.DQN)):
        algorithm("MlpPolicy", CARTPOLE, device="cpu").learn(5).save(tmp_path / name)
        load_expert(tmp_path / f"{name}.zip", env_id=CARTPOLE)
    assert not caplog.text


def test_unknown_experts_name_the_nearest(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo_entry(tmp_path / "a2c", model, "CartPole-v1_1", CARTPOLE)
    monkeypatch.setenv("IMITATE_ZOO_DIR", str(tmp_path))
    with pytest.raises(InputError, match="did you mean 'a2c/CartPole-v1'"):
        load_expert("zoo:a2c/CartPoel-v1")
    with pytest.raises(InputError, match=r"names no environment: write zoo:a2c/CartPole-v1$"):
        load_expert("zoo:a2c")
    with pytest.raises(InputError, match="did you mean 'zoo:a2c/CartPole-v1'"):
        load_expert("zoo-a2c/CartPole-v1")
    with pytest.raises(InputError, match="no file"):
        load_expert(tmp_path / "absent-v1.zip")
    with pytest.raises(InputError, match=r"it lacks expert\.json or policy\.safetensors$"):
        load_expert(tmp_path)
    with pytest.raises(InputError, match=r"did you mean .*CartPole-v1\.zip"):
        load_expert(tmp_path / "a2c" / "CartPole-v1_1")


def test_a_zip_of_another_environment_is_refused(model: Any, tmp_path: Path) -> None:
    model.save(tmp_path / "Acrobot-v1.zip")
    with pytest.raises(InputError, match="not for Acrobot-v1"):
        load_expert(tmp_path / "Acrobot-v1.zip")
    model.save(tmp_path / "best_model.zip")
    with pytest.raises(InputError, match="doesn't say which environment"):
        load_expert(tmp_path / "best_model.zip")
    assert load_expert(tmp_path / "best_model.zip", env_id=CARTPOLE).env_id == CARTPOLE


def test_an_environment_that_is_not_here_still_opens(
    model: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = zoo_entry(tmp_path, model, "NoSuchBulletEnv-v0_1", "NoSuchBulletEnv-v0")
    expert = load_expert(path)
    assert not expert.runnable
    assert "can't be run here" in caplog.text
    assert expert.act(np.zeros((3, 4), np.float32)).shape == (3,)
    with pytest.raises(InputError, match="can't be run here"):
        expert.measure()


def test_only_rewards_were_normalised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(CARTPOLE)]), norm_obs=False)
    model = sb3.A2C("MlpPolicy", venv, device="cpu").learn(5)
    config = "  - - normalize\n    - '{''norm_obs'': False, ''norm_reward'': True}'\n"
    load_expert(zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE, config))
    assert not caplog.text


def test_missing_statistics_are_announced(
    model: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = "  - - normalize\n    - '{''norm_obs'': True, ''norm_reward'': False}'\n"
    load_expert(zoo_entry(tmp_path, model, "CartPole-v1_1", CARTPOLE, config))
    assert "no vecnormalize.pkl" in caplog.text


def test_our_own_folder_round_trips(tmp_path: Path) -> None:
    venv = VecNormalize(DummyVecEnv([lambda: gym.make("Pendulum-v1", g=9.0)]))
    venv.reset()
    trained = sb3.SAC("MlpPolicy", venv, buffer_size=10, device="cpu", seed=0)
    meta = {
        "env_id": "Pendulum-v1",
        "env_kwargs": {"g": 9.0},
        "measured": {"mean": -150.0, "std": 80.0, "episodes": 50},
        "seed": 0,
        "command": "imitate expert train",
    }
    save_expert(tmp_path / "expert", trained, venv, meta)
    assert sorted(path.name for path in (tmp_path / "expert").iterdir()) == [
        "expert.json",
        "policy.safetensors",
    ]
    expert = load_expert(tmp_path / "expert")
    assert (expert.env_id, expert.env_kwargs, expert.published_return) == ("Pendulum-v1", {"g": 9.0}, -150.0)
    assert load_expert(tmp_path / "expert", env_kwargs={"g": 1.0}).published_return is None
    assert expert.training["command"] == "imitate expert train"
    assert expert.normalisation is not None
    assert expert.normalisation.mean is not None
    assert (expert.normalisation.mean == venv.obs_rms.mean).all()
    assert expert.oracle is not None

    weights = tmp_path / "expert" / "policy.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-4] + b"1234")
    with pytest.raises(InputError, match="not the one that its expert"):
        load_expert(tmp_path / "expert")
    weights.write_bytes(content[:500])
    with pytest.raises(InputError, match="damaged"):
        load_expert(tmp_path / "expert")


def test_normalised_dicts_are_not_stored(tmp_path: Path) -> None:
    """Only the statistics of an array are."""
    model = sb3.PPO("MlpPolicy", CARTPOLE, device="cpu", n_steps=8, batch_size=8)
    statistics = SimpleNamespace(norm_obs=True, obs_rms={"joints": None})
    with pytest.raises(InputError, match="normalised dict observations can't be stored"):
        save_expert(tmp_path / "expert", model, statistics, {"env_id": CARTPOLE})


@pytest.mark.parametrize("name", [name for name in known_experts() if not name.startswith("zoo:")])
def test_every_bundled_expert_opens(name: str) -> None:
    expert = load_expert(name)
    obs = np.zeros((2, *(expert.observation_space.shape or ())), np.float32)
    assert expert.runnable
    assert expert.action_space.contains(expert.act(obs)[0])


def test_an_experts_folder_may_have_a_path_longer_than_any_name(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a" * 60] * 5)
    shutil.copytree(BUNDLED / "CartPole-v1-ppo", deep)
    assert load_expert(deep).env_id == load_expert(str(deep)).env_id == CARTPOLE


def test_a_run_is_an_expert(tmp_path: Path) -> None:
    env = make_env(CARTPOLE)
    policy = ActorPolicy(env.observation_space, env.action_space, hidden=(8,))
    save_policy(tmp_path / "run" / "policy", policy)
    config = {"algorithm": "dagger", "env_id": CARTPOLE, "env_kwargs": {}, "budget": 10}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    expert = load_expert(tmp_path / "run")
    assert (expert.env_id, expert.algorithm, expert.oracle, expert.has_value) == (
        CARTPOLE,
        "dagger",
        None,
        False,
    )
    weights = (tmp_path / "run" / "policy" / "policy.safetensors").read_bytes()
    assert expert.sha256 == hashlib.sha256(weights).hexdigest()
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert (expert.act(obs) == policy.act(obs, deterministic=True)).all()
    with pytest.raises(InputError, match="is not for Pendulum-v1"):
        load_expert(tmp_path / "run", env_id="Pendulum-v1")


OWN_EXPERTS = """
import numpy as np

def leaning():
    return lambda obs: (obs[:, 2] > 0).astype(int)

class Always:
    def act(self, obs, deterministic=True):
        return np.full(len(obs), 1)

number = 3
nothing = lambda: None
"""


def test_a_callable_is_an_expert_if_its_module_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_experts.py").write_text(OWN_EXPERTS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="may not choose what is imported"):
        load_expert("own_experts:leaning", env_id=CARTPOLE)
    trust(*(f"own_experts:{name}" for name in ("leaning", "Always", "number", "gone", "nothing")))
    leaning = load_expert("own_experts:leaning", env_id=CARTPOLE)
    obs = np.array([[0, 0, -1, 0], [0, 0, 1, 0]], np.float32)
    assert leaning.act(obs).tolist() == [0, 1]
    assert load_expert("own_experts:Always", env_id=CARTPOLE).act(obs).tolist() == [1, 1]
    for spec, wrong in (
        ("number", "no callable"),
        ("gone", "no callable"),
        ("nothing", "returned a NoneType"),
    ):
        with pytest.raises(InputError, match=wrong):
            load_expert(f"own_experts:{spec}", env_id=CARTPOLE)
    with pytest.raises(InputError, match="--env"):
        load_expert("own_experts:leaning")


def test_random_is_an_expert(caplog: pytest.LogCaptureFixture) -> None:
    expert = load_expert("random", env_id=CARTPOLE)
    assert expert.measure(episodes=3).mean < 60
    assert "no better than random" not in caplog.text  # who asks for random actions knows
    expert.seed(3)
    first = expert.act(np.zeros((50, 4)))
    expert.seed(3)
    assert (expert.act(np.zeros((50, 4))) == first).all()
    assert set(first.tolist()) == {0, 1}
    with pytest.raises(InputError, match="--env"):
        load_expert("random")


def test_a_folder_does_not_choose_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "planted_by_folder.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    save_expert(
        tmp_path / "own",
        sb3.A2C("MlpPolicy", CARTPOLE, device="cpu"),
        None,
        {"env_id": "planted_by_folder:X-v0"},
    )
    assert not load_expert(tmp_path / "own").runnable
    assert "may not choose what is imported" in caplog.text
    assert load_expert(tmp_path / "own", env_id=CARTPOLE).runnable


def test_the_zoo_may_be_several_folders(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    zoo_entry(first / "a2c", model, "CartPole-v1_1", CARTPOLE)
    zoo_entry(second / "ppo", model, "CartPole-v1_1", CARTPOLE)
    zoo_entry(second / "a2c", model, "CartPole-v1_9", CARTPOLE)
    (second / "a2c/CartPole-v1_9/CartPole-v1.zip").write_bytes(b"never read: the first folder has one")
    monkeypatch.setenv("IMITATE_ZOO_DIR", os.pathsep.join([str(first), str(second)]))
    assert {"zoo:a2c/CartPole-v1", "zoo:ppo/CartPole-v1"} <= set(known_experts())
    for algorithm in ("a2c", "ppo"):
        assert load_expert(f"zoo:{algorithm}/CartPole-v1").env_id == CARTPOLE


@pytest.mark.forks
def test_keywords_that_a_file_chose_may_not_take_all_memory() -> None:
    class Hungry(Identity):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.world = bytearray(size)

    gym.register("Hungry-v1", entry_point=Hungry)
    try:
        assert spaces_here("Hungry-v1", {"size": 10})[2] == ""
        assert spaces_here("Hungry-v1", {"size": 1 << 30})[1:] == (
            None,
            "Hungry-v1 with the env_kwargs that the file names: it would take more than 384 MiB of memory",
        )
    finally:
        gym.registry.pop("Hungry-v1")
