"""`imitate train`"""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from imitate.algorithms import ALGORITHMS, find
from imitate.commands.options import JsonObject, announced, option, parse, run, typed, without
from imitate.compare.audit import controls, table, write_audit
from imitate.errors import InputError
from imitate.training.experiment import Experiment, execute
from imitate.training.person import is_person
from imitate.training.run import Progress
from imitate.training.settings import make_config

__all__ = ["train"]

logger = logging.getLogger(__name__)


_CHECKPOINTS = (
    "training steps between checkpoints; 0: only when interrupted. A checkpoint begins new episodes, so that a "
    "run that was killed and resumed repeats byte for byte; it waits until a few episodes of each environment have "
    "ended. Ctrl-C and SIGTERM add a checkpoint, and so end with other bytes than an uninterrupted run. "
    "A replay of pixels is not saved: a resumed run fills a new one"
)


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Train a learner. Options default to the preset of (algorithm, environment)."""

    out: Path
    """the run folder to write"""
    env: str
    """a Gymnasium id, or module:Env-v0 to import the module first"""
    env_kwargs: JsonObject
    """keyword arguments of the environment, as a JSON object"""
    demos: Annotated[str | None, tyro.conf.arg(metavar="FILE")]
    """demonstrations to learn from"""
    demo_episodes: int | None
    """use only this many episodes, the first ones"""
    expert: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="SPEC")]
    """the expert to query: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or a folder; DAgger and AggreVaTeD
    take several (--expert A --expert B) and imitate each where it is best; DAgger also takes human, or human:keys.toml:
    you press what you would do in each state that is shown"""
    vecnormalize: Annotated[str | None, tyro.conf.arg(metavar="FILE")]
    """for an expert in a zip: file of normalisation statistics, or none; by default the one in the same folder"""
    init: Annotated[str | None, tyro.conf.arg(metavar="RUN")]
    """a run whose policy to start from (pretrain, then fine-tune)"""
    seed: int
    """random seed of everything in the run"""
    budget: int
    """environment steps: demonstrations, training and validation together"""
    num_envs: int
    """environments side by side"""
    backend: Literal["auto", "gymnasium", "async", "envpool", "ale"]
    """what steps the environments; `imitate envs` lists the available ones"""
    episodic_life: bool
    """Atari: in training, the loss of a life ends an episode"""
    clip_rewards: bool
    """Atari: in training, use the sign of rewards; reported scores are raw, of full games"""
    eval_every: int
    """training steps between validations; 0: never validate, keep the last policy"""
    eval_episodes: int
    """episodes in a validation"""
    checkpoint_every: Annotated[int, tyro.conf.arg(help=_CHECKPOINTS)]
    device: Literal["auto", "cpu", "cuda"]
    """device of the networks"""
    remeasure: bool = False
    """measure the expert's return again (20 episodes), ignoring the cache"""
    audit: bool = False
    """GAIL: after the run, also train its controls (five budgets in all) and report their returns"""


_USAGE = f"""usage: imitate train ALGO --env ENV --out RUN [options]
       imitate train --resume RUN                              resume an interrupted run
       imitate train --config CONFIG.json --out RUN [options]  repeat a run, optionally with other settings

ALGO is one of {", ".join(ALGORITHMS)}; `imitate train ALGO --env ENV --help` lists its options with their presets."""


def train(argv: list[str]) -> int:
    """`train ALGO --env ENV --out RUN [...]`, `train --resume RUN`, or `train --config config.json --out RUN`."""
    named = argv[0] if argv and not argv[0].startswith("-") else None
    if "--resume" in argv:
        return _resume(argv)
    config_path = option(argv, "--config")
    if config_path is not None:
        base = Experiment.read(config_path)
        if named not in (None, base.algorithm):
            raise InputError(f"{config_path} is a run of {base.algorithm}, not of {named}: leave {named} out")
        rest = without(argv, "--config")
    elif named is not None:
        base = Experiment.preset(named, option(argv, "--env") or "")
        rest = argv
    elif {"-h", "--help"} & set(argv):
        print(_USAGE)
        return 0
    else:
        raise InputError(
            f"which algorithm? wanted `imitate train {'|'.join(ALGORITHMS)} --env ENV --out RUN`"
        )
    experiment, typed_options = _read(base, rest[1:] if named else rest)
    out, audit = typed_options.out, typed_options.audit
    if audit and not find(experiment.algorithm).audit:
        able = ", ".join(name for name, algorithm in ALGORITHMS.items() if algorithm.audit)
        raise InputError(f"--audit is for {able}, whose reward may leak; {experiment.algorithm} has none")
    if audit and (out / "finished.json").exists():
        return _audit(out)  # of a finished run, or the rest of an interrupted audit
    return _execute(experiment, out, remeasure=typed_options.remeasure) or (_audit(out) if audit else 0)


def _read(base: Experiment, argv: list[str]) -> tuple[Experiment, TrainArguments]:
    """`base` changed by the command line, and the parsed arguments."""
    config = make_config(base.algorithm, base.hyperparameters)
    shown = _shown(config, find(base.algorithm).inner, argv)
    run_fields = [field.name for field in dataclasses.fields(Experiment) if field.name in _RUN_OPTIONS]
    defaults: dict[str, Any] = {name: getattr(base, name) for name in run_fields}
    defaults["expert"] = () if typed(argv, "expert") else base.experts
    before = TrainArguments(out=tyro.MISSING, env=base.env_id or tyro.MISSING, **defaults)
    arguments_class = dataclasses.make_dataclass(
        "Arguments",
        [
            ("run", Annotated[TrainArguments, tyro.conf.arg(name="")], dataclasses.field(default=before)),
            (
                "hyperparameters",
                Annotated[type(shown), tyro.conf.arg(name="")],
                dataclasses.field(default=shown),
            ),
        ],
    )
    arguments_class.__doc__ = TrainArguments.__doc__
    arguments = parse(arguments_class, argv, f"train {base.algorithm}")
    old, new = dataclasses.asdict(config), dataclasses.asdict(arguments.hyperparameters)
    given = {name: new[name] for name in new if new[name] != old[name] or typed(argv, name)}
    settings = {name: getattr(arguments.run, name) for name in run_fields}
    settings["expert"], *others = arguments.run.expert or (None,)
    settings["other_experts"] = tuple(others)
    if is_person(settings["expert"]):  # who watches one environment
        settings |= {"num_envs": 1, "backend": "gymnasium"}
    experiment = base.changed(given, env_id=arguments.run.env, **settings)
    return experiment, arguments.run


_RUN_OPTIONS = {field.name for field in dataclasses.fields(TrainArguments)}


def _shown(config: Any, inner: str, argv: list[str]) -> Any:
    """The config, with options for the chosen learner only.

    If its field `inner` names one of several nested configs, the others are hidden.
    """
    if not inner:
        return config
    chosen = option(argv, f"--{inner}") or getattr(config, inner)
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    hidden: list[Any] = [
        (name, Annotated[type(value), tyro.conf.Suppress], dataclasses.field(default=value))
        for name, value in values.items()
        if dataclasses.is_dataclass(value) and name != chosen
    ]
    narrow = dataclasses.make_dataclass(type(config).__name__, hidden, bases=(type(config),), frozen=True)
    narrow.__doc__ = type(config).__doc__
    return narrow(**values)


def _audit(out: Path) -> int:
    experiment = Experiment.read(out / "config.json")
    for name, control in controls(experiment, out / "audit"):
        folder = out / "audit" / name
        if (folder / "finished.json").exists():
            continue
        if code := _execute(control, folder, resume=folder.exists()):
            return code
    print(table(write_audit(experiment, out)))
    return 0


def _resume(argv: list[str]) -> int:
    def command(
        resume: Path,
        device: Literal["auto", "cpu", "cuda"] | None = None,
        env: str | None = None,
        expert: str | None = None,
    ) -> int:
        """Resume an interrupted run, with the settings in its config.json. A killed run ends with the same bytes as an
        uninterrupted one. Ctrl-C and SIGTERM add a checkpoint, where new episodes begin, so then it ends with others.

        Args:
            resume: the run folder
            device: device of the networks, if it has changed
            env: module:Env-v0 of the run's environment, to allow the import of its module
            expert: module:make_expert of the run's expert, to allow the import of its module
        """
        experiment = Experiment.read(resume / "config.json")
        if env is not None and env != experiment.env_id:
            raise InputError(f"{resume} is a run on {experiment.env_id}, not on {env}: leave --env out")
        if expert is not None and expert not in experiment.experts:
            learned_from = ", ".join(experiment.experts) or "no expert"
            raise InputError(f"{resume} learns from {learned_from}, not from {expert}: leave --expert out")
        if device is not None:
            experiment = experiment.changed(device=device)
        return _execute(experiment, resume, resume=True)

    # `train ALGO ... --out RUN --resume` and `train ALGO --resume RUN` also mean this; config.json has the settings.
    argv = argv[1:] if argv[0] in ALGORITHMS else argv
    out = option(argv, "--out")
    if out is not None:
        device = option(argv, "--device")
        argv = ["--resume", out, *(["--device", device] if device else [])]
    return run(command, argv, "train")


def _execute(experiment: Experiment, out: Path, *, resume: bool = False, remeasure: bool = False) -> int:
    for spec in experiment.experts:
        if is_person(spec):
            continue
        # The first expert says how the environment is made, unless the command line does.
        asked = experiment.env_kwargs or (None if spec == experiment.expert else {})
        expert = announced(
            spec,
            env_id=experiment.env_id,
            env_kwargs=asked,
            vecnormalize=experiment.vecnormalize,
            remeasure=remeasure,
        )
        if not resume and expert.env_kwargs != experiment.env_kwargs:
            logger.info("the environment is made as the expert knows it, with %s", expert.env_kwargs)
            experiment = experiment.changed(env_kwargs=dict(expert.env_kwargs))
    # The module of `module:Env-v0` is only imported for who names it again.
    env = f" --env {experiment.env_id}" if ":" in experiment.env_id else ""
    try:
        with _progress(experiment) as progress:
            finished = execute(experiment, out, resume=resume, progress=progress)
        status = 0 if finished else 128 + signal.SIGINT
    except SystemExit as ended:
        status = int(ended.code or 0)
    if status:
        print(
            f"imitate: interrupted and saved; go on with `imitate train --resume {out}{env}`", file=sys.stderr
        )
        return status
    print(
        f"imitate: the policy is in {out / 'policy'}; measure it with `imitate evaluate {out}{env}`",
        file=sys.stderr,
    )
    return 0


@contextmanager
def _progress(experiment: Experiment) -> Iterator[Progress]:
    """Progress on standard error: a bar on a terminal, otherwise lines, and a last line with the final metrics.

    Lines come at every tenth of the budget, or for offline learners after 1, 2, 4, 8 ... iterations.
    """
    offline, last = find(experiment.algorithm).offline, ""
    iterations, due = 0, 1 if offline else experiment.budget // 10
    with tqdm(
        total=None if offline else experiment.budget,
        unit="iteration" if offline else "step",
        file=sys.stderr,
        desc=experiment.algorithm,
        disable=None,
    ) as bar:

        def progress(spent: int, metrics: dict[str, float]) -> None:
            nonlocal iterations, due, last
            iterations += 1
            position = iterations if offline else spent
            told = ("train_return", "loss", "heldout_loss", "agreement")
            shown = {name: f"{metrics[name]:.4g}" for name in told if name in metrics}
            last = ", ".join(f"{name} {value}" for name, value in shown.items()) or last
            bar.update(position - bar.n)
            bar.set_postfix(shown, refresh=False)
            if bar.disable and position >= due and metrics:
                where = f"iteration {iterations}" if offline else f"{spent} of {experiment.budget} steps"
                logger.info("%s: %s", where, last or "no episode has ended yet")
                due = 2 * due if offline else (spent * 10 // experiment.budget + 1) * experiment.budget // 10

        yield progress
    if last:
        logger.info("at the end: %s", last)
