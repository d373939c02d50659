"""Run CleanRL's own ppo_atari.py on Pong and measure it as our learners are.

    python benchmarks/cleanrl_pong.py --script FOLDER/cleanrl/ppo_atari.py   -> benchmarks/results/cleanrl-pong.json

The script runs as it is, in a process of its own, with its own settings but for the game and the steps; a million
decisions take an hour or two of a core. It was written for Gymnasium 0.29, so what Gymnasium 1 has renamed is
named as then before it runs. Its network is our NatureCNN, so the weights that it leaves are put into our policy, which
plays full games with raw scores: sticky actions 0, up to 30 no-ops, frame skip 4. CleanRL reports sampled actions, so
these are measured too.
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from imitate.compare.machine import provenance
from imitate.datasets.evaluation import evaluate
from imitate.envs.atari import protocol
from imitate.envs.make import make_env
from imitate.files import versions, write_json
from imitate.nn.policy import ActorPolicy

RESULTS = Path(__file__).parent / "results" / "cleanrl-pong.json"
GAME = "PongNoFrameskip-v4"
LAYERS = (0, 2, 4, 7)  # of the network with weights, in CleanRL's as in ours


class OldSyncVectorEnv(SyncVectorEnv):
    """SyncVectorEnv as in Gymnasium 0.29: it resets in the step that ends an episode, and lists the last infos."""

    def __init__(self, env_fns: list[Callable[[], Any]]) -> None:
        super().__init__(env_fns, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> Any:
        *answer, infos = super().step(actions)
        if "final_info" in infos:
            ended, last = infos["_final_info"], infos["final_info"].get("episode")
            infos["final_info"] = [
                {"episode": {name: last[name][n] for name in ("r", "l")}} if ended[n] and last else None
                for n in range(self.num_envs)
            ]
        return *answer, infos


def train(script: Path, arguments: list[str], out: Path) -> None:
    """Run the script in this process, and store its agent's weights as arrays."""
    gym.register_envs(ale_py)
    wrappers: Any = gym.wrappers
    wrappers.GrayScaleObservation = gym.wrappers.GrayscaleObservation
    wrappers.FrameStack = gym.wrappers.FrameStackObservation
    gym.vector.SyncVectorEnv = OldSyncVectorEnv  # type: ignore[misc]
    sys.path.insert(0, str(script.parent.parent))
    sys.argv = [str(script), *arguments]
    weights = runpy.run_path(str(script), run_name="__main__")["agent"].state_dict()
    np.savez(out, **{name: tensor.cpu().numpy() for name, tensor in weights.items()})


def as_policy(weights: Path) -> ActorPolicy:
    """CleanRL's agent as a policy of ours."""
    env = make_env(GAME)
    policy = ActorPolicy(env.observation_space, env.action_space)
    layers = {f"encoder.net.{n}": f"network.{n}" for n in LAYERS} | {"output": "actor"}
    with np.load(weights) as arrays:
        state = {
            f"{ours}.{part}": torch.from_numpy(arrays[f"{theirs}.{part}"])
            for ours, theirs in layers.items()
            for part in ("weight", "bias")
        }
    policy.load_state_dict(policy.state_dict() | state)
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--script", type=Path, required=True, help="CleanRL's ppo_atari.py")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--weights", type=Path, help=argparse.SUPPRESS)  # of the process that trains
    given = parser.parse_args()
    steps = ["--env-id", GAME, "--total-timesteps", str(given.steps), "--seed", str(given.seed), "--no-cuda"]
    if given.weights is not None:
        train(given.script.absolute(), steps, given.weights)
        return
    with tempfile.TemporaryDirectory() as folder:
        weights, begin = Path(folder) / "weights.npz", time.monotonic()
        words = [__file__, "--script", str(given.script.absolute()), "--weights", str(weights)]
        words += ["--steps", str(given.steps), "--seed", str(given.seed)]
        subprocess.run([sys.executable, *words], cwd=folder, check=True)
        seconds, policy = time.monotonic() - begin, as_policy(weights)
    record: dict[str, Any] = {"script": given.script.name, "arguments": steps, "seconds": seconds}
    record |= {"protocol": protocol(GAME), "machine": provenance(), "versions": versions()}
    for name, deterministic in (("deterministic", True), ("sampled", False)):
        found = evaluate(policy, GAME, episodes=given.episodes, deterministic=deterministic)
        record[name] = found.to_json()
        print(f"{name}: {found}")
    write_json(given.out, record)


if __name__ == "__main__":
    main()
