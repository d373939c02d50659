"""SB3 archives as data: which class, which options, which tensors. No pickle in them is executed.

Of a `.zip` two members are opened: `data` (JSON, whose `:serialized:` pickles go through
`imitate.experts.pickles`) and `policy.pth` (`torch.load(weights_only=True)`). Optimiser state and
`pytorch_variables.pth` are never touched.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.errors import InputError
from imitate.experts.networks import ACTIVATIONS, PolicySpec
from imitate.experts.pickles import Global, Record, read_pickle, to_array, to_float

__all__ = ["ALGORITHMS", "Archive", "discount", "policy_spec", "read_archive", "stored_space"]

ALGORITHMS = ("PPO", "A2C", "TRPO", "DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "ARS")
_LARGEST_MEMBER = 2**29  # bytes; the zoo's largest policy takes 30 MB
_BUILT_IN_EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")


@dataclass(frozen=True)
class Archive:
    """An opened archive: `data` is its JSON, `tensors` the policy's parameters by name."""

    data: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


def read_archive(path: Path) -> Archive:
    """Open an SB3 `.zip` of any version. Raises InputError where it is no such file, or damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(_member(archive, "data", path))
            weights = _member(archive, "policy.pth", path)
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path} is not a readable SB3 archive: {_one_line(error)}; download it again"
        ) from error
    try:
        tensors = torch.load(io.BytesIO(weights), map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # damaged files fail in many ways; code in the file is what weights_only refuses
        reason = (
            "it holds objects that only code could load" if "Unsupported" in str(error) else _one_line(error)
        )
        raise InputError(f"policy.pth in {path} is refused: {reason}") from error
    if not isinstance(data, dict) or not isinstance(tensors, dict):
        raise InputError(f"{path} is not an SB3 archive: its data or its policy is no dictionary")
    if not all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()):
        raise InputError(f"policy.pth in {path} holds more than named tensors")
    if any(
        tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
        for tensor in tensors.values()
    ):
        raise InputError(f"policy.pth in {path} holds tensors larger than their data: refused")
    return Archive(data, tensors)


def _member(archive: zipfile.ZipFile, name: str, path: Path) -> bytes:
    if name not in archive.namelist():
        raise InputError(f"{path} is not an SB3 archive: no {name!r} in it, only {archive.namelist()[:5]}")
    with archive.open(name) as stream:
        content = stream.read(_LARGEST_MEMBER)  # the header's size is a claim; what is read is bounded
    if len(content) == _LARGEST_MEMBER:
        raise InputError(f"{name!r} in {path} is larger than {_LARGEST_MEMBER:,} bytes")
    return content


def stored_space(archive: Archive, name: str) -> spaces.Space[Any] | None:
    """`observation_space` or `action_space` as stored; None where its pickle holds anything else."""
    try:
        return _space(_unpickled(archive.data.get(name)))
    except (InputError, KeyError, TypeError, ValueError, AttributeError, AssertionError):
        return None


def discount(archive: Archive) -> float | None:
    """The gamma of the training; None where the file does not say (ARS has none)."""
    gamma = archive.data.get("gamma")
    return float(gamma) if isinstance(gamma, int | float) and 0 <= gamma <= 1 else None


def policy_spec(
    archive: Archive,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    time_feature: bool = False,
) -> PolicySpec:
    """The algorithm and the options that the tensors don't show.

    Raises InputError for a policy class, feature extractor or activation that is not SB3's or torch's own,
    and for an algorithm that is not among ALGORITHMS.
    """
    policy_class = _policy_class(archive)
    kwargs = _policy_kwargs(archive)
    algorithm = _algorithm(archive, policy_class, kwargs)
    extractor = kwargs.get("features_extractor_class")
    if extractor is not None and _name(extractor) not in _BUILT_IN_EXTRACTORS:
        raise InputError(
            f"the feature extractor {_name(extractor)!r} is custom code: it can't be rebuilt from data"
        )
    rate = archive.data.get("exploration_rate", 0.0)
    return make_spec(
        algorithm,
        policy_class,
        kwargs,
        observation_space,
        action_space,
        exploration_rate=float(rate) if isinstance(rate, int | float) else 0.0,
        time_feature=time_feature,
    )


def make_spec(
    algorithm: str,
    policy_class: str,
    kwargs: Mapping[str, Any],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    exploration_rate: float = 0.0,
    time_feature: bool = False,
) -> PolicySpec:
    """A PolicySpec from a policy's keyword arguments: plain values, classes as `Global` or as themselves."""
    default = "Tanh" if algorithm in ("PPO", "A2C", "TRPO") else "ReLU"
    activation = _name(kwargs.get("activation_fn", default))
    if activation not in ACTIVATIONS:
        raise InputError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    # SAC, TQC, TD3 and DDPG squash always; ARS by its class; PPO, A2C and TRPO only on request, with gSDE.
    always = algorithm in ("SAC", "TQC", "TD3", "DDPG")
    squash = always or kwargs.get("squash_output", policy_class == "ARSPolicy") is True
    return PolicySpec(
        algorithm,
        observation_space,
        action_space,
        activation,
        squash_output=squash and isinstance(action_space, spaces.Box),
        clip_mean=_number(kwargs.get("clip_mean", 2.0)),
        use_expln=kwargs.get("use_expln") is True,
        normalize_images=kwargs.get("normalize_images", True) is not False,
        exploration_rate=exploration_rate,
        time_feature=time_feature,
    )


def _unpickled(entry: Any) -> Any:
    """A value of SB3's JSON: plain, or the pickle that stands in for it, read as data."""
    if not (isinstance(entry, dict) and ":serialized:" in entry):
        return entry
    try:
        return read_pickle(base64.b64decode(entry[":serialized:"]))
    except (TypeError, ValueError, binascii.Error) as error:
        raise InputError(f"a pickled entry of the archive is unreadable: {_one_line(error)}") from error


def _policy_class(archive: Archive) -> str:
    found = _unpickled(archive.data.get("policy_class"))
    if isinstance(found, Global) and found.module.split(".")[0] in ("stable_baselines3", "sb3_contrib"):
        return found.name
    name = f"{found.module}.{found.name}" if isinstance(found, Global) else _name(found)
    raise InputError(
        f"policy class {name!r} is not one of SB3's or sb3-contrib's: it can't be rebuilt without its code"
    )


def _policy_kwargs(archive: Archive) -> dict[str, Any]:
    kwargs = _unpickled(archive.data.get("policy_kwargs", {}))
    if not isinstance(kwargs, dict):
        raise InputError("the policy_kwargs of the archive are no dictionary: they are not run to find out")
    return kwargs


def _algorithm(archive: Archive, policy_class: str, kwargs: Mapping[str, Any]) -> str:
    """SB3 doesn't name the algorithm; its own attributes tell those apart that share a policy class."""
    data, names = archive.data, archive.tensors
    if any("lstm" in name for name in names):
        raise InputError(
            "a recurrent agent (RecurrentPPO) is not supported: it acts on more than one observation"
        )
    if policy_class.startswith("Maskable"):
        raise InputError(
            "a MaskablePPO agent: not supported, as nothing here tells it which actions are allowed"
        )
    if policy_class == "TQCPolicy" or "top_quantiles_to_drop_per_net" in data:
        return "TQC"
    if any(name.startswith("quantile_net.") for name in names):
        return "QRDQN"
    if any(name.startswith("q_net.") for name in names):
        return "DQN"
    if any(name.startswith("critic.qf0.") for name in names):
        if any(name.startswith("actor.latent_pi.") for name in names) or "target_entropy" in data:
            return "SAC"
        return "DDPG" if data.get("policy_delay") == 1 and kwargs.get("n_critics") == 1 else "TD3"
    if policy_class.startswith("ARS"):
        return "ARS"
    if any(name.startswith("value_net.") for name in names):
        return "TRPO" if "cg_max_steps" in data else "PPO" if "clip_range" in data else "A2C"
    raise InputError(f"policy class {policy_class!r} is of none of {', '.join(ALGORITHMS)}")


def _space(record: Any) -> spaces.Space[Any]:
    state = record.state if isinstance(record, Record) else None
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], dict):  # (dict, slots)
        state = state[0]
    if not isinstance(record, Record) or not isinstance(state, dict):
        raise InputError("not a stored space")
    kind = record.class_name
    if kind == "Box":
        low, high = np.broadcast_arrays(to_array(state["low"]), to_array(state["high"]))
        return spaces.Box(low, high, low.shape, low.dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(to_float(state["n"])), start=int(to_float(state.get("start", 0))))
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(to_array(state["nvec"]))
    if kind == "MultiBinary":
        n = state["n"]
        return spaces.MultiBinary(n if isinstance(n, int) else to_array(n).tolist())
    if kind == "Dict":
        inner = state["spaces"]
        inner = inner.items if isinstance(inner, Record) else inner
        # Ordered: a plain dict would be sorted, and features are concatenated in the order of training.
        return spaces.Dict(OrderedDict((str(key), _space(value)) for key, value in inner.items()))
    raise InputError(f"space {kind!r} is not supported")


def _name(value: Any) -> str:
    if isinstance(value, Global):
        return value.name
    if isinstance(value, Record):
        return f"{_name(value.function)}(...)"
    return value.__name__ if isinstance(value, type) else str(value)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float | np.number) else to_float(value)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
