"""`imitate evaluate`"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tyro
from tqdm import tqdm

from imitate import experts
from imitate.commands.options import JsonObject, command, print_json
from imitate.datasets import evaluation
from imitate.datasets.trajectory import Policy
from imitate.envs.make import Env, resolve_env_id
from imitate.envs.seeds import TEST_SEED
from imitate.envs.stepping import Score
from imitate.envs.trust import bare_id, import_env, trust
from imitate.errors import InputError, one_line
from imitate.files import write_json
from imitate.training.experiment import Experiment

if TYPE_CHECKING:
    from imitate.experts import Expert
    from imitate.nn.policy import ActorPolicy

__all__ = ["evaluate"]

logger = logging.getLogger(__name__)


@command
def evaluate(
    subject: tyro.conf.Positional[str],
    /,
    episodes: int = 20,
    seed: int = TEST_SEED,
    env: str | None = None,
    env_kwargs: JsonObject | None = None,
    vecnormalize: str | None = None,
    num_envs: int = 8,
    deterministic: bool = True,
    video: Path | None = None,
    render: bool = False,
    json: bool = False,
) -> int:
    """Measure a run or an expert: mean, std, IQM (the mean of the middle half) and 95 % interval of
    the return, and episode lengths.

    Args:
        subject: a run folder, a policy's folder, or an expert as for `imitate collect`
        episodes: episodes to play
        seed: seed of the episodes; with the same one, the n-th episode starts alike for every policy
        env: the environment, if the subject names none or you want another
        num_envs: environments side by side
        deterministic: take the best action; --stochastic samples
        video: write an mp4 of the first of these episodes
        render: afterwards show the episodes live in a window, until the last one or Escape
    """
    from imitate.training.inputs import check_expert  # torch takes a second: arguments are read before

    if render:
        _check_display()
    policy, env_id, kwargs = _subject(subject, env, env_kwargs, vecnormalize)
    check_expert(policy, subject, env_id, kwargs)
    if render:
        from imitate.media.video import renderable_env

        renderable_env(env_id, kwargs).close()  # raises InputError if it has no pictures
    with _filmed(video, env_id, kwargs) as first:
        result = _measured(
            policy,
            env_id,
            episodes,
            seed=seed,
            env_kwargs=kwargs,
            num_envs=num_envs,
            deterministic=deterministic,
            first=first,
        )
        # Printed before anything is stored, so that a full disk or a read-only folder does not lose the figures.
        print_json(result.to_json()) if json else print(result, flush=True)
    plain = deterministic and env_kwargs is None and _is_run(subject)
    if plain and env_id == Experiment.read(Path(subject) / "config.json").env_id:
        path = Path(subject) / "evaluation.json"
        try:
            write_json(path, {"env_id": env_id, "seed": seed} | result.to_json())
        except OSError as error:
            raise InputError(f"the result can't be stored in {path}: {error.strerror}") from error
    if render:
        from imitate.media.live import show_episodes

        show_episodes(
            policy, env_id, env_kwargs=kwargs, seed=seed, episodes=episodes, deterministic=deterministic
        )
    return 0


def _is_run(subject: str) -> bool:
    return (Path(subject) / "config.json").exists()


def _subject(
    subject: str, env: str | None, env_kwargs: Mapping[str, Any] | None, vecnormalize: str | None
) -> tuple[Expert | ActorPolicy, str, dict[str, Any]]:
    """The policy to measure, the environment's id and its keyword arguments."""
    from imitate.nn.stored_policy import load_policy

    folder = Path(subject)
    if _is_run(subject):
        if vecnormalize is not None:
            raise InputError(
                f"--vecnormalize is for experts in SB3's zips; {subject} is a run, which has its statistics"
            )
        env_id, kwargs = _environment_of_run(subject, env, env_kwargs)
        return load_policy(folder), env_id, kwargs
    if runs := sorted(path.parent for path in folder.glob("*/config.json")):
        raise InputError(f"{subject} is a folder of {len(runs)} runs: evaluate one, such as {runs[0]}")
    if (folder / "policy.json").exists():
        if vecnormalize is not None:
            raise InputError(f"--vecnormalize is for experts in SB3's zips; {subject} is a policy of ours")
        if env is None:
            raise InputError(f"{subject} is a policy, of no environment in particular: name one with --env")
        return load_policy(folder), resolve_env_id(env), dict(env_kwargs or {})
    trust(subject)
    expert = experts.load_expert(subject, env_id=env, env_kwargs=env_kwargs, vecnormalize=vecnormalize)
    return expert, resolve_env_id(expert.env_id), expert.env_kwargs


def _environment_of_run(
    subject: str, env: str | None, env_kwargs: Mapping[str, Any] | None
) -> tuple[str, dict[str, Any]]:
    """The id and keyword arguments, by default the run's own. Raises InputError if the run has no policy yet."""
    folder = Path(subject)
    experiment = Experiment.read(folder / "config.json")
    if not (folder / "policy").exists():
        raise InputError(f"{subject} has no policy yet: go on with `{experiment.resume_with(folder)}`")
    if not (folder / "finished.json").exists():
        logger.warning("%s is not finished: this is its best policy so far", subject)
    if env is None and ":" in experiment.env_id:
        import_env(experiment.env_id)
    if env is None and not experiment.evaluable:
        raise InputError(
            f"{experiment.env_id} is not installed here: install it, or name one with the same spaces by --env; "
            f"--env MODULE:{bare_id(experiment.env_id)} names one of yours"
        )
    env_id = resolve_env_id(experiment.env_id if env is None else env)
    return env_id, dict(experiment.env_kwargs if env_kwargs is None else env_kwargs)


def _measured(policy: Policy, env_id: str, episodes: int, **settings: Any) -> evaluation.Evaluation:
    """`evaluation.evaluate` with a bar. If it fails, the returns of the episodes that had ended are said."""
    ended: list[float] = []

    def so_far() -> str:
        returns = one_line(", ".join(f"{each:.6g}" for each in ended))
        return f"{len(ended)} of {episodes} episodes had ended, with a mean return of {np.mean(ended):.2f}: {returns}"

    def count(score: Score) -> None:
        ended.append(score.episode_return)
        bar.update()

    try:
        with tqdm(total=episodes, unit="episode", file=sys.stderr, disable=None, leave=False) as bar:
            return evaluation.evaluate(policy, env_id, episodes=episodes, progress=count, **settings)
    except InputError as error:
        if not ended:
            raise
        raise InputError(f"{error}; {so_far()}") from error
    except KeyboardInterrupt as interrupt:
        if ended:
            interrupt.add_note(so_far())
        raise


@contextmanager
def _filmed(video: Path | None, env_id: str, env_kwargs: Mapping[str, Any]) -> Iterator[Env | None]:
    """An environment whose first episode is filmed; None without a video. Raises InputError before any is played if
    that can't be."""
    if video is None:
        yield None
        return
    from imitate.media.video import filming

    with filming(env_id, video, env_kwargs, episodes=1) as (env, _):
        yield env


def _check_display() -> None:
    from imitate.media.window import check_display

    try:
        check_display()
    except InputError as error:
        raise InputError(f"{error}; --video FILM.mp4 needs none") from error
