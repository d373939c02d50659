"""Checks a run's inputs against its environment before anything runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Box

from imitate.algorithms import find
from imitate.datasets.convert.sources import in_our_format
from imitate.datasets.storage.contain import check_env
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs import make_vec
from imitate.envs.fields import Fields, as_fields
from imitate.envs.make import make_env
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, Space, check_plain
from imitate.envs.trust import bare_id
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.files import lock, sweep
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.training.checkpoint import Checkpoint
from imitate.training.person import is_person, seated

if TYPE_CHECKING:
    from imitate.training.experiment import Experiment

__all__ = ["check_demos", "check_expert", "check_widths", "handed_to", "held", "opened_store"]


logger = logging.getLogger(__name__)


def check_demos(demos: DemoReader, env_id: str) -> None:
    """Raise InputError unless the demonstrations are of this environment, with its current spaces."""
    if bare_id(demos.info.env_id) != bare_id(env_id):
        raise InputError(
            f"the demonstrations are of {demos.info.env_id}, not of {env_id}; record some with `imitate collect`"
        )
    check_env(env_id, demos.info.env_kwargs)
    with closing(make_env(env_id, demos.info.env_kwargs)) as env:
        for name in ("observation_space", "action_space"):
            recorded, now = getattr(demos.info, name), getattr(env, name)
            if recorded != now:
                raise InputError(
                    f"the demonstrations' {name} is {recorded}, that of {env_id} is {now}; record them again"
                )


def check_expert(actor: Expert | ActorPolicy, name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError unless the expert (or policy) has the environment's observation and action spaces."""
    with closing(make_env(env_id, env_kwargs)) as env:
        for space in ("observation_space", "action_space"):
            has, wanted = _shape(getattr(actor, space)), _shape(getattr(env, space))
            if has != wanted:
                raise InputError(f"{name} has {space} {has}, that of {env_id} is {wanted}; choose another")


def handed_to(
    experiment: Experiment, config: Any, stack: ExitStack, *, new: bool, faults: int = 0
) -> dict[str, Any]:
    """Create and check the algorithm's inputs (in a new run also the expert's critic); `stack` closes them.

    faults   how often the run was ended by an exception
    """
    algorithm = find(experiment.algorithm)
    handed: dict[str, Any] = {}
    envs: VecEnv
    env_id, env_kwargs = experiment.env_id, experiment.env_kwargs
    if "demos" in algorithm.needs:
        path = in_our_format(str(experiment.demos), env_id, env_kwargs or None)
        demos = stack.enter_context(DemoReader(path))
        check_demos(demos, env_id)
        if not algorithm.structured:
            check_plain(algorithm.title, demos.info.observation_space, demos.info.action_space)
        handed |= {"demos": demos, "episodes": demos.first(experiment.demo_episodes)}
    if "envs" in algorithm.needs:
        if is_person(experiment.expert):
            envs, handed["expert"] = seated(experiment, stack)
        else:
            envs = make_vec(
                env_id,
                experiment.num_envs,
                backend=experiment.backend,
                env_kwargs=env_kwargs,
                episodic_life=experiment.episodic_life,
                clip_rewards=experiment.clip_rewards,
            )
        handed["envs"] = _with_other_seeds(envs, faults) if faults else envs
        stack.callback(envs.close)
        if not algorithm.structured:
            check_plain(algorithm.title, envs.single_observation_space, envs.single_action_space)
    if "expert" in algorithm.needs and "expert" not in handed:
        experts = [
            load_expert(spec, env_id=env_id, env_kwargs=env_kwargs, vecnormalize=experiment.vecnormalize)
            for spec in experiment.experts
        ]
        for expert, spec in zip(experts, experiment.experts, strict=True):
            check_expert(expert, spec, env_id, env_kwargs)
        handed["expert"] = experts if experiment.other_experts else experts[0]
        if new and algorithm.checker is not None and not experiment.other_experts:
            algorithm.checker(config, experts[0], env_id, env_kwargs)
    if experiment.init is not None:
        handed["policy"] = _initial_policy(experiment.init, env_id, env_kwargs)
    return handed


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Lock the run's folder for this process; remove it if it stays empty.

    Raises InputError if another process trains in it.
    """
    try:
        with lock(out, "a training run"):
            sweep(out)
            yield
    finally:
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()


@contextmanager
def opened_store(
    out: Path, experiment: Experiment, handed: Mapping[str, Any], checkpoint: Checkpoint | None
) -> Iterator[DemoWriter]:
    """The store of the expert's labels: new, or as it was at the checkpoint.

    Labels that a killed run stored after its checkpoint are asked for again, so that the run repeats byte for byte.
    If the expert may not answer the same again (a person, a user's own code), they are kept.

    Raises InputError if the folder holds the labels of another environment.
    """
    path, envs = out / "aggregated.h5", handed["envs"]
    before = 0 if checkpoint is None else checkpoint.store_episodes
    experts = handed["expert"] if isinstance(handed["expert"], list) else [handed["expert"]]
    info = DemoInfo(
        experiment.env_id,
        envs.single_observation_space,
        envs.single_action_space,
        env_kwargs=experiment.env_kwargs,
        expert=", ".join(experiment.experts),
    )
    if path.exists() and not all(expert.reproducible for expert in experts):
        store = DemoWriter.resume(path)
        if len(store) > before:
            logger.info("%s holds labels of %d steps: they are kept and used", path, store.num_steps)
    elif before:
        store = DemoWriter.resume(path, episodes=before)
    else:
        path.unlink(missing_ok=True)  # left by a run that was killed before its first checkpoint
        store = DemoWriter(path, info, expert_actions=True)
    with store:
        _check_labels(path, store.info, info)
        yield store


def _check_labels(path: Path, stored: DemoInfo, wanted: DemoInfo) -> None:
    if bare_id(stored.env_id) != bare_id(wanted.env_id):
        raise InputError(
            f"{path} holds labels of {stored.env_id}, not of {wanted.env_id}: choose another --out"
        )
    for name in ("observation_space", "action_space"):
        was, now = getattr(stored, name), getattr(wanted, name)
        if was != now:
            raise InputError(f"{path} holds labels with {name} {was}, not {now}: choose another --out")


def _with_other_seeds(envs: VecEnv, faults: int) -> VecEnv:
    """The same environments, whose episodes have other seeds: an episode that failed does not come again."""
    reset = envs.reset

    def other(seeds: Iterable[int]) -> Array:
        return reset(draw_seed(faults, seed) >> 32 for seed in seeds)

    envs.reset = other  # type: ignore[method-assign]
    return envs


def _initial_policy(run: str, env_id: str, env_kwargs: Mapping[str, Any]) -> ActorPolicy:
    """The policy of a run, to start from. Raises InputError if its spaces differ from the environment's."""
    policy = load_policy(run)
    with closing(make_env(env_id, env_kwargs)) as env:
        if (policy.observation_space, policy.action_space) != (env.observation_space, env.action_space):
            raise InputError(f"the policy of {run} has other spaces than {env_id}; start from another run")
    return policy.train()


def check_widths(run: str, hyperparameters: Mapping[str, Any]) -> None:
    """Raise InputError if these hyperparameters ask for another network than the initial policy's."""
    has = load_policy(run).architecture
    for name in ("hidden", "activation", "head"):
        wanted = hyperparameters.get(name)
        wanted = list(wanted) if isinstance(wanted, tuple) else wanted
        if wanted is not None and wanted != has[name]:
            raise InputError(
                f"--{name} {wanted}, but the policy of {run} has {name} {has[name]}: leave it out, or start anew"
            )


def _shape(space: Space) -> str:
    """The space without its bounds."""
    space = as_fields(space)
    if isinstance(space, Fields):
        return f"Dict({', '.join(f'{name}: {_shape(part)}' for name, part in space.items())})"
    return f"Box{space.shape} of {space.dtype}" if isinstance(space, Box) else str(space)
