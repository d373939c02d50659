"""`imitate compare` and `imitate quickstart`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

from imitate.commands.options import JsonObject, print_json, run
from imitate.compare import Comparison
from imitate.compare import compare as run_comparison
from imitate.envs.make import resolve_env_id
from imitate.experts import known_experts
from imitate.files import read_json

__all__ = ["compare", "quickstart"]


def compare(argv: list[str]) -> int:
    def command(
        env: str,
        out: Path,
        expert: str | None = None,
        algorithms: tuple[str, ...] = ("bc", "dagger", "ppo"),
        seeds: int = 3,
        budget: int = 50_000,
        episodes: int = 20,
        num_envs: int | None = None,
        env_kwargs: JsonObject | None = None,
        hyperparameters: JsonObject | None = None,
        device: Literal["cpu", "cuda"] = "cpu",
        workers: int | None = None,
        json: bool = False,
    ) -> int:
        """Imitation and RL on one budget of environment steps, evaluated alike, with a report.

        Args:
            env: a Gymnasium id
            out: the folder of the report; the same again goes on where it was interrupted
            expert: who is imitated; by default the bundled expert of the environment, if there is one
            algorithms: which learners
            seeds: how many seeds of each
            budget: environment steps of each run: demonstrations, training and validation together
            episodes: episodes of the final test, with the same seeds for everyone
            num_envs: environments that a learner steps side by side; by default the preset's
            env_kwargs: keywords of the environment, as a JSON object
            hyperparameters: in place of the presets', as a JSON object such as {"ppo": {"gamma": 0.9}}
            device: where the networks are
            workers: processes; by default one a core
            json: print the summary as JSON
        """
        env_id = resolve_env_id(env)
        comparison = Comparison(
            env_id,
            algorithms,
            expert=expert or (env_id if env_id in known_experts() else None),
            env_kwargs=env_kwargs or {},
            seeds=seeds,
            budget=budget,
            episodes=episodes,
            num_envs=num_envs,
            device=device,
            hyperparameters=hyperparameters or {},
        )
        try:
            report = run_comparison(comparison, out, workers=workers)
        except KeyboardInterrupt:
            print("imitate: interrupted; the same command goes on from here", file=sys.stderr)
            return 130
        summary = read_json(out / "summary.json", dict[str, Any])
        print_json(summary) if json else print(report)
        return 1 if summary["failures"] else 0

    return run(command, argv, "compare")


def quickstart(argv: list[str]) -> int:
    def command(
        out: Path = Path("quickstart"), seeds: int = 2, workers: int | None = None, json: bool = False
    ) -> int:
        """BC, DAgger and PPO on CartPole-v1 with the bundled expert; prints where the report is.

        Args:
            out: the folder of the report
            seeds: how many seeds of each learner
            workers: processes; by default one a core
            json: print the summary as JSON
        """
        arguments = ["--env", "CartPole-v1", "--out", str(out), "--seeds", str(seeds)]
        # Fewer, longer roll-ins than the preset's, which is made for a tenth of this budget.
        arguments += ["--hyperparameters", '{"dagger": {"steps_per_iteration": 2000}}']
        arguments += [] if workers is None else ["--workers", str(workers)]
        return compare(arguments + (["--json"] if json else []))

    return run(command, argv, "quickstart")
