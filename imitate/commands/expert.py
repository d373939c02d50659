"""`imitate expert list|show|check|train`"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

import tyro

from imitate.commands.options import JsonObject, announced, print_json, report, subcommand
from imitate.experts import Expert, known_experts, load_expert

__all__ = ["expert"]


def expert(argv: list[str]) -> int:
    def list_experts(json: bool = False) -> int:
        """The experts at hand without the network: bundled ones and the zoo's.

        Args:
            json: print JSON
        """
        names = known_experts()
        print_json(names) if json else print("\n".join(names))
        return 0

    def show(spec: tyro.conf.Positional[str], /, measure: bool = True, json: bool = False) -> int:
        """What is known of an expert, with its measured return.

        Args:
            spec: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or an expert's folder
            measure: play 20 episodes, if that was not done before
            json: print JSON
        """
        source = announced(spec) if measure else load_expert(spec)
        report(_expert_facts(source), as_json=json)
        return 0

    def check(
        spec: tyro.conf.Positional[str],
        /,
        episodes: int = 8,
        probes: int = 0,
        seed: int = 0,
        json: bool = False,
    ) -> int:
        """Whether an expert's own critic knows the task: what AggreVaTeD learns from.

        Args:
            spec: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or an expert's folder
            episodes: of the expert, whose discounted returns are compared with the critic's values
            probes: states in which a random action and the expert's are both played on to the end, too
            seed: of the episodes
            json: print JSON
        """
        from imitate.aggrevated.critic_check import check_oracle

        source = announced(spec)
        if source.oracle is None or not source.runnable:
            verdict = "no critic to check: AggreVaTeD learns one by fitted Q evaluation"
            report({"expert": source.source, "oracle": "fqe", "verdict": verdict}, as_json=json)
            return 0
        found = check_oracle(
            source.oracle,
            source,
            source.env_id,
            env_kwargs=source.env_kwargs,
            episodes=episodes,
            probes=probes,
            seed=seed,
            source=source.source,
        )
        facts = {"expert": source.source, "oracle": "critic", "gamma": source.oracle.gamma}
        report(facts | found.to_json(), as_json=json)
        return 0

    def train_expert(
        algo: str,
        env: str,
        out: Path,
        steps: int | None = None,
        seed: int = 0,
        env_kwargs: JsonObject | None = None,
        eval_every: int | None = None,
        eval_episodes: int = 20,
        hyperparameters: JsonObject | None = None,
        resume: bool = False,
    ) -> int:
        """Train an expert with Stable-Baselines3 and tuned hyperparameters; its critic comes with it.

        Args:
            algo: ppo, a2c, dqn, sac, td3, ddpg, tqc, qrdqn, trpo or ars
            env: a Gymnasium id
            out: the expert's folder
            steps: environment steps; by default the preset's
            seed: of environments, networks and exploration
            env_kwargs: keywords of the environment, as a JSON object
            eval_every: steps between validations; the best policy is kept
            eval_episodes: episodes of a validation
            hyperparameters: in place of the preset's, as a JSON object of SB3's names
            resume: go on with an unfinished training in --out
        """
        from imitate.experts.train import train_expert as run_training

        written = run_training(
            algo,
            env,
            out,
            steps=steps,
            seed=seed,
            env_kwargs=env_kwargs,
            eval_every=eval_every,
            eval_episodes=eval_episodes,
            resume=resume,
            command=shlex.join(["imitate", "expert", *argv]),
            **(hyperparameters or {}),
        )
        print(f"imitate: wrote {written}", file=sys.stderr)
        return 0

    return subcommand(
        {"list": list_experts, "show": show, "check": check, "train": train_expert}, argv, "expert"
    )


def _expert_facts(source: Expert) -> dict[str, Any]:
    measured = source.measured
    return {
        "expert": source.source,
        "algorithm": source.algorithm,
        "env_id": source.env_id,
        "env_kwargs": source.env_kwargs,
        "sha256": source.sha256,
        "revision": source.revision,
        "normalised": source.normalisation is not None,
        "gamma": source.gamma,
        "q_star": None if source.oracle is None else type(source.oracle).__name__,
        "published_return": source.published_return,
        "measured_return": None if measured is None else dataclasses.asdict(measured),
        "training": source.training or None,
    }
