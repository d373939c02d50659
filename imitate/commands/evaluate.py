"""`imitate evaluate`"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import tyro

from imitate.commands.options import JsonObject, print_json, run
from imitate.datasets.evaluation import evaluate as measure
from imitate.envs.make import resolve_env_id
from imitate.envs.seeds import TEST_SEED
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.files import write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.training.experiment import Experiment, check_expert

__all__ = ["evaluate"]

logger = logging.getLogger(__name__)


def evaluate(argv: list[str]) -> int:
    def command(
        subject: tyro.conf.Positional[str],
        /,
        episodes: int = 20,
        seed: int = TEST_SEED,
        env: str | None = None,
        env_kwargs: JsonObject | None = None,
        num_envs: int = 8,
        deterministic: bool = True,
        video: Path | None = None,
        json: bool = False,
    ) -> int:
        """Measure a run or an expert: mean, std, IQM, 95 % interval, lengths.

        Args:
            subject: a run folder, or an expert as `imitate collect` takes it
            episodes: episodes to play
            seed: the n-th episode starts alike for everyone who is measured with the same seed
            env: another environment than the subject's own
            env_kwargs: keywords of the environment, as a JSON object
            num_envs: environments side by side
            deterministic: the best action; --stochastic samples
            video: an mp4 of the first episode
            json: print JSON
        """
        policy, env_id, kwargs = _subject(subject)
        env_id, kwargs = resolve_env_id(env) if env else env_id, kwargs if env_kwargs is None else env_kwargs
        check_expert(policy, subject, env_id, kwargs)
        if video is not None and video.exists():
            raise InputError(f"{video} exists; choose another --video")
        if video is not None and not os.access(video.absolute().parent, os.W_OK):
            raise InputError(
                f"{video} can't be written: its folder is missing or closed to you; choose another --video"
            )
        result = measure(
            policy,
            env_id,
            episodes=episodes,
            seed=seed,
            env_kwargs=kwargs,
            num_envs=num_envs,
            deterministic=deterministic,
        )
        if video is not None:
            from imitate.video import record_video

            record_video(policy, env_id, video, env_kwargs=kwargs, seed=seed)
        run = Path(subject)
        if (run / "config.json").exists() and env is None and env_kwargs is None:
            write_json(run / "evaluation.json", {"env_id": env_id, "seed": seed} | result.to_json())
        if json:
            print_json(result.to_json())
        else:
            print(result)
        return 0

    return run(command, argv, "evaluate")


def _subject(subject: str) -> tuple[Expert | ActorPolicy, str, dict[str, Any]]:
    if (Path(subject) / "config.json").exists():
        experiment = Experiment.read(Path(subject) / "config.json")
        if not (Path(subject) / "finished.json").exists():
            logger.warning("%s is not finished: this is its best policy so far", subject)
        return load_policy(subject), experiment.env_id, experiment.env_kwargs
    source = load_expert(subject)
    return source, source.env_id, source.env_kwargs
