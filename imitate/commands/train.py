"""`imitate train`"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tqdm import tqdm

from imitate.aggrevated.critic_check import check_oracle
from imitate.algorithms import ALGORITHMS, find
from imitate.commands.options import JsonObject, announced, option, parse, run
from imitate.compare.audit import controls, table, write_audit
from imitate.envs.make import resolve_env_id
from imitate.errors import InputError
from imitate.nn.state import as_tuples
from imitate.training.experiment import RUN_FIELDS, Experiment, check_expert, execute, preset

__all__ = ["train"]


@dataclasses.dataclass
class TrainArguments:
    """Train a learner. Hyperparameters below default to the preset of (algorithm, environment)."""

    algorithm: tyro.conf.Positional[str]
    """bc, dagger, gail, aggrevated, ppo, rpo, a2c, reinforce or dqn"""
    out: Path
    """the run folder to write"""
    env: str
    """a Gymnasium id; `module:Env-v0` imports the module first"""
    env_kwargs: JsonObject = dataclasses.field(default_factory=dict)
    """keywords of the environment, as a JSON object"""
    demos: Path | None = None
    """demonstrations to learn from"""
    demo_episodes: int | None = None
    """use the first so many episodes only"""
    expert: str | None = None
    """the expert to ask: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or a folder"""
    init: Path | None = None
    """a run whose policy to start from (pretrain, then fine-tune)"""
    seed: int = 0
    """everything random follows from it"""
    budget: int | None = None
    """environment steps: demonstrations, training and validation together"""
    num_envs: int | None = None
    """environments side by side"""
    backend: Literal["auto", "gymnasium", "async", "envpool", "ale"] | None = None
    """what steps the environments; `imitate envs` says what is here"""
    episodic_life: bool | None = None
    """of Atari: in training, the loss of a life ends an episode"""
    clip_rewards: bool | None = None
    """of Atari: in training, rewards are their sign; what is reported are raw scores of full games"""
    eval_every: int | None = None
    """validate after so many training steps; 0: never, the last policy is kept"""
    eval_episodes: int | None = None
    """episodes of a validation"""
    checkpoint_every: int | None = None
    """training steps between checkpoints, each of which begins new episodes; 0: none"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the networks are"""
    audit: bool = False
    """GAIL: after the run also train its controls, five budgets in all, and say what they reach"""


_USAGE = f"""usage: imitate train ALGO --env ENV --out RUN [options]
       imitate train --resume RUN                    go on with a run that was interrupted
       imitate train --config CONFIG.json --out RUN  repeat a run

ALGO is one of {", ".join(ALGORITHMS)}; `imitate train ALGO --env ENV --help` lists its options and their preset."""


def train(argv: list[str]) -> int:
    """`train ALGO --env ENV --out RUN [...]`, `train --resume RUN`, or `train --config config.json --out RUN`."""
    if argv[:1] == ["--resume"] or "--resume" in argv:
        return _resume(argv)
    if "--config" in argv:
        return _repeat(argv)
    if not argv or argv[0].startswith("-"):
        if {"-h", "--help"} & set(argv):
            print(_USAGE)
            return 0
        raise InputError(
            f"which algorithm? wanted `imitate train {'|'.join(ALGORITHMS)} --env ENV --out RUN`"
        )
    config_class = find(argv[0]).config
    env_id = option(argv, "--env")
    defaults = preset(argv[0], resolve_env_id(env_id)) if env_id else {}
    fields = {field.name for field in dataclasses.fields(config_class)}
    base = config_class(**as_tuples({name: defaults[name] for name in defaults if name in fields}))
    arguments_class = dataclasses.make_dataclass(
        "Arguments",
        [
            ("run", Annotated[TrainArguments, tyro.conf.arg(name="")]),
            (
                "hyperparameters",
                Annotated[config_class, tyro.conf.arg(name="")],
                dataclasses.field(default=base),
            ),
        ],
    )
    arguments_class.__doc__ = TrainArguments.__doc__
    arguments = parse(arguments_class, argv, f"train {argv[0]}")
    run: TrainArguments = arguments.run
    config = arguments.hyperparameters
    changed = {name: getattr(config, name) for name in fields if getattr(config, name) != getattr(base, name)}
    settings = {name: getattr(run, name) for name in RUN_FIELDS if getattr(run, name) is not None}
    experiment = Experiment.create(
        run.algorithm,
        run.env,
        hyperparameters=changed,
        env_kwargs=run.env_kwargs,
        expert=run.expert,
        demos=None if run.demos is None else str(run.demos),
        demo_episodes=run.demo_episodes,
        init=None if run.init is None else str(run.init),
        seed=run.seed,
        device=run.device,
        **settings,
    )
    if run.audit and not run.algorithm.startswith("gail"):
        raise InputError(
            f"--audit is for gail, whose reward may leak; {run.algorithm} has none that is learned"
        )
    if run.audit and (run.out / "finished.json").exists():
        return _audit(run.out)  # of a run that is there, or the rest of an audit that was interrupted
    return _execute(experiment, run.out) or (_audit(run.out) if run.audit else 0)


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
    def command(resume: Path) -> int:
        """Go on with a run that was interrupted, as its config.json says.

        Args:
            resume: the run folder
        """
        return _execute(Experiment.read(resume / "config.json"), resume, resume=True)

    # `train ALGO ... --out RUN --resume` and `train ALGO --resume RUN` say it too: the folder's config.json rules.
    argv = argv[1:] if argv[0] in ALGORITHMS else argv
    out = option(argv, "--out")
    if out is not None:
        argv = ["--resume", out]
    return run(command, argv, "train")


def _repeat(argv: list[str]) -> int:
    def command(config: Path, out: Path) -> int:
        """Repeat a run from its config.json.

        Args:
            config: the config.json of a run
            out: the run folder to write
        """
        return _execute(Experiment.read(config), out)

    return run(command, argv, "train")


def _execute(experiment: Experiment, out: Path, *, resume: bool = False) -> int:
    if experiment.expert is not None:
        expert = announced(experiment.expert)
        listened = experiment.hyperparameters.get("oracle") in ("auto", "critic")
        if listened and expert.oracle is not None and not resume:
            env_id, env_kwargs = experiment.env_id, experiment.env_kwargs
            check_expert(expert, experiment.expert, env_id, env_kwargs)
            check_oracle(
                expert.oracle, expert, env_id, env_kwargs=env_kwargs, episodes=4, source=expert.source
            )
    offline = find(experiment.algorithm).offline
    total = experiment.hyperparameters["max_epochs"] if offline else experiment.budget
    with tqdm(
        total=total,
        unit="epoch" if offline else "step",
        file=sys.stderr,
        desc=experiment.algorithm,
        disable=None,
    ) as bar:

        def progress(spent: int, metrics: dict[str, float]) -> None:
            bar.update(int(metrics.get("epoch", bar.n)) - bar.n if offline else spent - bar.n)
            shown = ("train_return", "loss", "heldout_loss", "agreement")
            bar.set_postfix(
                {name: f"{metrics[name]:.4g}" for name in shown if name in metrics}, refresh=False
            )

        finished = execute(experiment, out, resume=resume, progress=progress)
    if not finished:
        print(f"imitate: interrupted and saved; go on with `imitate train --resume {out}`", file=sys.stderr)
        return 130
    print(
        f"imitate: the policy is in {out / 'policy'}; measure it with `imitate evaluate {out}`",
        file=sys.stderr,
    )
    return 0
