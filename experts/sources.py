"""Finds experts on this machine: the bundled ones, and SB3 zips with their files, also in rl-trained-agents."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imitate.envs.versions import without_version
from imitate.errors import InputError, did_you_mean
from imitate.experts.sb3.zoo_options import LARGEST_TEXT, as_dict, read_yaml
from imitate.files import read_json

__all__ = [
    "BUNDLED",
    "COMPANIONS",
    "CONTROLLERS",
    "Found",
    "ZooRun",
    "companions",
    "files_beside",
    "from_zoo",
    "known_experts",
    "zoo_runs",
]

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent / "bundled"
CONTROLLERS = {"imitate/ReachArm-v0": "imitate.experts.inverse_kinematics:InverseKinematics"}
"""Bundled experts that are code of ours and not networks, by their environment."""
_ALGORITHM_PREFIX = re.compile(
    r"^(ppo_lstm|ppo|a2c|trpo|dqn|qrdqn|sac|td3|ddpg|tqc|ars)[-_](?=.)", re.IGNORECASE
)
_STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
_CHECKPOINT = re.compile(r"(.+)_(\d+_steps)")  # SB3's CheckpointCallback names its zips like this
COMPANIONS = ("args.yml", "config.yml", "env_kwargs.yml", "results.json", *_STATISTICS)

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Found:
    """An SB3 zip and the files found with it.

    path        of the zip; or of a folder, which holds all the other fields itself: a run of ours from the hub, or an
                expert's folder in the zoo
    env_id      as stored; None if no file names it
    guessed     nothing but the name of the zip says `env_id`
    config      training options of rl-baselines3-zoo (`config.yml`), as plain data
    results     `mean_reward`, `std_reward` of the hub's results.json
    """

    path: Path
    env_id: str | None
    vecnormalize: Path | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, float] = field(default_factory=dict)
    revision: str | None = None
    guessed: bool = False


def zoo_folders() -> list[Path]:
    """The rl-trained-agents folders: those of IMITATE_ZOO_DIR, separated as in PATH, else ../shared/zoo if it exists.

    The variable is read on every call.
    """
    if named := os.environ.get("IMITATE_ZOO_DIR"):
        return [Path(folder) for folder in named.split(os.pathsep) if folder]
    default = Path("../shared/zoo")
    return [default] if default.is_dir() else []


def known_experts() -> list[str]:
    """Specs of the experts that need no network: the bundled ones, then the zoo's."""
    # A folder CartPole-v1-ppo is the spec CartPole-v1:ppo.
    folders = sorted(path.parent.name for path in BUNDLED.glob("*/expert.json"))
    bundled = [re.sub(r"(-v\d+)-", r"\1:", name) for name in folders]
    return [*bundled, *CONTROLLERS, *(f"zoo:{entry}" for entry in zoo_entries())]


def zoo_entries() -> list[str]:
    """Every `ALGO/ENV` in the zoo folders."""
    return sorted({run.entry for folder in zoo_folders() for run in zoo_runs(folder)})


@dataclass(frozen=True)
class ZooRun:
    """The folder `ALGO/ENV_3` of a zoo.

    entry   ALGO/ENV
    agent   its ENV.zip, or the folder itself if it holds the agent as `imitate expert convert` writes it
    """

    entry: str
    number: int
    agent: Path


def zoo_runs(folder: Path) -> Iterator[ZooRun]:
    """The agents in a copy of rl-trained-agents, or in what `imitate expert convert --all` made of one."""
    for run in sorted(folder.glob("*/*_*")):
        env_id, _, number = run.name.rpartition("_")
        zip_ = run / f"{env_id}.zip"
        if number.isdecimal() and (zip_.is_file() or (run / "expert.json").is_file()):
            agent = zip_ if zip_.is_file() else run
            yield ZooRun(f"{run.parent.name}/{env_id}", int(number), agent)


def from_zoo(name: str) -> Found:
    """The agent `ALGO/ENV`: its run with the highest number, such as `ALGO/ENV_3/ENV.zip`, in the first folder that has
    one. If the zoo has only another version of the environment, that one is used, with a notice.

    Raises InputError if there is no such folder or entry.
    """
    folders = zoo_folders()
    if not any(folder.is_dir() for folder in folders):
        raise InputError(
            f"zoo:{name} needs a copy of rl-trained-agents: set IMITATE_ZOO_DIR to its folder"
            + (f" ({', '.join(map(str, folders))} is none)" if folders else "")
        )
    algorithm, _, env_id = name.partition("/")
    entries = zoo_entries()
    if not env_id and (agents := [entry for entry in entries if entry.startswith(f"{algorithm.lower()}/")]):
        raise InputError(f"zoo:{name} names no environment: write zoo:{' or zoo:'.join(agents)}")
    wanted = f"{algorithm.lower()}/{env_id.replace('/', '-')}"
    if wanted not in entries:
        same_task = [entry for entry in entries if without_version(entry) == without_version(wanted)]
        if not same_task:
            raise InputError(
                f"no zoo:{name} in {os.pathsep.join(map(str, folders))}{did_you_mean(wanted, entries)}"
            )
        logger.warning("the zoo has no %s: using its %s", wanted, same_task[-1])
        wanted = same_task[-1]
    for folder in folders:
        runs = [run for run in zoo_runs(folder) if run.entry == wanted]
        if runs:
            break
    latest = max(runs, key=lambda run: run.number).agent
    return companions(latest) if latest.is_file() else Found(latest, env_id=None)


def companions(path: Path) -> Found:
    """The zip at `path` with its statistics, options and environment id. They are in a folder of the zip's name beside
    it, as in the zoo, or next to the zip, as on the hub. The best model and the checkpoints of a run of the zoo share
    the folder of its last model.

    Raises InputError for a missing zip or a damaged companion.
    """
    if not path.is_file():
        raise InputError(f"no file {path}")
    folders = _beside(path)

    def beside(*names: str) -> Path | None:
        candidates = [folder / name for folder in folders for name in names]
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    arguments = read_yaml(beside("args.yml"))
    results = beside("results.json")
    named = _ALGORITHM_PREFIX.sub("", path.stem)
    stored_id = arguments.get("env")
    guessed = not isinstance(stored_id, str)
    env_id = stored_id if not guessed else (named if re.search(r"-v\d+$", named) else None)
    return Found(
        path,
        env_id=env_id,
        guessed=guessed,
        vecnormalize=beside(*_statistics(path)),
        env_kwargs=read_yaml(beside("env_kwargs.yml")) or as_dict(arguments.get("env_kwargs")),
        config=read_yaml(beside("config.yml")),
        results=_read_results(results) if results else {},
    )


def files_beside(path: Path) -> dict[str, Path]:
    """The zip and the files that `companions` would read, by names relative to the zip's folder."""
    names = dict.fromkeys((*COMPANIONS, *_statistics(path)))
    files = [path, *(folder / name for folder in _beside(path) for name in names)]
    return {file.relative_to(path.parent).as_posix(): file for file in files if file.is_file()}


def _beside(path: Path) -> list[Path]:
    folders = [path.parent / path.stem, path.parent]
    if path.stem == "best_model" or _CHECKPOINT.fullmatch(path.stem):
        run = re.sub(r"_\d+(_[0-9a-f-]{36})?$", "", path.absolute().parent.name)
        folders.append(path.parent / run)  # the zoo's ENV_1/ENV
    return folders


def _statistics(path: Path) -> tuple[str, ...]:
    """Names that the statistics of a zip may have; those of a checkpoint are its own."""
    of_checkpoint = _CHECKPOINT.fullmatch(path.stem)
    own = (f"{of_checkpoint[1]}_vecnormalize_{of_checkpoint[2]}.pkl",) if of_checkpoint else ()
    return (*own, *_STATISTICS)


@dataclass(frozen=True)
class _Results:
    """`results.json` of the hub's agents."""

    mean_reward: float | None = None
    std_reward: float | None = None


def _read_results(path: Path) -> dict[str, float]:
    try:
        results = vars(read_json(path, _Results, limit=LARGEST_TEXT))
    except (OSError, InputError):
        return {}  # the results are only reported
    return {name: value for name, value in results.items() if value is not None and math.isfinite(value)}


def is_callable(spec: str) -> bool:
    """True if the spec has the form `module:make_expert`."""
    return _CALLABLE.fullmatch(spec) is not None
