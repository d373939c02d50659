"""Cards for the Hugging Face hub: the README.md of a policy and of demonstrations."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from imitate.datasets.evaluation import Evaluation
from imitate.envs.seeds import TEST_SEED
from imitate.errors import one_line

__all__ = ["data_card", "model_card"]

_TEMPLATES = Path(__file__).parent


def model_card(
    config: Mapping[str, Any],
    result: Evaluation | None,
    *,
    repo: str,
    again: str,
    spent: Mapping[str, int],
    film: str | None,
    archive: str | None,
    normalised: bool,
    has_files: bool,
    license: str | None,
) -> str:
    """The card of a run's policy. Its metadata have the mean return as `model-index`, as the hub's RL agents do.

    config   of the run, as plain data
    repo     ORG/REPO, which its commands name
    again    the command that repeats the run
    spent    what the run took, such as `env_steps`
    film, archive   names of files in the repository, or None
    normalised      whether statistics of observations are beside the archive
    has_files       whether the run learned from files, which are not in the repository
    """
    from huggingface_hub import ModelCard, ModelCardData

    env_id, algorithm = config["env_id"], config["algorithm"]
    data = ModelCardData(
        library_name="imitate",
        license=license,
        pipeline_tag="reinforcement-learning",
        tags=["reinforcement-learning", "imitation-learning", env_id, algorithm],
        model_name=algorithm,
        eval_results=None if result is None else [_eval_result(env_id, result)],
    )
    learned_from = [config.get("expert"), *config.get("other_experts", ()), config.get("demos")]
    teachers = [f"`{name}`" for name in learned_from if name]
    card = ModelCard.from_template(
        data,
        template_path=str(_TEMPLATES / "model_card.md"),
        algorithm=algorithm,
        env_id=env_id,
        env=shlex.quote(env_id),
        keywords=_keywords(config.get("env_kwargs")),
        teacher=f" from {' and '.join(teachers)}" if teachers else "",
        result=result,
        seed=TEST_SEED,
        film=film,
        archive=archive,
        normalised=normalised,
        spec=f"hub:{repo}",
        again=again,
        # A file may not choose what is imported.
        own=f" --env {shlex.quote(env_id)}" if ":" in env_id else "",
        spent=", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in spent.items() if count)
        or "an unknown number of steps",
        config=config,
        has_files=has_files,
        versions=config.get("versions", {}),
        license=license,
    )
    return f"{card}\n"


def _eval_result(env_id: str, result: Evaluation) -> Any:
    """The measured return as the hub's `EvalResult`."""
    from huggingface_hub import EvalResult

    spread = f" +/- {result.std:.2f}" if len(result.returns) > 1 else ""
    return EvalResult(
        task_type="reinforcement-learning",
        task_name="reinforcement-learning",
        dataset_type=env_id,
        dataset_name=env_id,
        metric_type="mean_reward",
        metric_name="mean_reward",
        metric_value=f"{result.mean:.2f}{spread}",
        metric_args={"episodes": len(result.returns), "seed": TEST_SEED, "ci95": result.to_json()["ci95"]},
        verified=False,
    )


def data_card(
    facts: Mapping[str, Any], result: Evaluation, *, commands: Sequence[str], format: str, license: str | None
) -> str:
    """The card of demonstrations.

    facts     of `imitate.datasets.storage.validate.describe`
    result    the returns of the episodes
    commands  to learn from them, and to convert them
    """
    from huggingface_hub import DatasetCard, DatasetCardData

    env_id = one_line(facts["env_id"])
    data = DatasetCardData(
        license=license,
        task_categories=["reinforcement-learning"],
        tags=["imitation-learning", "imitate", env_id],
        pretty_name=f"Demonstrations of {env_id}",
    )
    card = DatasetCard.from_template(
        data,
        template_path=str(_TEMPLATES / "data_card.md"),
        env_id=env_id,
        keywords=_keywords(facts["env_kwargs"]),
        facts=facts,
        result=result,
        format=format,
        versions=", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        commands=commands,
        license=license,
    )
    return f"{card}\n"


def _keywords(env_kwargs: Mapping[str, Any] | None) -> str:
    return f" with `{json.dumps(env_kwargs)}`" if env_kwargs else ""
