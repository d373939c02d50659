"""Files whose content would take gigabytes: they are refused before it is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pytest
from safetensors.torch import save_file

from imitate.datasets.convert.hdf5 import open_hdf5
from imitate.errors import InputError
from imitate.files import read_json
from imitate.nn.state import load_state, save_state

LISTS = 9_000_000


def test_json_of_many_values(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(b'{"a": [' + b"[]," * LISTS + b"[]]}")
    with pytest.raises(
        InputError, match=r"config.json can't be read: \d+ commas and brackets, over the limit"
    ):
        read_json(tmp_path / "config.json", dict[str, Any])


def test_a_state_of_many_values(tmp_path: Path) -> None:
    save_file({}, tmp_path / "state", metadata={"state": "[" + "[]," * LISTS + "[]]"})
    with pytest.raises(InputError, match="it has 27000040 bytes that are no tensors, over the limit"):
        load_state(tmp_path / "state")


def test_a_state_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    save_state(tmp_path / "state", {"a": [1.0]})
    with pytest.raises(InputError, match="bytes that are no tensors, over the limit of 8388608"):
        save_state(tmp_path / "state", {"a": ["x" * 1_000] * 9_000})
    assert load_state(tmp_path / "state") == {"a": [1.0]}


def test_a_text_of_many_values_in_hdf5(tmp_path: Path) -> None:
    """It is refused in the child process that checks the file, so this one never holds it."""
    with h5py.File(tmp_path / "demo.hdf5", "w", libver="latest") as file:
        file.create_group("data").attrs["ep_meta"] = '{"lang": [' + "[]," * LISTS + "[]]}"
    refused = pytest.raises(InputError, match="ep_meta of /data has 27000014 characters, over the limit")
    with refused, open_hdf5(tmp_path / "demo.hdf5"):
        pass


def test_an_attribute_that_numpy_can_not_hold_is_left_alone(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "demo.hdf5", "w", libver="latest") as file:
        file["actions"] = [1.0]
        h5py.h5a.create(file.id, b"made", h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))
    with open_hdf5(tmp_path / "demo.hdf5") as file:
        assert file["actions"][0] == 1.0


def test_half_a_surrogate_pair_is_refused(tmp_path: Path) -> None:
    """No report could be written with it. A whole pair is a character."""
    (tmp_path / "result.json").write_text(r'{"notes": "preset \uD800 x"}')
    with pytest.raises(InputError, match=r"result.json can't be read: .* surrogates not allowed"):
        read_json(tmp_path / "result.json", dict[str, str])
    (tmp_path / "result.json").write_bytes(b'{"notes": "\xed\xa0\x80"}')
    with pytest.raises(InputError, match=r"result.json can't be read: .*can't decode"):
        read_json(tmp_path / "result.json", dict[str, str])
    (tmp_path / "result.json").write_text(r'{"notes": "preset \ud83d\ude00"}')
    assert read_json(tmp_path / "result.json", dict[str, str]) == {"notes": "preset \U0001f600"}
