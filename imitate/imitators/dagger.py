"""DAgger (arXiv:1011.0686): clone the expert on the states that the learner itself visits.

An iteration rolls in with the mixture alpha * expert + (1 - alpha) * learner (the paper's beta is alpha here), asks the
expert to label every state, adds the labelled states to the store, and trains on everything in it. In each iteration
the learning rate decays to 0, and the last one trains for longer, since only the final policy needs a long fit. The
policy is the moving average of the weights. AggreVaTeD is this learner with a critic (`imitate.aggrevated.learner`).

Departures from the paper: for continuous actions the expert's share never falls below 0.3 (`alpha_floor`). Who acts is
drawn for segments of an episode (`alpha_per`), not at every step. Actions are sampled in roll-ins, so a Gaussian policy
rolls in with noise. What is handed over is the last policy, not the best on validation, and it is a moving average of
weights that no roll-in was made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from imitate.configs.dagger import DAggerConfig
from imitate.datasets.asking import Askable
from imitate.datasets.storage.writer import DemoWriter
from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import values_of
from imitate.envs.vec import VecEnv
from imitate.imitators.cloning import new_policy
from imitate.imitators.roll_in.roll_in import RollIn
from imitate.imitators.roll_in.student import Student
from imitate.imitators.roll_in.teachers import Teacher, Teachers, teacher_of
from imitate.nn.policy import ActorPolicy
from imitate.nn.state import load_parts, parts_state
from imitate.rl.handed import takes

__all__ = ["DAgger", "DAggerConfig"]


class DAgger:
    """DAgger on vector environments; the aggregated data stay on disk, in `store`.

    `expert` is a policy, or a function from observations (N, *obs_shape) to actions (N, *action_shape), or a list of
    policies, which are imitated where they are best (`Teachers`).

    roll_in  who plays and who labels
    student  what learns
    """

    @takes(DAggerConfig)
    def __init__(
        self,
        config: DAggerConfig,
        *,
        envs: VecEnv,
        expert: Askable | Sequence[Askable] | Teacher | Teachers,
        store: DemoWriter,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        observations, actions = envs.single_observation_space, envs.single_action_space
        self.config = config = config.completed(values_of(actions) is not None)
        self.seed, self.iteration = seed, 0
        self.student = Student(config, new_policy(config, observations, actions, seed=seed).to(device))
        teacher = teacher_of(expert, store, seed=seed, device=device)
        self.roll_in = RollIn(config, envs, teacher, store, device=device)
        self._reseed()

    @property
    def policy(self) -> ActorPolicy:
        return self.student.policy

    @property
    def env_steps(self) -> int:
        return self.roll_in.env_steps

    @property
    def expert_queries(self) -> int:
        return self.roll_in.teacher.queries

    @property
    def least_steps(self) -> int:
        return self.roll_in.least_steps

    @property
    def done(self) -> bool:
        return self.roll_in.done(self.iteration)

    def step(self, limit: int | None = None) -> dict[str, float]:
        """One iteration of at most `limit` environment steps: roll in, label, learn from all states so far."""
        states, last = self.roll_in.play(self.student.act, self.iteration, limit)
        self.student.observe(states.obs)
        metrics = self.roll_in.metrics(self.policy, states.obs, states.labels)
        metrics |= self.roll_in.teacher.fit(self.rng)
        count = self.config.final_updates if last else self.config.updates_per_iteration
        batches = self.roll_in.batches(count, self.config.batch_size, self.rng)
        metrics |= self.student.clone(batches, count)
        self.iteration += 1
        return metrics | self.roll_in.sampler.pop_episodes()

    def _reseed(self) -> None:
        seed = draw_seed(self.seed, self.iteration)
        self.rng = np.random.default_rng(seed)
        self.student.seed(draw_seed(self.seed, self.iteration, 1))  # another stream than that of the updates
        self.roll_in.restart(seed, self.rng)

    def state_dict(self) -> dict[str, Any]:
        counts = {"iteration": self.iteration, "env_steps": self.env_steps}
        return counts | self.student.state_dict() | parts_state(self.roll_in, "teacher")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state and begin new episodes; the store must be as it was when the state was saved."""
        self.student.load_state_dict(state)
        load_parts(self.roll_in, state, "teacher")
        self.iteration, self.roll_in.sampler.env_steps = state["iteration"], state["env_steps"]
        self._reseed()
