"""Where experts are found: SB3 zips and what belongs to them, in rl-trained-agents and on the hub."""

from __future__ import annotations

import ast
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from imitate.errors import InputError, did_you_mean, one_line
from imitate.files import read_bytes, read_json

__all__ = ["Found", "companions", "from_hub", "from_zoo", "zoo_entries"]

logger = logging.getLogger(__name__)

_ALGORITHM_PREFIX = re.compile(
    r"^(ppo_lstm|ppo|a2c|trpo|dqn|qrdqn|sac|td3|ddpg|tqc|ars)-(?=.)", re.IGNORECASE
)
_MINARI = re.compile(r"(.+-v\d+)-(PPO|A2C|TRPO|DQN|QRDQN|SAC|TD3|DDPG|TQC|ARS)(-\w[\w-]*)?", re.IGNORECASE)
_LARGEST_TEXT = (
    64 << 10
)  # bytes of YAML or JSON; the zoo's largest has 3 kB, and 64 kB take a second to parse
_MOST_NODES = 10_000  # of a YAML, aliases spelled out
_LARGEST_LITERAL = 2_000  # characters of a dictionary in a string
_LARGEST_DOWNLOAD = 1 << 30  # bytes
_STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
_COMPANIONS = ("args.yml", "config.yml", "env_kwargs.yml", "results.json", *_STATISTICS)


@dataclass(frozen=True)
class Found:
    """An SB3 zip and what lies beside it.

    env_id      as stored, None where nothing names it
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
    """The rl-trained-agents folders: IMITATE_ZOO_DIR, read now, several separated as in PATH; or ../shared/zoo where
    that exists."""
    if named := os.environ.get("IMITATE_ZOO_DIR"):
        return [Path(folder) for folder in named.split(os.pathsep) if folder]
    default = Path("../shared/zoo")
    return [default] if default.is_dir() else []


def zoo_entries() -> list[str]:
    """Every `ALGO/ENV` of the zoo folders; empty without one."""
    return sorted({f"{zip_.parent.parent.name}/{zip_.stem}" for zip_ in _zoo_zips("*/*_*/*.zip")})


def from_zoo(name: str) -> Found:
    """`ALGO/ENV`: the run with the highest number, `ALGO/ENV_3/ENV.zip`, in the first folder that has one. An id whose
    version the zoo doesn't have finds the version it has, with a notice.

    Raises InputError where there is no such folder or entry.
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
    return [path for folder in zoo_folders() for path in folder.glob(pattern) if _is_run(path)]


def _is_run(path: Path) -> bool:
    return re.fullmatch(re.escape(path.stem) + r"_\d+", path.parent.name) is not None


def _without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)


def from_hub(name: str) -> Found:
    """`ORG/REPO[@revision]` or `ORG/ALGO/ENV-v0[@revision]`, by huggingface_sb3's naming: `ALGO-ENV-v0.zip` in the
    repository `ORG/ALGO-ENV-v0`; or by Minari's: `env-v5-algo-grade.zip` in `farama-minari/ENV-v5-ALGO-GRADE`; else the
    only agent there. HF_ENDPOINT is read now.

    Raises InputError where the hub can't be reached, or has no such repository, revision or agent.
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
    except Exception as error:  # the hub's own errors, and those of whichever HTTP client it uses
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
    """The zip at `path` with the statistics, options and environment id found where the zoo keeps them, in a
    folder of the zip's name beside it, or next to the zip, as on the hub.

    Raises InputError for a missing zip or a damaged companion.
    """
    if not path.is_file():
        raise InputError(f"no file {path}")
    folders = (path.parent / path.stem, path.parent)

    def beside(*names: str) -> Path | None:
        candidates = [folder / name for folder in folders for name in names]
        return next((candidate for candidate in candidates if candidate.is_file()), None)

    arguments = _read_yaml(beside("args.yml"))
    results = beside("results.json")
    named = _ALGORITHM_PREFIX.sub("", path.stem)
    stored_id = arguments.get("env")
    env_id = stored_id if isinstance(stored_id, str) else (named if re.search(r"-v\d+$", named) else None)
    return Found(
        path,
        env_id=env_id,
        vecnormalize=beside(*_STATISTICS),
        env_kwargs=_read_yaml(beside("env_kwargs.yml")) or as_dict(arguments.get("env_kwargs")),
        config=_read_yaml(beside("config.yml")),
        results=_read_results(results) if results else {},
    )


@dataclass(frozen=True)
class _Results:
    """`results.json` of the hub's agents."""

    mean_reward: float | None = None
    std_reward: float | None = None


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = vars(read_json(path, _Results, limit=_LARGEST_TEXT))
    except (OSError, InputError):
        return {}  # a figure for the report, not needed to act
    return {name: value for name, value in results.items() if value is not None and math.isfinite(value)}


def _read_yaml(path: Path | None) -> dict[str, Any]:
    """A zoo YAML as plain data: nodes are walked and tags such as `!!python/object/apply` never looked at."""
    if path is None:
        return {}
    text = read_bytes(path, _LARGEST_TEXT)
    try:
        node = yaml.compose(text.decode("utf-8"), Loader=yaml.SafeLoader)
        return as_dict(_plain(node, iter(range(_MOST_NODES))))
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is not readable YAML: {one_line(error)[:160]}") from error


def _plain(node: yaml.Node | None, left: Iterator[int]) -> Any:
    if node is None:
        return None
    if next(left, None) is None:  # counted with every alias spelled out: some are nested to make billions
        raise ValueError(f"more than {_MOST_NODES} values")
    if isinstance(node, yaml.MappingNode):
        return {str(_plain(key, left)): _plain(value, left) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, left) for item in node.value]
    kind, text = node.tag.rpartition(":")[2], str(node.value)
    if kind == "int":
        return int(text.replace("_", ""), 0)
    if kind == "float":
        return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    return None if kind == "null" else text


def as_dict(value: Any) -> dict[str, Any]:
    """A dict from the zoo's spellings: a mapping, an OrderedDict's list of pairs, or the text of a dict."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return _literal(value)
    # The list is nested in others, which have one item each: [[["gamma", 0.9]]].
    while isinstance(value, list) and len(value) == 1 and not _is_pair(value[0]):
        value = value[0]
    return dict(value) if isinstance(value, list) and all(map(_is_pair, value)) else {}


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str)


def _literal(text: str) -> dict[str, Any]:
    """`"{'norm_obs': True}"` and `"dict(norm_obs=True)"`: literals only, anything else is left out."""
    if len(text) > _LARGEST_LITERAL:
        return {}
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "dict":
            return {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        value = ast.literal_eval(tree)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return {}
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
