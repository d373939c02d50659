"""`imitate train`"""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from imitate.algorithms import ALGORITHMS, find, is_own
from imitate.commands.line import CommandLine
from imitate.commands.option import Option, Rare, options_of_config
from imitate.commands.options import JsonObject, run
from imitate.commands.parsing import read
from imitate.commands.progress import progress_of, told
from imitate.envs.atari import is_atari
from imitate.envs.trust import trust
from imitate.errors import InputError
from imitate.training.experiment import Experiment
from imitate.training.person import is_person
from imitate.training.settings import make_config

if TYPE_CHECKING:
    from imitate.experts import Expert

__all__ = ["train"]

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Options of the run, besides the algorithm's own. They default to the preset of (algorithm, environment)."""

    out: Path
    """the run folder to write"""
    env: str
    """a Gymnasium id, or module:Env-v0 to import the module first"""
    env_kwargs: Annotated[JsonObject, Rare]
    """keyword arguments of the environment, as a JSON object"""
    demos: str | None
    """demonstrations to learn from"""
    demo_episodes: Annotated[int | None, Rare]
    """use only this many episodes, the first ones"""
    expert: Annotated[tuple[str, ...], tyro.conf.UseAppendAction]
    """the expert to query: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or a folder; DAgger, AggreVaTeD and
    guided take several (--expert A --expert B) and follow each where it is best; DAgger also takes human, or
    human:keys.toml: you press what you would do in each state that is shown"""
    vecnormalize: Annotated[str | None, Rare]
    """for an expert in a zip: file of normalisation statistics, or none; by default the one in the same folder"""
    init: str | None
    """a run whose policy to start from (pretrain, then fine-tune)"""
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
    """training steps between validations; 0: never validate, keep the last policy"""
    eval_episodes: Annotated[int, Rare]
    """episodes in a validation"""
    validate_by: Annotated[Literal["return", "demos"], Rare]
    """keep the policy of the highest return, or the one whose episodes are closest to the demonstrations, which takes
    no reward"""
    checkpoint_every: Annotated[int, Rare]
    """training steps between checkpoints; 0: only when interrupted. A checkpoint begins new episodes, so that a run
    that was killed and resumed repeats byte for byte; it waits until a few episodes of each environment have ended.
    Ctrl-C and SIGTERM add a checkpoint, and so end with other bytes than an uninterrupted run. A replay of pixels is
    not saved: a resumed run fills a new one"""
    device: Literal["auto", "cpu", "cuda"]
    """device of the networks"""
    remeasure: Annotated[bool, Rare] = False
    """measure the expert's return again (20 episodes), ignoring the cache"""
    looks: Annotated[bool, Rare] = True
    """play a few episodes on the way, for TensorBoard's curve of returns, and at the end; they are outside the budget
    and choose nothing"""
    audit: bool = False
    """GAIL: after the run, also train its controls (five budgets in all) and report their returns"""


_USAGE = f"""usage: imitate train ALGO --env ENV --out RUN [options]
       imitate train --resume RUN                              resume an interrupted run
       imitate train --config CONFIG.json --out RUN [options]  repeat a run, optionally with other settings

ALGO is one of {", ".join(ALGORITHMS)}, or my_module:Learner, a class of yours (CONTRIBUTING.md describes it).
`imitate train ALGO --env ENV --help` lists its options with their presets."""


def train(argv: list[str]) -> int:
    """`train ALGO --env ENV --out RUN [...]`, `train --resume RUN`, or `train --config config.json --out RUN`."""
    line = CommandLine(argv)
    named = line.words[0] if line.words else None
    if named is not None and is_own(named):
        trust(named)
    if line.has("--resume"):
        return _resume(line)
    config = line.value("--config")
    if config is not None:
        base = Experiment.read(config)
        if named not in (None, base.algorithm):
            raise InputError(f"{config} is a run of {base.algorithm}, not of {named}: leave {named} out")
    elif named is not None:
        base = Experiment.preset(named, line.value("--env") or "")
    elif line.asks_for_help:
        print(_USAGE)
        return 0
    else:
        raise InputError(
            f"which algorithm? wanted `imitate train {'|'.join(ALGORITHMS)} --env ENV --out RUN`"
        )
    words = line.without("--config").argv
    return _train(base, CommandLine(words if named is None else words[1:]))


def _train(base: Experiment, line: CommandLine) -> int:
    """Train what `base` describes, changed by the command line."""
    algorithm, config = find(base.algorithm), make_config(base.algorithm, base.hyperparameters)
    defaults = {name: getattr(base, name) for name in _SETTINGS if hasattr(base, name)}
    before = TrainArguments(
        out=tyro.MISSING, **defaults | {"env": base.env_id or tyro.MISSING, "expert": base.experts}
    )
    options = [*options_of_config(before), *_chosen(config, algorithm.inner, line)]
    summary = f"{algorithm.title}: {algorithm.summary}. Options default to the preset of this environment."
    shown = _useful(options, base) if line.asks_for_help else options
    hyperparameters = read(shown, line.argv, f"train {base.algorithm}", summary)
    settings = {name: hyperparameters.pop(name) for name in _SETTINGS if name in hyperparameters}

    out, audit = settings.pop("out"), settings.pop("audit", False)
    remeasure, looks = settings.pop("remeasure", False), settings.pop("looks", True)
    if "env" in settings:
        settings["env_id"] = settings.pop("env")
    if "expert" in settings:
        settings["expert"], *others = settings["expert"]
        settings["other_experts"] = tuple(others)
    if is_person(settings.get("expert", base.expert)):  # who watches one environment
        settings |= {"num_envs": 1, "backend": "gymnasium"}
    experiment = base.changed(hyperparameters, **settings)
    if audit and not algorithm.audit:
        able = ", ".join(name for name, each in ALGORITHMS.items() if each.audit)
        raise InputError(f"--audit is for {able}, whose reward may leak; {experiment.algorithm} has none")
    if audit and (out / "finished.json").exists():
        return _audit(out)  # of a finished run, or the rest of an interrupted audit
    status = _execute(experiment, out, remeasure=remeasure, looks=looks)
    return status or (_audit(out) if audit else 0)


_SETTINGS = tuple(field.name for field in dataclasses.fields(TrainArguments))


def _chosen(config: Any, inner: str, line: CommandLine) -> list[Option]:
    """The options of a config; if its field `inner` names one of several nested configs, without the others."""
    options = options_of_config(config)
    if clash := {each.name for each in options} & {*_SETTINGS}:
        kind = type(config).__name__
        raise InputError(f"{kind} has {min(clash)!r}, which is an option of every run: give it another name")
    if not inner:
        return options
    chosen = line.value(f"--{inner}") or getattr(config, inner)
    return [each for each in options if not each.parts or each.name == chosen]


def _useful(options: list[Option], base: Experiment) -> list[Option]:
    """Those that this algorithm has a use for in this environment."""
    algorithm = find(base.algorithm)
    useless = {
        "demos": ("demos", "demo_episodes", "validate_by"),
        "expert": ("expert", "vecnormalize", "remeasure"),
        "envs": ("num_envs", "backend"),
    }
    used = (*algorithm.needs, *algorithm.optional)
    hidden = {name for need, names in useless.items() if need not in used for name in names}
    hidden |= set() if "policy" in algorithm.optional else {"init"}
    hidden |= set() if algorithm.audit else {"audit"}
    pixels = {"episodic_life", "clip_rewards"}
    atari = base.env_id != "" and is_atari(base.env_id)
    hidden |= pixels if base.env_id and not atari else set()
    useful = [option for option in options if option.name not in hidden]
    return [
        dataclasses.replace(each, rare=each.rare and not (atari and each.name in pixels)) for each in useful
    ]


def _audit(out: Path) -> int:
    from imitate.compare.execute.audit import controls, table, write_audit

    experiment = Experiment.read(out / "config.json")
    for name, control in controls(experiment, out / "audit"):
        folder = out / "audit" / name
        if (folder / "finished.json").exists():
            continue
        if code := _execute(control, folder, resume=folder.exists()):
            return code
    print(table(write_audit(experiment, out)))
    return 0


def _resume(line: CommandLine) -> int:
    def command(
        resume: Path,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        env: str | None = None,
        expert: str | None = None,
        looks: bool = True,
    ) -> int:
        """Resume an interrupted run, with the settings in its config.json. A killed run ends with the same bytes as an
        uninterrupted one. Ctrl-C and SIGTERM add a checkpoint, where new episodes begin, so then it ends with others.

        Args:
            resume: the run folder
            device: device of the networks, if it has changed
            env: module:Env-v0 of the run's environment, to allow the import of its module
            expert: module:make_expert of the run's expert, to allow the import of its module
            looks: play a few episodes on the way and at the end, as in a new run
        """
        experiment = Experiment.read(resume / "config.json")
        if env is not None and env != experiment.env_id:
            raise InputError(f"{resume} is a run on {experiment.env_id}, not on {env}: leave --env out")
        if expert is not None and expert not in experiment.experts:
            learned_from = ", ".join(experiment.experts) or "no expert"
            raise InputError(f"{resume} learns from {learned_from}, not from {expert}: leave --expert out")
        if device is not None:
            experiment = experiment.changed(device=device)
        return _execute(experiment, resume, resume=True, looks=looks)

    # `train ALGO ... --out RUN --resume` and `train ALGO --resume RUN` also mean this; config.json has the settings.
    out, device = line.value("--out"), line.value("--device")
    argv = line.argv[len(line.words) :]
    if out is not None:
        argv = ["--resume", out, *(["--device", device] if device else [])]
    return run(command, argv, "train")


def _execute(
    experiment: Experiment, out: Path, *, resume: bool = False, remeasure: bool = False, looks: bool = True
) -> int:
    # Torch takes a second: arguments are read before.
    from imitate.nn.stored_policy import load_policy
    from imitate.training.execute import check_folder, execute
    from imitate.training.looks import Looks, look

    check_folder(out, resume=resume)  # measuring an expert can take minutes
    experts = _measured_experts(experiment, resume=resume, remeasure=remeasure)
    if experts and experts[0].env_kwargs != experiment.env_kwargs:
        logger.info("the environment is made as the expert knows it, with %s", experts[0].env_kwargs)
        experiment = experiment.changed(env_kwargs=dict(experts[0].env_kwargs))
    # The modules of `module:Env-v0` and `module:Learner` are only imported for who names them again.
    env = f" --env {experiment.env_id}" if ":" in experiment.env_id else ""
    offline = find(experiment.algorithm).offline
    curve = Looks(experiment, out) if looks and not (resume and offline) else None
    try:
        with progress_of(experiment) as progress:
            finished = execute(
                experiment, out, experts=experts, resume=resume, progress=progress, snapshot=curve
            )
        status = 0 if finished else 128 + signal.SIGINT
    except SystemExit as ended:
        status = int(ended.code or 0)
    if status:
        print(f"imitate: interrupted and saved; go on with `{experiment.resume_with(out)}`", file=sys.stderr)
        return status
    print(f"imitate: the policy is in {out / 'policy'}", file=sys.stderr)
    if looks:
        print(f"imitate: {told(look(load_policy(out), experiment))}", file=sys.stderr)
    print(f"imitate: measure it with `imitate evaluate {out}{env}`", file=sys.stderr)
    return 0


def _measured_experts(experiment: Experiment, *, resume: bool, remeasure: bool) -> list[Expert]:
    """The experts to imitate, with their returns; a person has none.

    In a new run the first expert says how the environment is made, unless the command line does.
    """
    from imitate.experts import load_expert

    found = []
    env_kwargs = experiment.env_kwargs if resume else experiment.env_kwargs or None
    for spec in [] if is_person(experiment.expert) else experiment.experts:
        expert = load_expert(
            spec, env_id=experiment.env_id, env_kwargs=env_kwargs, vecnormalize=experiment.vecnormalize
        )
        env_kwargs = expert.env_kwargs
        if expert.runnable:
            expert.measure(remeasure=remeasure)
            expert.seed(0)  # as it was loaded: if it acts at random, it has drawn actions
        found.append(expert)
    return found
