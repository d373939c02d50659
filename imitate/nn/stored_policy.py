"""A learner's policy on disk: policy.json (architecture and spaces) and policy.safetensors (weights)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from torch import nn

from imitate import hub
from imitate.errors import InputError, one_line
from imitate.files import read_json, write_json
from imitate.nn.networks import check_device
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state, save_state

__all__ = ["load_policy", "save_policy", "stored_module"]

D = TypeVar("D")
M = TypeVar("M", bound=nn.Module)

_LARGEST_DESCRIPTION = 16 << 20
_DAMAGED = (
    AttributeError, ValueError, TypeError, KeyError, RuntimeError, OverflowError, msgspec.ValidationError
)  # fmt: skip


def save_policy(folder: str | Path, policy: ActorPolicy) -> None:
    """Write the policy to the folder, replacing its files one by one.

    Raises InputError if `policy` is no ActorPolicy, or `folder` is a file.
    """
    if not isinstance(policy, ActorPolicy):
        raise InputError(
            f"save_policy takes a folder and an ActorPolicy, got a {type(policy).__name__}: give learner.policy"
        )
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder for the policy")
    description, weights = policy.describe(), policy.state_dict()
    write_json(folder / "policy.json", description)
    save_state(folder / "policy.safetensors", weights)


def load_policy(folder: str | Path, *, device: torch.device | str = "cpu") -> ActorPolicy:
    """Load the policy of a run (the best one by validation), of a policy's folder, or of `hub:ORG/REPO[@revision]`.

    Raises InputError if the folder holds no policy or a damaged one, if the hub can't give it, or if torch has no such
    device here.
    """
    name, folder = Path(folder).as_posix(), Path(folder)
    if name.startswith(hub.PREFIX):
        folder = hub.policy_folder(hub.find(name.removeprefix(hub.PREFIX)))
    if not (folder / "policy.json").exists():
        folder = folder / "policy"
    if not (folder / "policy.json").is_file() or not (folder / "policy.safetensors").is_file():
        if not folder.parent.exists():
            raise InputError(f"no folder {folder.parent}: wanted a run, a policy's folder or hub:ORG/REPO")
        if runs := sorted(path.parent for path in folder.parent.glob("*/policy")):
            raise InputError(f"{folder.parent} is a folder of {len(runs)} runs: name one, such as {runs[0]}")
        raise InputError(f"{folder.parent} has no policy: wanted a run that has ended, or a policy's folder")
    check_device(device)
    policy = stored_module(folder, "policy", dict[str, Any], ActorPolicy.from_description)
    return policy.to(device).eval()


def stored_module(
    folder: Path,
    name: str,
    description: type[D],
    build: Callable[[D], M],
) -> M:
    """The module that `build` makes of the description in NAME.json, with the weights in NAME.safetensors.

    Raises InputError for a damaged file. Neither takes more memory than its size: the network is first made without
    any, and must be of the weights that are there.
    """
    described = read_json(folder / f"{name}.json", description, limit=_LARGEST_DESCRIPTION)
    weights = load_state(folder / f"{name}.safetensors")
    try:
        with torch.device("meta"):
            wanted = build(described).state_dict()
        if _shapes(wanted) != _shapes(weights):
            raise ValueError(f"{name}.json describes another network than {name}.safetensors holds")
        module = build(described)
        module.load_state_dict(weights)
    except _DAMAGED as error:
        raise InputError(f"the {name} in {folder} can't be read: {one_line(error)}") from error
    return module


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}
