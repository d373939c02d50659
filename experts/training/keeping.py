"""Callbacks while Stable-Baselines3 trains: validation, the best parameters, and a checkpoint to resume from.

The state of a run is kept as data: `weights_only` tensors and NumPy arrays, never SB3's own pickled archives.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecNormalize
from tqdm import tqdm

from imitate.errors import InputError, one_line
from imitate.files import atomic

__all__ = ["KeepBest", "mean_and_std"]

logger = logging.getLogger(__name__)


class KeepBest(BaseCallback):
    """Progress, validation on fixed seeds, best parameters, and the checkpoint to resume from.

    Progress is a bar on a terminal, otherwise a line for each validation.
    """

    def __init__(
        self,
        folder: Path,
        venv: VecEnv,
        *,
        seed: int,
        every: int,
        episodes: int,
        total_steps: int,
        grades: Mapping[int, Callable[[], None]],
    ) -> None:
        """`grades` maps numbers of steps to functions that are called once so many steps were taken."""
        super().__init__()
        self._grades = dict(sorted(grades.items()))
        self._folder, self._venv, self._every, self._episodes = folder, venv, every, episodes
        self._seed = seed
        self._bar = tqdm(total=total_steps, unit="step", file=sys.stderr, disable=None)
        self._next_validation, self._best = every, -np.inf

    def _on_step(self) -> bool:
        self._bar.update(self.num_timesteps - self._bar.n)
        while self._grades and self.num_timesteps >= next(iter(self._grades)):
            self._grades.pop(next(iter(self._grades)))()
        if self.num_timesteps >= self._next_validation:
            self._next_validation += self._every
            self.validate()
            self.save()
        return True

    def validate(self) -> None:
        self._venv.seed(self._seed)
        mean, std = mean_and_std(self.model, self._venv, self._episodes)
        self.logger.record("eval/mean_return", mean)
        self.logger.dump(self.model.num_timesteps)
        with (self._folder.parent / "log.jsonl").open("a") as log:
            log.write(json.dumps({"step": self.model.num_timesteps, "mean_return": mean, "std": std}) + "\n")
        # A policy that sometimes falls is a poor expert, so among equal means the steadier one is kept.
        score = mean - 0.1 * std
        # Among equal ones the later is kept, since its critic has seen more.
        if score >= self._best:
            self._best = score
            self._write("best", self.model, with_buffer=False)
        self._bar.set_postfix_str(f"return {mean:.1f} +- {std:.1f}")
        if self._bar.disable:  # not on a terminal
            logger.info("%d of %d steps: return %.1f +- %.1f", self.num_timesteps, self._bar.total, mean, std)

    def save(self) -> None:
        self._write("checkpoint", self.model, with_buffer=True)

    def load(self, model: BaseAlgorithm) -> None:
        """Load the checkpoint. Raises InputError if it is damaged, or if its settings are not the model's."""
        try:
            self._load(model)
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RuntimeError,
            EOFError,
            UnpicklingError,
            BadZipFile,
        ) as error:
            raise InputError(
                f"{self._folder / 'checkpoint'} can't be resumed with these settings: {one_line(error)[:300]}; "
                "give the same as before, or another --out"
            ) from error

    def _load(self, model: BaseAlgorithm) -> None:
        state = self._read("checkpoint", model)
        self._best, self._next_validation = state["best"], state["next_validation"]
        if isinstance(model, OffPolicyAlgorithm):
            assert model.replay_buffer is not None
            buffer = np.load(self._folder / "checkpoint" / "replay.npz", allow_pickle=False)
            rows = len(buffer["rewards"])
            for name in buffer.files:
                getattr(model.replay_buffer, name)[:rows] = buffer[name]
            model.replay_buffer.pos = state["buffer_position"]
            model.replay_buffer.full = state["buffer_full"]

    def restore_best(self, model: BaseAlgorithm) -> None:
        self._read("best", model)

    def _write(self, name: str, model: BaseAlgorithm, *, with_buffer: bool) -> None:
        folder = self._folder / "checkpoint"
        folder.mkdir(exist_ok=True)
        normalize = model.get_vec_normalize_env()
        moments = [] if normalize is None else _moments(normalize)
        statistics = [(torch.as_tensor(m.mean), torch.as_tensor(m.var), float(m.count)) for m in moments]
        state = {
            "parameters": model.get_parameters(),
            # Not among the parameters: the entropy coefficient that SAC and TQC learn.
            "variables": {each: getattr(model, each).data for each in model._get_torch_save_params()[1]},
            "num_timesteps": model.num_timesteps,
            "updates": model._n_updates,
            "best": self._best,
            "next_validation": self._next_validation,
            "statistics": statistics or None,
        }
        if with_buffer and isinstance(model, OffPolicyAlgorithm):
            buffer = model.replay_buffer
            assert buffer is not None
            rows = buffer.buffer_size if buffer.full else buffer.pos
            arrays = {
                k: v[:rows] for k, v in vars(buffer).items() if isinstance(v, np.ndarray) and len(v) >= rows
            }
            with atomic(folder / "replay.npz") as temporary, temporary.open("wb") as file:
                # Not with allow_pickle=False, which NumPy 1.26 would store as an array.
                np.savez(file, **arrays)  # type: ignore[arg-type]
            state |= {"buffer_position": buffer.pos, "buffer_full": buffer.full}
        with atomic(folder / f"{name}.pt") as temporary:
            torch.save(state, temporary)

    def _read(self, name: str, model: BaseAlgorithm) -> dict[str, Any]:
        state: dict[str, Any] = torch.load(self._folder / "checkpoint" / f"{name}.pt", weights_only=True)
        model.set_parameters(state["parameters"])
        for variable, value in state["variables"].items():
            getattr(model, variable).data.copy_(value)
        model.num_timesteps, model._n_updates = state["num_timesteps"], state["updates"]
        normalize = model.get_vec_normalize_env()
        if normalize is not None:
            for rms, values in zip(_moments(normalize), state["statistics"], strict=True):
                rms.mean, rms.var, rms.count = values[0].numpy(), values[1].numpy(), values[2]
        return state


def mean_and_std(model: BaseAlgorithm, venv: VecEnv, episodes: int) -> tuple[float, float]:
    """The mean return and its standard deviation over episodes in `venv`, observed as in training; rewards are raw."""
    trained_with = model.get_vec_normalize_env()
    if trained_with is not None:
        wrapped = VecNormalize(venv, training=False, norm_reward=False)
        wrapped.obs_rms, wrapped.ret_rms = trained_with.obs_rms, trained_with.ret_rms
        venv = wrapped
    returns, _ = evaluate_policy(model, venv, n_eval_episodes=episodes, return_episode_rewards=True)
    return float(np.mean(returns)), float(np.std(returns))


def _moments(normalize: VecNormalize) -> list[RunningMeanStd]:
    assert isinstance(normalize.obs_rms, RunningMeanStd), (
        "observations are Box or Discrete: see check_supported"
    )
    return [normalize.obs_rms, normalize.ret_rms]
