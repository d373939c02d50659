"""A model file is data: code planted in any pickled place of an archive never runs."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import pickle
import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.experts.sb3.pickled_values import to_array, to_space
from imitate.experts.sb3.pickles import Global, read_pickle
from imitate.experts.sb3.vecnormalize import read_vecnormalize

ENV = "Pendulum-v1"
MEMBERS = ("policy.pth", "pytorch_variables.pth", "policy.optimizer.pth")


class _Payload:
    """Unpickled, it creates the sentinel file."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.sentinel),)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PPO agent with its VecNormalize and YAML files, laid out as the zoo does."""
    folder = tmp_path_factory.mktemp("pristine")
    venv = VecNormalize(DummyVecEnv([lambda: gym.make(ENV)]))
    venv.reset()
    model = sb3.PPO("MlpPolicy", venv, policy_kwargs={"activation_fn": torch.nn.ReLU}, device="cpu")
    model.save(folder / f"{ENV}.zip")
    (folder / ENV).mkdir()
    venv.save(str(folder / ENV / "vecnormalize.pkl"))
    (folder / ENV / "args.yml").write_text(
        f"!!python/object/apply:collections.OrderedDict\n- - - env\n    - {ENV}\n"
    )
    (folder / ENV / "config.yml").write_text("normalize: true\n")
    return folder


def _rewritten(pristine: Path, out: Path, member: str, change: Callable[[bytes], bytes]) -> Path:
    out.mkdir(exist_ok=True)
    for path in (pristine / ENV).iterdir():
        (out / ENV).mkdir(exist_ok=True)
        (out / ENV / path.name).write_bytes(path.read_bytes())
    with zipfile.ZipFile(pristine / f"{ENV}.zip") as old, zipfile.ZipFile(out / f"{ENV}.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)) if name == member else old.read(name))
    return out / f"{ENV}.zip"


def _load_or_refuse(path: Path) -> str:
    """ "loaded", or the one line that says why not."""
    try:
        expert = load_expert(path)
    except InputError as error:
        line = str(error)
    else:
        line = "loaded"
        assert expert.act(np.zeros((2, 3), np.float32)).shape == (2, 1)
    assert "\n" not in line
    return line


def test_the_payload_is_a_real_one(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(_Payload(tmp_path / "sentinel")))
    assert (tmp_path / "sentinel").exists()


def test_serialized_entries_of_data_never_run(pristine: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(pristine / f"{ENV}.zip") as archive:
        data = json.loads(archive.read("data"))
    entries = [key for key, value in data.items() if isinstance(value, dict) and ":serialized:" in value]
    assert {"policy_class", "policy_kwargs", "observation_space", "action_space", "lr_schedule"} <= set(
        entries
    )
    sentinel, outcomes = tmp_path / "sentinel", {}
    for entry in entries:
        planted = base64.b64encode(pickle.dumps(_Payload(sentinel))).decode()
        changed = {**data, entry: {**data[entry], ":serialized:": planted}}
        path = _rewritten(pristine, tmp_path / entry, "data", lambda _, c=changed: json.dumps(c).encode())
        outcomes[entry] = _load_or_refuse(path)
    assert not sentinel.exists()
    assert "policy class" in outcomes["policy_class"]
    assert "policy_kwargs" in outcomes["policy_kwargs"]
    # Spaces come from the environment then, and nothing else is needed to act.
    assert outcomes["observation_space"] == outcomes["lr_schedule"] == "loaded"


def test_a_payload_among_the_policy_kwargs_never_runs(pristine: Path, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"

    def plant(raw: bytes) -> bytes:
        data = json.loads(raw)
        kwargs = {"activation_fn": _Payload(sentinel), "squash_output": _Payload(sentinel)}
        data["policy_kwargs"] = {
            ":type:": "dict",
            ":serialized:": base64.b64encode(pickle.dumps(kwargs)).decode(),
        }
        return json.dumps(data).encode()

    outcome = _load_or_refuse(_rewritten(pristine, tmp_path / "planted", "data", plant))
    assert outcome.startswith("activation 'mkdir(...)' is not one of")
    assert not sentinel.exists()


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("wrapped", [False, True])
def test_torch_files_never_run(member: str, wrapped: bool, pristine: Path, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"

    def plant(_: bytes) -> bytes:
        stream = io.BytesIO()
        torch.save({"actor.mu.weight": _Payload(sentinel)} if wrapped else _Payload(sentinel), stream)
        return stream.getvalue()

    outcome = _load_or_refuse(_rewritten(pristine, tmp_path / "planted", member, plant))
    assert not sentinel.exists()
    assert ("refused" in outcome) if member == "policy.pth" else (outcome == "loaded")


def _statistics(pristine: Path) -> Any:
    with (pristine / ENV / "vecnormalize.pkl").open("rb") as file:
        normalize = pickle.load(file)
    vars(normalize).update(venv=None, class_attributes={}, returns=None)  # dropped again when pickled
    return normalize


class _StateOfArray:
    """`numpy._reconstruct` fed with a payload as its state."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = sentinel

    def __reduce__(self) -> tuple[Any, ...]:
        function, arguments, _ = np.zeros(3).__reduce__()[:3]
        return function, arguments, (1, (3,), np.dtype(object), False, [_Payload(self.sentinel)] * 3)


@pytest.mark.parametrize(
    "place", ["whole", "obs_rms", "mean", "var", "epsilon", "object array", "observation_space"]
)
def test_vecnormalize_never_runs(place: str, pristine: Path, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    normalize = _statistics(pristine)
    payload = _Payload(sentinel)
    if place in ("mean", "var"):
        setattr(normalize.obs_rms, place, payload)
    elif place == "object array":
        normalize.obs_rms.mean = _StateOfArray(sentinel)
    elif place != "whole":
        setattr(normalize, place, payload)
    path = _rewritten(pristine, tmp_path / "planted", "", lambda raw: raw)
    (path.parent / ENV / "vecnormalize.pkl").write_bytes(
        pickle.dumps(payload if place == "whole" else normalize)
    )
    outcome = _load_or_refuse(path)
    assert not sentinel.exists()
    assert (outcome == "loaded") == (place == "observation_space")


@pytest.mark.parametrize("name", ["args.yml", "config.yml", "env_kwargs.yml"])
def test_yaml_tags_never_run(name: str, pristine: Path, tmp_path: Path) -> None:
    sentinel = tmp_path / "sentinel"
    path = _rewritten(pristine, tmp_path / "planted", "", lambda raw: raw)
    (path.parent / ENV / name).write_text(f'env_kwargs: !!python/object/apply:os.mkdir ["{sentinel}"]\n')
    _load_or_refuse(path)
    assert not sentinel.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_statistics_read_from_every_pickle_protocol(protocol: int, pristine: Path) -> None:
    normalize = _statistics(pristine)
    normalize.obs_rms.mean = np.array([1.0, -2.0, 3.5])
    read = read_vecnormalize(pickle.dumps(normalize, protocol))
    assert read.mean is not None
    assert read.mean.tolist() == [1.0, -2.0, 3.5]
    assert (read.epsilon, read.clip_obs, read.gamma) == (1e-8, 10.0, 0.99)


ODD = (
    b"K\x05",
    b"N",
    b")",
    b"]",
    b"}",
    b"\x88",
    b"cnumpy\ndtype\n",
    b"X\x01\x00\x00\x00x",
    pickle.dumps(10**400, 2)[2:-1],
)
"""Opcodes that push a value of another type: a number, nothing, something empty, a name, text, a huge number."""


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.attack)])
def test_statistics_of_other_types_are_one_line(stride: int, pristine: Path) -> None:
    """Every opcode that pushes something, replaced by each of these, or by three of the nine in turn."""
    statistics = _statistics(pristine)
    for name in ("action_space", "old_obs", "old_reward"):  # of the same opcodes as the rest
        delattr(statistics, name)
    whole = pickle.dumps(statistics, 2)
    read_vecnormalize(whole)
    places = [place for _, _, place in pickletools.genops(whole)]
    pushes = ("TUPLE", "INT", "NONE", "UNICODE", "GLOBAL", "EMPTY", "BINGET", "FLOAT", "NEWTRUE", "NEWFALSE")
    said = []
    opcodes = zip(pickletools.genops(whole), places[1:], strict=False)
    for number, ((opcode, _, place), stop) in enumerate(opcodes):
        # TUPLE1 to 3 take what they make a tuple of from the stack.
        taken = {"TUPLE1": b"0", "TUPLE2": b"00", "TUPLE3": b"000", "TUPLE": b"1"}.get(opcode.name, b"")
        for odd in ODD[number % stride :: stride] if any(word in opcode.name for word in pushes) else ():
            try:
                read_vecnormalize(whole[:place] + taken + odd + whole[stop:])
            except InputError as error:
                said.append(str(error))
    assert len(said) > 300 / stride
    assert not any("\n" in line for line in said)


def test_arrays_are_decoded_from_their_bytes_and_nothing_else() -> None:
    for array in (
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.asfortranarray(np.eye(3)),
        np.float32(2.5),
        True,
        3,
    ):
        for protocol in range(6):
            assert (to_array(read_pickle(pickle.dumps(array, protocol))) == array).all()
    assert read_pickle(pickle.dumps(os.mkdir)) == Global("posix", "mkdir")
    for refused in (np.array([None]), np.array(["text"]), np.datetime64("2020"), {"a": 1}, None):
        with pytest.raises(InputError):
            to_array(read_pickle(pickle.dumps(refused)))


@settings(deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
))  # fmt: skip
def test_plain_data_is_read_as_pickle_reads_it(value: Any) -> None:
    assert read_pickle(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "key", [(1,) * 20_000, (1 << 4_000_000, 2), 1 << 4_000_000], ids=["tuple", "pair", "number"]
)
def test_a_key_that_is_slow_to_hash_is_refused(key: Any) -> None:
    """A pickle of 100 kB can use one key ten thousand times."""
    assert read_pickle(pickle.dumps({(1, "a"): 2, 1 << 60: 3, (): 4})) == {(1, "a"): 2, 1 << 60: 3, (): 4}
    for container in ({key: None}, {key}, frozenset([key])):
        with pytest.raises(InputError, match=f"uses a {type(key).__name__} as a key"):
            read_pickle(pickle.dumps(container))


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_garbage_is_an_input_error_at_worst(data: bytes) -> None:
    with contextlib.suppress(InputError):
        read_pickle(data)


def test_truncated_and_foreign_zips_are_refused_in_one_line(pristine: Path, tmp_path: Path) -> None:
    whole = (pristine / f"{ENV}.zip").read_bytes()
    contents = {
        "empty": b"",
        "text": b"not a zip",
        "half": whole[: len(whole) // 2],
        "without its end": whole[:-30],
        "flipped": whole[:3000] + bytes(byte ^ 255 for byte in whole[3000:3100]) + whole[3100:],
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("readme.txt", "hello")
    contents["foreign"] = stream.getvalue()
    path = tmp_path / f"{ENV}.zip"
    for content in contents.values():
        path.write_bytes(content)
        assert _load_or_refuse(path) != "loaded"
    path.unlink()
    assert "no file" in _load_or_refuse(path)


def test_custom_code_is_refused_by_name(pristine: Path, tmp_path: Path) -> None:
    def plant(raw: bytes) -> bytes:
        data = json.loads(raw)
        data["policy_class"][":serialized:"] = base64.b64encode(b"cmy_code\nMyPolicy\n.").decode()
        return json.dumps(data).encode()

    outcome = _load_or_refuse(_rewritten(pristine, tmp_path / "custom", "data", plant))
    assert "'my_code.MyPolicy'" in outcome


def test_a_file_does_not_choose_what_is_imported(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "planted_module.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    path = _rewritten(pristine, tmp_path / "planted", "", lambda raw: raw)
    (path.parent / ENV / "args.yml").write_text("env: planted_module:Pendulum-v1\n")
    assert _load_or_refuse(path) == "loaded"
    assert "a file may not choose what is imported" in caplog.text


def test_tensors_larger_than_their_data_are_refused(pristine: Path, tmp_path: Path) -> None:
    def plant(_: bytes) -> bytes:
        stream = io.BytesIO()
        torch.save({"action_net.weight": torch.zeros(1).expand(10**6, 10**6)}, stream)
        return stream.getvalue()

    outcome = _load_or_refuse(_rewritten(pristine, tmp_path / "planted", "policy.pth", plant))
    assert "larger than their data" in outcome


@pytest.mark.parametrize("depth", [2, 18])
def test_a_space_that_refers_to_itself_many_times_is_refused(depth: int) -> None:
    """A thousand bytes, from which 10 ** 18 spaces would be built."""
    space: spaces.Space[Any] = spaces.Discrete(2)
    for _ in range(depth):
        inner, space = space, spaces.Dict({"only": space})
        space.spaces = dict.fromkeys(map(str, range(10)), inner)
    with pytest.raises(InputError, match="a Dict space in a Dict space"):
        to_space(read_pickle(pickle.dumps(space)))


def test_the_parts_of_a_space_are_bounded_together() -> None:
    space = spaces.Dict({"only": spaces.Discrete(2)})
    shared = spaces.Box(-1.0, 1.0, (1 << 20,))
    space.spaces = dict.fromkeys(map(str, range(8)), shared)
    with pytest.raises(InputError, match="wanted 1 to"):
        to_space(read_pickle(pickle.dumps(space)))
    space.spaces = dict.fromkeys(map(str, range(1_000)), spaces.Discrete(2))
    with pytest.raises(InputError, match="at most 256 parts"):
        to_space(read_pickle(pickle.dumps(space)))
