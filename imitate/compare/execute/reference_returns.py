"""Measures the expert and random actions before any run."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from imitate.compare.execute import worker
from imitate.compare.execute.training import expert_of
from imitate.compare.plan.comparison import Comparison, digest
from imitate.compare.plan.learners import find
from imitate.compare.statistics.job_results import ExpertFacts, Reference, References
from imitate.datasets.play import RandomPolicy
from imitate.datasets.trajectory import Policy
from imitate.envs.answers import closing_env
from imitate.envs.make import make_env, time_limit
from imitate.envs.seeds import TEST_SEED
from imitate.envs.spaces import check_plain
from imitate.files import read_json, versions
from imitate.own_code import code_of_env
from imitate.training.inputs import check_expert

__all__ = ["measured_references"]

logger = logging.getLogger(__name__)


def measured_references(comparison: Comparison, out: Path) -> References:
    """Measure the expert and random actions on the episodes of the test and of the curves, and the length of an
    episode. Measurements that are stored in `out` are reused.

    Raises InputError if the expert can't be loaded or is for another environment, or if a learner does not support the
    environment's spaces.
    """
    with closing_env(make_env(comparison.env_id, comparison.env_kwargs)) as env:
        for name in comparison.algorithms:
            if not find(name).structured:
                check_plain(name, env.observation_space, env.action_space)
        actions, filmed = env.action_space, "rgb_array" in env.metadata.get("render_modes", [])
        code = code_of_env(env)
    expert = None
    if comparison.expert is not None:
        expert = expert_of(comparison)
        check_expert(expert, comparison.expert, comparison.env_id, comparison.env_kwargs)
    made_from = f"{expert.made_from if expert else ''} {code}".strip()
    key = digest(
        comparison.env_id, comparison.env_kwargs, comparison.episodes, comparison.curve_episodes,
        made_from, versions(),
    )  # fmt: skip
    if (out / "references.json").is_file():
        found = read_json(out / "references.json", References)
        if found.key == key:
            return replace(found, made_from=made_from)  # which older files lack
    random = _measured(comparison, RandomPolicy(actions, TEST_SEED))
    if not filmed:
        logger.warning("%s does not render to pictures: the report has no videos", comparison.env_id)
    logger.info("random actions: mean return %.1f", random.mean)
    if expert is None:
        # Without an expert, the length of a good policy's episode is unknown.
        longest = time_limit(comparison.env_id, comparison.env_kwargs) or 1_000
        return References(key, min(float(longest), comparison.budget), filmed, random, None, made_from)
    expert.measure()  # logs its return, and warns if that is poor
    facts = ExpertFacts(
        spec=str(comparison.expert),
        description=expert.describe(),
        sha256=expert.sha256,
        published_return=expert.published_return,
        measured=_measured(comparison, expert),
    )
    # Learners are between random and expert, and so are the lengths of their episodes. The longer of the two is a
    # safe estimate.
    steps = max(sum(each.lengths) / len(each.lengths) for each in (facts.measured, random))
    return References(key, steps, filmed, random, facts, made_from)


def _measured(comparison: Comparison, policy: Policy) -> Reference:
    evaluation = worker.test(comparison, policy)
    curve = worker.curve_returns(comparison, policy)
    return Reference(evaluation.returns.tolist(), evaluation.lengths.tolist(), curve)
