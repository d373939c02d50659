"""State as one safetensors file, without pickle: tensors by path, everything else as JSON in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

import safetensors
from safetensors.torch import save_file
from torch import Tensor

from imitate.errors import LARGEST, InputError, one_line
from imitate.files import atomic, plain_json

__all__ = ["check_like", "check_state", "load_parts", "load_state", "parts_state", "save_state"]

_TENSOR = "tensor:"
_LARGEST_HEADER = 8 << 20  # bytes; those of our learners have a few thousand
_DAMAGED = (
    OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError, RecursionError, AttributeError,
    OverflowError,
)  # fmt: skip


def save_state(path: str | Path, state: dict[str, Any]) -> None:
    """Write nested dicts, lists, tensors and plain values atomically.

    Raises InputError if the file can't be written, or as `check_state` does; its previous content is kept.
    """
    tensors: dict[str, Tensor] = {}
    skeleton = _take_out(state, "", tensors)
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    try:
        with atomic(Path(path)) as temporary:
            save_file(copies, temporary, metadata={"state": json.dumps(skeleton)})
            _check_header(temporary)
    except safetensors.SafetensorError as error:  # a full disk raises this too, not OSError
        raise InputError(
            f"{path} can't be written ({one_line(error)}): make room on the disk; what was there before is kept"
        ) from error
    except ValueError as error:
        raise InputError(f"{path} can't be written: {error}: make tensors of long lists") from error


def check_state(state: dict[str, Any]) -> None:
    """Raise InputError that names the first value which a state can't hold, such as a NumPy array."""
    _take_out(state, "", {})


def load_state(path: str | Path) -> dict[str, Any]:
    """Read what `save_state` wrote. Raises InputError if the file is not such a state."""
    if not Path(path).is_file():
        raise InputError(f"{path} is no file; check the path")
    try:
        _check_header(path)
        with safetensors.safe_open(path, framework="pt") as file:
            skeleton = plain_json(file.metadata()["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state = _put_back(skeleton, tensors)
        if not isinstance(state, dict):
            raise TypeError(f"wanted an object, got {type(state).__name__}")
    except _DAMAGED as error:
        raise InputError(
            f"{path} is not a state that imitate wrote ({one_line(error)}); choose another run"
        ) from error
    return state


def _check_header(path: str | Path) -> None:
    with Path(path).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > _LARGEST_HEADER:
        raise ValueError(f"it has {size} bytes that are no tensors, over the limit of {_LARGEST_HEADER}")


def check_like(own: Any, state: Any, place: str = "") -> None:
    """Check a state from a file by the learner's `own` fresh one, which is its schema: tensors have its shapes and
    types unless its own is empty so far, counts stay whole numbers. What only one of the two has is not looked at.

    Raises ValueError that names the place of the first difference.
    """
    if isinstance(own, Mapping) and isinstance(state, Mapping):
        for name in own.keys() & state.keys():
            check_like(own[name], state[name], f"{place}/{name}")
    elif isinstance(own, list | tuple) and isinstance(state, list | tuple) and len(own) == len(state):
        for index, (mine, given) in enumerate(zip(own, state, strict=True)):
            check_like(mine, given, f"{place}/{index}")
    elif isinstance(own, Tensor) and isinstance(state, Tensor) and not own.numel():
        pass  # it grows
    elif _kind(own) != _kind(state) and (type(own), type(state)) not in _WIDER:
        raise ValueError(f"{place} is {_kind(state)}, wanted {_kind(own)}")
    elif isinstance(state, int) and not 0 <= state <= LARGEST:
        raise ValueError(f"{place} is {state}, wanted a count")


_WIDER = ((float, int), (NoneType, int), (NoneType, float))
"""Types that a value may get: JSON may drop a fraction, and what is unknown at first becomes a number."""


def _kind(value: Any) -> str:
    """Words for a value's type."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {value.dtype}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, float):  # NumPy's too, which a file gives back as a float
        return "float"
    return type(value).__name__


def parts_state(owner: object, *names: str) -> dict[str, Any]:
    """The state_dict of each named attribute, by name; attributes that are None are left out."""
    parts = {name: getattr(owner, name) for name in names}
    return {name: part.state_dict() for name, part in parts.items() if part is not None}


def load_parts(owner: object, state: dict[str, Any], *names: str) -> None:
    """Load the states that `parts_state` returned into the attributes."""
    for name in names:
        part = getattr(owner, name)
        if part is not None:
            part.load_state_dict(state[name])


def _take_out(node: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    if path in tensors or (isinstance(node, str) and node.startswith(_TENSOR)):
        raise InputError(
            f"the state's {path} can't be told from another tensor: it is a text that begins with {_TENSOR!r}, or "
            'two keys are alike, such as 1 and "1", or "a/b" and "b" in "a"; rename one'
        )
    if isinstance(node, Tensor):
        tensors[path] = node
        return _TENSOR + path
    if isinstance(node, dict):
        # An optimiser's state has integer keys, which JSON would turn into strings.
        return {"keys": list(node), "values": [_take_out(v, f"{path}/{k}", tensors) for k, v in node.items()]}
    if isinstance(node, list | tuple):
        return [_take_out(child, f"{path}/{i}", tensors) for i, child in enumerate(node)]
    if not isinstance(node, str | float | NoneType) and not (isinstance(node, int) and abs(node) < 1 << 64):
        raise InputError(
            f"the state's {path} is of type {type(node).__name__}, wanted tensors, text, floats, ints of at most "
            "64 bits, lists or dicts: make a tensor of an array, and seed random numbers anew from a count"
        )
    return node


def _put_back(node: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(node, str) and node.startswith(_TENSOR):
        return tensors[node.removeprefix(_TENSOR)]
    if isinstance(node, dict):
        return {k: _put_back(v, tensors) for k, v in zip(node["keys"], node["values"], strict=True)}
    if isinstance(node, list):
        return [_put_back(child, tensors) for child in node]
    return node
