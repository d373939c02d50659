"""A learner's policy on disk: policy.json (architecture and spaces) and policy.safetensors (weights)."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from imitate.errors import InputError
from imitate.files import write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_state, save_state

__all__ = ["load_policy", "save_policy"]


def save_policy(folder: Path, policy: ActorPolicy) -> None:
    """Write the folder; what was there is replaced file by file."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "policy.json", policy.describe())
    save_state(folder / "policy.safetensors", policy.state_dict())


def load_policy(folder: str | Path, *, device: torch.device | str = "cpu") -> ActorPolicy:
    """The policy of a run folder (the best one by validation), or of a policy folder itself.

    Raises InputError where the folder holds none, or a damaged one.
    """
    folder = Path(folder)
    if not (folder / "policy.json").exists():
        folder = folder / "policy"
    try:
        description = json.loads((folder / "policy.json").read_text())
        policy = ActorPolicy.from_description(description)
        policy.load_state_dict(load_state(folder / "policy.safetensors"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            f"{folder.parent} is not a run of imitate: it has no policy; is the run finished?"
        ) from error
    except (ValueError, TypeError, KeyError, RuntimeError) as error:
        raise InputError(f"the policy in {folder} can't be read: {' '.join(str(error).split())}") from error
    return policy.to(device).eval()
