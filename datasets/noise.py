"""Adds noise to executed actions while labels stay clean, so that demonstrations show how to recover from mistakes."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitate.datasets.trajectory import Policy
from imitate.envs.spaces import Array, uniform_actions, values_of
from imitate.errors import InputError

__all__ = ["ActionNoise", "dart"]

logger = logging.getLogger(__name__)

_LARGE = 0.5  # share of wrong actions; of continuous ones the error, in units of half their range


class ActionNoise:
    """Noise on executed actions.

    spec    "gaussian:SIGMA", SIGMA in units of half the action range, clipped to the space (Box only);
            "gaussian:[[...], ...]" with a covariance (D, D) in these units squared, as `dart` finds it;
            "random:P", with probability P a uniform action instead

    Every episode has its own generator, seeded by the episode's seed, so an episode does not depend on others played
    in parallel. Raises InputError for a spec that can't be parsed or does not suit the space.
    """

    def __init__(self, spec: str, action_space: gym.Space[Any], num_envs: int) -> None:
        kind, _, size = spec.partition(":")
        if kind == "gaussian" and not isinstance(action_space, spaces.Box):
            raise InputError(
                f"noise {spec!r} needs continuous actions, these are {action_space}: use random:P"
            )
        self._size = _root(size, action_space) if size.startswith("[") else _number(size)
        most = {"gaussian": 10.0, "random": 1.0}.get(kind, 0.0)
        sound = 0 < self._size <= most if isinstance(self._size, float) else kind == "gaussian"
        if not sound:
            raise InputError(
                f"noise {spec!r}: wanted gaussian:SIGMA, 0 < SIGMA <= 10, gaussian:[[covariance]], or random:P, "
                "0 < P <= 1; `imitate collect` also takes dart:RUN"
            )
        self._disturb = self._gaussian if kind == "gaussian" else self._random
        self._space = action_space
        self._rngs = [np.random.default_rng() for _ in range(num_envs)]

    def begin(self, env: int, seed: int) -> None:
        """An episode with this seed begins in environment `env`."""
        # The second number makes the noise independent of the environment, which uses the same seed.
        self._rngs[env] = np.random.default_rng((seed, 1))

    def __call__(self, actions: Array) -> Array:
        """Actions (N, *action_shape) to disturbed copies within the space."""
        disturbed = [self._disturb(action, rng) for action, rng in zip(actions, self._rngs, strict=True)]
        return np.asarray(disturbed, actions.dtype)

    def _gaussian(self, action: Array, rng: np.random.Generator) -> Array:
        assert isinstance(self._space, spaces.Box)
        low, high = self._space.low, self._space.high
        if isinstance(self._size, float):
            noise = self._size * (high - low) / 2 * rng.standard_normal(low.shape)
        else:
            noise = self._size @ rng.standard_normal(low.shape) * (high - low) / 2
        return np.asarray(np.clip(action + noise, low, high))

    def _random(self, action: Array, rng: np.random.Generator) -> Any:
        if rng.random() >= self._size:
            return action
        return uniform_actions(self._space, 1, rng)[0]


def dart(learner: Policy, obs: Array, labels: Array, action_space: gym.Space[Any]) -> str:
    """The spec of noise as large as the learner's own errors, so that the expert visits the states that the learner
    will visit (DART, arXiv:1703.09327, equation 4, without its scaling to an expected final error).

    obs, labels   (N, ...) observations and the expert's actions on them, which the learner was not trained on

    Discrete actions get "random:P", where P makes as many actions differ as the learner gets wrong. A warning is logged
    if noise is nearly as large as random actions, since the learner is then hardly trained.

    Raises InputError if the learner makes no errors.
    """
    actions = learner.act(obs, deterministic=True)
    if not (actions != labels).any():
        raise InputError("the learner makes no errors here, so DART has no noise to add: leave --noise out")
    if (discrete := values_of(action_space)) is not None:
        count = float(np.prod(discrete[1], dtype=np.float64))
        differs = np.reshape(actions != labels, (len(labels), -1)).any(axis=1)
        wrong = float(differs.mean()) * count / max(1.0, count - 1)
        _warn(wrong)
        return f"random:{min(1.0, wrong):.6g}"
    assert isinstance(action_space, spaces.Box)
    spans = (action_space.high - action_space.low) / 2
    errors = (np.asarray(actions, np.float64) - labels) / np.where(spans > 0, spans, 1)
    covariance = errors.T @ errors / len(errors)
    _warn(math.sqrt(np.trace(covariance) / len(covariance)))
    return "gaussian:" + json.dumps([[float(f"{number:.6g}") for number in row] for row in covariance])


def _warn(size: float) -> None:
    if size > _LARGE:
        logger.warning("DART's noise is nearly as large as random actions: train the learner longer first")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def _root(text: str, action_space: gym.Space[Any]) -> Array:
    """A matrix (D, D) whose square is the covariance. Raises InputError if the text is not such a matrix."""
    shape = 2 * (action_space.shape or ())
    try:
        covariance = np.array(json.loads(text), np.float64)
        is_matrix = covariance.shape == shape and np.isfinite(covariance).all()
        if not is_matrix or not np.allclose(covariance, covariance.T):
            raise ValueError
        values, vectors = np.linalg.eigh(covariance)
    except (ValueError, TypeError, OverflowError, RecursionError, np.linalg.LinAlgError):
        values = np.array([-1.0])
    if values.min() < -1e-6 * abs(values).max() or values.max() > 100:
        wanted = f"wanted a symmetric matrix {shape} with eigenvalues from 0 to 100"
        raise InputError(f"noise covariance {text[:80]}: {wanted}")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T)
