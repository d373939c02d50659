"""Policy heads against torch.distributions, statistics against NumPy, and what is stored against what is read."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions import transforms as T

from imitate.configs.shared import LOG_STD_RANGE
from imitate.errors import InputError
from imitate.nn.adam import Adam
from imitate.nn.distributions import Categorical, Gaussian
from imitate.nn.networks import MLP, Encoder, layer_norm
from imitate.nn.normalize import ReturnScaler, RunningMoments
from imitate.nn.numpy_policy import NumpyPolicy
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape
from imitate.nn.state import load_state, save_state
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.rl.actor import Actor

BOX = spaces.Box(np.float32([-2, 0]), np.float32([2, 10]))
OBS = spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_log_probability_of_a_squashed_action_has_the_tanh_correction() -> None:
    mean, log_std = torch.tensor([[0.3, -1.0]]), torch.tensor([-0.5, 0.2])
    base = Independent(Normal(mean, log_std.exp()), 1)
    reference = TransformedDistribution(base, [T.TanhTransform(cache_size=1)])
    raw = torch.tensor([[0.7, -2.0]])
    expected = base.log_prob(raw) - T.TanhTransform().log_abs_det_jacobian(raw, raw.tanh()).sum(-1)
    torch.testing.assert_close(Gaussian(mean, log_std, True).log_prob(raw), expected)
    torch.testing.assert_close(reference.log_prob(raw.tanh()), expected, atol=1e-4, rtol=1e-4)


def test_gaussian_and_categorical_agree_with_torch() -> None:
    mean, log_std, raw = torch.randn(5, 2), torch.randn(2), torch.randn(5, 2)
    ours, reference = Gaussian(mean, log_std, False), Independent(Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(ours.log_prob(raw), reference.log_prob(raw))
    torch.testing.assert_close(ours.entropy(), reference.entropy())
    logits, actions = torch.randn(5, 4), torch.tensor([0, 1, 2, 3, 0])
    reference_categorical = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(Categorical(logits).log_prob(actions), reference_categorical.log_prob(actions))
    torch.testing.assert_close(Categorical(logits).entropy(), reference_categorical.entropy())


def test_categorical_samples_have_the_softmax_frequencies() -> None:
    logits = torch.tensor([0.5, 0.25, 0.25]).log().expand(20_000, 3)
    draws = Categorical(logits).sample(torch.Generator().manual_seed(0))
    frequencies = torch.bincount(draws, minlength=3) / len(draws)
    torch.testing.assert_close(frequencies, torch.tensor([0.5, 0.25, 0.25]), atol=0.015, rtol=0)


@pytest.mark.parametrize("head", ["squashed", "clipped"])
def test_actions_are_within_bounds_and_units_convert_back(head: str) -> None:
    policy = ActorPolicy(OBS, BOX, head=head)  # type: ignore[arg-type]
    raw = torch.randn(100, 2) * 5
    actions = policy.to_env(raw)
    assert all(BOX.contains(action) for action in actions.detach().numpy())
    expected = raw.tanh() if head == "squashed" else raw.clamp(-1, 1)
    torch.testing.assert_close(policy.to_unit(actions), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_rounding_takes_an_action_out_of_its_bounds(dtype: type[np.floating[Any]]) -> None:
    """The sum of center and half the range is above the bound in a sixth of these."""
    ends = (
        np.random.default_rng(0).normal(size=(2, 1000)).cumsum(0)
        * 10.0 ** np.arange(-3, 3).repeat(200)[:1000]
    )
    box = spaces.Box(*np.sort(ends, 0).astype(dtype), dtype=dtype)
    policy = ActorPolicy(OBS, box)
    for unit in (np.ones((1, 1000), np.float32), -np.ones((1, 1000), np.float32)):
        for actions in (policy.from_unit(torch.from_numpy(unit)).numpy(), Actor(policy).from_unit(unit)):
            assert box.contains(actions[0])
            np.testing.assert_allclose(policy.to_unit(torch.from_numpy(actions)), unit, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_policy_acts_in_the_numbers_of_its_space(dtype: type[np.floating[Any]]) -> None:
    box = spaces.Box(dtype(0.1), dtype(0.7), (3,), dtype)
    policy = ActorPolicy(OBS, box)
    assert box.contains(policy.act(OBS.sample()))
    assert box.contains(NumpyPolicy(policy).act(OBS.sample()))


def test_actions_of_the_widest_bounds_are_finite() -> None:
    """Unbounded environments often name the largest number; the sum of two overflows."""
    widest = spaces.Box(-3.4e38, 3.4e38, (1,), np.float32)
    assert Actor(ActorPolicy(OBS, widest)).from_unit(np.float32([[0.0], [1.0]])).tolist() == [
        [0.0],
        widest.high.tolist(),
    ]


def test_an_action_that_cannot_vary_has_the_unit_0() -> None:
    policy = ActorPolicy(OBS, spaces.Box(np.float32([-1, 0.5]), np.float32([1, 0.5])))
    assert policy.to_unit(torch.tensor([[1.0, 0.5]])).tolist() == [[1.0, 0.0]]
    assert policy.from_unit(torch.tensor([[1.0, -1.0]])).tolist() == [[1.0, 0.5]]
    least = np.float32([1e-45])  # half of it is 0
    assert Actor(ActorPolicy(OBS, spaces.Box(least, least))).from_unit(np.float32([[1.0]])) == least


def test_actions_of_a_discrete_space_that_starts_elsewhere() -> None:
    policy = ActorPolicy(OBS, spaces.Discrete(3, start=-1))
    assert set(policy.act(np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32))) <= {-1, 0, 1}


def test_a_policy_comes_back_from_its_folder_as_it_was(tmp_path: Path) -> None:
    policy = ActorPolicy(OBS, BOX, hidden=(7, 5), activation="relu", head="squashed", normalize_obs=True)
    policy.encoder.observe(torch.randn(50, 3) * 3 + 1)
    save_policy(tmp_path / "policy", policy)
    again = load_policy(tmp_path)
    obs = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    np.testing.assert_array_equal(policy.act(obs, deterministic=True), again.act(obs, deterministic=True))
    (tmp_path / "policy" / "policy.safetensors").write_bytes(b"not a policy")
    with pytest.raises(InputError, match=r"policy\.safetensors"):
        load_policy(tmp_path)
    with pytest.raises(InputError, match=r"no folder .*elsewhere"):
        load_policy(tmp_path / "elsewhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no policy"):
        load_policy(tmp_path / "empty")
    (tmp_path / "empty/first/policy").mkdir(parents=True)
    with pytest.raises(InputError, match=r"is a folder of 1 runs: name one, such as .*first$"):
        load_policy(tmp_path / "empty")


def test_only_a_policy_replaces_the_policy_in_a_folder(tmp_path: Path) -> None:
    policy = ActorPolicy(OBS, BOX, hidden=(8,))
    save_policy(tmp_path, policy)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    others: tuple[Any, ...] = (policy.encoder, str(tmp_path))
    for other in others:
        with pytest.raises(
            InputError, match=f"an ActorPolicy, got a {type(other).__name__}: give learner.policy"
        ):
            save_policy(tmp_path, other)
    with pytest.raises(InputError, match=r"policy.json is a file: name a folder"):
        save_policy(tmp_path / "policy.json", policy)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "mps:7"])
def test_a_device_that_is_not_here_is_one_line(tmp_path: Path, device: str) -> None:
    save_policy(tmp_path, ActorPolicy(spaces.Discrete(2), spaces.Discrete(2)))
    with pytest.raises(InputError, match=f"torch can't use device '{device}' here: take 'cpu'") as error:
        load_policy(tmp_path, device=device)
    assert "\n" not in str(error.value)


def test_a_log_std_beyond_its_range_is_put_back_and_moves_on() -> None:
    policy = ActorPolicy(OBS, BOX, log_std_init=5.0)
    assert policy.log_std.tolist() == [2.0, 2.0]
    adam = Adam(policy.parameters(), 0.1)
    for wanted in (2.0, 1.9):  # up against the bound, then down again at once
        distribution = policy(torch.zeros(1, 3))
        assert isinstance(distribution, Gaussian)
        adam.step(-distribution.log_std.sum() if wanted == 2.0 else 100 * distribution.log_std.sum())
        policy.project_()
        assert policy.log_std.max() <= 2.0
    assert policy.log_std.max() < 2.0


def test_a_policy_is_described_without_clamping_which_would_load_torchs_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the device `meta`, on which stored policies are described, `clamp_` imports torch._dynamo for two seconds."""
    monkeypatch.setattr(torch.Tensor, "clamp_", None)
    with torch.device("meta"):
        assert ActorPolicy(OBS, BOX).log_std.is_meta
    stds = {init: ActorPolicy(OBS, BOX, log_std_init=init).log_std.tolist() for init in (-19.0, -1.0, 9.0)}
    low, high = LOG_STD_RANGE
    assert stds == {-19.0: [low] * 2, -1.0: [-1.0] * 2, 9.0: [high] * 2}


def test_one_observation_gives_one_action_and_predict_is_what_people_know() -> None:
    policy = ActorPolicy(OBS, BOX)
    obs = np.float32([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    both, (first, state) = policy.act(obs), policy.predict(obs[0])
    assert both.shape == (2, 2)
    assert first.shape == (2,)
    assert state is None
    np.testing.assert_allclose(first, both[0], rtol=1e-6)
    np.testing.assert_array_equal(both, policy.act(obs, deterministic=True))  # the default
    assert not np.array_equal(both, policy.act(obs, deterministic=False))
    one_hot = ActorPolicy(spaces.Discrete(4), spaces.Discrete(3))
    assert one_hot.act(np.array([0, 3])).shape == (2,)
    assert one_hot.act(np.int64(2)).shape == ()


def test_discrete_observations_may_start_elsewhere() -> None:
    encoder = Encoder(spaces.Discrete(3, start=5), (4,), "tanh", normalize=False)
    assert encoder.prepare(torch.tensor([5, 7])).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_a_state_among_millions_is_encoded_without_the_square_of_them() -> None:
    encoder = Encoder(spaces.Discrete(10_000_000, start=5), (), "tanh", normalize=False)
    row = encoder.prepare_numpy(np.array([9]))
    assert (row.shape, row.dtype, row[0, 4], row.sum()) == ((1, 10_000_000), np.float32, 1, 1)


@pytest.mark.parametrize("shape", [(128,), (6, 5)])
def test_bytes_that_are_no_image_are_scaled(shape: tuple[int, ...]) -> None:
    encoder = Encoder(spaces.Box(0, 255, shape, np.uint8), (4,), "tanh", normalize=False)
    prepared = encoder.prepare(torch.full((2, *shape), 51, dtype=torch.uint8))
    torch.testing.assert_close(prepared, torch.full((2, math.prod(shape)), 0.2))


@pytest.mark.parametrize("channels", [3, 12])
def test_images_whose_channels_are_last_are_turned(channels: int) -> None:
    """The same picture, (H, W, C) as CarRacing gives it, or four of these, and (C, H, W), has the same features."""
    torch.manual_seed(0)
    last, first = (
        Encoder(spaces.Box(0, 255, shape, np.uint8), (), "tanh", normalize=False)
        for shape in ((48, 40, channels), (channels, 48, 40))
    )
    first.load_state_dict(last.state_dict())
    image = torch.randint(256, (2, 48, 40, channels), dtype=torch.uint8)
    given = image.clone()
    wanted = first(first.prepare(image.permute(0, 3, 1, 2)))
    torch.testing.assert_close(last(last.prepare(image)), wanted)
    torch.testing.assert_close(last(last.prepare(image).float()), wanted)
    assert torch.equal(image, given)


SPACES = {
    "vector": spaces.Box(-1, 1, (3,), np.float32),
    "double": spaces.Box(-1, 1, (3,), np.float64),
    "discrete": spaces.Discrete(4, start=2),
    "bytes": spaces.Box(0, 255, (7,), np.uint8),
    "number": spaces.Box(-1, 1, (), np.float32),
    "flags": spaces.Box(0, 1, (3,), np.bool_),
}


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_what_numpy_prepares_is_what_torch_prepares(name: str, normalize: bool) -> None:
    space = SPACES[name]
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(20)])
    encoder = Encoder(space, (4,), "tanh", normalize=normalize)
    encoder.observe(torch.from_numpy(obs[:9]))
    prepared = encoder.prepare(torch.from_numpy(obs))
    assert prepared.dtype == torch.float32
    np.testing.assert_allclose(encoder.prepare_numpy(obs), prepared, rtol=1e-6, atol=1e-6)


def test_moments_are_kept_in_float64_and_older_files_are_read() -> None:
    moments = RunningMoments((1,))
    for offset in (0.0, 1.0):  # 1e8 and 1e8 + 1: float32 can't tell them apart
        moments.update(torch.full((5, 1), 1e8 + offset, dtype=torch.float64))
    assert moments.mean.tolist() == [1e8 + 0.5]
    assert moments.var.tolist() == [0.25]
    older = {"mean": torch.tensor([1.5]), "var": torch.tensor([0.25]), "count": torch.tensor(4.0)}
    moments.load_state_dict(older)
    assert moments.var.dtype == torch.float64
    assert moments(torch.tensor([[2.0]])).tolist() == [[1.0]]


def test_an_input_that_hardly_varies_does_not_explode() -> None:
    moments = RunningMoments((2,))
    moments.update(torch.tensor([[3.0, 0.0], [3.0, 2.0]]))
    # A constant and one of deviation 1: a change of 1e-3 is 1 where the floor of 1e-3 holds, and 1e-3 otherwise.
    torch.testing.assert_close(
        moments(torch.tensor([[3.001, 1.001]])), torch.tensor([[1.0, 1e-3]]), rtol=1e-3, atol=0
    )
    assert moments(torch.tensor([[4.0, 1.0]])).tolist() == [[10.0, 0.0]]


def test_frozen_moments_stay() -> None:
    moments = RunningMoments((1,))
    moments.update(torch.tensor([[0.0], [2.0]]))
    moments.frozen = True
    moments.update(torch.tensor([[100.0]]))
    assert (moments.mean.item(), moments.var.item(), moments.count.item()) == (1.0, 1.0, 2.0)


@settings(deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=5), st.integers(0, 2**31))
def test_running_moments_are_those_of_everything_seen(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    batches = [rng.normal(3, 2, (size, 2)) for size in sizes]
    moments = RunningMoments((2,))
    for batch in batches:
        moments.update(torch.from_numpy(batch))
    together = np.concatenate(batches)
    np.testing.assert_allclose(moments.mean, together.mean(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(moments.var, together.var(0), rtol=1e-4, atol=1e-4)


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return() -> None:
    scaler = ReturnScaler(1, gamma=0.5)
    scaled = scaler(np.float32([[1], [1], [1]]), np.array([[False], [True], [False]]))
    # discounted sums 1, 1.5, then 1 again after the end: variance of (1, 1.5, 1)
    np.testing.assert_allclose(scaled, 1 / np.std([1, 1.5, 1]), rtol=1e-5)


def test_state_survives_the_disk(tmp_path: Path) -> None:
    state = {"a": [torch.arange(3), {1: 2.5, "x": None}], "t": torch.tensor(True), "empty": {}}
    save_state(tmp_path / "s", state)
    again = load_state(tmp_path / "s")
    assert torch.equal(again["a"][0], torch.arange(3))
    assert again["a"][1] == {1: 2.5, "x": None}
    assert again["empty"] == {}
    (tmp_path / "s").write_bytes((tmp_path / "s").read_bytes()[:20])
    with pytest.raises(InputError, match="not a state"):
        load_state(tmp_path / "s")


@pytest.mark.parametrize(
    "state",
    [
        {"a/b": torch.zeros(1), "a": {"b": torch.ones(1)}},
        {1: torch.zeros(1), "1": torch.ones(1)},
        {"expert": "tensor:make_expert"},
    ],
)
def test_a_state_that_would_be_read_as_another_is_not_written(tmp_path: Path, state: dict[Any, Any]) -> None:
    """Of two tensors with one path both became the last one; the text made the file unreadable."""
    with pytest.raises(InputError, match="can't be told from another tensor"):
        save_state(tmp_path / "s", state)
    assert not (tmp_path / "s").exists()


def test_layer_norm_by_hand() -> None:
    """1 and 3 have the mean 2 and the deviation 1: they become -1 and 1, and relu leaves the second."""
    net = MLP([1, 2], "relu", layer_norm=True)
    with torch.no_grad():
        net.linear[0].weight.copy_(torch.tensor([[1.0], [3.0]]))
        net.linear[0].bias.zero_()
    assert net(torch.ones(1, 1)).tolist() == [[0.0, pytest.approx(1.0, abs=1e-5)]]
    assert layer_norm(np.array([[1.0, 3.0]])).tolist() == [pytest.approx([-1.0, 1.0], abs=1e-5)]


@pytest.mark.parametrize("norm", [False, True])
def test_an_mlp_is_its_layers_in_turn_and_its_copy_has_weights_of_its_own(norm: bool) -> None:
    net, x = MLP([4, 8, 3], "tanh", layer_norm=norm), torch.randn(5, 4)
    copied = copy.deepcopy(net)
    by_layers = torch.nn.Sequential(*net)(x)
    assert torch.equal(net(x), by_layers)
    assert torch.equal(copied(x), by_layers)
    torch.nn.init.zeros_(copied[0].weight)
    assert torch.equal(net(x), by_layers)
    assert not torch.equal(copied(x), by_layers)


def test_a_policy_to_start_from_leaves_its_critic_behind() -> None:
    """The critic would be taken for that of what the policy becomes."""
    policy = ActorPolicy(OBS, BOX, critic=CriticShape(2, 1, (8,), 0.99))
    adapted = policy.adapted(OBS, BOX)
    assert adapted.critic is None
    assert "critic" not in adapted.describe()
    obs = np.zeros((1, 3), np.float32)
    np.testing.assert_array_equal(adapted.act(obs), policy.act(obs))


@pytest.mark.parametrize(
    "changed",
    [
        {"hidden": [1] * 100_000},
        {"hidden": [0]},
        {"hidden": ["8"]},
        {"critic": {"count": 2, "outputs": 1, "hidden": [0], "gamma": 0.99}},
        {"critic": {"count": 2, "outputs": 1, "hidden": [8] * 65, "gamma": 0.99}},
        {"critic": {"count": 2, "outputs": 1, "hidden": [8], "gamma": "x"}},
        {"critic": {"count": 0, "outputs": 1, "hidden": [8], "gamma": 0.99}},
    ],
    ids=["many", "none", "text", "critic of none", "critic of many", "gamma", "no critic"],
)
def test_a_stored_network_of_impossible_widths_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    save_policy(tmp_path, ActorPolicy(OBS, BOX, critic=CriticShape(2, 1, (8,), 0.99)))
    described = json.loads((tmp_path / "policy.json").read_text("utf-8"))
    (tmp_path / "policy.json").write_text(json.dumps(described | changed))
    with pytest.raises(InputError, match="can't be read"):
        load_policy(tmp_path)


def test_a_head_or_activation_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match=r"head 'squash' does not fit .*: wanted squashed or clipped$"):
        ActorPolicy(OBS, BOX, head="squash")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^activation must be tanh or relu, got 'gelu'$"):
        ActorPolicy(OBS, BOX, activation="gelu")  # type: ignore[arg-type]
