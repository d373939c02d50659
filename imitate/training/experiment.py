"""One training run from its description: `Experiment` is a run's config.json, `execute` carries it out."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from gymnasium.spaces import Discrete

from imitate.algorithms import ALGORITHMS, find
from imitate.datasets.evaluation import evaluate
from imitate.datasets.reader import DemoReader
from imitate.datasets.schema import DemoInfo
from imitate.datasets.writer import DemoWriter
from imitate.envs import BACKENDS, make_vec, resolve_backend
from imitate.envs.make import make_env, resolve_env_id
from imitate.envs.seeds import Stream, draw_seed
from imitate.envs.vec import VecEnv
from imitate.errors import InputError, check_range, did_you_mean
from imitate.experts import Expert, load_expert
from imitate.files import versions, write_json
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import as_tuples, load_state
from imitate.nn.stored_policy import load_policy
from imitate.training.run import CHECKPOINT, Progress, train

__all__ = [
    "RUN_FIELDS",
    "Experiment",
    "check_demos",
    "check_expert",
    "execute",
    "preset",
    "variant_settings",
]

logger = logging.getLogger(__name__)

# What a preset may say of the run, beside the algorithm's hyperparameters.
RUN_FIELDS = (
    *("budget", "num_envs", "backend", "episodic_life", "clip_rewards"),
    *("eval_every", "eval_episodes", "checkpoint_every"),
)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Everything a run depends on; `hyperparameters` are complete. Steps are the environment's.

    budget          demonstration, training and validation steps together
    demo_episodes   learn from the first so many episodes of `demos` only
    init            a run whose policy to start from
    backend         what steps the learner's environments (see `imitate.envs.vectorize`), never "auto": so a run repeats
                    on the same one; whoever asks an expert or keeps a store has gymnasium unless told otherwise, since
                    its every episode can be played again. Policies are evaluated on gymnasium
    episodic_life   of Atari on backend ale, in training only: the loss of a life ends an episode
    clip_rewards    of Atari on backend ale, in training only: learn from the sign of rewards
    eval_every      validate after so many steps of training; 0: never, the last policy is kept
    """

    algorithm: str
    env_id: str
    hyperparameters: dict[str, Any]
    env_kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    expert: str | None = None
    demos: str | None = None
    demo_episodes: int | None = None
    init: str | None = None
    seed: int = 0
    budget: int = 100_000
    num_envs: int = 8
    backend: str = "gymnasium"
    episodic_life: bool = False
    clip_rewards: bool = False
    eval_every: int = 0
    eval_episodes: int = 10
    checkpoint_every: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        algorithm = find(self.algorithm)
        check_range(self, 1, math.inf, "budget", "num_envs", "eval_episodes")
        check_range(self, 0, math.inf, "seed", "eval_every", "checkpoint_every")
        if self.backend not in BACKENDS or self.backend == "auto":
            known = ", ".join(name for name in BACKENDS if name != "auto")
            raise InputError(f"backend of a run must be one of {known}, got {self.backend!r}")
        for name in ("demos", "expert"):
            if getattr(self, name) is not None and name not in algorithm.needs:
                raise InputError(f"{self.algorithm} makes no use of --{name}: leave it out")
        if "demos" in algorithm.needs and self.demos is None:
            raise InputError(
                f"{self.algorithm} learns from demonstrations: give --demos FILE (see `imitate collect`)"
            )
        if "expert" in algorithm.needs and self.expert is None:
            raise InputError(
                f"{self.algorithm} asks an expert: give --expert SPEC (see `imitate expert list`)"
            )
        if self.init is not None and "policy" not in algorithm.optional:
            takers = ", ".join(name for name, entry in ALGORITHMS.items() if "policy" in entry.optional)
            raise InputError(f"{self.algorithm} does not start from another policy: --init is for {takers}")

    @classmethod
    def create(
        cls, algorithm: str, env_id: str, *, hyperparameters: Mapping[str, Any] | None = None, **run: Any
    ) -> Experiment:
        """The preset of (algorithm, environment), with what is given here in its place.

        Raises InputError for an unknown algorithm, environment or hyperparameter, and for values out of range.
        """
        env_id = resolve_env_id(env_id)
        defaults = preset(algorithm, env_id)
        run = {name: defaults.pop(name) for name in RUN_FIELDS if name in defaults} | run
        config_class = find(algorithm).config
        fields = {field.name for field in dataclasses.fields(config_class)}
        given = dict(hyperparameters or {})
        for name in given:
            if name not in fields:
                raise InputError(f"{algorithm} has no hyperparameter {name!r}{did_you_mean(name, fields)}")
        if "total_steps" in fields:
            defaults.setdefault("total_steps", run.get("budget", cls.budget))
        config = _config(algorithm, _over(defaults, given))
        if not find(algorithm).offline:
            run["backend"] = resolve_backend(run.get("backend", cls.backend), env_id, run.get("env_kwargs"))
        run["device"] = _device(run.get("device", "auto"))
        # Plain data, as config.json gives it back.
        return cls(algorithm, env_id, json.loads(json.dumps(dataclasses.asdict(config))), **run)

    @classmethod
    def read(cls, path: Path) -> Experiment:
        """From a run's config.json. Raises InputError where it is not one."""
        try:
            added = {name: getattr(cls, name) for name in ("backend", "episodic_life", "clip_rewards")}
            data = added | json.loads(path.read_text())  # runs were so before these fields were
            return cls(**{field.name: data[field.name] for field in dataclasses.fields(cls)})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path} is not the config.json of a run: {error}") from error

    def write(self, path: Path) -> None:
        data = dataclasses.asdict(self) | {"versions": versions()}
        write_json(path, data)


def execute(
    experiment: Experiment, out: Path, *, resume: bool = False, progress: Progress | None = None
) -> bool:
    """Train, into the run folder `out`. Returns False where Ctrl-C ended it early; `resume` goes on from the
    last checkpoint, or from the beginning where there is none.

    Raises InputError where `out` exists (and `resume` is not set), and for inputs that do not fit together.
    """
    if (out / "finished.json").exists():
        raise InputError(f"{out} is a finished run: there is nothing to go on with; choose another --out")
    if out.exists() and not resume:
        raise InputError(f"{out} exists; choose another --out, or --resume the run in it")
    algorithm = find(experiment.algorithm)
    config = _config(experiment.algorithm, experiment.hyperparameters)
    with ExitStack() as stack:
        handed: dict[str, Any] = {}
        demo_steps = 0
        if "demos" in algorithm.needs:
            assert experiment.demos is not None
            demos = stack.enter_context(DemoReader(experiment.demos))
            check_demos(demos, experiment.env_id)
            chosen = demos.first(experiment.demo_episodes)
            handed["demos"], handed["episodes"] = demos, chosen
            demo_steps = int(demos.lengths[chosen].sum())
            if demo_steps > experiment.budget:
                raise InputError(
                    f"the demonstrations take {demo_steps} steps of a budget of {experiment.budget}: "
                    "give more with --budget, or fewer with --demo-episodes"
                )
        if "envs" in algorithm.needs:
            handed["envs"] = make_vec(
                experiment.env_id,
                experiment.num_envs,
                backend=experiment.backend,
                env_kwargs=experiment.env_kwargs,
                episodic_life=experiment.episodic_life,
                clip_rewards=experiment.clip_rewards,
            )
            stack.callback(handed["envs"].close)
        if "expert" in algorithm.needs:
            assert experiment.expert is not None
            handed["expert"] = load_expert(experiment.expert)
            check_expert(handed["expert"], experiment.expert, experiment.env_id, experiment.env_kwargs)
        if experiment.init is not None:
            handed["policy"] = _initial_policy(experiment)
        if "store" in algorithm.needs:
            handed["store"] = stack.enter_context(_store(out, experiment, handed["envs"]))
        # Before anything is written: demonstrations that can't be used show here.
        learner = algorithm.learner(config, seed=experiment.seed, device=experiment.device, **handed)
        out.mkdir(parents=True, exist_ok=True)
        experiment.write(out / "config.json")

        def validate(policy: ActorPolicy) -> Any:
            return evaluate(
                policy,
                experiment.env_id,
                episodes=experiment.eval_episodes,
                seed=draw_seed(Stream.VALIDATION, experiment.seed),
                env_kwargs=experiment.env_kwargs,
                num_envs=experiment.eval_episodes,
            )

        return train(
            learner,
            out,
            budget=experiment.budget,
            demo_steps=demo_steps,
            validate=validate,
            eval_every=experiment.eval_every,
            checkpoint_every=experiment.checkpoint_every,
            resume=resume,
            progress=progress,
        )


def preset(algorithm: str, env_id: str) -> dict[str, Any]:
    """Tuned settings for (algorithm, environment), over the algorithm's defaults for any; those of a variant
    `algorithm:variant` come over both.

    Raises InputError for an unknown algorithm or variant.
    """
    table = _presets(algorithm)
    environment = table.get(env_id.rpartition(":")[2], {})
    return _over(_over(table.get("default", {}), environment), variant_settings(algorithm))


def variant_settings(algorithm: str) -> dict[str, Any]:
    """What makes `algorithm:variant` that variant; empty for an algorithm itself.

    Raises InputError for an unknown algorithm or variant.
    """
    name, _, variant = algorithm.partition(":")
    variants = _presets(algorithm).get("variants", {})
    if variant and variant not in variants:
        known = ", ".join(variants) or "none"
        raise InputError(
            f"{name} has no variant {variant!r}{did_you_mean(variant, variants)}; known: {known}"
        )
    return dict(variants[variant]) if variant else {}


def _presets(algorithm: str) -> dict[str, Any]:
    find(algorithm)
    path = resources.files("imitate.training") / "presets" / f"{algorithm.partition(':')[0]}.toml"
    return tomllib.loads(path.read_text("utf-8"))


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in their place; those of a learner within another (`ppo` of GAIL) one by one."""
    nested = {
        name: _over(below[name], value)
        for name, value in above.items()
        if isinstance(value, Mapping) and isinstance(below.get(name), Mapping)
    }
    return dict(below) | dict(above) | nested


def check_demos(demos: DemoReader, env_id: str) -> None:
    """Raise InputError unless the demonstrations are of this environment, and of the spaces it has today."""
    if demos.info.env_id != env_id:
        raise InputError(
            f"the demonstrations are of {demos.info.env_id}, not of {env_id}; record some with `imitate collect`"
        )
    env = make_env(env_id, demos.info.env_kwargs)
    for name in ("observation_space", "action_space"):
        recorded, now = getattr(demos.info, name), getattr(env, name)
        if recorded != now:
            raise InputError(
                f"the demonstrations' {name} is {recorded}, that of {env_id} is {now}; record them again"
            )
    env.close()


def check_expert(actor: Expert | ActorPolicy, name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError unless the expert (or policy) takes the environment's observations and gives its actions."""
    env = make_env(env_id, env_kwargs)
    for space in ("observation_space", "action_space"):
        has, wanted = _shape(getattr(actor, space)), _shape(getattr(env, space))
        if has != wanted:
            raise InputError(f"{name} has {space} {has}, that of {env_id} is {wanted}; choose another")
    env.close()


def _shape(space: Any) -> str:
    return (
        str(space) if isinstance(space, Discrete) else f"{type(space).__name__}{space.shape} of {space.dtype}"
    )


def _initial_policy(experiment: Experiment) -> ActorPolicy:
    assert experiment.init is not None
    policy = load_policy(experiment.init)
    env = make_env(experiment.env_id, experiment.env_kwargs)
    if (policy.observation_space, policy.action_space) != (env.observation_space, env.action_space):
        raise InputError(
            f"the policy of {experiment.init} has other spaces than {experiment.env_id}; start from another run"
        )
    env.close()
    return policy.train()


@contextmanager
def _store(out: Path, experiment: Experiment, envs: VecEnv) -> Iterator[DemoWriter]:
    out.mkdir(parents=True, exist_ok=True)
    path = out / "aggregated.h5"
    if (out / CHECKPOINT).exists():
        episodes = load_state(out / CHECKPOINT)["learner"]["store_episodes"]
        store = DemoWriter.resume(path, episodes=episodes)
    else:
        path.unlink(missing_ok=True)  # of a run that was killed before its first checkpoint
        info = DemoInfo(
            experiment.env_id,
            envs.single_observation_space,
            envs.single_action_space,
            env_kwargs=experiment.env_kwargs,
            expert=experiment.expert or "",
        )
        store = DemoWriter(path, info, expert_actions=True)
    try:
        with store:
            yield store
    finally:
        if not any(out.iterdir()):  # the learner refused its settings, and the store removed its empty file
            out.rmdir()


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: this torch sees no GPU; use --device cpu")
    return name


def _config(algorithm: str, values: Mapping[str, Any]) -> Any:
    try:
        return find(algorithm).config(**as_tuples(values))
    except TypeError as error:
        raise InputError(f"hyperparameters of {algorithm} that can't be used: {error}") from error
