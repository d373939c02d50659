"""The table of subcommands. They are imported only when called, so that help is instant."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from imitate.algorithms import ALGORITHMS
from imitate.errors import InputError, did_you_mean

__all__ = ["COMMANDS", "find"]

COMMANDS = {
    "quickstart": "compare BC, DAgger and PPO on CartPole with a bundled expert, in minutes",
    "collect": "record an expert's demonstrations to HDF5",
    "data": "describe, check, convert, push, edit, replay, film and plot demonstrations (`data info FILE` ...)",
    "train": f"train a learner (`train ALGO --env ENV ...`): {', '.join(ALGORITHMS)}",
    "improve": "look for a better policy than an expert's on a budget, and prove it",
    "tune": "search for hyperparameters with Optuna (`tune ALGO --env ENV --trials N ...`)",
    "export": "write a policy for use elsewhere: ONNX, torch, Stable-Baselines3, safetensors, the hub",
    "runs": "list the runs in a folder: learner, environment, steps, return, age",
    "evaluate": "measure a run or an expert, optionally with a video",
    "reward": "compare the reward that a run learned with the true one, on recorded episodes",
    "compare": "compare imitation and RL on equal budgets of environment steps, with a report",
    "report": "write the report of a comparison again, or one report of several comparisons",
    "reproduce": "run rows of the results again, and compare with their record",
    "envs": "list the environments that can be run here, and what extras would add",
    "expert": "list, show, check, train or convert experts (`expert list|show|check|train|convert`)",
    "doctor": "say what works here, what is missing, and which command brings it",
    "completion": "print a script that completes commands in a shell (`completion bash|zsh|fish`)",
}


def find(name: str) -> Callable[[list[str]], int]:
    """The subcommand, which takes the words after its name and returns the exit status.

    Raises InputError for an unknown one.
    """
    if name not in COMMANDS:
        raise InputError(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}; see `imitate --help`")
    module = import_module(f"imitate.commands.{'compare' if name == 'quickstart' else name}")
    command: Callable[[list[str]], int] = getattr(module, name)
    return command
