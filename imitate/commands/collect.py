"""`imitate collect`"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import tyro

from imitate.commands.options import announced, report, run
from imitate.datasets.collect import collect as record
from imitate.datasets.schema import DemoInfo
from imitate.datasets.validate import describe
from imitate.envs.make import make_env, stacked_frames
from imitate.envs.vec import SyncVecEnv
from imitate.errors import InputError

__all__ = ["collect"]


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
            seed: the start of episode n follows from (seed, n) alone
            resume: go on with a file that was interrupted
            json: print the description of the file as JSON
        """
        if (episodes is None) == (steps is None) or (episodes or steps or 0) < 1:
            raise InputError("give either --episodes N or --steps N, at least 1")
        if out.exists() and not resume:
            raise InputError(f"{out} exists; choose another --out, or --resume it")
        if not out.absolute().parent.is_dir():
            raise InputError(f"there is no folder {out.parent} for {out.name}; create it first")
        source = announced(expert)
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
            frame_stack=stacked_frames(make_env(source.env_id, source.env_kwargs)),
        )
        source.seed(seed)
        try:
            record(
                source,
                envs,
                out,
                info,
                episodes=episodes,
                steps=steps,
                resume=resume,
                progress=sys.stderr.isatty(),
            )
        except KeyboardInterrupt:
            print(
                f"imitate: what was recorded is in {out}; the same command with --resume goes on",
                file=sys.stderr,
            )
            raise
        envs.close()
        report(describe(out), as_json=json)
        return 0

    return run(command, argv, "collect")
