"""`imitate compare` and `imitate quickstart`"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from imitate.commands.options import BackendName, JsonObject, chosen_backend, print_json, run
from imitate.compare import Comparison, Suite
from imitate.compare import compare as run_comparison
from imitate.compare.learners import trust_learner
from imitate.compare.suite import BUNDLED, is_suite, read_toml
from imitate.envs.make import resolve_env_id
from imitate.envs.trust import bare_id
from imitate.errors import InputError
from imitate.experts import known_experts
from imitate.files import read_json

__all__ = ["compare", "quickstart"]


def compare(argv: list[str]) -> int:
    def command(
        file: Annotated[str | None, tyro.conf.Positional] = None,
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
        backend: BackendName = "processes",
        address: str | None = None,
        cpus_per_run: float | None = None,
        gpus_per_run: float | None = None,
        json: bool = False,
    ) -> int:
        """Imitation and RL on one budget of environment steps, evaluated alike, with a report that says whether
        imitation was worth it.

        Args:
            file: a comparison or a suite as TOML, such as the comparison.toml of a report, or a suite that comes with
                imitate: classic, box2d, pixels, bullet. Options take the place of what it says
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
            workers: runs at a time; by default one a core, here or in the cluster
            backend: where runs take place: in processes of this machine, or on a Ray cluster (see docs/scale.md)
            address: of the Ray cluster, HOST:PORT; by default the one that runs here, else one of this machine alone
            cpus_per_run: cores that Ray reserves for each run; by default 1
            gpus_per_run: GPUs, or a share such as 0.25, that Ray reserves for each run; by default none
            json: print the summary as JSON
        """
        where = chosen_backend(backend, workers, address, cpus_per_run, gpus_per_run)
        if device == "cuda" and backend == "ray" and not gpus_per_run:
            raise InputError(
                "--device cuda on Ray needs a GPU for each run: add --gpus-per-run, such as 0.25"
            )
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
        for name in (*algorithms, *add):
            trust_learner(name)
        wanted = _wanted(file, out, given, add)
        try:
            report = run_comparison(
                wanted, out, backend=None if backend == "processes" else where, workers=workers
            )
        except KeyboardInterrupt:
            print("imitate: interrupted; the same command goes on from here", file=sys.stderr)
            return 130
        summary = read_json(out / "summary.json", dict[str, Any])
        if json:
            print_json(summary)
        else:
            print(summary["sentence"])
            print(report)
        return 1 if summary["failures"] else 0

    return run(command, argv, "compare")


def _wanted(file: str | None, out: Path, given: dict[str, Any], add: tuple[str, ...]) -> Comparison | Suite:
    """What the options say, over the file, or over what the folder holds where no environment is named."""
    base: dict[str, Any] = {}
    suite = None
    if file in BUNDLED and not Path(file).exists():
        suite = Suite.bundled(file)
    elif file is not None:
        base = read_toml(Path(file))
        suite = Suite.from_toml(Path(file).stem, base) if "environments" in base else None
    elif "env_id" not in given:
        suite = Suite.read(out) if is_suite(out) else None
        base = {} if suite else _stored(out)
    if suite is not None:
        for name in ("env_id", "expert", "env_kwargs"):
            if name in given:
                option = {"env_id": "env"}.get(name, name).replace("_", "-")
                raise InputError(f"a suite has its own environments and experts: leave out --{option}")
        return suite.changed(add, **given)
    fields = base | given
    if "env_id" not in fields:
        raise InputError(f'{file} names no environment: add a line such as env_id = "CartPole-v1"')
    fields.setdefault("algorithms", ("bc", "dagger", "ppo"))
    bundled = bare_id(fields["env_id"])
    if not base and bundled in known_experts():
        fields.setdefault("expert", bundled)
    comparison = Comparison.from_json(fields)
    return replace(comparison, algorithms=tuple(dict.fromkeys((*comparison.algorithms, *add))))


def _stored(out: Path) -> dict[str, Any]:
    if not (out / "comparison.json").is_file():
        raise InputError(
            f"no environment to compare on: name one with --env, or a folder that has a comparison, unlike {out}"
        )
    return read_json(out / "comparison.json", dict[str, Any])


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
