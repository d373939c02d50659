"""Validations of a run: a few episodes of its policy, by which the best one is kept."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import islice

from imitate.datasets.asking import asking
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.envs.make import make_env
from imitate.envs.seeds import Stream, draw_seed, episode_seeds
from imitate.envs.stepping import as_taken
from imitate.envs.vec import SyncVecEnv
from imitate.imitators.likeness import Likeness
from imitate.nn.policy import ActorPolicy
from imitate.rl.rollout import whole_episodes
from imitate.training.experiment import Experiment
from imitate.training.inputs import Inputs
from imitate.training.run import Validate

__all__ = ["validation_of"]


def validation_of(experiment: Experiment, inputs: Inputs) -> Validate:
    """The validation that the experiment asks for: by true return, or by distance from the demonstrations.

    Raises InputError if there is no distance between observations such as these.
    """
    seed = draw_seed(Stream.VALIDATION, experiment.seed)

    def by_return(policy: ActorPolicy, max_steps: int) -> Evaluation:
        return evaluate(
            policy,
            experiment.env_id,
            episodes=experiment.eval_episodes,
            seed=seed,
            env_kwargs=experiment.env_kwargs,
            num_envs=experiment.eval_episodes,
            max_steps=max_steps,
        )

    if experiment.validate_by == "return" or not experiment.eval_every:
        return by_return
    assert inputs.demos is not None  # `Experiment.check_inputs`
    given = experiment.hyperparameters
    few = {"every": given.get("demo_every", 1), "pairs": given.get("demo_pairs")}
    likeness = Likeness(inputs.demos, inputs.episodes, **few, seed=draw_seed(experiment.seed, 2))
    makers = [partial(make_env, experiment.env_id, experiment.env_kwargs)] * experiment.eval_episodes

    def by_demos(policy: ActorPolicy, max_steps: int) -> Evaluation:
        """One episode in each environment."""
        with closing(SyncVecEnv(makers)) as envs:
            choose = as_taken(asking(policy, envs.single_action_space))
            rollout = whole_episodes(envs, choose, islice(episode_seeds(seed), len(makers)), max_steps)
            returns, lengths = (rollout.rewards * rollout.steps).sum(0), rollout.steps.sum(0)
            return Evaluation(
                returns, lengths, complete=not envs.running.any(), distance=likeness.distance(rollout)
            )

    return by_demos
