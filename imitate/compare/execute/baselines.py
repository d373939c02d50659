"""Stable-Baselines3's algorithms as baselines, with the settings of its zoo, and the budget and evaluation of all
learners.

An interrupted run begins anew, since SB3 can't resume to the byte. Its policy is stored in an expert's format.
"""

from __future__ import annotations

import inspect
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from imitate.compare.execute.snapshots import Snapshots
from imitate.compare.plan.comparison import Comparison, Job, is_given, overrides
from imitate.compare.plan.learners import baseline
from imitate.compare.plan.scaling import made_for, notes, shortened
from imitate.errors import InputError, check_whole, did_you_mean
from imitate.experts import save_expert
from imitate.experts.training.models import RUN_SETTINGS, iteration_steps, make_model, sb3_class, zoo_settings
from imitate.files import write_json
from imitate.training.log import append
from imitate.training.process import cpu_seconds

__all__ = ["Baseline"]

NEVER = 10**9
ROWS = 200  # of metrics.jsonl at most, since some algorithms have iterations of one step


@dataclass(frozen=True)
class Baseline:
    """A run of `sb3:ALGORITHM`. `hyperparameters` are SB3's complete ones, with the zoo's `n_envs` and `normalize`."""

    algorithm: str
    comparison: Comparison
    steps: int
    seed: int
    hyperparameters: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    settings_from: str = ""

    @classmethod
    def create(cls, comparison: Comparison, job: Job) -> Baseline:
        """The zoo's settings, overridden by those given and shortened to the budget. Raises InputError for settings
        that the algorithm does not take."""
        name, given = baseline(job.algorithm), overrides(comparison, job.algorithm)
        parameters = inspect.signature(sb3_class(name)).parameters
        defaults = {
            key: parameter.default
            for key, parameter in parameters.items()
            if isinstance(parameter.default, bool | int | float | str) and not key.startswith("_")
        }
        # The others are the run's own.
        known = {*parameters, *RUN_SETTINGS} - {"env", "seed", "device", "_init_setup_model"}
        for key, value in given.items():
            if key not in known:
                raise InputError(f"{job.algorithm} has no hyperparameter {key!r}{did_you_mean(key, known)}")
            number = type(defaults.get(key)) in (int, float)
            if number and isinstance(value, str) and not value.startswith("lin_"):
                raise InputError(f"{job.algorithm} wants a number as {key}, got {value!r}")
        whole = ("n_steps", "n_envs", "batch_size", "learning_starts", "n_timesteps")
        check_whole(**{key: given[key] for key in whole if key in given})
        zoo = zoo_settings(name, comparison.env_id)
        settings: dict[str, Any] = {"n_envs": 1} | defaults | zoo | given
        if comparison.num_envs is not None:
            settings["n_envs"] = comparison.num_envs
        envs = int(settings["n_envs"])
        fixed = given | ({"num_envs": envs} if comparison.num_envs or "n_envs" in given else {})
        new, fewer = shortened(settings, envs, job.steps, fixed, rollout="n_steps")
        changed = notes(settings, new, (envs, fewer))
        said = made_for(int(settings.pop("n_timesteps")), job.steps) + changed
        settings |= new | {"n_envs": fewer, "device": comparison.device}
        source = "given here" if is_given(comparison, job.algorithm) else "zoo's settings"
        return cls(name, comparison, job.steps, job.seed, settings, said, source)

    @property
    def stepped(self) -> dict[str, Any]:
        return {"num_envs": self.hyperparameters["n_envs"], "backend": "gymnasium"}

    def least_steps(self) -> int:
        """Raise InputError if it can't act in this environment, or the budget is not enough for one iteration."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SB3 warns about some of the zoo's own settings
            model = self._model()
        self._affordable(model)
        assert model.env is not None
        model.env.close()
        # With one step less than these, off-policy algorithms end before their first update.
        return int(getattr(model, "learning_starts", 0)) + 1

    def save(self, folder: Path, model: BaseAlgorithm) -> None:
        facts = {"env_id": self.comparison.env_id, "env_kwargs": self.comparison.env_kwargs}
        save_expert(folder, model, model.get_vec_normalize_env(), facts)

    def execute(
        self, folder: Path, progress: Callable[[int], None], snapshots: Snapshots | None = None
    ) -> bool:
        """Train from the beginning, and write the same files as `imitate.training`: policy, metrics, events and
        totals."""
        if (folder / "finished.json").is_file():
            return True
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = self._model()
        model.set_logger(configure(str(folder), ["tensorboard"]))
        began, cpu_began = time.monotonic(), cpu_seconds()
        if snapshots is not None:
            snapshots.restart()
        with (folder / "metrics.jsonl").open("ab") as metrics:
            watching = _Watching(self.steps, metrics, progress, snapshots)
            model.learn(self._affordable(model), callback=watching, log_interval=NEVER)
            watching.note(force=True)
        model.logger.close()
        assert model.env is not None
        model.env.close()
        self.save(folder / "policy", model)
        paid = cpu_seconds() - cpu_began if snapshots is None else snapshots.seconds
        write_json(folder / "timing.json", {"wall_seconds": time.monotonic() - began, "cpu_seconds": paid})
        totals = {
            "env_steps": model.num_timesteps, "demo_steps": 0, "validation_steps": 0, "expert_queries": 0,
        }  # fmt: skip
        write_json(folder / "finished.json", totals)
        return True

    def _model(self) -> BaseAlgorithm:
        settings = {
            name: value for name, value in self.hyperparameters.items() if name not in ("seed", "device")
        }
        return make_model(
            self.algorithm,
            self.comparison.env_id,
            settings,
            steps=self.steps,
            seed=self.seed,
            env_kwargs=self.comparison.env_kwargs,
            device=self.comparison.device,
        )

    def _affordable(self, model: BaseAlgorithm) -> int:
        """The largest number of whole iterations' steps within the budget."""
        iteration = iteration_steps(model)
        if iteration > self.steps:
            raise InputError(
                f"a budget of {self.steps} steps is too small for one rollout of sb3:{self.algorithm}, "
                f"{iteration} steps: give more, or a smaller n_steps"
            )
        return self.steps // iteration * iteration


class _Watching(BaseCallback):
    """Reports progress, keeps policies and rows of metrics before every iteration, and stops before the budget is
    exceeded."""

    def __init__(
        self, budget: int, metrics: IO[bytes], progress: Callable[[int], None], snapshots: Snapshots | None
    ) -> None:
        super().__init__()
        self._budget, self._metrics, self._progress, self._snapshots = budget, metrics, progress, snapshots
        self._noted = 0

    def _on_step(self) -> bool:
        if isinstance(self.model, OnPolicyAlgorithm):
            return True  # whole rollouts were planned, and the last one must be learned from
        return self.num_timesteps + self.training_env.num_envs <= self._budget

    def _on_rollout_start(self) -> None:
        self.note()

    def note(self, *, force: bool = False) -> None:
        """Record the state between two iterations."""
        steps = self.model.num_timesteps
        if self._snapshots is not None:
            self._snapshots(steps, self.model)
        self._progress(steps)
        if steps and (force or (steps - self._noted) * ROWS >= self._budget):
            self._noted = steps
            row: dict[str, float] = {"budget_steps": steps, "env_steps": steps, "expert_queries": 0}
            if self.model.ep_info_buffer:
                returns = [episode["r"] for episode in self.model.ep_info_buffer]
                row["train_return"] = float(np.mean(returns))
                self.logger.record("train/train_return", row["train_return"])
            append(self._metrics, row)
            self.logger.dump(steps)
