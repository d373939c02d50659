"""`imitate compare` and `imitate quickstart`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import imitate.compare
from imitate import experts
from imitate.commands.line import dashed
from imitate.commands.option import Offers, Rare
from imitate.commands.options import BackendName, JsonObject, chosen_backend, print_json, run
from imitate.compare import Comparison, Suite
from imitate.compare.plan.learners import trust_learner
from imitate.compare.plan.suite import BUNDLED, is_suite
from imitate.envs.make import resolve_env_id
from imitate.envs.trust import bare_id
from imitate.envs.trust import trust as allow
from imitate.errors import InputError, did_you_mean
from imitate.files import read_json
from imitate.toml import read_toml

if TYPE_CHECKING:
    from imitate.compare.backends import Backend

__all__ = ["compare", "quickstart"]

DEFAULT = ("bc", "dagger", "ppo")
"""Learners of a comparison that names none."""


def compare(argv: list[str]) -> int:
    return run(command, argv, "compare")


def command(
    file: Annotated[str | None, tyro.conf.Positional, Offers(lambda: BUNDLED)] = None,
    *,
    out: Path | None = None,
    watch: Path | None = None,
    env: str | None = None,
    expert: str | None = None,
    algorithms: tuple[str, ...] = (),
    add: tuple[str, ...] = (),
    trust: Annotated[tuple[str, ...], Rare] = (),
    seeds: int | None = None,
    first_seed: Annotated[int | None, Rare] = None,
    budget: int | None = None,
    episodes: int | None = None,
    curve_episodes: Annotated[int | None, Rare] = None,
    num_envs: Annotated[int | None, Rare] = None,
    demo_episodes: Annotated[int | None, Rare] = None,
    demo_every: Annotated[int | None, Rare] = None,
    keep_closest: Annotated[bool | None, Rare] = None,
    audit: Annotated[bool | None, Rare] = None,
    env_kwargs: JsonObject | None = None,
    hyperparameters: JsonObject | None = None,
    device: Literal["cpu", "cuda"] | None = None,
    workers: int | None = None,
    backend: Annotated[BackendName, Rare] = "processes",
    address: Annotated[str | None, Rare] = None,
    cpus_per_run: Annotated[float | None, Rare] = None,
    gpus_per_run: Annotated[float | None, Rare] = None,
    list: Annotated[bool, Rare] = False,
    json: bool = False,
) -> int:
    """Imitation and RL on one budget of environment steps, evaluated alike, with a report that says whether
    imitation was worth it.

    Args:
        file: a comparison or a suite as TOML, such as the comparison.toml of a report, or a suite that comes with
            imitate: classic, box2d, pixels, bullet, mujoco, atari, few-demos. Options take the place of what it says
        out: the folder of the report. Runs that it holds are not repeated: the same command goes on where it was
            interrupted, and --add, --seeds and --episodes alone extend a finished comparison
        watch: show how far the runs in this folder of a comparison are, here or on a cluster
        env: a Gymnasium id, or my_module:MyEnv-v0
        expert: the expert to imitate; by default the bundled one of the environment, if there is one
        algorithms: the learners; by default bc, dagger and ppo. sb3:ppo is Stable-Baselines3's PPO,
            my_module:Learner your own, ppo@wide PPO with the settings under that name in --hyperparameters
        add: more learners, beside those of the folder or file
        trust: names of your own code that a suite may use, such as my_module:MyEnv-v0 my_module:make_expert
        seeds: number of seeds of each learner; by default 5
        first_seed: the first of them; by default 0. Choose settings on some seeds, and measure on others
        budget: environment steps of each run, demonstrations and training together; by default 50,000
        episodes: episodes of the final test, with the same seeds for everyone; by default 20
        curve_episodes: episodes of each point of a learning curve; by default 10
        num_envs: environments that a learner steps side by side; by default the preset's
        demo_episodes: demonstrations for every imitator; by default at most 10, or all that the budget pays for if the
            learner has no environment
        demo_every: learn from each n-th step of the demonstrations only
        keep_closest: True: SQIL and IQ-Learn keep the policy that is closest to the demonstrations, where their presets
            validate; these steps count. Otherwise every learner's last policy is measured
        audit: False leaves out the controls of GAIL and DAC
        env_kwargs: keywords of the environment, as a JSON object
        hyperparameters: override the presets, as a JSON object such as {"ppo": {"gamma": 0.9}}; other learners keep
            those that a stored comparison has
        device: device of the networks; by default cpu
        workers: runs at a time; by default one a core, here or in the cluster
        backend: where runs take place: in processes of this machine, or on a Ray cluster (see docs/scale.md)
        cpus_per_run: cores that Ray reserves for each run; by default 1
        gpus_per_run: GPUs, or a share such as 0.25, that Ray reserves for each run; by default none
        list: only say what would run, and about how much time of a core that takes
        json: print the summary as JSON
    """
    allow(*trust)
    if watch is not None:
        import imitate.compare.execute.watch

        imitate.compare.execute.watch.watch(watch)
        return 0
    if out is None and not list:
        raise InputError("name the folder of the report with --out")
    if device == "cuda" and backend == "ray" and not gpus_per_run:
        raise InputError("--device cuda on Ray needs a GPU for each run: add --gpus-per-run, such as 0.25")
    options: dict[str, Any] = {
        "env_id": env and resolve_env_id(env),
        "expert": expert,
        "algorithms": algorithms or None,
        "seeds": seeds,
        "first_seed": first_seed,
        "budget": budget,
        "episodes": episodes,
        "curve_episodes": curve_episodes,
        "num_envs": num_envs,
        "demo_episodes": demo_episodes,
        "demo_every": demo_every,
        "keep_closest": keep_closest,
        "audit": audit,
        "env_kwargs": env_kwargs,
        "hyperparameters": hyperparameters,
        "device": device,
    }
    given = {name: value for name, value in options.items() if value is not None}
    for name in (*algorithms, *add):
        trust_learner(name)
    wanted = _wanted(file, out or Path(), given, add)
    if list:
        from imitate.compare.plan.cost import listing

        print(listing(wanted))
        return 0
    assert out is not None
    where = chosen_backend(backend, workers, address, cpus_per_run, gpus_per_run)
    return _carry_out(wanted, out, None if backend == "processes" else where, workers, as_json=json)


def _carry_out(
    wanted: Comparison | Suite, out: Path, backend: Backend | None, workers: int | None, *, as_json: bool
) -> int:
    try:
        report = imitate.compare.compare(wanted, out, backend=backend, workers=workers)
    except KeyboardInterrupt:
        print("imitate: the same command goes on from here", file=sys.stderr)
        raise
    summary = read_json(out / "summary.json", dict[str, Any])
    if as_json:
        print_json(summary)
    else:
        print(summary["sentence"])
        print(report)
    return 1 if summary["failures"] else 0


def _wanted(file: str | None, out: Path, given: dict[str, Any], add: tuple[str, ...]) -> Comparison | Suite:
    """The comparison of the options, over that of the file, or over the folder's if no environment is named."""
    base: dict[str, Any] = {}
    suite = None
    if file in BUNDLED and not Path(file).is_file():
        suite = Suite.bundled(file)
    elif file is not None and not Path(file).is_file():
        suites = f"{', '.join(BUNDLED)}{did_you_mean(file, BUNDLED)}"
        raise InputError(f"{file} is neither a file nor one of the suites {suites}")
    elif file is not None:
        base = read_toml(Path(file))
        suite = Suite.from_toml(Path(file).stem, base) if "environments" in base else None
    elif "env_id" not in given and is_suite(out):
        suite = Suite.read(out)
    else:
        base = _stored(out, given.get("env_id"))
    if suite is not None:
        for name in ("env_id", "expert", "env_kwargs"):
            if name in given:
                option = dashed({"env_id": "env"}.get(name, name))
                raise InputError(f"a suite has its own environments and experts: leave out {option}")
        numbers = {part.demo_episodes for part in suite.parts.values()}
        if "demo_episodes" in given and len(numbers) > 1:
            raise InputError(
                "the suite compares several numbers of demonstrations: leave out --demo-episodes"
            )
        return suite.changed(add, **given)
    for name, value in base.items():
        if isinstance(value, list) and any(isinstance(each, dict) for each in value):
            raise InputError(f"{file} has tables [[{name}]], but those of a suite are [[environments]]")
    if "env_id" not in base | given:
        raise InputError(f'{file} names no environment: add a line such as env_id = "CartPole-v1"')
    bundled = bare_id(str((base | given)["env_id"]))
    expert = {"expert": bundled} if bundled in experts.known_experts() else {}
    return Comparison.over({"algorithms": DEFAULT} | expert | base, add, **given)


def _stored(out: Path, env_id: str | None) -> dict[str, Any]:
    """The stored comparison, extended if its environment matches or none was given."""
    path = out / "comparison.json"
    stored = read_json(path, dict[str, Any]) if path.is_file() else {}
    if env_id is None and not stored:
        raise InputError(
            f"no environment to compare on: name one with --env, or a folder that has a comparison, unlike {out}"
        )
    return stored if env_id in (None, stored.get("env_id")) else {}


def quickstart(argv: list[str]) -> int:
    def small(
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
        return command(env="CartPole-v1", out=out, seeds=seeds, budget=4_000, workers=workers, json=json)

    return run(small, argv, "quickstart")
