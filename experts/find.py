"""Finds the agent that a spec names: a zip, in the zoo, or on the Hugging Face hub."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from imitate import hub
from imitate.errors import InputError
from imitate.experts.sources import COMPANIONS, Found, companions, from_zoo

__all__ = ["find_agent"]

_MINARI = re.compile(r"(.+-v\d+)-(PPO|A2C|TRPO|DQN|QRDQN|SAC|TD3|DDPG|TQC|ARS)(-\w[\w-]*)?", re.IGNORECASE)
_LARGEST_DOWNLOAD = 1 << 30  # bytes
_FOLDER = {"expert.json", "policy.safetensors"}


def find_agent(spec: str) -> Found | None:
    """The agent of `zoo:`, `hub:` or the path of a zip; None for any other spec. Raises InputError if it is missing."""
    if spec.startswith("zoo:"):
        return from_zoo(spec.removeprefix("zoo:"))
    if spec.startswith(hub.PREFIX):
        return from_hub(spec.removeprefix(hub.PREFIX))
    return companions(Path(spec)) if spec.endswith(".zip") else None


def from_hub(name: str) -> Found:
    """The agent `ORG/REPO[@revision]` or `ORG/ALGO/ENV-v0[@revision]`.

    A policy of ours, as `imitate export --to hub` writes it, is the folder of a run, and an `expert.json` makes an
    expert's folder. Otherwise the agent's file is `ALGO-ENV-v0.zip` in the repository `ORG/ALGO-ENV-v0`
    (huggingface_sb3's names), `env-v5-algo-grade.zip` in `farama-minari/ENV-v5-ALGO-GRADE` (Minari's names), or the
    only zip there.

    Raises InputError if the hub can't be reached, or has no such repository, revision or agent.
    """
    there = hub.find(_repository(name))
    if hub.is_policy(there):
        results = _results_on_card(there.card)
        return Found(hub.policy_folder(there), env_id=None, results=results, revision=there.sha)
    if set(there.sizes) >= _FOLDER:
        return Found(hub.fetch(there, _FOLDER, _LARGEST_DOWNLOAD), env_id=None, revision=there.sha)
    archive = _agent_among(list(there.sizes), there.repo)
    wanted = {archive, *COMPANIONS, *(f"{archive.removesuffix('.zip')}/{file}" for file in COMPANIONS)}
    folder = hub.fetch(there, wanted & set(there.sizes), _LARGEST_DOWNLOAD)
    found = companions(folder / archive)
    named = _MINARI.fullmatch(there.repo.rpartition("/")[2])
    return replace(
        found,
        env_id=found.env_id or (named and named[1]),
        results=found.results or _results_on_card(there.card),
        revision=there.sha,
    )


def _repository(name: str) -> str:
    """`ORG/REPO[@revision]`, also for `ORG/ALGO/ENV-v0[@revision]`."""
    repo, at, revision = name.partition("@")
    if repo.count("/") != 2:
        return name
    from huggingface_sb3 import EnvironmentName, ModelName, ModelRepoId  # two seconds: it imports SB3

    org, algorithm, env_id = repo.split("/")
    return f"{ModelRepoId(org, ModelName(algorithm.lower(), EnvironmentName(env_id)))}{at}{revision}"


def _results_on_card(card: Any) -> dict[str, float]:
    """`mean_reward` and `std_reward` of a model card, which writes them as "4098.12 +/- 1.20"."""
    for result in getattr(card, "eval_results", None) or []:
        text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", str(result.metric_value))  # "4,098.12"
        # "4098.12 +/-1.20" has no negative deviation.
        figures = re.findall(r"(?<!/)-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", text)
        if result.metric_type == "mean_reward" and figures:
            results = dict(zip(("mean_reward", "std_reward"), map(float, figures), strict=False))
            return results if all(map(math.isfinite, results.values())) else {}
    return {}


def _agent_among(names: list[str], repo: str) -> str:
    from huggingface_sb3 import EnvironmentName, ModelName

    at_the_top = [name for name in names if name.endswith(".zip") and "/" not in name]
    archives = [name for name in at_the_top if name != "train_eval_metrics.zip"]
    name = repo.rpartition("/")[2]
    algorithm, _, env_id = name.partition("-")
    by_convention = str(ModelName(algorithm, EnvironmentName(env_id)).filename)
    after_the_repository = [file for file in archives if file.lower() == f"{name}.zip".lower()]
    if by_convention in archives:
        return by_convention
    if after_the_repository:
        return after_the_repository[0]
    if len(archives) == 1:
        return archives[0]
    raise InputError(
        f"hub:{repo} has {len(archives)} zips ({', '.join(archives[:4])}): wanted {by_convention} or just one"
    )
