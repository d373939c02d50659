"""`imitate expert list|show|check|train|convert`"""

from __future__ import annotations

import dataclasses
import inspect
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tyro

from imitate import experts
from imitate.commands.line import typed_command
from imitate.commands.options import JsonObject, print_facts, print_json, subcommand
from imitate.envs.trust import trust
from imitate.errors import InputError

if TYPE_CHECKING:
    from imitate.experts import Expert

__all__ = ["expert"]


def expert(argv: list[str]) -> int:
    commands: dict[str, Callable[..., int]] = {
        "list": list_experts,
        "show": show,
        "check": check,
        "train": train,
        "convert": convert,
    }
    typed_command.set(shlex.join(["imitate", "expert", *argv]))
    return subcommand(commands, argv, "expert")


def list_experts(
    measure: bool = False, episodes: int = 20, remeasure: bool = False, json: bool = False
) -> int:
    """List the experts available offline: bundled ones and those of the local zoo.

    Args:
        measure: play each, if that was not done before, and print what it gets beside what was published
        episodes: how many each plays
        remeasure: play again
    """
    names = experts.known_experts()
    if episodes < 1:
        raise InputError(f"episodes must be at least 1, got {episodes}")
    if remeasure and not measure:
        raise InputError("--remeasure is for --measure: add that too")
    if not measure:
        print_json(names) if json else print("\n".join(names))
        return 0
    width = max(map(len, names), default=0)
    if not json:
        print(f"{'expert':<{width}}  {'measured':>9}    {'std':<7}  {'published':>9}  environment")
    rows = []
    for name in names:
        rows.append(_measured(name, episodes, remeasure))
        if not json:
            print(_line(rows[-1], width), flush=True)
    if json:
        print_json(rows)
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
        measure: measure its return over 20 episodes, unless cached
        remeasure: measure it again
    """
    if remeasure and not measure:
        raise InputError("--no-measure and --remeasure contradict each other: give one of them")
    source = _loaded(spec, env, env_kwargs, vecnormalize)
    if source.runnable and measure:
        source.measure(remeasure=remeasure)
    print_facts(_expert_facts(source), as_json=json)
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
        episodes: expert episodes to play; their discounted returns are compared with the critic's values
        probes: states in which to also play both a random action and the expert's on to the episode's end
        seed: seed of the episodes
        remeasure: measure the expert's return again (20 episodes), ignoring the cache
    """
    from imitate.aggrevated.critic_check import check_oracle

    source = _loaded(spec, env, env_kwargs, vecnormalize)
    if source.runnable:
        source.measure(remeasure=remeasure)
    elif source.oracle is not None:
        raise InputError(
            f"{source.env_id} can't be run here, so the critic of {source.source} can't be checked: install it, or "
            "name one with the same spaces by --env"
        )
    if source.oracle is None:
        verdict = "no critic to check: AggreVaTeD learns one by fitted Q evaluation"
        print_facts({"expert": source.source, "oracle": "fqe", "verdict": verdict}, as_json=json)
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
    print_facts(facts | found.to_json(), as_json=json)
    return 0


def convert(
    spec: tyro.conf.Positional[str],
    out: tyro.conf.Positional[Path],
    /,
    env: str | None = None,
    vecnormalize: str | None = None,
    all: bool = False,
) -> int:
    """Write an SB3 zip as safetensors and JSON, without unpickling it; it loads as an expert and acts the same.

    Args:
        spec: a .zip, zoo:ALGO/ENV or hub:ORG/REPO; with --all a copy of rl-trained-agents
        out: the folder to write; with --all a folder for IMITATE_ZOO_DIR
        env: the environment, if no file beside the zip names it
        vecnormalize: file of normalisation statistics, or none; by default the one in the same folder
        all: convert every agent; those that can't be are listed with the reason, and the exit status is 2
    """
    from imitate.experts import convert as conversion  # torch takes a second

    if not all:
        conversion.convert(spec, out, env_id=env, vecnormalize=vecnormalize)
        print(out)
        return 0
    for name, given in ("env", env), ("vecnormalize", vecnormalize):
        if given is not None:
            raise InputError(f"--{name} is for one zip: leave it out with --all")
    done = failed = 0
    for name, problem in conversion.convert_all(Path(spec), out):
        print(f"{name}: {problem}" if problem else name, flush=True)
        if problem:
            failed += 1
        else:
            done += 1
    print(f"imitate: {done} agents in {out}, {failed} can't be converted", file=sys.stderr)
    return 2 if failed else 0


def _loaded(
    spec: str, env: str | None, env_kwargs: dict[str, Any] | None, vecnormalize: str | None
) -> Expert:
    """The expert that was typed."""
    trust(spec)
    return experts.load_expert(spec, env_id=env, env_kwargs=env_kwargs, vecnormalize=vecnormalize)


def train(
    algo: str,
    env: str,
    out: Path,
    steps: int | None = None,
    seed: int = 0,
    env_kwargs: JsonObject | None = None,
    eval_every: int | None = None,
    eval_episodes: int = 20,
    hyperparameters: JsonObject | None = None,
    keep: tuple[float, ...] = (),
    resume: bool = False,
) -> int:
    """Train an expert, with its critic, by Stable-Baselines3 with tuned hyperparameters.

    Args:
        algo: ppo, a2c, dqn, sac, td3, ddpg, tqc, qrdqn, trpo or ars
        env: a Gymnasium id
        out: the expert's folder to write
        steps: environment steps; by default the preset's
        seed: seed of environments, networks and exploration
        eval_every: steps between validations; the best policy is kept
        eval_episodes: episodes in a validation
        hyperparameters: changes to the preset, as a JSON object with SB3's names
        keep: shares of the steps, such as 0.25 0.5 0.75: the policies of those times become experts of lower
            grade, in OUT/0.25 and so on
        resume: resume an unfinished training in --out
    """
    from imitate.experts.training.train import train_expert

    settings = hyperparameters or {}
    if clash := settings.keys() & inspect.signature(train_expert).parameters.keys():
        raise InputError(f"{min(clash)} is no hyperparameter: give it as an option of its own")
    written = train_expert(
        algo,
        env,
        out,
        steps=steps,
        seed=seed,
        env_kwargs=env_kwargs,
        eval_every=eval_every,
        eval_episodes=eval_episodes,
        keep=keep,
        resume=resume,
        command=typed_command.get(),
        **settings,
    )
    print(f"imitate: wrote {written}", file=sys.stderr)
    return 0


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


def _measured(spec: str, episodes: int, remeasure: bool) -> dict[str, Any]:
    """A row of `expert list --measure`; of an expert that can't be measured here, `problem` says why."""
    row: dict[str, Any] = {"expert": spec, "env_id": None, "problem": None}
    try:
        source = experts.load_expert(spec)
        row |= {"env_id": source.env_id, "env_kwargs": source.env_kwargs}
        measured = source.measure(episodes, remeasure=remeasure)
    except InputError as error:
        return row | {"problem": str(error)}
    published = {"published": source.published_return, "published_std": source.published_std}
    return row | dataclasses.asdict(measured) | published


def _line(row: dict[str, Any], width: int) -> str:
    if row["problem"]:
        return f"{row['expert']:<{width}}  {row['problem']}"
    published = "" if row["published"] is None else f"{row['published']:,.1f}"
    kwargs = f" {json.dumps(row['env_kwargs'])}" if row["env_kwargs"] else ""
    measured = f"{row['mean']:>9,.1f} +- {row['std']:<7,.1f}"
    return f"{row['expert']:<{width}}  {measured}  {published:>9}  {row['env_id']}{kwargs}"
