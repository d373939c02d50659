"""Observation and reward statistics of SB3's `VecNormalize`, read from its pickle as data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from imitate.envs.spaces import Array
from imitate.errors import InputError, one_line
from imitate.experts.sb3.pickled_values import to_array, to_float
from imitate.experts.sb3.pickles import Record, read_pickle

__all__ = ["Normalisation", "read_vecnormalize"]

_NOT_CLIPPED = 1e30  # JSON has no infinity


@dataclass(frozen=True)
class Normalisation:
    """The normalisation used in training.

    The agent sees `clip((obs - mean) / sqrt(var + epsilon), -clip_obs, clip_obs)`, and its critic learned from rewards
    divided by `reward_scale` (then clipped to +-clip_reward).

    mean, var   (*obs_shape) float64; for dict observations all keys, flat, in the space's order; None: not normalised

    Raises InputError for invalid statistics: not finite, a negative variance, or different shapes.
    """

    mean: Array | None
    var: Array | None
    epsilon: float
    clip_obs: float
    norm_reward: bool
    return_var: float
    clip_reward: float
    gamma: float

    def __post_init__(self) -> None:
        moments = [array for array in (self.mean, self.var) if array is not None]
        numbers = self.epsilon, self.return_var, self.gamma
        sound = all(np.isfinite(array).all() for array in moments) and all(map(math.isfinite, numbers))
        sound = sound and self.epsilon >= 0 and self.return_var >= 0 and 0 <= self.gamma <= 1
        sound = sound and self.clip_obs > 0 and self.clip_reward > 0  # infinity means no clipping
        if not sound or (self.var is not None and (self.var < 0).any()):
            raise InputError("the statistics of the normalisation are damaged: not finite, or negative")
        if len({array.shape for array in moments}) > 1 or len(moments) == 1:
            raise InputError("the mean and the variance of the normalisation are not alike")

    @property
    def sha256(self) -> str:
        """Hash of the statistics, independent of how they were stored."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    @property
    def reward_scale(self) -> float:
        """Environment reward = critic's reward x reward_scale; 1 if rewards were not normalised."""
        return float(np.sqrt(self.return_var + self.epsilon)) if self.norm_reward else 1.0

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which `from_json` restores the same float64 numbers."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Normalisation:
        """Restore from `to_json`'s data. Raises InputError if it is invalid."""
        try:
            arrays = {
                name: None if data[name] is None else np.asarray(data[name], float)
                for name in ("mean", "var")
            }
            return cls(**{**data, **arrays})
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"not the description of a normalisation: {one_line(error)}") from error

    @classmethod
    def from_live(cls, vecnormalize: Any) -> Normalisation:
        """The normalisation of a live `stable_baselines3.common.vec_env.VecNormalize`.

        Raises InputError if it normalises dict observations.
        """
        rms = vecnormalize.obs_rms if vecnormalize.norm_obs else None
        if isinstance(rms, dict):
            raise InputError("normalised dict observations can't be stored: save the agent as SB3's zip")
        return cls(
            mean=None if rms is None else np.asarray(rms.mean, float),
            var=None if rms is None else np.asarray(rms.var, float),
            epsilon=float(vecnormalize.epsilon),
            clip_obs=min(float(vecnormalize.clip_obs), _NOT_CLIPPED),
            norm_reward=bool(vecnormalize.norm_reward),
            return_var=float(vecnormalize.ret_rms.var),
            clip_reward=min(float(vecnormalize.clip_reward), _NOT_CLIPPED),
            gamma=float(vecnormalize.gamma),
        )


def read_vecnormalize(data: bytes, keys: Sequence[str] = ()) -> Normalisation:
    """The statistics in the bytes of a `vecnormalize.pkl`; nothing in it is executed.

    keys   keys of dict observations, in the order of their space

    Raises InputError for another kind of file, for a damaged one, and if only some keys were normalised.
    """
    record = read_pickle(data)
    known = isinstance(record, Record) and record.class_name == "VecNormalize"
    if not known or not isinstance(record.state, dict):
        raise InputError(
            "not a VecNormalize pickle: wanted the vecnormalize.pkl that SB3 saved beside the agent"
        )
    try:
        return _normalisation(record.state, keys)
    except InputError:
        raise
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(f"the VecNormalize pickle is damaged: {one_line(error)}") from error


def _normalisation(state: Mapping[str, Any], keys: Sequence[str]) -> Normalisation:
    mean, var = _moments(state, keys) if state.get("norm_obs", True) else (None, None)
    return Normalisation(
        mean=mean,
        var=var,
        epsilon=to_float(state.get("epsilon", 1e-8)),
        clip_obs=to_float(state.get("clip_obs", 10.0)),
        norm_reward=bool(state.get("norm_reward", True)),
        return_var=to_float(_statistics(state.get("ret_rms"))["var"]),
        clip_reward=to_float(state.get("clip_reward", 10.0)),
        gamma=to_float(state.get("gamma", 0.99)),
    )


def _moments(state: Mapping[str, Any], keys: Sequence[str]) -> tuple[Array, Array]:
    rms = state.get("obs_rms")
    if not isinstance(rms, dict):
        moments = _statistics(rms)
        return to_array(moments["mean"]).astype(float), to_array(moments["var"]).astype(float)
    if set(keys) != set(rms):
        raise InputError(
            f"only {sorted(rms)} of the observation's {sorted(keys)} were normalised: not supported"
        )
    each = [_statistics(rms[key]) for key in keys]
    mean, var = (
        np.concatenate([to_array(moments[name]).ravel() for moments in each]) for name in ("mean", "var")
    )
    return mean.astype(float), var.astype(float)


def _statistics(record: Any) -> dict[str, Any]:
    if (
        isinstance(record, Record)
        and isinstance(record.state, dict)
        and record.state.keys() >= {"mean", "var"}
    ):
        return record.state
    raise InputError("the VecNormalize pickle has no running mean and variance where they belong")
