"""The run that a command line describes, with the options that every run has."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

import tyro

from imitate.algorithms import ALGORITHMS, find
from imitate.commands.line import CommandLine, dashed
from imitate.commands.option import Option, Rare, options_of_config
from imitate.commands.options import JsonObject
from imitate.commands.parsing import read
from imitate.envs.atari import is_atari
from imitate.errors import InputError
from imitate.training.experiment import Experiment
from imitate.training.person import is_person
from imitate.training.settings import make_config

__all__ = ["SETTINGS", "Described", "described"]


@dataclasses.dataclass(frozen=True)
class RunArguments:
    """Options of the run, besides the algorithm's own. They default to the preset of (algorithm, environment)."""

    env: str
    """a Gymnasium id, or module:Env-v0 to import the module first"""
    env_kwargs: Annotated[JsonObject, Rare]
    """keyword arguments of the environment, as a JSON object"""
    demos: str | None
    """demonstrations to learn from: a file or folder of any format that `imitate data convert` reads, a pattern such as
    'demos/*.h5', minari:ID or hub:ORG/DATASET"""
    demo_episodes: Annotated[int | None, Rare]
    """use only this many episodes, the first ones"""
    expert: Annotated[tuple[str, ...], tyro.conf.UseAppendAction]
    """the expert to query: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip, an expert's folder, a run, or
    module:make_expert; DAgger, AggreVaTeD and guided take several (--expert A --expert B) and follow each where it is
    best; DAgger also takes human, or human:keys.toml: you press what you would do in each state that is shown"""
    vecnormalize: Annotated[str | None, Rare]
    """for an expert in a zip: file of normalisation statistics, or none; by default the one in the same folder"""
    init: str | None
    """a run whose policy to start from (pretrain, then fine-tune)"""
    reward: Annotated[str | None, Rare]
    """a run of gail, dac or gaifo whose learned reward takes the place of the environment's in training; validation and
    evaluation stay on the true one"""
    seed: int
    """random seed of everything in the run"""
    budget: int
    """environment steps: demonstrations, training and validation together"""
    num_envs: int
    """environments side by side"""
    backend: Annotated[Literal["auto", "gymnasium", "async", "envpool", "ale"], Rare]
    """what steps the environments; `imitate envs` lists the available ones"""
    episodic_life: Annotated[bool, Rare]
    """Atari: in training, the loss of a life ends an episode"""
    clip_rewards: Annotated[bool, Rare]
    """Atari: in training, use the sign of rewards; reported scores are raw, of full games"""
    eval_every: int
    """training steps between validations (iterations, if the learner takes no steps); 0: never validate, keep the last
    policy"""
    eval_episodes: Annotated[int, Rare]
    """episodes in a validation"""
    validate_by: Annotated[Literal["return", "demos"], Rare]
    """keep the policy of the highest return, or the one whose episodes are closest to the demonstrations, which takes
    no reward"""
    checkpoint_every: Annotated[int, Rare]
    """training steps between checkpoints (iterations, if the learner takes no steps); 0: only when interrupted. A
    checkpoint begins new episodes, so that a run that was killed and resumed repeats byte for byte; it waits until a
    few episodes of each environment have ended.
    Ctrl-C, SIGTERM and SIGHUP add a checkpoint, and so end with other bytes than an uninterrupted run. A replay of
    pixels is not saved: a resumed run fills a new one"""
    device: Literal["auto", "cpu", "cuda"]
    """device of the networks"""


SETTINGS = tuple(field.name for field in dataclasses.fields(RunArguments))
"""The names of the options that every run has."""


@dataclasses.dataclass(frozen=True)
class Described:
    """A run as a command line describes it.

    hyperparameters   those that were typed
    settings          options of the run and of the command that were typed, by their names
    """

    experiment: Experiment
    hyperparameters: dict[str, Any]
    settings: dict[str, Any]


def described(
    base: Experiment, line: CommandLine, name: str, summary: str, own: Any, *, without: Collection[str] = ()
) -> Described:
    """The run that `base` describes, changed by the command line.

    name, summary   of the command
    own             its options besides those of a run, or in their place, as a dataclass
    without         options of a run that it does not have

    Raises InputError, in one line, for mistakes; help ends the process.
    """
    algorithm, config = find(base.algorithm), make_config(base.algorithm, base.hyperparameters)
    defaults = {name: getattr(base, name) for name in SETTINGS if hasattr(base, name)}
    before = RunArguments(**defaults | {"env": base.env_id or tyro.MISSING, "expert": base.experts})
    own_options = options_of_config(own)
    hidden = {*without, *(each.name for each in own_options)}
    run_options = [each for each in options_of_config(before) if each.name not in hidden]
    if not algorithm.rewarded:  # GAIL's own option has this name
        run_options = [each for each in run_options if each.name != "reward"]
    general = [*own_options, *run_options]
    options = [*general, *_chosen(config, algorithm.inner, line, [each.name for each in general])]
    shown = _useful(options, base) if line.asks_for_help else options
    hyperparameters = read(shown, line.argv, f"{name} {base.algorithm}", summary)
    names = {each.name for each in general}
    settings = {each: hyperparameters.pop(each) for each in names & hyperparameters.keys()}
    if ignored := sorted(_ignored(base.algorithm) & settings.keys()):
        raise InputError(f"{base.algorithm} makes no use of {dashed(ignored[0])}: leave it out")
    # A learner of one's own may have no schedule.
    schedule = (base.hyperparameters | hyperparameters).get("alpha_schedule")
    if "alpha_rate" in hyperparameters and schedule == "inverse":
        raise InputError(
            "--alpha-rate has no effect on the inverse schedule, which has no rate: leave it out"
        )
    run = {each: settings[each] for each in SETTINGS if each in settings}
    if "env" in run:
        run["env_id"] = run.pop("env")
    if "expert" in run:
        run["expert"], *others = run["expert"]
        run["other_experts"] = tuple(others)
    if is_person(run.get("expert", base.expert)):  # who watches one environment
        run = {"num_envs": 1, "backend": "gymnasium"} | run
    experiment = base.changed(hyperparameters, **run)
    if run.get("demo_episodes") and experiment.demos is None:
        raise InputError("--demo-episodes is of demonstrations, and there are none: add --demos FILE")
    if hyperparameters.keys() & ALGORITHMS.keys():
        from imitate.envs.answers import spaces_of  # takes a second, which help does not have

        actions = spaces_of(experiment.env_id, experiment.env_kwargs)[1]
        if unused := sorted(algorithm.unused(experiment.hyperparameters, actions) & hyperparameters.keys()):
            raise InputError(
                f"{base.algorithm} makes no use of options --{unused[0]}.* on {actions}: leave them out"
            )
    return Described(experiment, hyperparameters, settings)


def _chosen(config: Any, inner: str, line: CommandLine, general: Sequence[str]) -> list[Option]:
    """The options of a config; if its field `inner` names one of several nested configs, without the others.

    The total_steps of nested configs are left out, since they follow its own.
    """
    options = options_of_config(config)
    if any(each.name == "total_steps" for each in options):
        options = [_without_steps(each) for each in options]
    if clash := {each.name for each in options} & {*general}:
        kind = type(config).__name__
        raise InputError(f"{kind} has {min(clash)!r}, which is an option of every run: give it another name")
    if not inner:
        return options
    chosen = line.value(f"--{inner}") or getattr(config, inner)
    return [each for each in options if not each.parts or each.name == chosen]


def _without_steps(option: Option) -> Option:
    return dataclasses.replace(
        option, parts=tuple(each for each in option.parts if each.name != "total_steps")
    )


def _useful(options: list[Option], base: Experiment) -> list[Option]:
    """Those that this algorithm has a use for in this environment."""
    algorithm = find(base.algorithm)
    used = (*algorithm.needs, *algorithm.optional)
    hidden = _ignored(base.algorithm) | {each for each in ("demos", "expert") if each not in used}
    if "policy" not in algorithm.optional:
        hidden.add("init")
    if not algorithm.audit:
        hidden.add("audit")
    useful = [option for option in options if option.name not in hidden]
    if not base.env_id:
        return useful
    pixels = {"episodic_life", "clip_rewards"}
    if not is_atari(base.env_id):
        return [option for option in useful if option.name not in pixels]
    return [dataclasses.replace(each, rare=each.rare and each.name not in pixels) for each in useful]


_BELONGS = {
    "demos": ("demo_episodes", "validate_by"),
    "expert": ("vecnormalize", "measure", "remeasure"),
    "envs": ("num_envs", "backend", "episodic_life", "clip_rewards"),
}
"""Options of a run that matter only to an algorithm with this need."""


def _ignored(algorithm: str) -> set[str]:
    """The options of a run that this algorithm would ignore."""
    entry = find(algorithm)
    return {
        name
        for need, names in _BELONGS.items()
        if need not in (*entry.needs, *entry.optional)
        for name in names
    }
