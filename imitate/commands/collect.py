"""`imitate collect`"""

from __future__ import annotations

import logging
import shlex
import sys
import traceback
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from imitate import datasets, experts
from imitate.commands.line import CommandLine, typed_command
from imitate.commands.option import Rare
from imitate.commands.options import BackendName, JsonObject, chosen_backend, run
from imitate.commands.recorded import check_out, say_recorded
from imitate.datasets.collect import OnFailure
from imitate.datasets.noise import ActionNoise, dart
from imitate.datasets.storage.schema import Compression, DemoInfo
from imitate.datasets.storage.zstd import register
from imitate.envs.answers import closing_env
from imitate.envs.atari import protocol
from imitate.envs.make import make_env, stacked_frames
from imitate.envs.seeds import Stream, check_seed, draw_seed, episode_seeds
from imitate.envs.trust import trust
from imitate.envs.vec import MOST_ENVS, SyncVecEnv
from imitate.errors import Fault, InputError

if TYPE_CHECKING:
    from imitate.commands.shards import Order
    from imitate.compare.backends import Backend
    from imitate.experts import Expert

__all__ = ["collect"]

logger = logging.getLogger(__name__)

_DART_EPISODES = 5


def collect(argv: list[str]) -> int:
    """`collect human` is another command. The command line is recorded without what does not change the episodes, so
    that `--resume` gives equal files."""
    line = CommandLine(argv).without("--resume", words=0).without("--out")
    typed_command.set(shlex.join(["imitate", "collect", *line.argv]))
    if argv[:1] == ["human"]:
        from imitate.commands.human import human  # torch and a window take seconds

        return human(argv[1:])
    return run(command, argv, "collect")


def command(
    expert: tyro.conf.Positional[str],
    /,
    out: Path,
    episodes: int | None = None,
    steps: int | None = None,
    env: str | None = None,
    env_kwargs: JsonObject | None = None,
    vecnormalize: str | None = None,
    num_envs: int = 8,
    deterministic: bool = True,
    noise: str = "",
    seed: int = 0,
    actions: Annotated[bool, Rare] = True,
    compression: Annotated[Compression, Rare] = "gzip",
    measure: bool = True,
    remeasure: bool = False,
    shards: int | None = None,
    backend: Annotated[BackendName, Rare] = "processes",
    address: Annotated[str | None, Rare] = None,
    workers: Annotated[int | None, Rare] = None,
    resume: bool = False,
    on_failure: OnFailure = "stop",
    json: bool = False,
) -> int:
    """Record an expert's demonstrations.

    Args:
        expert: a bundled name, zoo:ALGO/ENV, hub:ORG/REPO, an SB3 .zip, an expert's folder, a run,
            module:make_expert, random, or human (`imitate collect human --help`)
        out: the HDF5 file to write; with --shards a folder of such files
        episodes: how many episodes to record
        steps: begin no new episode once this many steps are recorded; unfinished ones are played to their end
        env: the environment, if the expert names none or you want another
        num_envs: environments side by side
        deterministic: take the expert's best action; --stochastic samples
        noise: noise on the executed actions, whose labels stay clean: gaussian:SIGMA in units of half the action range,
            random:P for a random action with probability P, or dart:RUN, as large as the errors of that run in five
            more episodes of the expert
        seed: episode n depends on (seed, n) alone
        actions: --no-actions leaves them out: demonstrations for gaifo, which learns from observations alone where
            actions are continuous
        compression: compression of pictures; zstd is smaller and faster, but every reader of the file needs the extra
            zstd
        measure: play 20 episodes of the expert, and 20 of random actions, before the first time that it is recorded;
            hardware wants --no-measure
        remeasure: measure the expert's return again, ignoring the cache
        shards: record this many files side by side, which are read as one: episode n is in file n modulo shards
        backend: where shards are recorded: in processes of this machine, or on a Ray cluster
        workers: shards at a time; by default as many as there are processors, here or in the cluster
        resume: continue an interrupted file, or folder of shards
        on_failure: if the environment fails in an episode, stop, or skip it and record its seed as failed
        json: print the description of the file as JSON
    """
    _check_amount(episodes, steps)
    check_out(out, resume, sharded=shards is not None)
    if compression == "zstd":
        register(out)  # refuses before the expert is measured
    check_seed(seed)
    for name, count in (("--num-envs", num_envs), ("--shards", shards)):
        if count is not None and not 1 <= count <= MOST_ENVS:
            raise InputError(f"{name} must be in [1, {MOST_ENVS}], got {count}")
    if shards is not None and episodes is not None and shards > episodes:
        raise InputError(f"--shards must be at most the number of episodes, {episodes}, got {shards}")
    if remeasure and not measure:
        raise InputError("--no-measure and --remeasure contradict each other: give one of them")
    where = chosen_backend(backend, workers, address)
    if shards is None and (backend != "processes" or workers is not None):
        raise InputError("--backend and --workers are for shards: say how many with --shards, such as 8")
    trust(expert)
    source = experts.load_expert(expert, env_id=env, env_kwargs=env_kwargs, vecnormalize=vecnormalize)
    learner = _dart_learner(source, noise)
    if noise and learner is None:
        ActionNoise(noise, source.action_space, 1)  # refuses a wrong one before the expert is measured
    if measure:
        _measure(source, num_envs, remeasure, on_failure)
    if learner is not None:
        noise = _dart_noise(source, learner, seed, num_envs)
    source.seed(seed)
    info = _info(source, deterministic=deterministic, noise=noise, seed=seed)
    info = replace(info, has_actions=actions, compression=compression)
    from imitate.commands.shards import Order  # torch takes a second: arguments are read before

    asked = Order(
        expert, vecnormalize, info, num_envs, episodes, steps, 1 if shards is None else shards, on_failure
    )
    if shards is None:
        status = _record_file(source, asked, out, resume=resume)
    else:
        status = _record_shards(asked, out, where)
    if status == 0:
        say_recorded(out, source, as_json=json)
    return status


def _measure(source: Expert, num_envs: int, remeasure: bool, on_failure: OnFailure) -> None:
    try:
        source.measure(num_envs=num_envs, remeasure=remeasure)
    except Fault as fault:
        if fault.seed is None:
            raise
        if on_failure == "stop":
            raise InputError(f"{fault}; --on-failure skip records without measuring the expert") from fault
        logger.warning("%s is not measured: %s", source.source, fault)


def _dart_learner(source: Expert, noise: str) -> Expert | None:
    """The run that `dart:RUN` names; None if the noise is another."""
    kind, _, name = noise.partition(":")
    if kind != "dart":
        return None
    from imitate.training.inputs import check_expert

    learner = experts.load_expert(name, env_id=source.env_id, env_kwargs=source.env_kwargs)
    check_expert(learner, name, source.env_id, source.env_kwargs)
    return learner


def _dart_noise(source: Expert, learner: Expert, seed: int, num_envs: int) -> str:
    """Noise as large as the errors of `learner` in some episodes of the expert that are not recorded."""
    seeds = list(islice(episode_seeds(draw_seed(Stream.DEMONSTRATIONS, seed)), _DART_EPISODES))
    makers = [partial(make_env, source.env_id, source.env_kwargs)] * min(num_envs, _DART_EPISODES)
    with closing(SyncVecEnv(makers)) as envs:
        # In the order of the seeds, so that the noise does not depend on num_envs.
        played = sorted(
            datasets.episodes(source, envs, seeds), key=lambda episode: seeds.index(episode.info["seed"])
        )
        obs = np.concatenate([episode.obs[:-1] for episode in played])
        labels = np.concatenate([episode.actions for episode in played])
        noise = dart(learner, obs, labels, envs.single_action_space)
    logger.info("DART's noise is %s", noise)
    return noise


def _record_file(source: Expert, asked: Order, out: Path, *, resume: bool) -> int:
    """The exit status."""
    make = partial(make_env, source.env_id, source.env_kwargs)
    with closing(SyncVecEnv([make] * asked.num_envs)) as envs:
        try:
            datasets.collect(
                source,
                envs,
                out,
                asked.info,
                episodes=asked.episodes,
                steps=asked.steps,
                resume=resume,
                on_failure=asked.on_failure,
                progress=sys.stderr.isatty(),
            ).close()
        except Fault as fault:
            mend = fault.seed is not None and asked.on_failure == "stop"
            skip = ", and --on-failure skip leaves out episodes that fail" if mend else ""
            raise InputError(f"{fault}; {_kept(out)}{skip}") from fault
        except InputError:
            raise
        except KeyboardInterrupt:
            _say_what_is_kept(out)
            raise
        except Exception:  # a mistake of ours: its traceback is needed
            traceback.print_exc()
            _say_what_is_kept(out)
            return 1
    return 0


def _record_shards(order: Order, out: Path, backend: Backend) -> int:
    """The exit status."""
    from imitate.commands.shards import record_shards

    try:
        failures = record_shards(order, out, backend, progress=sys.stderr.isatty())
    except KeyboardInterrupt:
        _say_what_is_kept(out)
        raise
    if failures:
        unforeseen = [failure.traceback for failure in failures if failure.traceback]
        print("".join(unforeseen[:1]), end="", file=sys.stderr)
        _say_what_is_kept(out)
        return 1 if unforeseen else 2
    return 0


def _check_amount(episodes: int | None, steps: int | None) -> None:
    if (episodes is None) == (steps is None):
        got = "neither" if episodes is None else "both"
        raise InputError(f"give either --episodes N or --steps N, got {got}")
    for name, amount in (("episodes", episodes), ("steps", steps)):
        if amount is not None and amount < 1:
            raise InputError(f"--{name} must be at least 1, got {amount}")


def _info(source: Expert, *, deterministic: bool, noise: str, seed: int) -> DemoInfo:
    with closing_env(make_env(source.env_id, source.env_kwargs)) as env:
        envs = SyncVecEnv([lambda: env])  # which knows the spaces that can be recorded
        stack = stacked_frames(env)
    return DemoInfo(
        source.env_id,
        envs.single_observation_space,
        envs.single_action_space,
        env_kwargs=source.env_kwargs,
        expert=source.source,
        expert_sha256=source.sha256,
        normalisation_sha256=source.normalisation_sha256,
        expert_return=source.measured.mean if source.measured else None,
        deterministic=deterministic,
        noise=noise,
        seed=seed,
        frame_stack=stack,
        protocol=protocol(source.env_id, source.env_kwargs),
        command=typed_command.get(),
    )


def _say_what_is_kept(out: Path) -> None:
    print(f"imitate: {_kept(out)}", file=sys.stderr)


def _kept(out: Path) -> str:
    if out.exists():
        return f"the episodes that had ended are in {out}; the same command with --resume goes on"
    return "no episode had ended: nothing was written"
