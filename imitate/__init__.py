"""Imitation learning from real experts, compared with pure RL.

`compare` is imported from `imitate.compare`, the package of that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imitate import lazy

if TYPE_CHECKING:
    from imitate.aggrevated.learner import AggreVaTeD
    from imitate.algorithms import ALGORITHMS, Learner
    from imitate.bc import BC, BCConfig
    from imitate.compare import Comparison
    from imitate.configs.aggrevated import AggreVaTeDConfig
    from imitate.dagger import DAgger, DAggerConfig
    from imitate.datasets import DemoInfo, DemoReader, DemoWriter, InputError, Policy, Trajectory, collect
    from imitate.datasets.evaluation import Evaluation, evaluate
    from imitate.envs.trust import trust
    from imitate.experts import Expert, load_expert
    from imitate.gail import GAIL, GAILConfig
    from imitate.nn.policy import ActorPolicy
    from imitate.nn.stored_policy import load_policy, save_policy
    from imitate.rl.ppo import PPO, PPOConfig
    from imitate.training.execute import execute
    from imitate.training.experiment import Experiment
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

__getattr__, __dir__ = lazy.attach(
    __name__,
    {
        "imitate.aggrevated.learner": ("AggreVaTeD",),
        "imitate.configs.aggrevated": ("AggreVaTeDConfig",),
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
        "imitate.training.execute": ("execute",),
        "imitate.training.experiment": ("Experiment",),
        "imitate.envs.trust": ("trust",),
        "imitate.experts": ("Expert", "load_expert"),
        "imitate.gail": ("GAIL", "GAILConfig"),
        "imitate.nn.policy": ("ActorPolicy",),
        "imitate.nn.stored_policy": ("load_policy", "save_policy"),
        "imitate.rl.ppo": ("PPO", "PPOConfig"),
        "imitate.video": ("record_video",),
    },
)
