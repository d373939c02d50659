"""Several teachers, each good at a part of the task: imitate, in each state, the one whose action is worth most.

Every teacher is asked in every state. One critic learns, by fitted Q evaluation, the value of the policy that follows
in each state the teacher whose action it rates highest; the choice is made anew as the values change. This policy is
at least as good as the best teacher in every state, max_k V_k (MAMBA, arXiv:2007.00795).

Departures: MAMBA learns V_k of each teacher from Monte-Carlo returns and improves on max_k V_k by policy gradient.
Where every teacher fails soon, their own values reach no farther than that; those of the policy that switches do.
Roll-ins are led by each teacher and by the best one in each state, in turn, so that all are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from imitate.datasets.trajectory import Policy, Trajectory
from imitate.envs.spaces import Array, check_plain
from imitate.errors import InputError
from imitate.experts.fqe import FittedQ, FQEConfig
from imitate.experts.memory import Memory
from imitate.rl.rollout import Rollout

__all__ = ["Teachers"]

_RELABELLED = 100  # gradient steps of the critic between two choices of the labels


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
        check_plain("DAgger from several teachers", observation_space, action_space)
        self._asks = [partial(teacher.act, deterministic=True) for teacher in teachers]
        # More steps would follow one teacher beyond the states in which it is the best.
        config = replace(config, n_step=1)
        self.critic = FittedQ(observation_space, action_space, config, seed=seed, device=device)
        self.register_buffer("queries", torch.zeros(len(teachers), dtype=torch.int64))
        self.leader = 0
        self._answers: list[Tensor] = []  # (K, T + 1, ...) of each piece in memory

    @property
    def gamma(self) -> float:
        return self.critic.gamma

    @property
    def reward_scale(self) -> float:
        return self.critic.reward_scale

    @property
    def memory(self) -> Memory:
        return self.critic.memory

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.critic.q(obs, actions)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.critic.heads(obs, actions)

    def q_all(self, obs: Tensor) -> Tensor:
        return self.critic.q_all(obs)

    def begin(self, iteration: int) -> None:
        """Choose the leader of this iteration's roll-in."""
        self.leader = iteration % (len(self._asks) + 1)

    def act(self, obs: Array, *, deterministic: bool = True) -> Array:  # noqa: ARG002
        """The leader's actions (N, *action_shape); `label` counts these queries."""
        if self.leader < len(self._asks):
            return np.asarray(self._asks[self.leader](obs))
        answers = self._all(obs)
        return self._chosen(torch.from_numpy(obs).to(self.queries.device), answers)[0].cpu().numpy()

    def label(self, rollout: Rollout) -> Array:
        """Ask every teacher in the roll-in's states; the actions (T, N, *action_shape) of those that are now best.

        The steps enter the critic's memory.
        """
        flat, shape = rollout.flat_obs, rollout.actions.shape
        self.queries += len(flat)
        answers = self._all(flat)
        best, _ = self._chosen(torch.from_numpy(flat).to(answers.device), answers)
        labels: Array = best.cpu().numpy().astype(rollout.actions.dtype).reshape(shape)
        by_teacher = [list(rollout.segments(answer.cpu().numpy().reshape(shape))) for answer in answers]
        for piece, *each in zip(rollout.segments(labels), *by_teacher, strict=True):
            self.queries += 0 if piece.terminated else 1
            here = torch.stack([torch.from_numpy(one.labels) for one in each]).to(answers.device)
            self._remember(piece, here)
        return labels

    def take_in(self, pieces: Sequence[Trajectory], ask: Callable[[Array], Array]) -> None:  # noqa: ARG002
        """Remember steps of a store again, after a checkpoint; these queries were counted before."""
        for piece in pieces:
            self._remember(piece, self._all(piece.obs[:-1]))
        if pieces:
            self._relabel()

    def fit(self, updates: int, rng: np.random.Generator, *, held_out: int = 0) -> float:
        """`FittedQ.fit`, choosing the labels anew now and then; returns the last loss."""
        loss = 0.0
        self._relabel()
        for done in range(0, updates, _RELABELLED):
            loss = self.critic.fit(min(_RELABELLED, updates - done), rng, held_out=held_out)
            self._relabel()
        return loss

    def batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        """One epoch of all states (B, ...) and their labels (B, ...), shuffled; see `DemoReader.batches`."""
        obs, labels = self.memory.last(len(self.memory))
        order = torch.from_numpy(rng.permutation(len(obs))).to(obs.device)
        for rows in torch.split(order, batch_size):
            yield obs[rows], labels[rows]

    def metrics(self) -> dict[str, float]:
        """Queries of each teacher, and its share of the labels."""
        shares = {f"labels_{k + 1}": float((self._best == k).float().mean()) for k in range(len(self._asks))}
        return shares | {f"queries_{k + 1}": float(count) for k, count in enumerate(self.queries.tolist())}

    def _all(self, obs: Array) -> Tensor:
        """Every teacher's actions (K, N, ...)."""
        return torch.from_numpy(np.stack([ask(obs) for ask in self._asks])).to(self.queries.device)

    @torch.no_grad()
    def _chosen(self, obs: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """The best of the teachers' actions (K, B, ...) in each state, (B, ...), and whose it is (B,)."""
        best = torch.stack([self.q(obs, answer) for answer in answers]).argmax(0)
        return answers[best, torch.arange(len(best), device=best.device)], best

    def _remember(self, piece: Trajectory, answers: Tensor) -> None:
        """Take in a piece of T steps and the teachers' actions (K, T, ...) in its states, but for the last."""
        last = answers[:, -1:] if piece.terminated else self._all(piece.obs[-1:])
        self._answers.append(torch.cat([answers, last.to(answers.dtype)], 1))
        self.critic.take_in([piece], lambda _: np.asarray(last[0].cpu()))

    def _relabel(self) -> None:
        """Choose the labels of all states by the values as they are now."""
        labels, self._best = self._chosen(self.memory.states(), torch.cat(self._answers, 1))
        self.memory.relabel(labels)
