"""A learner's policy on disk: policy.json (architecture and spaces) and policy.safetensors (weights)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from imitate import hub
from imitate.errors import InputError, one_line
from imitate.files import read_json, write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state, save_state

__all__ = ["load_policy", "save_policy"]

_LARGEST_DESCRIPTION = 16 << 20


def save_policy(folder: str | Path, policy: ActorPolicy) -> None:
    """Write the policy to the folder, replacing its files one by one."""
    folder = Path(folder)
    write_json(folder / "policy.json", policy.describe())
    save_state(folder / "policy.safetensors", policy.state_dict())


def load_policy(folder: str | Path, *, device: torch.device | str = "cpu") -> ActorPolicy:
    """Load the policy of a run (the best one by validation), of a policy's folder, or of `hub:ORG/REPO[@revision]`.

    Raises InputError if the folder holds no policy or a damaged one, or if the hub can't give it.
    """
    name, folder = Path(folder).as_posix(), Path(folder)
    if name.startswith(hub.PREFIX):
        folder = hub.policy_folder(hub.find(name.removeprefix(hub.PREFIX)))
    if not (folder / "policy.json").exists():
        folder = folder / "policy"
    if not (folder / "policy.json").is_file() or not (folder / "policy.safetensors").is_file():
        if not folder.parent.exists():
            raise InputError(f"no folder {folder.parent}: wanted a run, a policy's folder or hub:ORG/REPO")
        raise InputError(f"{folder.parent} is not a run of imitate: it has no policy; is the run finished?")
    description = read_json(folder / "policy.json", dict[str, Any], limit=_LARGEST_DESCRIPTION)
    weights = load_state(folder / "policy.safetensors")
    try:
        with torch.device("meta"):  # so that a damaged description can't allocate memory
            wanted = ActorPolicy.from_description(description).state_dict()
        if _shapes(wanted) != _shapes(weights):
            raise ValueError("policy.json describes another network than policy.safetensors holds")
        policy = ActorPolicy.from_description(description)
        policy.load_state_dict(weights)
    except (AttributeError, ValueError, TypeError, KeyError, RuntimeError, OverflowError) as error:
        raise InputError(f"the policy in {folder} can't be read: {one_line(error)}") from error
    return policy.to(device).eval()


def _shapes(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}
