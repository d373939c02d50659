"""An expert's folder as this toolkit writes it: `expert.json` and `policy.safetensors`, both plain data."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import safetensors.torch
from gymnasium import spaces
from safetensors import SafetensorError
from torch import Tensor

from imitate.envs.fields import as_fields
from imitate.envs.spaces import Space, space_from_json, space_to_json
from imitate.errors import InputError, one_line
from imitate.experts.placing import Agent
from imitate.experts.sb3.archive import SB3_ALGORITHMS, make_spec
from imitate.experts.sb3.networks import ACTIVATIONS, PolicySpec, build_networks
from imitate.experts.sb3.tensors import LARGEST_WEIGHTS
from imitate.experts.sb3.vecnormalize import Normalisation
from imitate.files import atomic, read_bytes, read_json, versions, write_json

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["Origin", "StoredExpert", "read_folder", "save_expert", "write_folder"]

FORMAT_VERSION = 1
_LARGEST_DESCRIPTION = 4 << 20  # bytes
_LARGEST_HEADER = 1 << 20  # bytes of the list of tensors in a safetensors file


Text = Annotated[str, msgspec.Meta(max_length=200)]


def save_expert(
    folder: Path, model: BaseAlgorithm, vecnormalize: VecNormalize | None, meta: Mapping[str, Any]
) -> None:
    """Write a live SB3 agent as `policy.safetensors` (critics included, targets not) and `expert.json`.

    meta holds at least `env_id`; `env_kwargs` and `measured` (mean, std, episodes) are read back, and the rest is
    kept as a record of the training. `expert.json` is written last, so a folder that has it is complete.

    Raises InputError for an agent that could not be loaded again.
    """
    spec = make_spec(
        type(model).__name__,
        type(model.policy).__name__,
        dict(model.policy_kwargs),
        model.observation_space,
        model.action_space,
        exploration_rate=float(getattr(model, "exploration_rate", 0.0)),
    )
    normalisation = None if vecnormalize is None else Normalisation.from_live(vecnormalize)
    description = {
        "env_id": meta["env_id"],
        "env_kwargs": dict(meta.get("env_kwargs", {})),
        "gamma": getattr(model, "gamma", None),
        "measured": meta.get("measured"),
        "training": {
            key: value for key, value in meta.items() if key not in ("env_id", "env_kwargs", "measured")
        },
    }
    write_folder(folder, spec, model.policy.state_dict(), normalisation, description)


def write_folder(
    folder: Path,
    spec: PolicySpec,
    tensors: Mapping[str, Tensor],
    normalisation: Normalisation | None,
    description: Mapping[str, Any],
) -> None:
    """Write an SB3 agent: its tensors, without those of target networks, and the rest as JSON.

    description   the fields of `_Description` that the other arguments don't give

    Raises InputError for an agent that could not be loaded again.
    """
    kept = {name: tensor.detach().cpu() for name, tensor in tensors.items() if "_target." not in name}
    observation_space, action_space = (
        space_to_json(as_fields(space)) for space in (spec.observation_space, spec.action_space)
    )
    build_networks(spec, kept, normalisation)  # check that it can be loaded again before writing
    weights = safetensors.torch.save({name: tensor.clone().contiguous() for name, tensor in kept.items()})
    whole = {
        "format": FORMAT_VERSION,
        "algorithm": spec.algorithm,
        **description,
        "policy": {
            name: value
            for name, value in vars(spec).items()
            if name not in ("algorithm", "observation_space", "action_space", "columns")
        },
        "observation_space": observation_space,
        "keys": list(spec.observation_space) if isinstance(spec.observation_space, spaces.Dict) else [],
        "action_space": action_space,
        "normalisation": None if normalisation is None else normalisation.to_json(),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "versions": versions(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with atomic(folder / "policy.safetensors") as temporary:
        temporary.write_bytes(weights)
    write_json(folder / "expert.json", whole)


@dataclass(frozen=True)
class Origin:
    """The SB3 zip that a folder was converted from.

    source, sha256   its spec or file name, and its hash
    config, results, revision   as in `Found`
    """

    source: Text
    sha256: Text
    config: dict[str, Any] = field(default_factory=dict)
    results: dict[str, float] = field(default_factory=dict)
    revision: Text | None = None


@dataclass(frozen=True)
class StoredExpert:
    """The content of an expert's folder."""

    env_id: str
    env_kwargs: dict[str, Any]
    spec: PolicySpec
    tensors: Mapping[str, Tensor]
    normalisation: Normalisation | None
    gamma: float | None
    measured: Mapping[str, float]
    training: dict[str, Any]
    sha256: str
    origin: Origin | None

    def agent(self) -> Agent:
        """The agent as a zip of it would give it."""
        return Agent(
            sha256=self.sha256,
            observation_space=self.spec.observation_space,
            action_space=self.spec.action_space,
            tensors=self.tensors,
            gamma=self.gamma,
            spec=lambda obs, actions, columns: replace(
                self.spec, observation_space=obs, action_space=actions, columns=columns
            ),
            normalisation=lambda keys: self.normalisation,  # noqa: ARG005
            normalised_by="expert.json" if self.normalisation else "",
        )


@dataclass(frozen=True)
class _Policy:
    activation: Text
    squash_output: bool
    clip_mean: float = 2.0
    use_expln: bool = False
    normalize_images: bool = True
    exploration_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


@dataclass(frozen=True)
class _Description:
    """`expert.json`, as written by `write_folder` and checked on reading."""

    format: int
    algorithm: Text
    env_id: Text
    env_kwargs: dict[str, Any]
    policy: _Policy
    observation_space: dict[str, Any]
    action_space: dict[str, Any]
    normalisation: dict[str, Any] | None
    sha256: Text
    keys: list[Text] = field(default_factory=list)  # of a Dict, in the order of the networks' inputs
    gamma: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    measured: dict[str, float] | None = None
    training: dict[str, Any] = field(default_factory=dict)
    origin: Origin | None = None


def read_folder(folder: Path) -> StoredExpert:
    """Read an expert's folder. Raises InputError if it is not one, damaged, too large, or of another format."""
    if not (folder / "expert.json").is_file() or not (folder / "policy.safetensors").is_file():
        archive = next(iter(sorted(folder.glob("*.zip"))), None)
        remedy = "" if archive is None else f"; did you mean {archive}?"
        raise InputError(
            f"{folder} is no expert's folder: it lacks expert.json or policy.safetensors{remedy}"
        )
    description = read_json(folder / "expert.json", _Description, limit=_LARGEST_DESCRIPTION)
    weights = read_bytes(folder / "policy.safetensors", LARGEST_WEIGHTS)
    sha256 = hashlib.sha256(weights).hexdigest()
    policy, normalisation = description.policy, description.normalisation
    if description.format != FORMAT_VERSION:
        raise InputError(f"{folder} has format {description.format}, this version reads {FORMAT_VERSION}")
    if policy.activation not in ACTIVATIONS or description.algorithm not in SB3_ALGORITHMS:
        raise InputError(
            f"{folder} is of {description.algorithm!r} with {policy.activation!r}, which are unknown"
        )
    tensors = _read_tensors(folder, weights)
    if description.sha256 != sha256:
        raise InputError(f"policy.safetensors in {folder} is not the one that its expert.json describes")
    return StoredExpert(
        env_id=description.env_id,
        env_kwargs=description.env_kwargs,
        spec=PolicySpec(
            description.algorithm,
            _in_order(folder, space_from_json(description.observation_space), description.keys),
            space_from_json(description.action_space),
            **vars(policy),
        ),
        tensors=tensors,
        normalisation=None if normalisation is None else Normalisation.from_json(normalisation),
        gamma=description.gamma,
        measured=description.measured or {},
        training=description.training,
        sha256=sha256,
        origin=description.origin,
    )


def _in_order(folder: Path, space: Space, keys: list[str]) -> Space:
    """The parts of a Dict in the order of these keys; without keys, as it is."""
    if not keys:
        return space
    if not isinstance(space, spaces.Dict) or sorted(keys) != sorted(space):
        raise InputError(f"expert.json in {folder} has the keys {keys}, but observations are {space}")
    return spaces.Dict(OrderedDict((key, space[key]) for key in keys))


def _read_tensors(folder: Path, weights: bytes) -> Mapping[str, Tensor]:
    if int.from_bytes(weights[:8], "little") > _LARGEST_HEADER:
        raise InputError(
            f"policy.safetensors in {folder} is damaged: its header is over {_LARGEST_HEADER} bytes"
        )
    try:
        tensors: Mapping[str, Tensor] = safetensors.torch.load(weights)
    except (ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise InputError(f"policy.safetensors in {folder} is damaged: {one_line(error)}") from error
    return tensors
