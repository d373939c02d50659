"""Exports act as the policy that they were made of, in another library's hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from forked import run
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.cli import main
from imitate.errors import InputError
from imitate.export.deployed import Deployed, compare, named
from imitate.export.graphs import to_onnx, to_torch, to_torchscript
from imitate.export.sb3_zip import _copy_critics, _model, to_sb3
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stacked import CriticShape
from imitate.nn.stored_policy import load_policy, save_policy

VECTOR = spaces.Box(-np.inf, np.inf, (5,))
BOUNDED = spaces.Box(np.float32([-2, 0, -1]), np.float32([2, 1, 3]))
PICTURE = spaces.Box(0, 255, (4, 44, 44), np.uint8)
PARTS = spaces.Dict({"camera": spaces.Box(0, 255, (40, 48, 3), np.uint8), "grip": spaces.Discrete(3, start=1),
                     "joints": spaces.Box(-np.inf, np.inf, (7,), np.float64)})  # fmt: skip

POLICIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "clipped": (VECTOR, BOUNDED, {}),
    "normalised": (VECTOR, BOUNDED, {"normalize_obs": True}),
    "squashed": (VECTOR, BOUNDED, {"head": "squashed", "activation": "relu"}),
    "soft": (VECTOR, BOUNDED, {"head": "squashed", "activation": "relu", "state_std": True, "hidden": (32, 32),
                               "critic": CriticShape(2, 1, (32, 32), 0.9)}),
    "discrete": (VECTOR, spaces.Discrete(4), {}),
    "layer norm": (VECTOR, spaces.Discrete(4), {"activation": "relu", "layer_norm": True}),
    "several": (VECTOR, spaces.MultiDiscrete([3, 2, 4]), {}),
    "bits": (VECTOR, spaces.MultiBinary(3), {}),
    "numbered": (spaces.Discrete(6), spaces.Discrete(3), {}),
    "numbered in bytes": (spaces.Discrete(6, dtype=np.uint8), spaces.Discrete(3), {}),
    "bytes": (spaces.Box(0, 255, (16,), np.uint8), spaces.Discrete(3), {}),
    "doubles": (spaces.Box(-1, 1, (2, 3), np.float64), spaces.Discrete(3), {}),
    "pixels": (PICTURE, spaces.Discrete(6), {}),
    "squashed bytes": (spaces.Box(0, 255, (16,), np.uint8), BOUNDED, {"head": "squashed", "activation": "relu"}),
    "squashed pixels": (PICTURE, BOUNDED, {"head": "squashed"}),
    "camera": (spaces.Box(0, 255, (48, 40, 3), np.uint8), spaces.Discrete(6), {}),
    "small pictures": (spaces.Box(0, 255, (16, 20, 3), np.uint8), BOUNDED, {"normalize_obs": True}),
    "small stacks": (spaces.Box(0, 255, (4, 16, 20), np.uint8), BOUNDED, {"head": "squashed"}),
    "parts": (PARTS, BOUNDED, {"normalize_obs": True}),
    "of the state": (VECTOR, BOUNDED, {"state_std": True}),
    "from one": (VECTOR, spaces.Discrete(4, start=1), {}),
    "tuple": (spaces.Tuple((VECTOR, spaces.Discrete(3, start=-1))), BOUNDED, {"normalize_obs": True}),
    "last action": (spaces.Dict(action=BOUNDED, action_=VECTOR), BOUNDED, {}),
    "depth": (spaces.Box(0, 65535, (36, 40, 1), np.uint16), BOUNDED, {"normalize_obs": True}),
    "two depths": (spaces.Tuple((spaces.Box(0, 65535, (6,), np.uint16), spaces.Box(0, 2**32 - 1, (2,), np.uint32))),
                   BOUNDED, {}),
    "one number": (spaces.Box(-10, 10, ()), BOUNDED, {"normalize_obs": True}),
    "far from 0": (VECTOR, spaces.Box(100, 101, (3,)), {}),
    "one torque": (VECTOR, spaces.Box(-2, 2, (1,)), {"head": "squashed", "activation": "relu", "state_std": True}),
}  # fmt: skip
SB3_LACKS = ("small pictures", "small stacks", "parts", "from one", "of the state", "layer norm", "tuple",
             "last action", "two depths", "one number")  # fmt: skip


def policy_of(name: str) -> ActorPolicy:
    observations, actions, settings = POLICIES[name]
    with seeded(0):
        policy = ActorPolicy(observations, actions, **settings)
    if settings.get("normalize_obs"):
        moments = policy.encoder.moments
        moments.mean += torch.linspace(-1, 1, len(moments.mean))
        moments.var *= 3.0
    return policy.eval()


def in_numpy(inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    return {name: x.numpy() for name, x in inputs.items()}


@pytest.mark.parametrize("name", POLICIES)
def test_the_graph_is_the_policy(name: str) -> None:
    """`act` is the reference; Dict observations are given key by key."""
    policy = policy_of(name)
    deployed = Deployed(policy)
    inputs = deployed.sample(20)
    obs: Any = in_numpy(inputs) if isinstance(inputs, dict) else inputs.numpy()
    np.testing.assert_allclose(deployed(inputs).numpy(), policy.act(obs), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", POLICIES)
def test_onnx(name: str, tmp_path: Path) -> None:
    """Any batch, and the comparison with the policy that the export makes itself."""
    onnxruntime = pytest.importorskip("onnxruntime")
    to_onnx(policy_of(name), str(tmp_path / "p.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "p.onnx"))
    inputs = Deployed(policy_of(name)).sample(7)
    assert len(session.run(None, in_numpy(named(inputs)))[0]) == 7
    (action,) = session.get_outputs()
    assert action.shape == ["batch", *(POLICIES[name][1].shape or ())]
    assert session.get_modelmeta().custom_metadata_map["torch"]


def test_onnx_keeps_the_names_and_types_of_observations(tmp_path: Path) -> None:
    """Names that are numbers, an input named as the output is, and unsigned numbers that torch's exporter lacks."""
    onnxruntime = pytest.importorskip("onnxruntime")
    for name, inputs, output in (
        ("tuple", {"0": "float", "1": "int64"}, "action"),
        ("last action", {"action": "float", "action_": "float"}, "action__"),
        ("depth", {"observation": "uint16"}, "action"),
        ("two depths", {"0": "uint16", "1": "uint32"}, "action"),
    ):
        to_onnx(policy_of(name), tmp_path / f"{name}.onnx")
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx")
        assert {one.name: one.type for one in session.get_inputs()} == {
            key: f"tensor({kind})" for key, kind in inputs.items()
        }
        assert [one.name for one in session.get_outputs()] == [output]


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize(
    ("actions", "wanted"),
    [
        (spaces.MultiBinary(3), np.int8),
        (spaces.MultiDiscrete([3, 2], dtype=np.int32, start=[2, -1]), np.int32),
        (spaces.Discrete(3, dtype=np.int32), np.int32),
        (spaces.Box(-1, 1, (2,), np.float64), np.float64),
        (spaces.Box(-3, 2, (2,), np.float16), np.float16),
    ],
)
def test_actions_have_the_type_of_the_policys(actions: Any, wanted: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    with seeded(0):
        policy = ActorPolicy(VECTOR, actions)
    obs = torch.zeros(2, 5)
    to_onnx(policy, tmp_path / "p.onnx")
    to_torch(policy, tmp_path / "p.pt2")
    to_torchscript(policy, tmp_path / "p.pt")
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx")
    found = {
        "policy": policy.predict(obs.numpy())[0],
        "onnx": session.run(None, {"observation": obs.numpy()})[0],
        "torch": torch.export.load(tmp_path / "p.pt2").module()(obs).numpy(),
        "torchscript": torch.jit.load(tmp_path / "p.pt")(obs).numpy(),
    }
    assert {name: each.dtype for name, each in found.items()} == dict.fromkeys(found, np.dtype(wanted))


@pytest.mark.parametrize("name", ["normalised", "several", "camera", "parts", "bits", "tuple", "depth"])
def test_torch_export(name: str, tmp_path: Path) -> None:
    to_torch(policy_of(name), tmp_path / "p.pt2")
    deployed, loaded = Deployed(policy_of(name)), torch.export.load(tmp_path / "p.pt2").module()
    for count in (1, 7):
        inputs = deployed.sample(count)
        torch.testing.assert_close(loaded(inputs), deployed(inputs))


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("name", POLICIES)
def test_torchscript(name: str, tmp_path: Path) -> None:
    to_torchscript(policy_of(name), tmp_path / "p.pt")
    deployed = Deployed(policy_of(name))
    inputs = deployed.sample(3)
    torch.testing.assert_close(torch.jit.load(tmp_path / "p.pt")(inputs), deployed(inputs))


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torch_files_take_the_parts_of_a_dict_by_name_and_give_no_gradients(tmp_path: Path) -> None:
    """In any order; a part that is lacking is named. One of two cameras has the name of a Dict in a Dict."""
    camera = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    with seeded(0):
        policy = ActorPolicy(spaces.Dict(wrist=camera, arm=spaces.Dict(front=camera)), BOUNDED)
    to_torch(policy, tmp_path / "p.pt2")
    to_torchscript(policy, tmp_path / "p.pt")
    rng = np.random.default_rng(0)
    wrist, front = rng.integers(256, size=(2, 3, 36, 36, 3)).astype(np.uint8)
    wanted = policy.act({"wrist": wrist, "arm": {"front": front}})
    for load in (
        lambda: torch.export.load(tmp_path / "p.pt2").module(),
        lambda: torch.jit.load(tmp_path / "p.pt"),
    ):
        loaded = load()
        parts = {"wrist": torch.from_numpy(wrist), "arm/front": torch.from_numpy(front)}
        for given in (parts, dict(reversed(parts.items()))):
            np.testing.assert_allclose(loaded(given).numpy(), wanted, rtol=1e-5, atol=1e-5)
        with pytest.raises((ValueError, RuntimeError), match="arm/front"):
            loaded({"wrist": parts["wrist"], "front": parts["arm/front"]})
        with pytest.raises((RuntimeError, torch.jit.Error), match=r"dtype mismatch|in the place of bytes"):
            loaded(parts | {"wrist": parts["wrist"] / 255})


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_torchscript_takes_no_floats_for_bytes(tmp_path: Path) -> None:
    to_torchscript(policy_of("pixels"), tmp_path / "p.pt")
    with pytest.raises(torch.jit.Error, match="multiply a picture"):
        torch.jit.load(tmp_path / "p.pt")(torch.rand(2, 4, 44, 44))


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in SB3_LACKS])
def test_sb3_acts_the_same(name: str, tmp_path: Path) -> None:
    policy = policy_of(name)
    beside = to_sb3(policy, tmp_path / "p.zip")
    kind = sb3.SAC if policy.head == "squashed" else sb3.PPO
    model = kind.load(tmp_path / "p.zip", device="cpu", buffer_size=100)
    obs = named(Deployed(policy).sample(50))["observation"].numpy()
    seen = obs
    assert (beside is not None) == bool(policy.architecture["normalize_obs"])
    if beside is not None:
        still = Still()
        still.observation_space = policy.observation_space
        env = DummyVecEnv([lambda: gym.Wrapper(still)])
        seen = VecNormalize.load(str(beside), env).normalize_obs(obs)
    found = model.predict(seen, deterministic=True)[0]
    np.testing.assert_allclose(found, policy.act(obs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("head", ["clipped", "squashed"])
def test_sb3_gets_an_action_of_equal_bounds(head: Any, tmp_path: Path) -> None:
    policy = ActorPolicy(VECTOR, spaces.Box(np.float32([-1, 3]), np.float32([1, 3])), hidden=(8,), head=head)
    to_sb3(policy, tmp_path / "p.zip")
    model = (sb3.SAC if head == "squashed" else sb3.PPO).load(tmp_path / "p.zip", device="cpu")
    obs = Deployed(policy).sample(20).numpy()
    np.testing.assert_allclose(model.predict(obs, deterministic=True)[0], policy.act(obs), atol=1e-6)
    assert set(model.predict(obs)[0][:, 1]) == {3.0}


class Still(gym.Env[Any, Any]):
    """Nothing happens; the reward is minus the distance of the action from 0."""

    observation_space, action_space = VECTOR, BOUNDED

    def reset(self, **_: Any) -> Any:
        return np.zeros(5, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(5, np.float32), -float(np.square(action).sum()), False, False, {}


@pytest.mark.parametrize("name", ["clipped", "soft"])
def test_sb3_trains_it_further(name: str, tmp_path: Path) -> None:
    to_sb3(policy_of(name), tmp_path / "p.zip")
    settings: dict[str, Any] = (
        {"learning_starts": 20} if name == "soft" else {"n_steps": 64, "batch_size": 64}
    )
    kind = sb3.SAC if name == "soft" else sb3.PPO
    model = kind.load(tmp_path / "p.zip", env=gym.wrappers.TimeLimit(Still(), 20), device="cpu", **settings)
    before = model.predict(np.zeros(5, np.float32), deterministic=True)[0]
    model.learn(128)
    assert not np.array_equal(model.predict(np.zeros(5, np.float32), deterministic=True)[0], before)


def test_sb3_gets_the_critics(tmp_path: Path) -> None:
    """Critics and targets give our critics' values, and are trained further with their discount."""
    policy = policy_of("soft")
    to_sb3(policy, tmp_path / "p.zip")
    model = sb3.SAC.load(tmp_path / "p.zip", device="cpu", buffer_size=100)
    assert model.gamma == 0.9
    obs, unit = torch.randn(6, 5), torch.rand(6, 3)
    assert policy.critic is not None
    with torch.no_grad():
        ours = policy.critic(torch.cat([obs, unit], -1))[0]
        for critic in (model.critic, model.critic_target):
            torch.testing.assert_close(torch.stack(critic(obs, unit)), ours, rtol=1e-5, atol=1e-6)


def test_sb3_gets_critics_of_bytes() -> None:
    """Ours see bytes in [0, 1], SB3's as they are."""
    shape = CriticShape(2, 1, (8,), 0.99)
    actions = spaces.Box(-1.0, 1.0, (2,), np.float32)
    with seeded(0):
        policy = ActorPolicy(
            spaces.Box(0, 255, (4,), np.uint8), actions, activation="relu", head="squashed", critic=shape
        )
    model = _model(policy)
    obs, unit = torch.randint(256, (6, 4)).float(), torch.rand(6, 2)
    with torch.no_grad():
        _copy_critics(policy, model)
        ours = policy.critic(torch.cat([policy.encoder.prepare(obs.byte()), unit], -1))[0]
        torch.testing.assert_close(torch.stack(model.critic(obs, unit)), ours, rtol=1e-5, atol=1e-5)


def test_sb3_gets_the_size_of_a_replay_that_fits_into_memory() -> None:
    assert [_model(policy_of(name)).buffer_size for name in ("soft", "squashed pixels")] == [
        1_000_000,
        10_000,
    ]


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("write", [to_onnx, to_torch, to_torchscript, to_sb3])
def test_an_export_that_acts_differently_leaves_no_file(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if write is to_onnx:
        pytest.importorskip("onnxruntime")

    def differing(*_: Any) -> None:
        raise InputError("differs from the policy")

    monkeypatch.setattr(f"{write.__module__}.compare", differing)
    with pytest.raises(InputError, match="differs from the policy"):
        write(policy_of("normalised"), tmp_path / "p")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("to", "file"), [("onnx", "policy.onnx"), ("torchscript", "policy.pt")])
def test_a_full_disk_is_one_line_and_leaves_nothing(to: str, file: str, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk. Torch aborts if it can't write a TorchScript file."""
    save_policy(tmp_path / "run" / "policy", policy_of("discrete"))
    done = run(
        "import resource, signal, sys; from imitate.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))\n"
        f"sys.exit(main(['export', {str(tmp_path / 'run')!r}, '--to', {to!r}]))"
    )
    line = done.stderr.splitlines()[-1]
    out = tmp_path / "run" / file
    assert line == f"imitate: can't use {out}: File too large; make room, or write to another disk"
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["policy"]


def test_statistics_that_exist_are_kept(tmp_path: Path) -> None:
    (tmp_path / "vecnormalize.pkl").write_bytes(b"another's")
    with pytest.raises(InputError, match="exists: move it"):
        to_sb3(policy_of("normalised"), tmp_path / "p.zip")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("vecnormalize.pkl", b"another's")
    ]


@pytest.mark.parametrize(
    "fails", ["stable_baselines3.PPO.save", "stable_baselines3.common.vec_env.VecNormalize.save"]
)
def test_a_zip_and_its_statistics_are_written_together_or_not_at_all(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object, path: Any) -> None:
        Path(path).write_text("half", "utf-8")
        raise OSError("no space left on the device")

    monkeypatch.setattr(fails, full)
    with pytest.raises(OSError, match="no space"):
        to_sb3(policy_of("normalised"), tmp_path / "p.zip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", SB3_LACKS)
def test_what_sb3_lacks_is_said(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"export to onnx or torch$"):
        to_sb3(policy_of(name), tmp_path / "p.zip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["clipped", "discrete"])
def test_another_policy_is_noticed(name: str) -> None:
    deployed = Deployed(policy_of(name))
    with pytest.raises(InputError, match=r"other actions|differs"):
        compare(deployed, lambda inputs: deployed(-inputs).numpy(), "p.onnx")


@pytest.mark.parametrize(("to", "file"), [("onnx", "policy.onnx"), ("torchscript", "policy.pt"),
                                          ("torch", "policy.pt2"), ("sb3", "policy.zip"),
                                          ("safetensors", "exported")])  # fmt: skip
def test_the_command(to: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_policy(tmp_path / "run" / "policy", policy_of("discrete"))
    assert main(["export", str(tmp_path / "run"), "--to", to]) == 0
    said = capsys.readouterr()
    opened = "imitate: PPO.load opens it\n" if to == "sb3" else ""
    assert (said.out.splitlines(), said.err) == ([str(tmp_path / "run" / file)], opened)
    assert main(["export", str(tmp_path / "run"), "--to", to]) == 2
    assert "exists: move it" in capsys.readouterr().err
    if to == "safetensors":
        assert load_policy(tmp_path / "run" / file).act(np.zeros(5, np.float32)) in range(4)


def test_sb3_says_what_opens_the_zip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (
        ("squashed", "SAC.load opens it\n"),
        ("normalised", "PPO.load opens it, with observations that vecnormalize.pkl normalises\n"),
    ):
        save_policy(tmp_path / name / "policy", policy_of(name))
        assert main(["export", str(tmp_path / name), "--to", "sb3"]) == 0
        assert capsys.readouterr().err == f"imitate: {said}"


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path)]) == 2
    assert "has no policy: wanted a run that has ended" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--to", "onnx", "--out", str(tmp_path / "p.zip")]) == 2
    assert "ends in .onnx" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
