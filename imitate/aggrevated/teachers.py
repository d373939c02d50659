"""Several teachers, each good at a part of the task (MAMBA, arXiv:2007.00795): imitate the best one in each state.

Every teacher is asked in every state. Fitted Q evaluation learns Q_k of each from the same steps, so that they are
comparable. The value of an action is max_k Q_k(s, a): what it returns if the best teacher for what follows goes on from
there. A state's label is the teacher's action with the highest such value. Labels of all states are chosen anew
whenever the values change.

Departures: MAMBA learns V_k from Monte-Carlo returns and improves on max_k V_k(s) by policy gradient. Roll-ins are led
by each teacher and by the best one in each state, in turn, so that all are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.aggrevated.fqe import FittedQ, FQEConfig
from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.spaces import Array
from imitate.errors import InputError
from imitate.rl.rollout import Rollout

__all__ = ["Teachers"]


class Teachers(nn.Module):
    """K >= 2 teachers as one: a policy, a `QOracle` that is learned online like `FittedQ`, and a source of labels.

    queries   (K,) states that each teacher was asked about; a state of a roll-in counts once
    leader    who leads the roll-in: a teacher's index, or K for the best one in each state
    """

    greedy = False
    queries: Tensor

    def __init__(
        self,
        teachers: Sequence[Policy],
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: FQEConfig,
        *,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        if len(teachers) < 2:
            raise InputError(f"several teachers are at least 2, got {len(teachers)}")
        self._asks = [partial(teacher.act, deterministic=True) for teacher in teachers]
        self.critics = nn.ModuleList(
            FittedQ(observation_space, action_space, config, seed=seed + k, device=device)
            for k in range(len(teachers))
        )
        self.register_buffer("queries", torch.zeros(len(teachers), dtype=torch.int64))
        self.leader = 0
        self._chosen: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def fitted(self) -> list[FittedQ]:
        """The critic of each teacher."""
        return list(self.critics)  # type: ignore[arg-type]

    @property
    def gamma(self) -> float:
        return self.fitted[0].gamma

    @property
    def reward_scale(self) -> float:
        return self.fitted[0].reward_scale  # all have seen the same rewards

    @property
    def memory(self) -> Teachers:
        """What a learner reads of `FittedQ.memory`: `pieces` and `last`."""
        return self

    @property
    def pieces(self) -> int:
        return self.fitted[0].memory.pieces

    def begin(self, iteration: int) -> None:
        """Choose the leader of this iteration's roll-in."""
        self.leader = iteration % (len(self._asks) + 1)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """The leader's actions (N, *action_shape); `label` counts these queries."""
        if self.leader < len(self._asks):
            return np.asarray(self._asks[self.leader](obs))
        actions = [np.asarray(ask(obs)) for ask in self._asks]
        return self._best(obs, actions)

    def label(self, rollout: Rollout) -> Array:
        """Ask every teacher in the roll-in's states; the actions (T, N, *action_shape) of those that are now best.

        The steps enter the memory of every critic.
        """
        flat, shape = rollout.flat_obs, rollout.actions.shape
        answers = [self._ask(k, flat).reshape(-1, *shape[2:]) for k in range(len(self._asks))]
        for k, answer in enumerate(answers):
            pieces = list(rollout.segments(answer.reshape(shape)))
            self.fitted[k].take_in(pieces, partial(self._ask, k))
        self._chosen = None
        return self._best(flat, answers).reshape(shape)

    def take_in(self, pieces: Sequence[Trajectory], ask: Callable[[Array], Array]) -> None:  # noqa: ARG002
        """Remember steps of a store again, after a checkpoint; these queries were counted before."""
        for piece in pieces:
            for k, fitted in enumerate(self.fitted):
                labels = np.asarray(self._asks[k](piece.obs[:-1])).astype(piece.labels.dtype)
                own = Trajectory(
                    *(piece.obs, piece.actions, piece.rewards, piece.terminated, piece.truncated),
                    expert_actions=labels,
                )
                fitted.take_in([own], partial(self._ask, k))
        self._chosen = None

    def fit(self, updates: int, rng: np.random.Generator, *, held_out: int = 0) -> float:
        """`FittedQ.fit` of every critic; returns the mean loss."""
        losses = [fitted.fit(updates, rng, held_out=held_out) for fitted in self.fitted]
        self._chosen = None
        return sum(losses) / len(losses)

    def batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        """One epoch of all states (B, ...) and the actions there of the best teacher, shuffled; see `DemoReader`."""
        obs, labels, _ = self._labelled()
        order = torch.from_numpy(rng.permutation(len(obs))).to(obs.device)
        for rows in torch.split(order, batch_size):
            yield obs[rows], labels[rows]

    def last(self, count: int) -> tuple[Tensor, Tensor]:
        """Observations and labels (B, ...) of the last `count` steps."""
        obs, labels, _ = self._labelled()
        return obs[-count:], labels[-count:]

    def metrics(self) -> dict[str, float]:
        """Queries of each teacher, and its share of the labels."""
        best = self._labelled()[2]
        shares = {f"labels_{k + 1}": float((best == k).float().mean()) for k in range(len(self._asks))}
        return shares | {f"queries_{k + 1}": float(count) for k, count in enumerate(self.queries.tolist())}

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The highest of the teachers' values in each head (2, B); see `QOracle`."""
        return torch.stack([fitted.heads(obs, actions) for fitted in self.fitted]).amax(0)

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        """The highest of the teachers' values (B,); see `QOracle`."""
        return torch.stack([fitted.q(obs, actions) for fitted in self.fitted]).amax(0)

    def q_all(self, obs: Tensor) -> Tensor:
        """The highest of the teachers' values for every action (B, A); see `QOracle`."""
        return torch.stack([fitted.q_all(obs) for fitted in self.fitted]).amax(0)

    def _ask(self, teacher: int, obs: Array) -> Array:
        self.queries[teacher] += len(obs)
        return np.asarray(self._asks[teacher](obs))

    def _best(self, obs: Array, answers: Sequence[Array]) -> Array:
        """Of the teachers' actions (N, ...) the best one in each state."""
        device = self.queries.device
        actions = torch.stack([torch.from_numpy(answer).to(device) for answer in answers])
        best = self._choice(torch.from_numpy(obs).to(device), actions).cpu().numpy()
        chosen: Array = np.stack(answers)[best, np.arange(len(best))]
        return chosen

    @torch.no_grad()
    def _choice(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Which of the teachers' actions (K, B, ...) is best in each state (B,)."""
        return torch.stack([self.q(obs, action) for action in actions]).argmax(0)

    @torch.no_grad()
    def _labelled(self) -> tuple[Tensor, Tensor, Tensor]:
        """All states so far (B, ...), the best teacher's actions there (B, ...), and who that is (B,)."""
        if self._chosen is None:
            known = [fitted.memory.last(len(fitted.memory)) for fitted in self.fitted]
            obs, actions = known[0][0], torch.stack([labels for _, labels in known])
            best = self._choice(obs, actions)
            self._chosen = obs, actions[best, torch.arange(len(best), device=best.device)], best
        return self._chosen
