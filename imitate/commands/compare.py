"""`imitate compare` and `imitate quickstart`"""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from imitate.commands.options import JsonObject, print_json, run
from imitate.compare import Comparison
from imitate.compare import compare as run_comparison
from imitate.envs.make import resolve_env_id
from imitate.envs.trust import bare_id
from imitate.errors import InputError, one_line
from imitate.experts import known_experts
from imitate.files import read_bytes, read_json

__all__ = ["compare", "quickstart"]


def compare(argv: list[str]) -> int:
    def command(
        file: Annotated[Path | None, tyro.conf.Positional] = None,
        *,
        out: Path,
        env: str | None = None,
        expert: str | None = None,
        algorithms: tuple[str, ...] = (),
        add: tuple[str, ...] = (),
        seeds: int | None = None,
        budget: int | None = None,
        episodes: int | None = None,
        curve_episodes: int | None = None,
        num_envs: int | None = None,
        env_kwargs: JsonObject | None = None,
        hyperparameters: JsonObject | None = None,
        device: Literal["cpu", "cuda"] | None = None,
        workers: int | None = None,
        json: bool = False,
    ) -> int:
        """Imitation and RL on one budget of environment steps, evaluated alike, with a report that says whether
        imitation was worth it.

        Args:
            file: a comparison as TOML, such as the comparison.toml of a report; options take the place of what it says
            out: the folder of the report. The same again goes on where it was interrupted; without --env a finished
                one grows: --add, --seeds and --episodes run only what is missing
            env: a Gymnasium id
            expert: who is imitated; by default the bundled expert of the environment, if there is one
            algorithms: which learners; by default bc, dagger and ppo
            add: more learners, beside those of the folder or file
            seeds: how many seeds of each; by default 5
            budget: environment steps of each run, demonstrations and training together; by default 50,000
            episodes: episodes of the final test, with the same seeds for everyone; by default 20
            curve_episodes: episodes of each point of a learning curve; by default 10
            num_envs: environments that a learner steps side by side; by default the preset's
            env_kwargs: keywords of the environment, as a JSON object
            hyperparameters: in place of the presets', as a JSON object such as {"ppo": {"gamma": 0.9}}
            device: where the networks are; by default cpu
            workers: processes; by default one a core
            json: print the summary as JSON
        """
        given: dict[str, Any] = {
            "env_id": env and resolve_env_id(env),
            "expert": expert,
            "algorithms": algorithms or None,
            "seeds": seeds,
            "budget": budget,
            "episodes": episodes,
            "curve_episodes": curve_episodes,
            "num_envs": num_envs,
            "env_kwargs": env_kwargs,
            "hyperparameters": hyperparameters,
            "device": device,
        }
        given = {name: value for name, value in given.items() if value is not None}
        comparison = _comparison(file, out, given, add)
        try:
            report = run_comparison(comparison, out, workers=workers)
        except KeyboardInterrupt:
            print("imitate: the same command goes on from here", file=sys.stderr)
            raise
        summary = read_json(out / "summary.json", dict[str, Any])
        if json:
            print_json(summary)
        else:
            print(summary["sentence"])
            print(report)
        return 1 if summary["failures"] else 0

    return run(command, argv, "compare")


def _comparison(file: Path | None, out: Path, given: dict[str, Any], add: tuple[str, ...]) -> Comparison:
    """What the options say, over the file, or over what the folder holds where no environment is named."""
    base: dict[str, Any] = {}
    if file is not None:
        try:
            base = tomllib.loads(read_bytes(file, 1 << 20).decode())
        except ValueError as error:
            raise InputError(f"{file} is no TOML: {one_line(error)}; correct it") from error
    elif "env_id" not in given:
        if not (out / "comparison.json").is_file():
            raise InputError(
                f"no environment to compare on: name one with --env, or a folder that has a comparison, unlike {out}"
            )
        base = read_json(out / "comparison.json", dict[str, Any])
    fields = base | given
    if "env_id" not in fields:
        raise InputError(f'{file} names no environment: add a line such as env_id = "CartPole-v1"')
    fields.setdefault("algorithms", ("bc", "dagger", "ppo"))
    bundled = bare_id(fields["env_id"])
    if not base and bundled in known_experts():
        fields.setdefault("expert", bundled)
    comparison = Comparison.from_json(fields)
    return replace(comparison, algorithms=tuple(dict.fromkeys((*comparison.algorithms, *add))))


def quickstart(argv: list[str]) -> int:
    def command(
        out: Path = Path("quickstart"), seeds: int = 5, workers: int | None = None, json: bool = False
    ) -> int:
        """BC, DAgger and PPO on CartPole-v1 with the bundled expert; prints the answer and where the report is.

        Args:
            out: the folder of the report
            seeds: how many seeds of each learner
            workers: processes; by default one a core
            json: print the summary as JSON
        """
        # So few steps that PPO has not learned to balance yet: there imitation and RL differ.
        arguments = ["--env", "CartPole-v1", "--out", str(out), "--seeds", str(seeds), "--budget", "4000"]
        arguments += [] if workers is None else ["--workers", str(workers)]
        return compare(arguments + (["--json"] if json else []))

    return run(command, argv, "quickstart")
