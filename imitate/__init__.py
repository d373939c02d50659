"""Imitation learning from real experts, compared with pure RL.

`compare` is imported from `imitate.compare`, the package of that name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from imitate.aggrevated.config import AggreVaTeDConfig
    from imitate.aggrevated.learner import AggreVaTeD
    from imitate.algorithms import ALGORITHMS, Learner
    from imitate.bc import BC, BCConfig
    from imitate.compare import Comparison
    from imitate.dagger import DAgger, DAggerConfig
    from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Policy, Trajectory, collect
    from imitate.datasets.evaluation import Evaluation, evaluate
    from imitate.envs.trust import trust
    from imitate.experts import Expert, load_expert
    from imitate.gail import GAIL, GAILConfig
    from imitate.nn.policy import ActorPolicy
    from imitate.nn.stored_policy import load_policy, save_policy
    from imitate.rl.ppo import PPO, PPOConfig
    from imitate.training.experiment import Experiment, execute
    from imitate.video import record_video

__all__ = [
    "ALGORITHMS",
    "BC",
    "GAIL",
    "PPO",
    "ActorPolicy",
    "AggreVaTeD",
    "AggreVaTeDConfig",
    "BCConfig",
    "Comparison",
    "DAgger",
    "DAggerConfig",
    "DemoInfo",
    "DemoReader",
    "DemoWriter",
    "Evaluation",
    "Experiment",
    "Expert",
    "GAILConfig",
    "InputError",
    "Learner",
    "PPOConfig",
    "Policy",
    "Trajectory",
    "collect",
    "evaluate",
    "execute",
    "load_expert",
    "load_policy",
    "record_video",
    "save_policy",
    "trust",
]

_HOMES = {
    "imitate.aggrevated.learner": ("AggreVaTeD",),
    "imitate.aggrevated.config": ("AggreVaTeDConfig",),
    "imitate.algorithms": ("ALGORITHMS", "Learner"),
    "imitate.bc": ("BC", "BCConfig"),
    "imitate.compare": ("Comparison",),
    "imitate.dagger": ("DAgger", "DAggerConfig"),
    "imitate.datasets": (
        "DemoInfo",
        "DemoReader",
        "DemoWriter",
        "InputError",
        "Policy",
        "Trajectory",
        "collect",
    ),
    "imitate.datasets.evaluation": ("Evaluation", "evaluate"),
    "imitate.training.experiment": ("Experiment", "execute"),
    "imitate.envs.trust": ("trust",),
    "imitate.experts": ("Expert", "load_expert"),
    "imitate.gail": ("GAIL", "GAILConfig"),
    "imitate.nn.policy": ("ActorPolicy",),
    "imitate.nn.stored_policy": ("load_policy", "save_policy"),
    "imitate.rl.ppo": ("PPO", "PPOConfig"),
    "imitate.video": ("record_video",),
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes a second, which `imitate --help` does not have."""
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
