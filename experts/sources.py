"""Finds experts: the bundled ones, and SB3 zips with their files, in rl-trained-agents and on the hub."""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from imitate.errors import InputError, did_you_mean, one_line
from imitate.experts.sb3.zoo_options import LARGEST_TEXT, as_dict, read_yaml
from imitate.files import read_json

__all__ = [
    "BUNDLED",
    "CONTROLLERS",
    "Found",
    "companions",
    "files_beside",
    "from_hub",
    "from_zoo",
    "known_experts",
]

logger = logging.getLogger(__name__)

BUNDLED = Path(__file__).parent / "bundled"
CONTROLLERS = {"imitate/ReachArm-v0": "imitate.experts.inverse_kinematics:InverseKinematics"}
"""Bundled experts that are code of ours and not networks, by their environment."""
_ALGORITHM_PREFIX = re.compile(
    r"^(ppo_lstm|ppo|a2c|trpo|dqn|qrdqn|sac|td3|ddpg|tqc|ars)-(?=.)", re.IGNORECASE
)
_MINARI = re.compile(r"(.+-v\d+)-(PPO|A2C|TRPO|DQN|QRDQN|SAC|TD3|DDPG|TQC|ARS)(-\w[\w-]*)?", re.IGNORECASE)
_LARGEST_DOWNLOAD = 1 << 30  # bytes
_STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
_COMPANIONS = ("args.yml", "config.yml", "env_kwargs.yml", "results.json", *_STATISTICS)

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Found:
    """An SB3 zip and the files found with it.

    env_id      as stored; None if no file names it
    config      training options of rl-baselines3-zoo (`config.yml`), as plain data
    results     `mean_reward`, `std_reward` of the hub's results.json
    """

    path: Path
    env_id: str | None
    vecnormalize: Path | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict)
    revision: str | None = None


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
    return sorted({f"{zip_.parent.parent.name}/{zip_.stem}" for zip_ in _zoo_zips("*/*_*/*.zip")})


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
    wanted = f"{algorithm.lower()}/{env_id.replace('/', '-')}"
    if wanted not in entries:
        same_task = [entry for entry in entries if _without_version(entry) == _without_version(wanted)]
        if not same_task:
            raise InputError(
                f"no zoo:{name} in {os.pathsep.join(map(str, folders))}{did_you_mean(wanted, entries)}"
            )
        logger.warning("the zoo has no %s: using its %s", wanted, same_task[-1])
        wanted = same_task[-1]
    algorithm, _, stem = wanted.partition("/")
    runs = _zoo_zips(f"{algorithm}/{stem}_*/{stem}.zip")
    runs = [path for path in runs if path.parents[2] == runs[0].parents[2]]
    return companions(max(runs, key=lambda path: int(path.parent.name.rpartition("_")[2])))


def _zoo_zips(pattern: str) -> list[Path]:
    return [path for folder in zoo_folders() for path in folder.glob(pattern) if _is_numbered(path)]


def _is_numbered(path: Path) -> bool:
    return re.fullmatch(re.escape(path.stem) + r"_\d+", path.parent.name) is not None


def _without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)


def from_hub(name: str) -> Found:
    """The agent `ORG/REPO[@revision]` or `ORG/ALGO/ENV-v0[@revision]`.

    Its file is `ALGO-ENV-v0.zip` in the repository `ORG/ALGO-ENV-v0` (huggingface_sb3's names), `env-v5-algo-grade.zip`
    in `farama-minari/ENV-v5-ALGO-GRADE` (Minari's names), or the only zip there. HF_ENDPOINT names another hub; it is
    read on every call.

    Raises InputError if the hub can't be reached, or has no such repository, revision or agent.
    """
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_sb3 import EnvironmentName, ModelName, ModelRepoId  # two seconds: it imports SB3

    repo, _, revision = name.partition("@")
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        if repo.count("/") == 2:
            org, algorithm, env_id = repo.split("/")
            repo = ModelRepoId(org, ModelName(algorithm.lower(), EnvironmentName(env_id)))
        info = HfApi(endpoint=endpoint).model_info(repo, revision=revision or None, files_metadata=True)
        sizes = {sibling.rfilename: sibling.size or 0 for sibling in info.siblings or []}
        archive = _agent_among(list(sizes), repo)
        wanted = {archive, *_COMPANIONS, *(f"{archive.removesuffix('.zip')}/{file}" for file in _COMPANIONS)}
        wanted &= set(sizes)
        if sum(sizes[file] for file in wanted) > _LARGEST_DOWNLOAD:
            raise InputError(f"hub:{name} is larger than {_LARGEST_DOWNLOAD} bytes: no agent is")
        # `huggingface_sb3.load_from_hub` does the same, but knows neither a revision nor an endpoint.
        fetched = {
            file: Path(hf_hub_download(repo, file, revision=info.sha, endpoint=endpoint)) for file in wanted
        }
    except InputError:
        raise
    except Exception as error:  # the hub's own errors, or its HTTP client's
        raise InputError(
            f"hub:{name} can't be fetched: {one_line(error)[:160]}; check the name and the network"
        ) from error
    found = companions(fetched[archive])
    named = _MINARI.fullmatch(repo.rpartition("/")[2])
    return replace(
        found,
        env_id=found.env_id or (named and named[1]),
        results=found.results or _results_on_card(info.card_data),
        revision=info.sha,
    )


def _results_on_card(card: Any) -> dict[str, float]:
    """`mean_reward` and `std_reward` of a model card, which writes them as "4098.12 +/- 1.20"."""
    for result in getattr(card, "eval_results", None) or []:
        figures = re.findall(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", str(result.metric_value))
        if result.metric_type == "mean_reward" and figures:
            return dict(zip(("mean_reward", "std_reward"), map(float, figures), strict=False))
    return {}


def _agent_among(names: list[str], repo: str) -> str:
    archives = [
        file
        for file in names
        if file.endswith(".zip") and file != "train_eval_metrics.zip" and "/" not in file
    ]
    from huggingface_sb3 import EnvironmentName, ModelName

    algorithm, _, env_id = repo.rpartition("/")[2].partition("-")
    by_convention = str(ModelName(algorithm, EnvironmentName(env_id)).filename)
    after_the_repository = [
        file for file in archives if file.lower() == f"{repo.rpartition('/')[2]}.zip".lower()
    ]
    if by_convention in archives:
        return by_convention
    if after_the_repository:
        return after_the_repository[0]
    if len(archives) == 1:
        return archives[0]
    raise InputError(
        f"hub:{repo} has {len(archives)} zips ({', '.join(archives[:4])}): wanted {by_convention} or just one"
    )


def companions(path: Path) -> Found:
    """The zip at `path` with its statistics, options and environment id. They are in a folder of the zip's name beside
    it, as in the zoo, or next to the zip, as on the hub.

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
    env_id = stored_id if isinstance(stored_id, str) else (named if re.search(r"-v\d+$", named) else None)
    return Found(
        path,
        env_id=env_id,
        vecnormalize=beside(*_STATISTICS),
        env_kwargs=read_yaml(beside("env_kwargs.yml")) or as_dict(arguments.get("env_kwargs")),
        config=read_yaml(beside("config.yml")),
        results=_read_results(results) if results else {},
    )


def files_beside(path: Path) -> dict[str, Path]:
    """The zip and the files that `companions` would read, by names relative to the zip's folder."""
    files = [path, *(folder / name for folder in _beside(path) for name in _COMPANIONS)]
    return {file.relative_to(path.parent).as_posix(): file for file in files if file.is_file()}


def _beside(path: Path) -> tuple[Path, Path]:
    return path.parent / path.stem, path.parent


@dataclass(frozen=True)
class _Results:
    """`results.json` of the hub's agents."""

    mean_reward: float | None = None
    std_reward: float | None = None


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = vars(read_json(path, _Results, limit=LARGEST_TEXT))
    except (OSError, InputError):
        return {}  # the results are only reported
    return {name: value for name, value in results.items() if value is not None and math.isfinite(value)}


def is_callable(spec: str) -> bool:
    """True if the spec has the form `module:make_expert`."""
    return _CALLABLE.fullmatch(spec) is not None
