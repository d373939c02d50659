"""The table of algorithms, used by the command line, training and compare.

It holds names only: an algorithm is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from imitate.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from imitate.nn.policy import ActorPolicy

__all__ = ["ALGORITHMS", "Algorithm", "Learner", "find", "is_own"]

_ADVERSARIAL = {
    "plus-one": "constant reward +1",
    "minus-one": "constant reward -1",
    "one-action": "demonstrations of always one action",
    "random": "demonstrations of random actions",
}
"""Controls of a reward that is learned from demonstrations."""
Need = Literal["envs", "demos", "expert", "store"]


class Learner(Protocol):
    """A learner, as `training.run.Run` drives it.

    env_steps    environment steps that the learner has taken
    least_steps  the fewest environment steps with which one `step` can do anything; 0 for offline learners
    done         `config.total_steps` were taken, or more steps would not help
    """

    @property
    def policy(self) -> ActorPolicy: ...
    @property
    def env_steps(self) -> int: ...
    @property
    def least_steps(self) -> int: ...
    @property
    def expert_queries(self) -> int: ...
    @property
    def done(self) -> bool: ...
    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration (data, losses, updates); returns the metrics to log.

        It takes at most `limit` environment steps (None: no bound). Schedules assume that training ends at the limit.

        Raises FloatingPointError if a loss is not finite.
        """
        ...

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes with seeds that depend on the state alone."""
        ...


@dataclass(frozen=True)
class Algorithm:
    """An algorithm: where its learner and its settings are, and the keyword arguments of its learner.

    title       its name in reports
    path        "module:Class" of the learner
    settings    "module:Class" of its config. A module that imports no torch makes mistakes on the command line quick to
                answer
    needs       required arguments: `envs` (VecEnv); `demos` (DemoReader, with `episodes`, the indices to learn from);
                `expert` (Policy, or several, see `teachers`); `store` (DemoWriter, for the expert's labels)
    optional    optional arguments: `policy`, to start from; `demos`, as above
    variants    path and settings of the variants, if they have their own
    controls    variants that learn nothing about the expert and what each does; `compare` runs them too
    inner       field of the config that names the nested config in use; help shows only that one
    check       "module:function", called with (config, expert, env_id, env_kwargs) before a new run
    audit       whether `train --audit` can train the controls
    structured  whether it supports Dict observations, and MultiDiscrete and MultiBinary spaces
    actions     the only kind of actions that it supports, or `any`
    teachers    whether `expert` may be a list of several
    live        whether `expert` may be a person, who is asked while the learner plays
    rewarded    whether the environment's reward is all that it learns from, so that another may take its place
    """

    title: str
    summary: str
    path: str
    settings: str
    needs: tuple[Need, ...]
    optional: tuple[Literal["policy", "demos"], ...] = ()
    variants: tuple[str, str] | None = None
    controls: Mapping[str, str] = field(default_factory=dict)
    inner: str = ""
    check: str = ""
    audit: bool = False
    structured: bool = False
    actions: Literal["any", "discrete", "continuous"] = "any"
    teachers: bool = False
    live: bool = False
    rewarded: bool = False

    @property
    def offline(self) -> bool:
        """True if it learns without stepping an environment."""
        return "envs" not in self.needs

    def unused(self, hyperparameters: Mapping[str, Any], action_space: Space[Any]) -> set[str]:
        """The inner learners among the hyperparameters that a run does not use, by the one that is named or by the
        environment's actions."""
        from gymnasium.spaces import Box  # takes a fifth of a second, which help does not have

        inner = hyperparameters.keys() & ALGORITHMS.keys()
        if self.inner:
            return inner - {hyperparameters[self.inner]}
        others = "discrete" if isinstance(action_space, Box) else "continuous"
        return {name for name in inner if ALGORITHMS[name].actions == others}

    @property
    def learner(self) -> Any:
        """The learner's class, imported on this call."""
        return _imported(self.path)

    @property
    def config(self) -> Any:
        """The class of the hyperparameters, imported on this call."""
        return _imported(self.settings)

    @property
    def checker(self) -> Callable[..., None] | None:
        """The function that `check` names, imported on this call."""
        return _imported(self.check) if self.check else None


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


ALGORITHMS = {
    "bc": Algorithm(
        "BC",
        "behavioural cloning of recorded demonstrations",
        "imitate.imitators.bc:BC",
        "imitate.configs.bc:BCConfig",
        ("demos",),
        structured=True,
    ),
    "td3bc": Algorithm(
        "TD3+BC",
        "offline RL: TD3 from recorded steps and rewards, held to recorded actions; for continuous actions",
        "imitate.imitators.td3bc:TD3BC",
        "imitate.configs.td3bc:TD3BCConfig",
        ("demos",),
        actions="continuous",
    ),
    "dagger": Algorithm(
        "DAgger",
        "cloning on the learner's own states, labelled by the expert",
        "imitate.imitators.dagger:DAgger",
        "imitate.configs.dagger:DAggerConfig",
        ("envs", "expert", "store"),
        structured=True,
        teachers=True,
        live=True,
    ),
    "aggrevated": Algorithm(
        "AggreVaTeD",
        "learning from an expert's action values on the learner's own states",
        "imitate.aggrevated.trial:Trial",
        "imitate.configs.aggrevated:TrialConfig",
        ("envs", "expert", "store"),
        variants=("imitate.aggrevated.variants.learner:Variant", "imitate.configs.variants:VariantConfig"),
        check="imitate.aggrevated.critic_check:check_critic",
        teachers=True,
    ),
    "aggrevate": Algorithm(
        "AggreVaTe",
        "AggreVaTeD with values from playing on with the expert: works with any expert, costs many steps per state",
        "imitate.aggrevated.variants.aggrevate:AggreVaTe",
        "imitate.configs.variants:VariantConfig",
        ("envs", "expert", "store"),
    ),
    "loki": Algorithm(
        "LOKI",
        "AggreVaTeD first, then PPO from there: beyond the expert by reinforcement",
        "imitate.aggrevated.loki:LOKI",
        "imitate.configs.loki:LOKIConfig",
        ("envs", "expert", "store"),
    ),
    "guided": Algorithm(
        "Guided",
        "TQC that begins at an expert and leaves it behind, for continuous actions",
        "imitate.imitators.guided.hand_over:HandOver",
        "imitate.configs.guided:GuidedConfig",
        ("envs", "expert"),
        teachers=True,
        actions="continuous",
    ),
    "gail": Algorithm(
        "GAIL",
        "on-policy RL whose reward is to pass for the expert",
        "imitate.imitators.gail:GAIL",
        "imitate.configs.gail:GAILConfig",
        ("envs", "demos"),
        optional=("policy",),
        controls=_ADVERSARIAL,
        inner="learner",
        audit=True,
    ),
    "dac": Algorithm(
        "DAC",
        "SAC whose reward is to pass for the expert, for continuous actions; fewest steps",
        "imitate.imitators.dac:DAC",
        "imitate.configs.dac:DACConfig",
        ("envs", "demos"),
        controls=_ADVERSARIAL,
        actions="continuous",
        audit=True,
    ),
    "gaifo": Algorithm(
        "GAIfO",
        "DAC from demonstrations of observations alone, for continuous actions",
        "imitate.imitators.gaifo:GAIfO",
        "imitate.configs.gaifo:GAIfOConfig",
        ("envs", "demos"),
        actions="continuous",
    ),
    "sqil": Algorithm(
        "SQIL",
        "DQN or SAC in which the expert's steps are worth 1 and the learner's 0",
        "imitate.imitators.sqil:SQIL",
        "imitate.configs.sqil:SQILConfig",
        ("envs", "demos"),
    ),
    "iq": Algorithm(
        "IQ-Learn",
        "values whose implied reward is high where the expert goes, on the networks of DQN or SAC",
        "imitate.imitators.iq:IQ",
        "imitate.configs.iq:IQConfig",
        ("envs", "demos"),
    ),
    "qdagger": Algorithm(
        "QDagger",
        "DQN that begins from an expert's steps and action values, for discrete actions",
        "imitate.imitators.qdagger:QDagger",
        "imitate.configs.qdagger:QDaggerConfig",
        ("envs", "expert"),
        actions="discrete",
    ),
    "ppo": Algorithm(
        "PPO",
        "pure RL: proximal policy optimisation",
        "imitate.rl.ppo:PPO",
        "imitate.configs.ppo:PPOConfig",
        ("envs",),
        optional=("policy",),
        rewarded=True,
    ),
    "dqn": Algorithm(
        "DQN",
        "pure RL: deep Q-learning, for discrete actions",
        "imitate.rl.dqn:DQN",
        "imitate.configs.dqn:DQNConfig",
        ("envs",),
        actions="discrete",
        rewarded=True,
    ),
    "sac": Algorithm(
        "SAC",
        "pure RL: soft actor-critic, for continuous actions; fewest steps",
        "imitate.rl.sac:SAC",
        "imitate.configs.sac:SACConfig",
        ("envs",),
        optional=("demos",),
        actions="continuous",
        rewarded=True,
    ),
    "tqc": Algorithm(
        "TQC",
        "pure RL: SAC with quantile critics, for continuous actions",
        "imitate.rl.tqc:TQC",
        "imitate.configs.tqc:TQCConfig",
        ("envs",),
        optional=("demos",),
        actions="continuous",
        rewarded=True,
    ),
    "td3": Algorithm(
        "TD3",
        "pure RL: twin delayed deterministic policy gradient, for continuous actions",
        "imitate.rl.td3:TD3",
        "imitate.configs.td3:TD3Config",
        ("envs",),
        optional=("demos",),
        actions="continuous",
        rewarded=True,
    ),
    "reinforce": Algorithm(
        "REINFORCE",
        "pure RL: policy gradient of whole episodes",
        "imitate.rl.reinforce:REINFORCE",
        "imitate.configs.reinforce:REINFORCEConfig",
        ("envs",),
        rewarded=True,
    ),
    "rpo": Algorithm(
        "RPO",
        "pure RL: PPO with a perturbed mean, for continuous actions",
        "imitate.rl.ppo:PPO",
        "imitate.configs.ppo:PPOConfig",
        ("envs",),
        optional=("policy",),
        actions="continuous",
        rewarded=True,
    ),
    "a2c": Algorithm(
        "A2C",
        "pure RL: advantage actor-critic with n-step returns",
        "imitate.rl.a2c:A2C",
        "imitate.configs.a2c:A2CConfig",
        ("envs",),
        rewarded=True,
    ),
}


def find(name: str) -> Algorithm:
    """The entry of an algorithm, or of a variant `name:variant`, which its presets define; `module:Learner` is the
    user's own.

    Raises InputError for an unknown name, or if the user's own can't be used.
    """
    if not isinstance(name, str):
        raise InputError(f"an algorithm is named, such as 'ppo' or 'module:Learner', got {name!r}")
    if is_own(name):
        return _own(name)
    base, _, variant = name.partition(":")
    if base not in ALGORITHMS:
        raise InputError(
            f"unknown algorithm {base!r}{did_you_mean(base, ALGORITHMS)}; known: {', '.join(ALGORITHMS)}"
        )
    algorithm = ALGORITHMS[base]
    if not variant:
        return algorithm
    path, settings = algorithm.variants or (algorithm.path, algorithm.settings)
    return replace(
        algorithm,
        title=f"{algorithm.title} ({variant})",
        summary=f"{algorithm.title} with {algorithm.controls.get(variant, 'other settings')}",
        path=path,
        settings=settings,
    )


def is_own(name: str) -> bool:
    """True if the name is the user's own class, `module:Learner`, and not an algorithm of the table."""
    base, colon, _ = name.rpartition(":")
    return bool(colon) and base not in ALGORITHMS


def _own(name: str) -> Algorithm:
    """The entry of the user's own learner. It follows the protocol above, has its settings beside it as
    `LearnerConfig`, and needs the arguments of its constructor."""
    import dataclasses
    import inspect

    from imitate.envs.trust import import_typed

    module = import_typed(name, "`imitate train` or `imitate compare --add`")
    class_name = name.rpartition(":")[2]
    learner = getattr(module, class_name, None)
    config = getattr(module, f"{class_name}Config", None)
    if not inspect.isclass(learner) or not (inspect.isclass(config) and dataclasses.is_dataclass(config)):
        raise InputError(
            f"{name}: {module.__name__} must have a class {class_name} and its settings {class_name}Config, "
            "a dataclass, as docs/tutorials/your-algorithm.md describes"
        )
    for each in dataclasses.fields(config):
        if each.init and each.default is each.default_factory is dataclasses.MISSING:
            raise InputError(f"{name}: the setting {class_name}Config.{each.name} needs a default")
    signature = inspect.signature(learner)
    needs = tuple(need for need in get_args(Need) if need in signature.parameters)
    given = ("seed", "device", *(("episodes",) if "demos" in needs else ()), *needs)
    try:
        signature.bind(config, **dict.fromkeys(given))
    except TypeError as error:
        others = ", ".join(need for need in get_args(Need) if need not in needs)
        also = f"; it may also name {others}" if others else ""
        raise InputError(
            f"{name} is given its config, and by keyword {', '.join(given)}: {error}{also}"
        ) from error
    summary = (inspect.getdoc(learner) or "the user's own").splitlines()[0].rstrip(".")
    path = f"{module.__name__}:{class_name}"
    return Algorithm(class_name, summary, path, f"{path}Config", needs, structured=True)
