"""Where experts are found: SB3 zips and what belongs to them, in rl-trained-agents and on the hub."""

from __future__ import annotations

import ast
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from imitate.errors import InputError, did_you_mean

__all__ = ["Found", "companions", "from_hub", "from_zoo", "zoo_entries"]

logger = logging.getLogger(__name__)

_ALGORITHM_PREFIX = re.compile(
    r"^(ppo_lstm|ppo|a2c|trpo|dqn|qrdqn|sac|td3|ddpg|tqc|ars)-(?=.)", re.IGNORECASE
)
_LARGEST_TEXT = 1_000_000
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


def zoo_folder() -> Path | None:
    """The rl-trained-agents folder: IMITATE_ZOO_DIR, read now, or ../shared/zoo where that exists."""
    if named := os.environ.get("IMITATE_ZOO_DIR"):
        return Path(named)
    default = Path("../shared/zoo")
    return default if default.is_dir() else None


def zoo_entries() -> list[str]:
    """Every `ALGO/ENV` of the zoo folder; empty without one."""
    folder = zoo_folder()
    if folder is None or not folder.is_dir():
        return []
    return sorted(
        {f"{zip_.parent.parent.name}/{zip_.stem}" for zip_ in folder.glob("*/*_*/*.zip") if _is_run(zip_)}
    )


def from_zoo(name: str) -> Found:
    """`ALGO/ENV`: the run with the highest number, `ALGO/ENV_3/ENV.zip`. An id whose version the zoo doesn't
    have finds the version it has, with a notice.

    Raises InputError where there is no such folder or entry.
    """
    folder = zoo_folder()
    if folder is None or not folder.is_dir():
        raise InputError(
            f"zoo:{name} needs a copy of rl-trained-agents: set IMITATE_ZOO_DIR to its folder"
            + (f" ({folder} is none)" if folder else "")
        )
    algorithm, _, env_id = name.partition("/")
    entries = zoo_entries()
    wanted = f"{algorithm.lower()}/{env_id.replace('/', '-')}"
    if wanted not in entries:
        same_task = [entry for entry in entries if _without_version(entry) == _without_version(wanted)]
        if not same_task:
            raise InputError(f"no zoo:{name} in {folder}{did_you_mean(wanted, entries)}")
        logger.warning("the zoo has no %s: using its %s", wanted, same_task[-1])
        wanted = same_task[-1]
    algorithm, _, stem = wanted.partition("/")
    runs = [path for path in (folder / algorithm).glob(f"{stem}_*/{stem}.zip") if _is_run(path)]
    return companions(max(runs, key=lambda path: int(path.parent.name.rpartition("_")[2])))


def _is_run(path: Path) -> bool:
    return re.fullmatch(re.escape(path.stem) + r"_\d+", path.parent.name) is not None


def _without_version(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)


def from_hub(name: str) -> Found:
    """`ORG/REPO[@revision]` by huggingface_sb3's naming: `REPO.zip`, or the only agent there. HF_ENDPOINT is
    read now.

    Raises InputError where the hub can't be reached, or has no such repository, revision or agent.
    """
    from huggingface_hub import HfApi, hf_hub_download

    repo, _, revision = name.partition("@")
    endpoint = os.environ.get("HF_ENDPOINT")
    try:
        info = HfApi(endpoint=endpoint).model_info(repo, revision=revision or None)
        names = [sibling.rfilename for sibling in info.siblings or []]
        archive = _agent_among(names, repo)
        wanted = {archive, *_COMPANIONS, *(f"{archive.removesuffix('.zip')}/{file}" for file in _COMPANIONS)}
        fetched = {
            file: Path(hf_hub_download(repo, file, revision=info.sha, endpoint=endpoint))
            for file in names
            if file in wanted
        }
    except InputError:
        raise
    except Exception as error:  # the hub's own errors, and those of whichever HTTP client it uses
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"hub:{name} can't be fetched: {reason}; check the name and the network") from error
    found = companions(fetched[archive])
    return replace(found, revision=info.sha)


def _agent_among(names: list[str], repo: str) -> str:
    archives = [
        file
        for file in names
        if file.endswith(".zip") and file != "train_eval_metrics.zip" and "/" not in file
    ]
    by_convention = f"{repo.rpartition('/')[2]}.zip"
    if by_convention in archives:
        return by_convention
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


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}  # a figure for the report, not needed to act
    return results if isinstance(results, dict) else {}


def _read_yaml(path: Path | None) -> dict[str, Any]:
    """A zoo YAML as plain data: nodes are walked and tags such as `!!python/object/apply` never looked at."""
    if path is None:
        return {}
    try:
        text = path.read_bytes()[:_LARGEST_TEXT].decode("utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return as_dict(_plain(node, {}))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"{path} is not readable YAML: {' '.join(str(error).split())[:160]}") from error


def _plain(node: yaml.Node | None, seen: dict[int, Any]) -> Any:
    if node is None:
        return None
    if id(node) not in seen:  # an alias is walked once, however often it is used
        seen[id(node)] = None
        seen[id(node)] = _plain_anew(node, seen)
    return seen[id(node)]


def _plain_anew(node: yaml.Node, seen: dict[int, Any]) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {str(_plain(key, seen)): _plain(value, seen) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, seen) for item in node.value]
    kind, text = node.tag.rpartition(":")[2], str(node.value)
    if kind == "int":
        return int(text.replace("_", ""), 0)
    if kind == "float":
        return float(text.replace("_", ""))
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    return None if kind == "null" else text


def as_dict(value: Any) -> dict[str, Any]:
    """A dict from the zoo's spellings: a mapping, an OrderedDict's list of pairs, or the text of a dict."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return _literal(value)
    while isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    if isinstance(value, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return {str(key): item for key, item in value}
    return {}


def _literal(text: str) -> dict[str, Any]:
    """`"{'norm_obs': True}"` and `"dict(norm_obs=True)"`: literals only, anything else is left out."""
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "dict":
            return {word.arg: ast.literal_eval(word.value) for word in tree.keywords if word.arg}
        value = ast.literal_eval(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
