"""Learned rewards: by hand, stored and loaded, hostile files, and their agreement with the true reward."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from handwritten import named

from imitate import load_reward
from imitate.algorithms import ALGORITHMS
from imitate.datasets.storage.reader import DemoReader
from imitate.envs.make import make_env
from imitate.envs.spaces import Array, space_to_json
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError
from imitate.imitators.architecture import Architecture
from imitate.imitators.dac import DAC
from imitate.imitators.learned_reward import Description, LearnedReward, LearnsReward, save_reward
from imitate.imitators.reward_check import Correlation, plot_agreement, reward_agreement
from imitate.nn.state import load_state, save_state
from imitate.rl.actor import encode

NUMBER = spaces.Box(-1.0, 1.0, (1,), np.float32)
FORCE = spaces.Box(-2.0, 2.0, (1,), np.float32)
FEW = {"learning_starts": 4, "rounds_per_iteration": 3, "batch_size": 4, "hidden": (8,)}
ROLLOUT = {"num_steps": 16}
UNEVEN = {"hidden": (8, 4), "activation": "tanh"}
LEARNERS: list[Any] = [
    ("gail", "Identity-v0", {"bc_updates": 2, "ppo": ROLLOUT}),
    ("gail", "ContinuousIdentity-v0", {"bc_updates": 2, "ppo": ROLLOUT, "spectral_norm": True}),
    ("gail", "ContinuousIdentity-v0", {"bc_updates": 2, "ppo": ROLLOUT, "reward": "airl"} | UNEVEN),
    pytest.param("dac", "ContinuousIdentity-v0", FEW, marks=pytest.mark.slow),
    ("dac", "ContinuousIdentity-v0", FEW | {"spectral_norm": True, "reward": "negative"}),
    ("gaifo", "ContinuousIdentity-v0", FEW),
]


def linear(slope: tuple[float, ...] = (3.0, 4.0), **changed: Any) -> LearnedReward:
    """GAIL's logit slope[0] s + slope[1] a without hidden layers, in which a is in [-1, 1]."""
    described = Description(
        Architecture("gail", (), "relu"), "logit", 0.0, 0.0, space_to_json(NUMBER), space_to_json(FORCE)
    )
    reward = LearnedReward(replace(described, **changed))
    with torch.no_grad():
        reward.network.output.weight.copy_(torch.tensor([slope]))
        reward.network.output.bias.zero_()
    return reward.eval()


def steps(count: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    places = rng.uniform(-1, 1, (2, count, 1)).astype(np.float32)
    return places[0], rng.uniform(-2, 2, (count, 1)).astype(np.float32), places[1], np.arange(count) % 2 == 0


def test_rewards_by_hand() -> None:
    obs, actions = np.float32([[0.5], [0.5]]), np.float32([[1.0], [-6.0]])  # 0.5, and clipped to -1
    ends = np.array([False, True])
    given = linear(alive=0.25, absorbed=-9.0)(obs, actions, obs, ends)
    np.testing.assert_allclose(given, [1.5 + 2 + 0.25, 1.5 - 4 + 0.25 - 9])
    positive = linear(form="positive")(obs, actions, obs, ends)
    np.testing.assert_allclose(positive, [math.log1p(math.exp(3.5)), math.log1p(math.exp(-2.5))], rtol=1e-6)
    assert given.dtype == np.float32
    with pytest.raises(InputError, match=r"of 2 steps takes arrays of shape \(2, 1\), got \(2,\): reshape"):
        linear()(obs[:, 0], actions, obs, ends)


def test_a_range_of_actions_that_overflows_is_scaled() -> None:
    """The difference of the bounds is beyond float32; actions of half and all of the upper one are 0.5 and 1."""
    wide = spaces.Box(np.float32(-3e38), np.float32(3e38), (1,), np.float32)
    obs, actions = np.zeros((2, 1), np.float32), np.float32([[1.5e38], [3e38]])
    given = linear(action_space=space_to_json(wide))(obs, actions, obs, np.zeros(2, bool))
    np.testing.assert_allclose(given, [2.0, 4.0], rtol=1e-6)


def test_actions_count_from_the_first_of_their_space() -> None:
    """Weights 4 and 5 of the actions 3 and 4."""
    reward = linear((3.0, 4.0, 5.0), action_space=space_to_json(spaces.Discrete(2, start=3)))
    obs, ends = np.float32([[0.5], [0.5]]), np.array([False, False])
    assert reward(obs, np.array([3, 4]), obs, ends).tolist() == [1.5 + 4, 1.5 + 5]
    with pytest.raises(InputError, match=r"holds 2, which is not in Discrete\(2, start=3\)"):
        reward(obs, np.array([2, 3]), obs, ends)


def test_an_action_with_equal_bounds_counts_as_0() -> None:
    """1 of -2 to 2 is 0.5; the other one is always 1."""
    force = spaces.Box(np.float32([-2, 1]), np.float32([2, 1]))
    obs, ends = np.float32([[0.5]]), np.array([False])
    reward = linear((3.0, 4.0, 5.0), action_space=space_to_json(force))
    assert reward(obs, np.float32([[1, 1]]), obs, ends).tolist() == [1.5 + 4 * 0.5]


def test_a_reward_that_is_made_leaves_torchs_generator_alone() -> None:
    before = torch.get_rng_state()
    linear()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.filterwarnings("error")
def test_steps_are_taken_however_they_lie_in_memory() -> None:
    given = steps(6)
    wanted = linear(absorbed=-9.0)(*given)
    fixed = [column.copy() for column in given]
    for column in fixed:
        column.flags.writeable = False
    views = [column[::-1].copy()[::-1] for column in given]
    swapped = [column.astype(column.dtype.newbyteorder(">")) for column in given]
    for each in (fixed, views, swapped, [column.tolist() for column in given], [*given[:3], 2 * given[3]]):
        np.testing.assert_array_equal(linear(absorbed=-9.0)(*each), wanted)


def test_what_is_no_step_is_one_line() -> None:
    obs, actions, following, ends = steps(2)
    for wrong, said in (
        ((np.full((2, 1), np.nan), actions, following, ends), "NaN"),
        ((obs, actions, np.full((2, 1), np.inf), ends), "NaN or infinite"),
        ((obs[0], actions[0], following[0], ends[0]), "give a single step as a batch of 1"),
        ((obs, [["a"], ["b"]], following, ends), "real numbers, got <U1: cast it to float32"),
        ((obs, actions[:1], following, ends), r"of 2 steps takes arrays of shape \(2, 1\), got \(1, 1\)"),
        ((obs, actions, following, [0.0, math.nan]), "float64, wanted flags: cast them to bool"),
        ((obs.astype(object), actions, following, ends), "real numbers, got object: cast it to float32"),
    ):
        with pytest.raises(InputError, match=said):
            linear()(*wrong)
    chosen = LearnedReward(replace(linear().description, action_space=space_to_json(spaces.Discrete(2))))
    for choice, said in (
        (2, r"holds 2, which is not in Discrete\(2\)"),
        (-1, "holds -1"),
        (0.5, r"holds 0\.5"),
    ):
        with pytest.raises(InputError, match=said):
            chosen(obs, np.array([0, choice]), following, ends)


@pytest.mark.parametrize(("name", "env_id", "settings"), LEARNERS)
def test_it_is_what_the_learner_is_paid_and_survives_the_disk(
    tmp_path: Path, name: str, env_id: str, settings: dict[str, Any]
) -> None:
    algorithm = ALGORITHMS[name]
    with DemoReader(named(tmp_path / "demos.h5", env_id, terminated=True)) as demos:
        envs = SyncVecEnv([partial(make_env, env_id)] * 2)
        learner = algorithm.learner(algorithm.config(**settings), envs=envs, demos=demos, seed=0)
        for _ in range(3):
            learner.step()
        assert isinstance(learner, LearnsReward)
        before = {key: x.clone() for key, x in learner.discriminator.state_dict().items()}
        reward = LearnedReward.of(learner)
        after = learner.discriminator.state_dict()
        assert all(torch.equal(before[key], after[key]) for key in before)  # looking at it changes nothing
        assert learner.discriminator.training
    save_reward(tmp_path / "run" / "reward", reward)
    again = load_reward(tmp_path / "run")
    assert again.description == reward.description
    obs, actions, next_obs, ends = steps(6)
    if env_id == "Identity-v0":
        obs, actions, next_obs = (np.arange(6) % 3, np.arange(6) // 2, np.arange(6) % 3)
    found = again(obs, actions, next_obs, ends)
    np.testing.assert_array_equal(found, reward(obs, actions, next_obs, ends))
    alive, absorbed = learner.ends()
    units = learner.policy.to_unit(torch.from_numpy(actions))
    net = learner.discriminator.eval()
    with torch.no_grad():
        logits = net.judge(
            *map(torch.from_numpy, (obs,)), units, torch.from_numpy(next_obs), torch.from_numpy(ends)
        )
    if settings.get("reward") != "negative":
        np.testing.assert_allclose(found, logits.numpy() + alive + absorbed * ends, rtol=1e-5, atol=1e-5)
    if isinstance(learner, DAC):  # what a batch of its replay is paid
        paid = learner.rewards(
            {
                "obs": encode(learner.policy, obs),
                "next_obs": encode(learner.policy, next_obs),
                "actions": units,
                "discounts": torch.from_numpy(0.9 * ~ends),
                "alive": torch.tensor(alive),
                "absorbed": torch.tensor(absorbed),
            }
        )
        np.testing.assert_allclose(found, paid.detach(), rtol=1e-5, atol=1e-5)
    assert np.ptp(found) > 0


def stored(folder: Path) -> Path:
    save_reward(folder / "reward", linear())
    return folder


DESCRIBED = asdict(linear().description)
HOSTILE: list[dict[str, Any]] = [
    {"network": DESCRIBED["network"] | {"hidden": [1 << 40]}},
    {"network": DESCRIBED["network"] | {"hidden": [1] * 65}},
    {"network": DESCRIBED["network"] | {"hidden": [64, 64]}},
    {"network": DESCRIBED["network"] | {"hidden": []} | {"kind": "dac"}},
    {"network": DESCRIBED["network"] | {"hidden": [2]} | {"kind": "gaifo"}},
    {"network": DESCRIBED["network"] | {"kind": "os.system"}},
    {"form": "exec"},
    {"alive": math.nan},
    {"absorbed": math.inf},
    {"observation_space": {"type": "Box", "low": 0, "high": 1, "shape": [1 << 40], "dtype": "float32"}},
    {"action_space": {"type": "MultiDiscrete", "nvec": [1], "start": [0], "dtype": "int64"}},
    {"action_space": {}},
    {"action_space": space_to_json(spaces.Box(-np.inf, np.inf, (1,), np.float32))},
    {"action_space": space_to_json(spaces.Box(-1.0, 1.0, (1, 1), np.float32))},
]


@pytest.mark.parametrize("mutant", HOSTILE, ids=lambda mutant: str(*mutant))
def test_a_damaged_description_is_one_line(tmp_path: Path, mutant: dict[str, Any]) -> None:
    path = stored(tmp_path) / "reward" / "reward.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | mutant))
    with pytest.raises(InputError) as error:
        load_reward(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("network", ["dac", "gaifo"])
def test_a_reward_of_continuous_actions_has_no_others(tmp_path: Path, network: str) -> None:
    described = replace(linear().description, network=Architecture(network, (2,), "tanh"))
    save_reward(tmp_path / "reward", LearnedReward(described))
    path = tmp_path / "reward" / "reward.json"
    text = json.loads(path.read_text("utf-8")) | {"action_space": space_to_json(spaces.Discrete(3))}
    path.write_text(json.dumps(text))
    with pytest.raises(
        InputError, match=rf"a reward of {network} is of continuous actions, got Discrete\(3\)"
    ):
        load_reward(tmp_path)


def test_damaged_weights_are_one_line(tmp_path: Path) -> None:
    path = stored(tmp_path) / "reward" / "reward.safetensors"
    whole, state = path.read_bytes(), load_state(path)
    path.write_bytes(whole[:-1])
    with pytest.raises(InputError, match="not a state that imitate wrote"):
        load_reward(tmp_path)
    save_state(path, state | {"network.output.weight": torch.zeros(1, 3)})
    with pytest.raises(InputError, match=r"another network than reward\.safetensors holds"):
        load_reward(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="has no learned reward: wanted a run of gail, dac or gaifo"):
        load_reward(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        load_reward(tmp_path / "nowhere")


def test_correlations_by_hand() -> None:
    found = Correlation.of(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 8.0]))
    assert found.ranks == pytest.approx(1)
    assert found.linear == pytest.approx(4 * math.sqrt(3) / math.sqrt(57))  # 8 / sqrt(2 * 38)
    assert Correlation.of(np.ones(3), np.arange(3.0)) == Correlation(None, None)


def test_it_is_compared_on_recorded_episodes(tmp_path: Path) -> None:
    """The recorded rewards are 1 in every step; the learned ones are 3 s + 4 a with a = s / 2, so 5 s."""
    with DemoReader(named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 3)) as demos:
        found = reward_agreement(linear(), demos)
        assert found.rewards.shape == (2, 30)
        assert found.returns[0].tolist() == [10, 10, 10]
        np.testing.assert_allclose(found.rewards[1, :10], 5 * demos[0].obs[:10, 0], rtol=1e-5)
        np.testing.assert_allclose(found.returns[1, 2], 5 * demos[2].obs[:10].sum(), rtol=1e-4)
        assert found.per_step == Correlation(None, None)
        plot_agreement(found, tmp_path / "plot.png", title=r"run on $\nothing$")  # no formula
        assert (tmp_path / "plot.png").read_bytes()[1:4] == b"PNG"
        with pytest.raises(InputError, match=r"written as \.png"):
            plot_agreement(found, tmp_path / "plot.pdf")
        with pytest.raises(InputError, match="exists already"):
            plot_agreement(found, tmp_path / "plot.png")
        with pytest.raises(InputError, match=r"missing.plot\.png can't be written: there is no folder"):
            plot_agreement(found, tmp_path / "missing" / "plot.png")
        other = space_to_json(spaces.Box(-3.0, 3.0, (1,), np.float32))
        with pytest.raises(InputError, match=r"the reward has action_space .* the recording"):
            reward_agreement(linear(action_space=other), demos)


class Paid:
    """A reward of s - 2 s', and 9 more at a termination."""

    observation_space, action_space, sees_actions = NUMBER, FORCE, False

    def __call__(self, obs: Array, _actions: Array, next_obs: Array, terminated: Array) -> Array:
        return obs[:, 0] - 2 * next_obs[:, 0] + 9 * terminated


@pytest.mark.parametrize("terminated", [False, True])
def test_recorded_steps_are_rewarded_with_their_successors_and_ends(tmp_path: Path, terminated: bool) -> None:
    with DemoReader(named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 1, terminated=terminated)) as demos:
        found = reward_agreement(Paid(), demos).rewards[1]  # type: ignore[arg-type]
        obs = demos[0].obs[:, 0]
    np.testing.assert_allclose(found[:9], obs[:9] - 2 * obs[1:10], rtol=1e-5)
    assert found[9] == pytest.approx(obs[9] - 2 * obs[10] + 9 * terminated, rel=1e-5)


@pytest.mark.parametrize(
    ("network", "hidden", "sees"),
    [("gail", (), True), ("airl", (), False), ("dac", (2,), True), ("gaifo", (2,), False)],
)
def test_only_a_reward_of_actions_needs_them_recorded(
    tmp_path: Path, network: str, hidden: tuple[int, ...], sees: bool
) -> None:
    reward = LearnedReward(replace(linear().description, network=Architecture(network, hidden, "relu")))  # type: ignore[arg-type]
    with DemoReader(named(tmp_path / "demos.h5", "ContinuousIdentity-v0", 1)) as demos:
        demos.info = replace(demos.info, has_actions=False)
        if sees:
            with pytest.raises(InputError, match="no actions, on which this reward depends"):
                reward_agreement(reward, demos)
        else:
            assert reward_agreement(reward, demos).rewards.shape == (2, 10)
