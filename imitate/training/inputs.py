"""Opens what a run learns from, and checks it against the environment, before anything runs."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from imitate.algorithms import find
from imitate.datasets.convert.sources import in_our_format
from imitate.datasets.storage.reader import DemoReader
from imitate.datasets.storage.schema import DemoInfo
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs import make_vec
from imitate.envs.answers import closing_env
from imitate.envs.fields import Fields
from imitate.envs.make import is_installed, make_env
from imitate.envs.rewarded import Rewarded
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array, Space, beyond, check_plain, kind
from imitate.envs.trust import bare_id
from imitate.envs.vec import VecEnv
from imitate.errors import InputError
from imitate.experts import Expert, load_expert
from imitate.imitators.learned_reward import LearnedReward, load_reward
from imitate.imitators.reward_files import reward_sha256
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy
from imitate.rl.handed import check_actions
from imitate.training.checkpoint import Checkpoint
from imitate.training.experiment import Experiment
from imitate.training.person import is_person, seated
from imitate.training.settings import make_config

if TYPE_CHECKING:
    from imitate.datasets.human.playing import Person

__all__ = ["Inputs", "check_demos", "check_expert", "open_inputs", "with_store"]

logger = logging.getLogger(__name__)


def check_demos(demos: DemoReader, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError unless the demonstrations are of this environment and, if it is installed, have its spaces.

    Warns if they were recorded with other keywords of the environment.
    """
    if bare_id(demos.info.env_id) != bare_id(env_id):
        own = demos.info.env_id
        raise InputError(
            f"the demonstrations are of {own}, not of {env_id}: give --env {own}, or record some of {env_id} with "
            "`imitate collect`"
        )
    if not is_installed(env_id):
        named = next((each for each in (env_id, demos.info.env_id) if ":" in each), f"MODULE:{env_id}")
        logger.warning(
            "%s is not installed here: spaces are those of the demonstrations; --env %s would import it",
            env_id,
            named,
        )
        return
    theirs, ours = (shlex.quote(json.dumps(each)) for each in (demos.info.env_kwargs, env_kwargs))
    differ = demos.info.env_kwargs != json.loads(json.dumps(env_kwargs))  # a tuple is a list in a file
    with closing_env(make_env(env_id, env_kwargs)) as env:
        for name in ("observation_space", "action_space"):
            recorded, now = getattr(demos.info, name), getattr(env, name)
            if recorded != now:
                several = isinstance(recorded, Fields) and not isinstance(now, Fields)
                if differ:
                    remedy = f"give --env-kwargs {theirs}, with which they were recorded, or record others"
                elif several:
                    remedy = "take its own with `imitate data convert --obs-keys`"
                else:
                    remedy = "convert their source for this environment, or record them again"
                raise InputError(
                    f"the demonstrations' {name} is {recorded}, that of {env_id} is {now}; {remedy}"
                )
    if differ and demos.info.env_kwargs:
        logger.warning(
            "the demonstrations were recorded with --env-kwargs %s, and this run has %s: give the same ones, unless "
            "another environment is meant",
            theirs,
            ours if env_kwargs else "none",
        )


def check_expert(actor: Expert | ActorPolicy, name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> None:
    """Raise InputError unless the expert (or policy) fits the environment: its spaces are of the same `kind`."""
    with closing_env(make_env(env_id, env_kwargs)) as env:
        for space in ("observation_space", "action_space"):
            has, wanted = kind(getattr(actor, space)), kind(getattr(env, space))
            if has != wanted:
                raise InputError(f"{name} has {space} {has}, that of {env_id} is {wanted}; choose another")


@dataclass(frozen=True)
class Inputs:
    """Everything a run learns from, open. An algorithm is given those that it needs; the others are None or empty.

    episodes  indices of the episodes of `demos` to learn from
    store     of the labels that the experts give
    policy    to start from
    """

    envs: VecEnv | None = None
    demos: DemoReader | None = None
    episodes: Array | None = None
    experts: tuple[Expert | Person, ...] = ()
    store: DemoWriter | None = None
    policy: ActorPolicy | None = None

    @property
    def demo_steps(self) -> int:
        """Steps of the demonstrations."""
        return 0 if self.demos is None else int(self.demos.lengths[self.episodes].sum())

    @property
    def reproducible(self) -> bool:
        """True if every expert answers the same again."""
        return all(expert.reproducible for expert in self.experts)

    def keywords(self) -> dict[str, Any]:
        """The arguments of the learner. `expert` is a list if there are several."""
        several = len(self.experts) > 1
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "experts"}
        given["expert"] = list(self.experts) if several else next(iter(self.experts), None)
        return {name: value for name, value in given.items() if value is not None}

    @property
    def demos_digest(self) -> str:
        """Hash of the demonstrations' lengths, returns and ends, and of the beginnings of up to eight episodes; empty
        if there are none."""
        if self.demos is None:
            return ""
        episodes = np.arange(len(self.demos)) if self.episodes is None else self.episodes
        rows, found = self.demos.table[episodes], sha256()
        for name in ("length", "return", "terminated"):
            found.update(rows[name].tobytes())
        for place in np.unique(np.linspace(0, len(episodes) - 1, 8).round().astype(int)).tolist():
            piece = next(self.demos.pieces(int(episodes[place])))
            for array in (piece.obs, piece.actions, piece.expert_actions):
                found.update(b"" if array is None else array.tobytes())
        return found.hexdigest()[:16]


def demos_digest(experiment: Experiment) -> str:
    """`Inputs.demos_digest` of a run."""
    with ExitStack() as stack:
        demos = None if experiment.demos is None else _demos(experiment, stack)
        episodes = None if demos is None else demos.first(experiment.demo_episodes)
        return Inputs(demos=demos, episodes=episodes).demos_digest


def open_inputs(
    experiment: Experiment,
    stack: ExitStack,
    *,
    experts: Sequence[Expert] = (),
    faults: int = 0,
    check: bool = False,
) -> Inputs:
    """Open and check what the run learns from, all but its store; `stack` closes it.

    experts  those of the experiment, if they are loaded already
    faults   how often the run was ended by an exception
    check    check the critic of the expert, if the algorithm learns from it and there is one expert

    Raises InputError if something does not fit the environment or the algorithm.
    """
    needs = find(experiment.algorithm).needs
    demos = _demos(experiment, stack) if experiment.demos is not None else None
    # These open an environment and close it again; hardware may allow no second one.
    actors = () if is_person(experiment.expert) else _experts(experiment, experts)
    if check and len(actors) == 1:
        _check_critic(experiment, actors[0])
    policy = None if experiment.init is None else _policy(experiment.init, experiment)
    envs, person = _envs(experiment, stack) if "envs" in needs else (None, None)
    if envs is not None and faults:
        envs = _with_other_seeds(envs, faults)
    return Inputs(
        envs=envs,
        demos=demos,
        episodes=None if demos is None else demos.first(experiment.demo_episodes),
        experts=actors if person is None else (person,),
        policy=policy,
    )


def _demos(experiment: Experiment, stack: ExitStack) -> DemoReader:
    path = in_our_format(str(experiment.demos), experiment.env_id, experiment.env_kwargs or None)
    demos = stack.enter_context(DemoReader(path))
    check_demos(demos, experiment.env_id, experiment.env_kwargs)
    check_actions(demos.info, find(experiment.algorithm).config, str(experiment.demos), experiment.algorithm)
    _check_plain(experiment, demos.info.observation_space, demos.info.action_space)
    return demos


def _envs(experiment: Experiment, stack: ExitStack) -> tuple[VecEnv, Person | None]:
    """The environments, and the person before the only one, if a person is the expert."""
    envs: VecEnv
    person = None
    if is_person(experiment.expert):
        envs, person = seated(experiment.expert, experiment.env_id, experiment.env_kwargs, stack)
    else:
        envs = make_vec(
            experiment.env_id,
            experiment.num_envs,
            backend=experiment.backend,
            env_kwargs=experiment.env_kwargs,
            episodic_life=experiment.episodic_life,
            clip_rewards=experiment.clip_rewards,
        )
    stack.callback(envs.close)
    _check_plain(experiment, envs.single_observation_space, envs.single_action_space)
    if experiment.reward is not None:
        envs = Rewarded(envs, _reward(experiment.reward, experiment, envs))
    return envs, person


def _experts(experiment: Experiment, loaded: Sequence[Expert]) -> tuple[Expert, ...]:
    env_id, env_kwargs = experiment.env_id, experiment.env_kwargs
    several = isinstance(loaded, Sequence) and all(isinstance(each, Expert) for each in loaded)
    if not several or len(loaded) not in (0, len(experiment.experts)):
        got = f"{len(loaded)}" if several else f"a {type(loaded).__name__}"
        raise InputError(
            f"experts must be a list of {len(experiment.experts)} from load_expert, one for each that the run names, "
            f"got {got}: leave them out, and they are loaded"
        )
    experts = tuple(loaded) or tuple(
        load_expert(spec, env_id=env_id, env_kwargs=env_kwargs, vecnormalize=experiment.vecnormalize)
        for spec in experiment.experts
    )
    for expert, spec in zip(experts, experiment.experts, strict=True):
        check_expert(expert, spec, env_id, env_kwargs)
    return experts


def _check_critic(experiment: Experiment, expert: Expert) -> None:
    checker = find(experiment.algorithm).checker
    if checker is not None:
        config = make_config(experiment.algorithm, experiment.hyperparameters)
        checker(config, expert, experiment.env_id, experiment.env_kwargs, num_envs=experiment.num_envs)


def _policy(run: str, experiment: Experiment) -> ActorPolicy:
    """The policy of a run, to start from. Raises InputError if it does not fit the environment."""
    policy, name = load_policy(run), f"the policy of {run}"
    check_expert(policy, name, experiment.env_id, experiment.env_kwargs)
    with closing_env(make_env(experiment.env_id, experiment.env_kwargs)) as env:
        if beyond(policy.action_space, env.action_space):
            raise InputError(
                f"{name} acts in {policy.action_space}, beyond {env.action_space} of {experiment.env_id}; "
                "start from another run"
            )
        return policy.adapted(env.observation_space, env.action_space).train()


def _reward(run: str, experiment: Experiment, envs: VecEnv) -> LearnedReward:
    """The reward that a run learned, to learn from. Raises InputError if its spaces differ from the environment's, or
    if it is another than the one that this run began with."""
    if experiment.reward_sha256 and reward_sha256(run) != experiment.reward_sha256:
        raise InputError(
            f"the reward of {run} has changed since this run was planned: restore it, or begin anew"
        )
    reward = load_reward(run)
    for name in ("observation_space", "action_space"):
        learned, now = getattr(reward, name), getattr(envs, f"single_{name}")
        if learned != now:
            raise InputError(
                f"the reward of {run} has {name} {learned}, that of {experiment.env_id} is {now}; take another reward"
            )
    return reward


def _check_plain(experiment: Experiment, obs_space: Space, action_space: Space) -> None:
    algorithm = find(experiment.algorithm)
    if not algorithm.structured:
        check_plain(algorithm.title, obs_space, action_space)


def with_store(
    inputs: Inputs, experiment: Experiment, out: Path, stack: ExitStack, checkpoint: Checkpoint | None = None
) -> Inputs:
    """The same with the store of the experts' labels, if the algorithm keeps one: new, or as it was at the checkpoint.

    Labels that a killed run stored after its checkpoint are asked for again, so that the run repeats byte for byte.
    If the expert may not answer the same again (a person, a user's own code), they are kept.

    Raises InputError if the folder holds labels with other spaces.
    """
    if "store" not in find(experiment.algorithm).needs:
        return inputs
    path, envs = out / "aggregated.h5", inputs.envs
    assert envs is not None
    before = 0 if checkpoint is None else checkpoint.store_episodes
    info = DemoInfo(
        experiment.env_id,
        envs.single_observation_space,
        envs.single_action_space,
        env_kwargs=experiment.env_kwargs,
        expert=", ".join(experiment.experts),
    )
    if path.exists() and not inputs.reproducible:
        store = DemoWriter.resume(path)
        if len(store) > before:
            logger.info("%s holds labels of %d steps: they are kept and used", path, store.num_steps)
    elif before:
        store = DemoWriter.resume(path, episodes=before)
    else:
        path.unlink(missing_ok=True)  # left by a run that was killed before its first checkpoint
        store = DemoWriter(path, info, expert_actions=True)
    stack.enter_context(store)
    for name in ("observation_space", "action_space"):
        was, now = getattr(store.info, name), getattr(info, name)
        if was != now:
            raise InputError(f"{path} holds labels with {name} {was}, not {now}: choose another --out")
    return replace(inputs, store=store)


def _with_other_seeds(envs: VecEnv, faults: int) -> VecEnv:
    """The same environments, whose episodes have other seeds: an episode that failed does not come again."""
    reset = envs.reset

    def other(seeds: Iterable[int]) -> Array:
        return reset(draw_seed(faults, seed) >> 32 for seed in seeds)

    envs.reset = other  # type: ignore[method-assign]
    envs.faults = (faults,)  # type: ignore[attr-defined]  # for AggreVaTe, which makes its own
    return envs
