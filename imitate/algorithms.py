"""The one table of algorithms, read by the command line, experiments and compare. Names only: nothing is imported
until an algorithm is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from imitate.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from imitate.nn.policy import ActorPolicy

__all__ = ["ALGORITHMS", "Algorithm", "Learner", "find"]

Need = Literal["envs", "demos", "expert", "oracle", "store"]


class Learner(Protocol):
    """What `run.train` drives. `env_steps` are the learner's own; `done` says that more steps would not help."""

    @property
    def policy(self) -> ActorPolicy: ...
    @property
    def env_steps(self) -> int: ...
    @property
    def expert_queries(self) -> int: ...
    @property
    def done(self) -> bool: ...
    def step(self) -> dict[str, float]:
        """One iteration: data, losses, updates; returns what is logged."""
        ...

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over a state and begin new episodes with seeds that depend on the state alone."""
        ...


@dataclass(frozen=True)
class Algorithm:
    """Where an algorithm lives and what its learner is handed, by keyword: `envs` (VecEnv), `demos`
    (DemoReader), `expert` (Policy), `oracle` (its action values), `store` (DemoWriter); optionally `policy`, to
    start from.

    controls    variants that compare runs beside it, and what each is: they can know nothing of the expert
    """

    title: str
    summary: str
    module: str
    needs: tuple[Need, ...]
    optional: tuple[Literal["policy"], ...] = ()
    class_name: str = ""  # of the learner, where it is not the title
    controls: Mapping[str, str] = field(default_factory=dict)

    @property
    def offline(self) -> bool:
        """Learns without stepping an environment."""
        return "envs" not in self.needs

    @property
    def learner(self) -> Any:
        return getattr(import_module(self.module), self.class_name or self.title)

    @property
    def config(self) -> Any:
        return getattr(import_module(self.module), f"{self.class_name or self.title}Config")


ALGORITHMS = {
    "bc": Algorithm("BC", "behavioural cloning of recorded demonstrations", "imitate.bc", ("demos",)),
    "dagger": Algorithm(
        "DAgger",
        "cloning on the learner's own states, labelled by the expert",
        "imitate.dagger",
        ("envs", "expert", "store"),
    ),
    "aggrevated": Algorithm(
        "AggreVaTeD",
        "learning from an expert's action values on the learner's own states: better than the expert, where it errs",
        "imitate.aggrevated.learner",
        ("envs", "expert", "oracle", "store"),
    ),
    "gail": Algorithm(
        "GAIL",
        "on-policy RL whose reward is to pass for the expert",
        "imitate.gail",
        ("envs", "demos"),
        ("policy",),
        controls={
            "plus-one": "constant reward +1",
            "minus-one": "constant reward -1",
            "one-action": "demonstrations of always one action",
            "random": "demonstrations of random actions",
        },
    ),
    "sqil": Algorithm(
        "SQIL",
        "Q-learning in which the expert's steps are worth 1 and the learner's 0, for discrete actions",
        "imitate.sqil",
        ("envs", "demos"),
    ),
    "ppo": Algorithm(
        "PPO", "pure RL: proximal policy optimisation", "imitate.rl.ppo", ("envs",), ("policy",)
    ),
    "dqn": Algorithm("DQN", "pure RL: deep Q-learning, for discrete actions", "imitate.rl.dqn", ("envs",)),
    "reinforce": Algorithm(
        "REINFORCE", "pure RL: policy gradient of whole episodes", "imitate.rl.reinforce", ("envs",)
    ),
    "rpo": Algorithm(
        "RPO",
        "pure RL: PPO with a perturbed mean, for continuous actions",
        "imitate.rl.ppo",
        ("envs",),
        ("policy",),
        class_name="PPO",
    ),
    "a2c": Algorithm(
        "A2C", "pure RL: advantage actor-critic with n-step returns", "imitate.rl.a2c", ("envs",)
    ),
}


def find(name: str) -> Algorithm:
    """The entry of an algorithm, or of its variant `name:variant`: other settings, which its presets name.

    Raises InputError for an unknown name.
    """
    base, _, variant = name.partition(":")
    if base not in ALGORITHMS:
        raise InputError(
            f"unknown algorithm {base!r}{did_you_mean(base, ALGORITHMS)}; known: {', '.join(ALGORITHMS)}"
        )
    algorithm = ALGORITHMS[base]
    if not variant:
        return algorithm
    class_name = algorithm.class_name or algorithm.title
    return replace(
        algorithm,
        title=f"{algorithm.title} ({variant})",
        summary=f"{algorithm.title} with {algorithm.controls.get(variant, 'other settings')}",
        class_name=class_name,
    )
