"""Reads SB3 archives as data: the policy's class, options and tensors. No pickle in them is executed.

Only two members of a `.zip` are opened: `data` (JSON, whose `:serialized:` pickles go through
`imitate.experts.sb3.pickles`) and `policy.pth` (`imitate.experts.sb3.tensors`). Optimiser state and
`pytorch_variables.pth` are never read.
"""

from __future__ import annotations

import base64
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from torch import Tensor

from imitate.errors import InputError, one_line
from imitate.experts.sb3.networks import ACTIVATIONS, PolicySpec
from imitate.experts.sb3.pickled_values import to_float, to_space
from imitate.experts.sb3.pickles import Global, Record, read_pickle
from imitate.experts.sb3.tensors import LARGEST_WEIGHTS, read_member, read_tensors
from imitate.files import open_zip

__all__ = [
    "SB3_ALGORITHMS",
    "Archive",
    "discount",
    "policy_spec",
    "read_archive",
    "stored_space",
    "was_normalised",
]

SB3_ALGORITHMS = ("PPO", "A2C", "TRPO", "DQN", "QRDQN", "SAC", "TD3", "DDPG", "TQC", "ARS")
_LARGEST_ARCHIVE = 1 << 30  # bytes, including optimisers; only the policy is read
_LARGEST_DATA = 16 << 20  # bytes of JSON; it holds the last observations of all training environments
_BUILT_IN_EXTRACTORS = ("FlattenExtractor", "NatureCNN", "CombinedExtractor")


@dataclass(frozen=True)
class Archive:
    """The content of an archive: its JSON `data`, and the policy's parameters `tensors` by name."""

    data: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def has(self, network: str) -> bool:
        """True if a parameter's name begins so."""
        return any(name.startswith(network) for name in self.tensors)


def read_archive(path: Path) -> Archive:
    """Read an SB3 `.zip` of any version. Raises InputError if it is not one, damaged, or too large."""
    try:
        if path.stat().st_size > _LARGEST_ARCHIVE:
            raise InputError(f"it has {path.stat().st_size} bytes, over the limit of {_LARGEST_ARCHIVE}")
        with path.open("rb") as file, open_zip(file) as archive:
            names = archive.namelist()
            missing = [name for name in ("data", "policy.pth") if name not in names]
            if missing:
                raise InputError(f"no {missing[0]!r} in it, only {names[:5]}")
            data = json.loads(read_member(archive, "data", _LARGEST_DATA))
            weights = read_member(archive, "policy.pth", LARGEST_WEIGHTS)
    except (
        OSError,
        EOFError,
        ValueError,
        RuntimeError,
        NotImplementedError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise InputError(
            f"{path} is not a readable SB3 archive: {_brief(error)}; download it again"
        ) from error
    if not isinstance(data, dict):
        raise InputError(f"{path} is not an SB3 archive: its data is no dictionary")
    try:
        return Archive(data, read_tensors(weights))
    except (ValueError, KeyError, TypeError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"policy.pth in {path} is refused: {_brief(error)}") from error


def stored_space(archive: Archive, name: str) -> spaces.Space[Any] | None:
    """The stored `observation_space` or `action_space`; None if its pickle holds anything else."""
    try:
        return to_space(_unpickled(archive.data.get(name)))
    except (ValueError, KeyError, TypeError, AttributeError, AssertionError, OverflowError, RecursionError):
        return None


def discount(archive: Archive) -> float | None:
    """The training's gamma; None if the file has none (ARS)."""
    gamma = archive.data.get("gamma")
    return float(gamma) if isinstance(gamma, int | float) and 0 <= gamma <= 1 else None


def was_normalised(archive: Archive) -> bool:
    """True if an on-policy agent or ARS was trained under VecNormalize: SB3 then keeps the original observations too.

    Off-policy agents always do, so that nothing is known of them.
    """
    return (
        not archive.has("critic.") and not archive.has("q") and bool(archive.data.get("_last_original_obs"))
    )


def policy_spec(
    archive: Archive,
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    columns: tuple[int, ...] | None = None,
) -> PolicySpec:
    """The algorithm and the options that can't be seen from the tensors.

    Raises InputError for a policy class, feature extractor or activation that is not SB3's or torch's own, and for an
    algorithm that is not in SB3_ALGORITHMS.
    """
    policy_class = _policy_class(archive)
    kwargs = _policy_kwargs(archive)
    algorithm = _algorithm(archive, policy_class)
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
        exploration_rate=float(rate) if isinstance(rate, int | float) and 0 <= rate <= 1 else 0.0,
        columns=columns,
    )


def make_spec(
    algorithm: str,
    policy_class: str,
    kwargs: Mapping[str, Any],
    observation_space: spaces.Space[Any],
    action_space: spaces.Space[Any],
    *,
    exploration_rate: float = 0.0,
    columns: tuple[int, ...] | None = None,
) -> PolicySpec:
    """A PolicySpec from a policy's keyword arguments: plain values, and classes either as `Global` or as the classes
    themselves."""
    default = "Tanh" if algorithm in ("PPO", "A2C", "TRPO") else "ReLU"
    activation = _name(kwargs.get("activation_fn", default))
    if activation not in ACTIVATIONS:
        raise InputError(f"activation {activation!r} is not one of {', '.join(ACTIVATIONS)}")
    # SAC, TQC, TD3 and DDPG always squash; ARS depends on its class; PPO, A2C and TRPO only on request, with gSDE.
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
        columns=columns,
    )


def _unpickled(entry: Any) -> Any:
    """A value of SB3's JSON: plain, or read as data from the pickle that replaces it."""
    if not (isinstance(entry, dict) and ":serialized:" in entry):
        return entry
    try:
        return read_pickle(base64.b64decode(entry[":serialized:"]))
    except (TypeError, ValueError) as error:
        raise InputError(f"a pickled entry of the archive is unreadable: {_brief(error)}") from error


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
        raise InputError(
            "the policy_kwargs of the archive are not a dictionary, and they are not run to build one"
        )
    return kwargs


def _algorithm(archive: Archive, policy_class: str) -> str:
    """The algorithm, which SB3 doesn't store; attributes distinguish algorithms that share a policy class."""
    data = archive.data
    if any("lstm" in name for name in archive.tensors):
        raise InputError(
            "a recurrent agent (RecurrentPPO) is not supported: it acts on more than one observation"
        )
    if policy_class.startswith("Maskable"):
        raise InputError(
            "a MaskablePPO agent: not supported, as nothing here tells it which actions are allowed"
        )
    if policy_class == "TQCPolicy" or "top_quantiles_to_drop_per_net" in data:
        return "TQC"
    if archive.has("quantile_net."):
        return "QRDQN"
    if archive.has("q_net."):
        return "DQN"
    if archive.has("critic.qf0."):
        if archive.has("actor.latent_pi.") or "target_entropy" in data:
            return "SAC"
        return "DDPG" if data.get("policy_delay") == 1 and data.get("target_noise_clip") == 0 else "TD3"
    if policy_class.startswith("ARS"):
        return "ARS"
    if archive.has("value_net."):
        return "TRPO" if "cg_max_steps" in data else "PPO" if "clip_range" in data else "A2C"
    raise InputError(f"policy class {policy_class!r} is of none of {', '.join(SB3_ALGORITHMS)}")


def _name(value: Any) -> str:
    if isinstance(value, Global):
        return value.name
    if isinstance(value, Record):
        return f"{value.class_name or 'something'}(...)"
    if isinstance(value, type):
        return value.__name__
    return value[:80] if isinstance(value, str) else f"something of type {type(value).__name__}"


def _number(value: Any) -> float:
    number = float(value) if isinstance(value, np.number) else to_float(value)
    if not math.isfinite(number):
        raise InputError(f"an option of the policy is {number} where a finite number was expected")
    return number


def _brief(error: BaseException) -> str:
    return one_line(error)[:200] or type(error).__name__
