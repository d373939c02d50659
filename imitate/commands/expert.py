"""`imitate expert list|show|check|train`"""

from __future__ import annotations

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Any

import tyro

from imitate.commands.options import JsonObject, announced, print_json, report, subcommand
from imitate.envs.trust import trust
from imitate.experts import Expert, known_experts, load_expert

__all__ = ["expert"]


def expert(argv: list[str]) -> int:
    def list_experts(json: bool = False) -> int:
        """List the experts available offline: bundled ones and those of the local zoo.

        Args:
            json: print JSON
        """
        names = known_experts()
        print_json(names) if json else print("\n".join(names))
        return 0

    def show(
        spec: tyro.conf.Positional[str],
        /,
        env: str | None = None,
        env_kwargs: JsonObject | None = None,
        vecnormalize: str | None = None,
        measure: bool = True,
        remeasure: bool = False,
        json: bool = False,
    ) -> int:
        """Show what is known about an expert, with its measured return.

        Args:
            spec: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip, an expert's folder, a run,
                module:make_expert or random
            env: the environment, if the expert names none or you want another
            env_kwargs: keyword arguments of the environment, as a JSON object
            vecnormalize: for a zip: file of normalisation statistics, or none; by default the one in the same folder
            measure: measure its return over 20 episodes, unless cached
            remeasure: measure it again
            json: print JSON
        """
        trust(spec)
        source = load_expert(spec, env_id=env, env_kwargs=env_kwargs, vecnormalize=vecnormalize)
        if source.runnable and measure:
            source.measure(remeasure=remeasure)
        report(_expert_facts(source), as_json=json)
        return 0

    def check(
        spec: tyro.conf.Positional[str],
        /,
        env: str | None = None,
        env_kwargs: JsonObject | None = None,
        vecnormalize: str | None = None,
        episodes: int = 8,
        probes: int = 0,
        seed: int = 0,
        remeasure: bool = False,
        json: bool = False,
    ) -> int:
        """Check whether an expert's own critic, from which AggreVaTeD learns, knows the task.

        Args:
            spec: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip, an expert's folder, a run,
                module:make_expert or random
            env: the environment, if the expert names none or you want another
            env_kwargs: keyword arguments of the environment, as a JSON object
            vecnormalize: for a zip: file of normalisation statistics, or none; by default the one in the same folder
            episodes: expert episodes to play; their discounted returns are compared with the critic's values
            probes: states in which to also play both a random action and the expert's on to the episode's end
            seed: seed of the episodes
            remeasure: measure the expert's return again (20 episodes), ignoring the cache
            json: print JSON
        """
        from imitate.aggrevated.critic_check import check_oracle

        trust(spec)
        source = announced(
            spec, env_id=env, env_kwargs=env_kwargs, vecnormalize=vecnormalize, remeasure=remeasure
        )
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
        """Train an expert, with its critic, by Stable-Baselines3 with tuned hyperparameters.

        Args:
            algo: ppo, a2c, dqn, sac, td3, ddpg, tqc, qrdqn, trpo or ars
            env: a Gymnasium id
            out: the expert's folder to write
            steps: environment steps; by default the preset's
            seed: seed of environments, networks and exploration
            env_kwargs: keyword arguments of the environment, as a JSON object
            eval_every: steps between validations; the best policy is kept
            eval_episodes: episodes in a validation
            hyperparameters: changes to the preset, as a JSON object with SB3's names
            resume: resume an unfinished training in --out
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
        "normalised_by": source.normalised_by or None,
        "normalisation_sha256": source.normalisation_sha256 or None,
        "gamma": source.gamma,
        "q_star": None if source.oracle is None else type(source.oracle).__name__,
        "published_return": source.published_return,
        "measured_return": None if measured is None else dataclasses.asdict(measured),
        "training": source.training or None,
    }
