"""Train an expert with Stable-Baselines3 (or sb3-contrib) and tuned hyperparameters.

A checkpoint holds parameters, optimisers and the replay buffer. Environments start new episodes on resume, so a resumed
run is not byte for byte the same as an uninterrupted one.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.logger import configure
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from imitate.envs.make import resolve_env_id
from imitate.envs.seeds import TEST_SEED, Stream, check_seed, draw_seed
from imitate.errors import InputError
from imitate.experts.folder import save_expert
from imitate.experts.training.keeping import KeepBest, mean_and_std
from imitate.experts.training.models import (
    check_counts,
    iteration_steps,
    make_model,
    make_venv,
    sb3_class,
    zoo_settings,
)
from imitate.files import sweep

__all__ = ["train_expert"]

logger = logging.getLogger(__name__)

NEVER = 10**9


def train_expert(
    algorithm: str,
    env_id: str,
    out: Path,
    *,
    steps: int | None = None,
    seed: int = 0,
    env_kwargs: Mapping[str, Any] | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 20,
    test_episodes: int = 50,
    keep: Sequence[float] = (),
    resume: bool = False,
    command: str = "",
    **overrides: Any,
) -> Path:
    """Train, keep the best policy by validation, and write the expert folder `out` (safetensors and JSON).

    `out/log.jsonl` has a row per validation; `out/training/` holds TensorBoard events and, until the run is
    finished, the checkpoint. `overrides` replace entries of the preset. Ctrl-C saves, and `resume` goes on.

    `keep` holds shares of the steps, in (0, 1). The policy at each of them becomes an expert of lower grade, measured
    like the best one: `out/0.25` for 0.25.

    Raises InputError for an unknown algorithm or environment, an expert in `out`, or too few steps to learn.
    """
    sb3_class(algorithm)
    env_id = resolve_env_id(env_id)
    _check_numbers(
        seed,
        keep,
        steps=steps,
        eval_every=eval_every,
        eval_episodes=eval_episodes,
        test_episodes=test_episodes,
    )
    training = out / "training"
    if (out / "expert.json").exists() or (training.exists() and not resume):
        raise InputError(f"{out} exists; choose another --out, or --resume an unfinished training")
    settings = zoo_settings(algorithm, env_id) | overrides
    check_counts(settings)
    total_steps = int(steps or settings["n_timesteps"])
    model = make_model(algorithm, env_id, settings, steps=total_steps, seed=seed, env_kwargs=env_kwargs)
    _check_steps(model, algorithm, total_steps)
    training.mkdir(parents=True, exist_ok=True)
    model.set_logger(configure(str(training), ["tensorboard"]))
    facts = {
        "env_id": env_id, "env_kwargs": dict(env_kwargs or {}), "algorithm": algorithm, "hyperparameters": settings,
        "steps": total_steps, "seed": seed, "command": command,
    }  # fmt: skip
    write = partial(_write_expert, model=model, facts=facts, episodes=test_episodes)
    assert model.env is not None
    with closing(model.env), closing(make_venv(env_id, env_kwargs, min(eval_episodes, 10), 0)) as venv:
        keeper = KeepBest(
            training,
            venv,
            seed=draw_seed(Stream.VALIDATION, seed) % 2**31,  # SB3 adds the environment's number to it
            every=eval_every or max(total_steps // 50, 1),
            episodes=eval_episodes,
            total_steps=total_steps,
            grades=_grades(out, keep, total_steps, write),
        )
        if resume and (training / "checkpoint" / "checkpoint.pt").exists():
            sweep(training / "checkpoint")
            keeper.load(model)
        _learn(model, keeper, total_steps)
        keeper.restore_best(model)
    write(out)
    shutil.rmtree(training / "checkpoint")
    return out


def _grades(
    out: Path, keep: Sequence[float], total_steps: int, write: Callable[[Path], None]
) -> dict[int, Callable[[], None]]:
    """For the step at which each expert of lower grade is kept, the call that writes it; those that an interrupted run
    wrote are left out."""
    return {
        int(share * total_steps): partial(write, out / f"{share:g}")
        for share in keep
        if not (out / f"{share:g}" / "expert.json").exists()
    }


def _check_steps(model: BaseAlgorithm, algorithm: str, steps: int) -> None:
    """Raise InputError if the steps are not enough to learn: SB3 would finish one rollout all the same."""
    if isinstance(model, OffPolicyAlgorithm) and (random_steps := model.learning_starts) >= steps:
        raise InputError(
            f"{algorithm} begins to learn after {random_steps} steps here, and {steps} are all it has: give more, "
            f"""or --hyperparameters '{{"learning_starts": {steps // 10}}}'"""
        )
    if (rollout := iteration_steps(model)) > steps:
        raise InputError(
            f"{steps} steps are too few for one rollout of {algorithm}, {rollout} steps: "
            "give more, or a smaller n_steps or n_envs"
        )


def _check_numbers(seed: int, keep: Sequence[float], **counts: int | None) -> None:
    for name, value in counts.items():
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, got {value}")
    if wrong := [share for share in keep if not 0 < share < 1]:
        raise InputError(f"shares of the training to keep must be between 0 and 1, got {wrong[0]}")
    check_seed(seed)


def _learn(model: BaseAlgorithm, keeper: KeepBest, total_steps: int) -> None:
    """Train up to `total_steps`; Ctrl-C saves first."""
    try:
        if model.num_timesteps < total_steps:
            remaining = total_steps - model.num_timesteps
            model.learn(remaining, callback=keeper, reset_num_timesteps=False, log_interval=NEVER)
            keeper.validate()
            keeper.save()
    except KeyboardInterrupt:
        keeper.save()
        logger.warning(
            "interrupted at %d of %d steps and saved; --resume continues", model.num_timesteps, total_steps
        )
        raise


def _write_expert(folder: Path, *, model: BaseAlgorithm, facts: Mapping[str, Any], episodes: int) -> None:
    """Write the current model as an expert, with its return in the test episodes."""
    with closing(make_venv(facts["env_id"], facts["env_kwargs"], min(episodes, 10), TEST_SEED)) as venv:
        mean, std = mean_and_std(model, venv, episodes)
    measured = {"mean": mean, "std": std, "episodes": episodes}
    meta = {**facts, "best_step": model.num_timesteps, "measured": measured}
    save_expert(folder, model, model.get_vec_normalize_env(), meta)
