"""An expert's folder as this toolkit writes it: `expert.json` and `policy.safetensors`, plain data both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from imitate.envs.spaces import space_from_json, space_to_json
from imitate.errors import InputError
from imitate.experts.networks import PolicySpec, build_networks
from imitate.experts.sb3 import make_spec
from imitate.experts.vecnormalize import Normalisation
from imitate.files import atomic, versions, write_json

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["Stored", "read_folder", "save_expert"]

FORMAT_VERSION = 1


def save_expert(
    folder: Path, model: BaseAlgorithm, vecnormalize: VecNormalize | None, meta: Mapping[str, Any]
) -> None:
    """Write a live SB3 agent as `policy.safetensors` (critics included, targets not) and `expert.json`.

    meta holds at least `env_id`; `env_kwargs` and `measured` (mean, std, episodes) are read back, the rest is
    kept as the story of the training. `expert.json` is written last, so a folder with it is whole.

    Raises InputError for an agent that could not be read back.
    """
    spaces_as_json = space_to_json(model.observation_space), space_to_json(model.action_space)
    policy = model.policy
    kwargs = dict(model.policy_kwargs)
    spec = make_spec(
        type(model).__name__,
        type(policy).__name__,
        kwargs,
        model.observation_space,
        model.action_space,
        exploration_rate=float(getattr(model, "exploration_rate", 0.0)),
    )
    kept = {
        name: tensor.detach().cpu() for name, tensor in policy.state_dict().items() if "_target." not in name
    }
    normalisation = None if vecnormalize is None else Normalisation.from_live(vecnormalize)
    build_networks(spec, kept, normalisation)  # what can't be read back is not written
    weights = save_tensors({name: tensor.clone().contiguous() for name, tensor in kept.items()})
    description = {
        "format": FORMAT_VERSION,
        "algorithm": spec.algorithm,
        "env_id": meta["env_id"],
        "env_kwargs": dict(meta.get("env_kwargs", {})),
        "policy": {
            name: value
            for name, value in vars(spec).items()
            if name not in ("algorithm", "observation_space", "action_space", "time_feature")
        },
        "observation_space": spaces_as_json[0],
        "action_space": spaces_as_json[1],
        "normalisation": None if normalisation is None else normalisation.to_json(),
        "gamma": getattr(model, "gamma", None),
        "measured": meta.get("measured"),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "training": {
            key: value for key, value in meta.items() if key not in ("env_id", "env_kwargs", "measured")
        },
        "versions": versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / "policy.safetensors") as temporary:
        temporary.write_bytes(weights)
    write_json(folder / "expert.json", description)


@dataclass(frozen=True)
class Stored:
    """What `save_expert` wrote."""

    env_id: str
    env_kwargs: dict[str, Any]
    spec: PolicySpec
    tensors: Mapping[str, Tensor]
    normalisation: Normalisation | None
    gamma: float | None
    measured: Mapping[str, float]
    training: dict[str, Any]
    sha256: str


def read_folder(folder: Path) -> Stored:
    """Read an expert's folder back. Raises InputError where it is none, damaged, or of another format."""
    try:
        description = json.loads((folder / "expert.json").read_text("utf-8"))
        weights = (folder / "policy.safetensors").read_bytes()
        tensors = load_tensors(weights)
    except OSError as error:
        raise InputError(
            f"{folder} is no expert's folder: {error.filename or error} can't be read"
        ) from error
    except (ValueError, SafetensorError) as error:
        raise InputError(f"{folder} is damaged: {' '.join(str(error).split())}") from error
    sha256 = hashlib.sha256(weights).hexdigest()
    try:
        if description["format"] != FORMAT_VERSION:
            raise InputError(
                f"{folder} has format {description['format']}, this version reads {FORMAT_VERSION}"
            )
        if description["sha256"] != sha256:
            raise InputError(f"policy.safetensors in {folder} is not the one that its expert.json describes")
        normalisation = description["normalisation"]
        return Stored(
            env_id=description["env_id"],
            env_kwargs=dict(description["env_kwargs"]),
            spec=PolicySpec(
                description["algorithm"],
                space_from_json(description["observation_space"]),
                space_from_json(description["action_space"]),
                **description["policy"],
            ),
            tensors=tensors,
            normalisation=None if normalisation is None else Normalisation.from_json(normalisation),
            gamma=description["gamma"],
            measured=description["measured"] or {},
            training=description["training"],
            sha256=sha256,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expert.json in {folder} is incomplete: {type(error).__name__} {error}") from error
