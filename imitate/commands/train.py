"""`imitate train`"""

from __future__ import annotations

import dataclasses
import logging
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from imitate.algorithms import ALGORITHMS, find, is_own
from imitate.commands.described import SETTINGS, described
from imitate.commands.line import WORDS, CommandLine, dashed
from imitate.commands.option import Rare, options_of
from imitate.commands.options import run
from imitate.commands.parsing import NamesAsked
from imitate.commands.progress import chosen, progress_of, told
from imitate.commands.wandb import sent
from imitate.envs.trust import trust
from imitate.errors import Fault, InputError
from imitate.files import write_json
from imitate.training.experiment import Experiment
from imitate.training.person import is_person

if TYPE_CHECKING:
    from imitate.experts import Expert
    from imitate.nn.policy import ActorPolicy
    from imitate.training.run import Snapshot

__all__ = ["train", "with_experts"]

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Options of training, besides those of the run and of its algorithm."""

    out: Path
    """the run folder to write"""
    measure: Annotated[bool, Rare] = True
    """play 20 episodes of the expert, and 20 of random actions, before the first time that it is imitated, and four
    before AggreVaTeD learns from its critic; hardware wants --no-measure"""
    remeasure: Annotated[bool, Rare] = False
    """measure the expert's return again, ignoring the cache"""
    looks: Annotated[bool, Rare] = True
    """play a few episodes on the way, for TensorBoard's curve of returns, and at the end; they are outside the budget
    and choose nothing"""
    wandb: Annotated[bool, Rare] = False
    """also send what TensorBoard gets to Weights & Biases (the extra `wandb`; WANDB_PROJECT, WANDB_MODE and its other
    variables count)"""
    video_every: Annotated[int, Rare] = 0
    """steps of the budget between films of the current policy in RUN/videos (iterations, if the learner takes no
    steps); 0: none. They are outside the budget and change nothing"""
    audit: bool = False
    """gail, dac: after the run, also train its controls (five budgets in all) and report their returns"""


_USAGE = f"""usage: imitate train ALGO --env ENV --out RUN [options]
       imitate train --resume RUN                              resume an interrupted run
       imitate train --config CONFIG.json --out RUN [options]  repeat a run, optionally with other settings (also .toml)

ALGO is one of {", ".join(ALGORITHMS)}, or my_module:Learner, a class of yours (docs/tutorials/your-algorithm.md).
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
    if config is None and line.has("--config"):
        raise InputError("--config lacks its value: the config.json of a run, or settings as TOML")
    if config is not None:
        base = Experiment.read(config)
        if named not in (None, base.algorithm):
            raise InputError(f"{config} is a run of {base.algorithm}, not of {named}: leave {named} out")
    elif named is not None:
        base = Experiment.preset(named, line.value("--env") or _recorded_env(named, line))
    elif line.has(WORDS):
        raise NamesAsked(names=(*ALGORITHMS, "--resume", "--config"))
    elif line.asks_for_help:
        print(_USAGE)
        return 0
    else:
        raise InputError(
            f"which algorithm? wanted `imitate train {'|'.join(ALGORITHMS)} --env ENV --out RUN`"
        )
    words = line.without("--config").argv
    return _train(base, CommandLine(words if named is None else words[1:]))


def _recorded_env(algorithm: str, line: CommandLine) -> str:
    """The environment of the demonstrations, for a learner that needs no other; empty for help and without them.

    Raises InputError if the demonstrations do not name it.
    """
    demos = line.value("--demos")
    if demos is None or not find(algorithm).offline:
        return ""
    from imitate.datasets.convert import env_of
    from imitate.datasets.convert.sources import source_path

    env_id = env_of(source_path(demos))
    if not env_id and not line.has(WORDS) and not line.asks_for_help:
        raise InputError(
            f"{demos} does not name its environment: give --env ENV, or a name of your choice if you have no simulator"
        )
    return env_id


def _train(base: Experiment, line: CommandLine) -> int:
    """Train what `base` describes, changed by the command line."""
    algorithm = find(base.algorithm)
    summary = f"{algorithm.title}: {algorithm.summary}. Options default to the preset of this environment."
    found = described(base, line, "train", summary, TrainArguments(out=tyro.MISSING))
    experiment, settings = found.experiment, found.settings
    own = [field.name for field in dataclasses.fields(TrainArguments)]
    asked = TrainArguments(**{name: settings[name] for name in own if name in settings})
    if asked.audit:
        _check_audit(experiment.algorithm)
    for name in ("validate_by", "eval_episodes"):
        if name in settings and not experiment.eval_every:
            raise InputError(f"{dashed(name)} is of validations, and there are none: add --eval-every STEPS")
    if asked.audit and (asked.out / "finished.json").exists():
        # Of a finished run, or the rest of an interrupted audit.
        return _audit(asked.out, looks=asked.looks)
    if asked.remeasure and not asked.measure:
        raise InputError("--no-measure and --remeasure contradict each other: give one of them")
    return _execute(experiment, asked)


def _check_audit(algorithm: str) -> None:
    if not find(algorithm).audit:
        able = ", ".join(name for name, each in ALGORITHMS.items() if each.audit)
        raise InputError(f"--audit is for {able}, which have controls; leave it out for {algorithm}")


def _audit(out: Path, *, looks: bool) -> int:
    from imitate.compare.execute.audit import controls, table, write_audit

    experiment = Experiment.read(out / "config.json")
    go_on = f"{experiment.resume_with(out)}{'' if looks else ' --no-looks'} --audit"
    try:
        for name, control in controls(experiment, out / "audit"):
            folder = out / "audit" / name
            if (folder / "finished.json").exists():
                continue
            asked = TrainArguments(folder, looks=looks)
            if code := _execute(control, asked, resume=folder.exists(), go_on=go_on):
                return code
        print(table(write_audit(experiment, out)))
    except KeyboardInterrupt as error:
        if not hasattr(error, "__notes__"):  # a control that had begun has said it
            error.add_note(f"go on with `{go_on}`")
        raise
    return 0


def _resume(line: CommandLine) -> int:
    # `train ALGO ... --out RUN --resume` and `train ALGO --resume RUN` also mean this; config.json has the settings.
    out, kept = line.value("--out"), ("--device", "--env", "--expert", "--video-every")
    argv = line.argv[len(line.words) :]
    if out is not None:
        _check_settings(Path(out), line)
        argv = [
            "--resume",
            out,
            *(word for name in kept for value in line.values(name) for word in (name, value)),
            *(name for name in ("--no-measure", "--no-looks", "--wandb", "--audit") if line.has(name)),
        ]
    elif (folder := line.value("--resume")) and not line.asks_for_help:
        _check_own(Path(folder), line)
    return run(resume_run, argv, "train")


def resume_run(
    resume: Path,
    device: Literal["auto", "cpu", "cuda"] | None = None,
    env: str | None = None,
    expert: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = (),
    measure: bool = True,
    looks: bool = True,
    wandb: bool = False,
    video_every: int = 0,
    audit: bool = False,
) -> int:
    """Resume an interrupted run, with the settings in its config.json. A killed run ends with the same bytes as an
    uninterrupted one. Ctrl-C, SIGTERM and SIGHUP add a checkpoint, where new episodes begin, so then it ends with
    others.

    Args:
        resume: the run folder
        device: device of the networks, if it has changed
        env: module:Env-v0 of the run's environment, to allow the import of its module
        expert: module:make_expert of the run's expert, to allow the import of its module; again for each of several
        measure: measure the experts, as in a new run
        looks: play a few episodes on the way and at the end, as in a new run
        wandb: send what TensorBoard gets to Weights & Biases, as a run of its own
        video_every: steps between films, as in a new run; 0: none
        audit: train the controls too, once the run has ended
    """
    experiment = Experiment.read(resume / "config.json")
    go_on = f"go on with `{experiment.resume_with(resume)}`"
    if env is not None and env != experiment.env_id:
        raise InputError(f"{resume} is a run on {experiment.env_id}, not on {env}: {go_on}")
    if others := [each for each in expert if each not in experiment.experts]:
        learned_from = ", ".join(experiment.experts) or "no expert"
        raise InputError(f"{resume} learns from {learned_from}, not from {others[0]}: {go_on}")
    if device is not None:
        experiment = experiment.changed(device=device)
    if audit:
        _check_audit(experiment.algorithm)
        if (resume / "finished.json").exists():
            return _audit(resume, looks=looks)
    asked = TrainArguments(
        resume, measure=measure, looks=looks, wandb=wandb, video_every=video_every, audit=audit
    )
    return _execute(experiment, asked, resume=True)


def _check_own(out: Path, line: CommandLine) -> None:
    """Raise InputError for a setting of the run, which is in its config.json."""
    known = {each.name for each in options_of(resume_run)}
    names = [option.name.removeprefix("--").replace("-", "_") for option in line.options]
    others = [name for name in names if name not in known]
    if not others:
        return
    config = find(Experiment.read(out / "config.json").algorithm).config
    settings = {*SETTINGS, *(field.name for field in dataclasses.fields(config))}
    for name in others:
        if name in settings:
            raise InputError(
                f"{out} goes on with its own settings: leave {dashed(name)} out, or begin a new run with --out"
            )


def _check_settings(out: Path, line: CommandLine) -> None:
    """Raise InputError if the line describes another run than the one in `out`."""
    stored = Experiment.read(out / "config.json")
    if line.words and line.words[0] != stored.algorithm:
        raise InputError(
            f"{out} is a run of {stored.algorithm}, not of {line.words[0]}: choose another --out"
        )
    typed = CommandLine(line.without("--resume", 0).argv[len(line.words) :])
    wanted = described(stored, typed, "train", "", TrainArguments(out=tyro.MISSING)).experiment
    old, new = (dataclasses.asdict(each.changed(device="auto")) for each in (stored, wanted))
    pairs = [(name, old[name], new[name]) for name in old if name != "hyperparameters"]
    given = new["hyperparameters"].items()
    pairs += [(name, old["hyperparameters"].get(name), value) for name, value in given]
    for name, before, now in pairs:
        if before not in (now, str(Path(str(now)).absolute())):
            option = dashed({"env_id": "env", "other_experts": "expert"}.get(name, name))
            raise InputError(
                f"{out} goes on with its own settings: {option} is {before} there, not {now}; leave it out, or begin "
                "a new run"
            )


def _execute(experiment: Experiment, asked: TrainArguments, *, resume: bool = False, go_on: str = "") -> int:
    # Torch takes a second: arguments are read before.
    from imitate.training.execute import beginning, check_folder, execute
    from imitate.training.looks import Looks

    out = asked.out
    check_folder(out, resume=resume)  # measuring an expert can take minutes
    go_on = go_on or f"{experiment.resume_with(out)}{_switches(asked)}"
    with beginning(out, go_on):
        experiment, experts = with_experts(
            experiment, resume=resume, measure=asked.measure, remeasure=asked.remeasure
        )
    offline = find(experiment.algorithm).offline
    looks = asked.looks and experiment.evaluable
    watching: list[Snapshot] = [Looks(experiment)] if looks and not (resume and offline) else []
    if asked.video_every:
        from imitate.training.films import Films

        watching.append(Films(experiment, out, asked.video_every))
    try:
        with sent(experiment, out) if asked.wandb else nullcontext(), progress_of(experiment) as progress:
            finished = execute(
                experiment,
                out,
                experts=experts,
                resume=resume,
                progress=progress,
                snapshot=_together(watching),
                go_on=go_on,
                check=asked.measure,
            )
        status = 0 if finished else 128 + signal.SIGINT
    except SystemExit as ended:
        status = int(ended.code or 0)
    if status:
        print(f"imitate: interrupted and saved; go on with `{go_on}`", file=sys.stderr)
        return status
    _conclude(experiment, out, looks=looks)
    return _audit(out, looks=looks) if asked.audit else 0


def _switches(asked: TrainArguments) -> str:
    """The options with which a run goes on as it began."""
    given = {
        "--no-measure": not asked.measure,
        "--no-looks": not asked.looks,
        "--wandb": asked.wandb,
        "--audit": asked.audit,
        f"--video-every {asked.video_every}": asked.video_every != 0,
    }
    return "".join(f" {option}" for option, is_given in given.items() if is_given)


def _together(watching: Sequence[Snapshot]) -> Snapshot:
    """All of them, with the metrics of each."""

    def snapshot(spent: int, policy: ActorPolicy) -> dict[str, float]:
        shown: dict[str, float] = {}
        for each in watching:
            shown |= each(spent, policy) or {}
        return shown

    return snapshot


def _conclude(experiment: Experiment, out: Path, *, looks: bool) -> None:
    """Say where the policy is, what it makes at a first look, and how to measure it."""
    from imitate.nn.stored_policy import load_policy
    from imitate.training.looks import look

    print(f"imitate: the policy is in {out / 'policy'}", file=sys.stderr)
    if said := chosen(out):
        print(f"imitate: {said}", file=sys.stderr)
    if looks:
        try:
            last = look(load_policy(out), experiment)
        except Fault as fault:  # the run is finished all the same
            logger.warning("the policy was not tried out: %s", fault)
        else:
            print(f"imitate: {told(last)}", file=sys.stderr)
            if last.complete:
                write_json(out / "look.json", last.to_json())
    if experiment.evaluable:
        # The module of `module:Env-v0` is only imported for who names it again.
        env = ["--env", experiment.env_id] if ":" in experiment.env_id else []
        command = shlex.join(["imitate", "evaluate", str(out), *env])
        print(f"imitate: measure it with `{command}`", file=sys.stderr)
    else:
        print(f"imitate: {experiment.env_id} is not installed here: nothing was evaluated", file=sys.stderr)


def with_experts(
    experiment: Experiment, *, resume: bool = False, measure: bool = True, remeasure: bool = False
) -> tuple[Experiment, list[Expert]]:
    """The experts to imitate, with their returns, and the run in their environment; a person has no return.

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
        if expert.runnable and measure:
            expert.measure(num_envs=min(experiment.num_envs, 8), remeasure=remeasure)
            expert.seed(0)  # as it was loaded: if it acts at random, it has drawn actions
        found.append(expert)
    if found and found[0].env_kwargs != experiment.env_kwargs:
        logger.info("the environment is made as the expert knows it, with %s", found[0].env_kwargs)
        experiment = experiment.changed(env_kwargs=dict(found[0].env_kwargs))
    return experiment, found
