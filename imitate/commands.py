"""What the subcommands do. Reports go to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import re
import shlex
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tqdm import tqdm

from imitate.algorithms import ALGORITHMS, find
from imitate.datasets.collect import collect as record
from imitate.datasets.environments import SyncVecEnv, make_env, resolve_env_id
from imitate.datasets.errors import InputError, did_you_mean
from imitate.datasets.schema import DemoInfo
from imitate.datasets.trajectory import Policy
from imitate.datasets.validate import describe, validate
from imitate.evaluate import TEST_SEED, Evaluation
from imitate.evaluate import evaluate as measure
from imitate.experiment import Experiment, execute, preset
from imitate.experts import Expert, known_experts, load_expert
from imitate.policy import load_policy

__all__ = ["collect", "compare", "data", "evaluate", "expert", "quickstart", "train"]

JsonObject = Annotated[dict[str, Any], tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="JSON",
    instance_from_str=lambda args: _json_object(args[0]),
    is_instance=lambda value: isinstance(value, dict),
    str_from_instance=lambda value: [json.dumps(value)],
)]  # fmt: skip


def collect(argv: list[str]) -> int:
    def command(
        expert: tyro.conf.Positional[str],
        /,
        out: Path,
        episodes: int | None = None,
        steps: int | None = None,
        num_envs: int = 8,
        deterministic: bool = True,
        noise: str = "",
        seed: int = 0,
        resume: bool = False,
        json: bool = False,
    ) -> int:
        """Record an expert's demonstrations.

        Args:
            expert: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or an expert's folder
            out: the HDF5 file to write
            episodes: how many episodes to record
            steps: begin no episode once so many steps are recorded (those in flight are finished)
            num_envs: environments side by side
            deterministic: the expert's best action; --stochastic samples
            noise: gaussian:SIGMA (of half the action range) or random:P on what is executed; the labels stay clean
            seed: episode n is a function of (seed, n)
            resume: go on with a file that was interrupted
            json: print the description of the file as JSON
        """
        if (episodes is None) == (steps is None):
            raise InputError("give either --episodes N or --steps N")
        if out.exists() and not resume:
            raise InputError(f"{out} exists; choose another --out, or --resume it")
        source = _announced(expert)
        envs = SyncVecEnv([partial(make_env, source.env_id, source.env_kwargs)] * num_envs)
        info = DemoInfo(
            source.env_id,
            envs.single_observation_space,
            envs.single_action_space,
            env_kwargs=source.env_kwargs,
            expert=source.source,
            expert_sha256=source.sha256,
            expert_return=source.measured.mean if source.measured else None,
            deterministic=deterministic,
            noise=noise,
            seed=seed,
        )
        source.seed(seed)
        record(source, envs, out, info, episodes=episodes, steps=steps, resume=resume, progress=True)
        envs.close()
        _report(describe(out), as_json=json)
        return 0

    return _run(command, argv, "collect")


def data(argv: list[str]) -> int:
    def info(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
        """Describe demonstrations: episodes, steps, returns, spaces, expert, size.

        Args:
            file: a file of demonstrations
            json: print JSON
        """
        _report(describe(file), as_json=json)
        return 0

    def check(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
        """Check every invariant of demonstrations; status 2 if one is broken.

        Args:
            file: a file of demonstrations
            json: print JSON
        """
        problems = validate(file)
        if json:
            _print_json({"valid": not problems, "problems": problems})
        else:
            print("\n".join(problems) or f"{file}: valid")
        return 2 if problems else 0

    return _subcommand({"info": info, "validate": check}, argv, "data")


@dataclasses.dataclass
class TrainArguments:
    """Train a learner. Hyperparameters below default to the preset of (algorithm, environment)."""

    algorithm: tyro.conf.Positional[str]
    """bc, dagger or ppo"""
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
    eval_every: int | None = None
    """validate after so many training steps; 0: never, the last policy is kept"""
    eval_episodes: int | None = None
    """episodes of a validation"""
    checkpoint_every: int | None = None
    """training steps between checkpoints, each of which begins new episodes; 0: none"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where the networks are"""


def train(argv: list[str]) -> int:
    """`train ALGO --env ENV --out RUN [...]`, `train --resume RUN`, or `train --config config.json --out RUN`."""
    if argv[:1] == ["--resume"] or "--resume" in argv:
        return _resume(argv)
    if "--config" in argv:
        return _repeat(argv)
    names = {"-h", "--help"} & set(argv)
    if not argv or argv[0].startswith("-"):
        if not names:
            raise InputError(
                f"which algorithm? wanted `imitate train {'|'.join(ALGORITHMS)} --env ENV --out RUN`"
            )
        argv = ["ppo", *argv]
    config_class = find(argv[0]).config
    env_id = _option(argv, "--env")
    defaults = preset(argv[0], resolve_env_id(env_id)) if env_id else {}
    fields = {field.name for field in dataclasses.fields(config_class)}
    base = config_class(
        **{k: tuple(v) if isinstance(v, list) else v for k, v in defaults.items() if k in fields}
    )
    arguments_class = dataclasses.make_dataclass(
        "Arguments",
        [
            ("run", tyro.conf.OmitArgPrefixes[TrainArguments]),
            (
                "hyperparameters",
                Annotated[config_class, tyro.conf.OmitArgPrefixes],
                dataclasses.field(default=base),
            ),
        ],
    )
    arguments_class.__doc__ = TrainArguments.__doc__
    arguments = _parse(arguments_class, argv, "train")
    run: TrainArguments = arguments.run
    config = arguments.hyperparameters
    changed = {name: getattr(config, name) for name in fields if getattr(config, name) != getattr(base, name)}
    settings = {
        name: getattr(run, name)
        for name in ("budget", "num_envs", "eval_every", "eval_episodes", "checkpoint_every")
        if getattr(run, name) is not None
    }
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
    return _execute(experiment, run.out)


def _resume(argv: list[str]) -> int:
    def command(resume: Path) -> int:
        """Go on with a run that was interrupted, as its config.json says.

        Args:
            resume: the run folder
        """
        return _execute(Experiment.read(resume / "config.json"), resume, resume=True)

    # `train ALGO --env ENV --out RUN --resume` says it too: the folder's own config.json rules.
    out = _option(argv, "--out")
    if out is not None:
        argv = ["--resume", out]
    return _run(command, argv, "train")


def _repeat(argv: list[str]) -> int:
    def command(config: Path, out: Path) -> int:
        """Repeat a run from its config.json.

        Args:
            config: the config.json of a run
            out: the run folder to write
        """
        return _execute(Experiment.read(config), out)

    return _run(command, argv, "train")


def _execute(experiment: Experiment, out: Path, *, resume: bool = False) -> int:
    if experiment.expert is not None:
        _announced(experiment.expert)
    with tqdm(total=experiment.budget, unit="step", file=sys.stderr, desc=experiment.algorithm) as bar:

        def progress(spent: int, metrics: dict[str, float]) -> None:
            bar.update(spent - bar.n)
            shown = ("epoch", "train_return", "loss", "heldout_loss", "agreement")
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


def evaluate(argv: list[str]) -> int:
    def command(
        subject: tyro.conf.Positional[str],
        /,
        episodes: int = 20,
        seed: int = TEST_SEED,
        env: str | None = None,
        env_kwargs: JsonObject | None = None,
        num_envs: int = 8,
        deterministic: bool = True,
        video: Path | None = None,
        json: bool = False,
    ) -> int:
        """Measure a run or an expert: mean, std, IQM, 95 % interval, lengths.

        Args:
            subject: a run folder, or an expert as `imitate collect` takes it
            episodes: episodes to play
            seed: the n-th episode starts alike for everyone who is measured with the same seed
            env: another environment than the subject's own
            env_kwargs: keywords of the environment, as a JSON object
            num_envs: environments side by side
            deterministic: the best action; --stochastic samples
            video: an mp4 of the first episode
            json: print JSON
        """
        policy, env_id, kwargs = _subject(subject)
        env_id, kwargs = resolve_env_id(env) if env else env_id, kwargs if env_kwargs is None else env_kwargs
        if video is not None and video.exists():
            raise InputError(f"{video} exists; choose another --video")
        result = measure(
            policy,
            env_id,
            episodes=episodes,
            seed=seed,
            env_kwargs=kwargs,
            num_envs=num_envs,
            deterministic=deterministic,
        )
        if video is not None:
            from imitate.video import record_video

            record_video(policy, env_id, video, env_kwargs=kwargs, seed=seed)
        run = Path(subject)
        if (run / "config.json").exists():
            (run / "evaluation.json").write_text(
                _json({"env_id": env_id, "seed": seed} | result.to_json()) + "\n"
            )
        if json:
            _print_json(result.to_json())
        else:
            print(_summary(result))
        return 0

    return _run(command, argv, "evaluate")


def expert(argv: list[str]) -> int:
    def list_experts(json: bool = False) -> int:
        """The experts at hand without the network: bundled ones and the zoo's.

        Args:
            json: print JSON
        """
        names = known_experts()
        _print_json(names) if json else print("\n".join(names))
        return 0

    def show(spec: tyro.conf.Positional[str], /, measure: bool = True, json: bool = False) -> int:
        """What is known of an expert, with its measured return.

        Args:
            spec: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip or an expert's folder
            measure: play 20 episodes, if that was not done before
            json: print JSON
        """
        source = _announced(spec) if measure else load_expert(spec)
        _report(_expert_facts(source), as_json=json)
        return 0

    def train_expert(
        algo: str,
        env: str,
        out: Path,
        steps: int | None = None,
        seed: int = 0,
        env_kwargs: JsonObject | None = None,
        eval_every: int | None = None,
        eval_episodes: int = 20,
        hyperparameters: JsonObject | None = None,
        resume: bool = False,
    ) -> int:
        """Train an expert with Stable-Baselines3 and tuned hyperparameters; its critic comes with it.

        Args:
            algo: ppo, a2c, dqn, sac, td3, ddpg, tqc, qrdqn, trpo or ars
            env: a Gymnasium id
            out: the expert's folder
            steps: environment steps; by default the preset's
            seed: of environments, networks and exploration
            env_kwargs: keywords of the environment, as a JSON object
            eval_every: steps between validations; the best policy is kept
            eval_episodes: episodes of a validation
            hyperparameters: in place of the preset's, as a JSON object of SB3's names
            resume: go on with an unfinished training in --out
        """
        from imitate.experts.train import train_expert as run_training

        written = run_training(
            algo,
            env,
            out,
            steps=steps,
            seed=seed,
            env_kwargs=env_kwargs,
            eval_every=eval_every,
            eval_episodes=eval_episodes,
            resume=resume,
            command=shlex.join(["imitate", "expert", *argv]),
            **(hyperparameters or {}),
        )
        print(f"imitate: wrote {written}", file=sys.stderr)
        return 0

    return _subcommand({"list": list_experts, "show": show, "train": train_expert}, argv, "expert")


def compare(argv: list[str]) -> int:
    from imitate.compare import Comparison
    from imitate.compare import compare as run_comparison

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
        _print_json(_read_json(out / "summary.json")) if json else print(report)
        return 0

    return _run(command, argv, "compare")


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
        arguments += [] if workers is None else ["--workers", str(workers)]
        return compare(arguments + (["--json"] if json else []))

    return _run(command, argv, "quickstart")


def _run(command: Callable[..., int], argv: list[str], name: str) -> int:
    @functools.wraps(command)
    def parsed(*args: Any, **kwargs: Any) -> Callable[[], int]:
        return partial(command, *args, **kwargs)

    argv = ["--no-deterministic" if argument == "--stochastic" else argument for argument in argv]
    call: Callable[[], int] = _parse(parsed, argv, name)
    return call()


def _parse(target: Callable[..., Any], argv: list[str], name: str) -> Any:
    """`target` called with the options of the command line; a mistake in them becomes one line like any other."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(target, args=argv, prog=f"imitate {name}")
    except SystemExit as error:
        if error.code != 2:
            raise
        frame = r"[\u2500-\u257f]+|\x1b\[[0-9;]*m"
        raise InputError(" ".join(re.sub(frame, " ", errors.getvalue()).split())) from None


def _subcommand(commands: dict[str, Callable[..., int]], argv: list[str], name: str) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(f"usage: imitate {name} {'|'.join(commands)} [options]")
        return 0 if argv else 2
    if argv[0] not in commands:
        raise InputError(
            f"unknown command `imitate {name} {argv[0]}`{did_you_mean(argv[0], commands)}; known: {', '.join(commands)}"
        )
    return _run(commands[argv[0]], argv[1:], f"{name} {argv[0]}")


def _announced(spec: str) -> Expert:
    """The expert, after its measured return was said."""
    source = load_expert(spec)
    if source.runnable:
        source.measure()
    return source


def _subject(subject: str) -> tuple[Policy, str, dict[str, Any]]:
    if (Path(subject) / "config.json").exists():
        experiment = Experiment.read(Path(subject) / "config.json")
        return load_policy(subject), experiment.env_id, experiment.env_kwargs
    source = load_expert(subject)
    return source, source.env_id, source.env_kwargs


def _expert_facts(source: Expert) -> dict[str, Any]:
    measured = source.measured
    return {
        "expert": source.source,
        "algorithm": source.algorithm,
        "env_id": source.env_id,
        "env_kwargs": source.env_kwargs,
        "sha256": source.sha256,
        "revision": source.revision,
        "normalised": source.normalisation is not None,
        "q_star": None if source.oracle is None else type(source.oracle).__name__,
        "published_return": source.published_return,
        "measured_return": None if measured is None else dataclasses.asdict(measured),
        "training": source.training or None,
    }


def _summary(result: Evaluation) -> str:
    low, high = result.ci95
    lengths = result.lengths
    return (
        f"return {result.mean:.2f} +- {result.std:.2f} (IQM {result.iqm:.2f}, 95 % interval of the mean "
        f"{low:.2f} to {high:.2f}) over {len(lengths)} episodes of {lengths.min()} to {lengths.max()} steps "
        f"(mean {lengths.mean():.1f})"
    )


def _report(facts: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_json(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        if value is not None:
            print(f"{name:<{width}}  {json.dumps(value) if isinstance(value, dict | list) else value}")


def _print_json(data: Any) -> None:
    print(_json(data))


def _json(data: Any) -> str:
    return json.dumps(data, indent=2)


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text())


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"wanted a JSON object such as '{{\"gravity\": -5}}', got {text}")
    return value


def _option(argv: list[str], name: str) -> str | None:
    for index, argument in enumerate(argv):
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
        if argument == name and index + 1 < len(argv):
            return argv[index + 1]
    return None
