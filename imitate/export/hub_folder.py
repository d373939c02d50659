"""A run as a folder for the Hugging Face hub: the policy, its measured return, its film and a model card."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.envs.answers import Answering
from imitate.envs.make import make_env
from imitate.envs.seeds import TEST_SEED
from imitate.envs.trust import bare_id
from imitate.errors import InputError
from imitate.export.cards import model_card
from imitate.export.sb3_zip import class_of, to_sb3
from imitate.files import atomic_folder, read_json, write_json
from imitate.media.video import record_video
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.training.experiment import Experiment

__all__ = ["FILM", "hub_folder"]

logger = logging.getLogger(__name__)

FILM = "replay.mp4"  # the hub shows a film of this name beside the card
_FILM_SECONDS, _FILM_WIDTH = 20.0, 600


def hub_folder(
    run: Path,
    out: Path,
    *,
    repo: str = "ORG/REPO",
    episodes: int = 20,
    film: bool = True,
    license: str | None = None,
    env_id: str | None = None,
) -> None:
    """Write the folder, whole or not at all. It is laid out as a run, so that what opens runs opens it.

    repo      the name that its card tells people to use
    episodes  to measure the return
    film      of the first of these episodes, if the environment can be rendered
    env_id    of the run; another one is refused

    Logs what can't be made: the return of an environment that is not here, the film, the SB3 zip. Raises InputError if
    `run` is no run or of another environment, or if `out` exists.
    """
    if not (run / "config.json").is_file():
        raise InputError(
            f"{run} has no config.json: the hub gets runs of `imitate train`, which name their environment"
        )
    if out.exists():
        raise InputError(f"{out} exists: choose another folder")
    experiment, policy = Experiment.read(run.absolute() / "config.json"), load_policy(run)
    if env_id is not None and bare_id(env_id) != bare_id(experiment.env_id):
        raise InputError(f"{run} is a run on {experiment.env_id}, not on {env_id}: leave --env out")
    env_id, env_kwargs = experiment.env_id, experiment.env_kwargs
    portable = experiment.portable()
    config = read_json(run / "config.json", dict[str, Any]) | dataclasses.asdict(portable)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(out) as folder:
        save_policy(folder / "policy", policy)
        write_json(folder / "config.json", config)
        spent = read_json(run / "finished.json", dict[str, int]) if (run / "finished.json").exists() else {}
        if spent:
            write_json(folder / "finished.json", spent)
        result = _measured(policy, env_id, env_kwargs, episodes)
        if result is not None:
            write_json(folder / "evaluation.json", {"env_id": env_id, "seed": TEST_SEED} | result.to_json())
        filmed = film and result is not None and _filmed(policy, env_id, env_kwargs, folder / FILM)
        archive = _zip(policy, env_id, folder)
        text = model_card(
            config,
            result,
            repo=repo,
            again=portable.train_with("--config", "config.json", "--out", "again"),
            spent=spent,
            film=FILM if filmed else None,
            archive=archive,
            normalised=(folder / "vecnormalize.pkl").exists(),
            has_files=portable != experiment,
            license=license,
        )
        (folder / "README.md").write_text(text, "utf-8")


def _measured(
    policy: ActorPolicy, env_id: str, env_kwargs: Mapping[str, Any], episodes: int
) -> Evaluation | None:
    """None, with a warning, if the environment can't be made here."""
    try:
        Answering(make_env(env_id, env_kwargs)).close()
    except InputError as error:
        logger.warning("the card has no measured return: %s", error)
        return None
    return evaluate(policy, env_id, env_kwargs=env_kwargs, episodes=episodes, seed=TEST_SEED)


def _filmed(policy: ActorPolicy, env_id: str, env_kwargs: Mapping[str, Any], out: Path) -> bool:
    try:
        record_video(
            policy,
            env_id,
            out,
            env_kwargs=env_kwargs,
            seed=TEST_SEED,
            max_seconds=_FILM_SECONDS,
            width=_FILM_WIDTH,
        )
    except (InputError, OSError) as error:
        logger.warning("the card has no film: %s", error)
        return False
    return True


def _zip(policy: ActorPolicy, env_id: str, folder: Path) -> str | None:
    """The name of the SB3 zip in the folder, as huggingface_sb3 has it; None, with a warning, if it can't be one."""
    name = f"{class_of(policy).lower()}-{env_id.rpartition(':')[2].replace('/', '-')}.zip"
    try:
        to_sb3(policy, folder / name)
    except InputError as error:
        logger.warning("the folder has no SB3 zip: %s", error)
        return None
    return name
