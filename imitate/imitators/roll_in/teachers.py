"""Labels for the states that DAgger visits: from one expert, or from several, each good at a part of the task.

Of several experts, the one whose action is worth most is imitated in each state. Every one is asked in every state. One
critic learns, by fitted Q evaluation, the value of the policy that follows in each state the expert whose action it
rates highest; the choice is made anew as the values change. This policy is at least as good as the best expert in every
state, max_k V_k (MAMBA, arXiv:2007.00795).

Departures: MAMBA learns V_k of each expert from Monte-Carlo returns and improves on max_k V_k by policy gradient.
If every expert fails early, their own values can't see past the failure; the switching policy's can.
Roll-ins are led by each expert and by the best one in each state, in turn, so that all are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from imitate.datasets.asking import Askable, asking
from imitate.datasets.storage.writer import DemoWriter
from imitate.datasets.trajectory import Trajectory
from imitate.envs.spaces import Array, check_plain
from imitate.errors import InputError
from imitate.experts.values.fqe import FittedQ, FQEConfig
from imitate.nn.state import load_parts, parts_state
from imitate.rl.rollout import Rollout

__all__ = ["Teacher", "Teachers", "teacher_of"]

_UPDATES = 500  # gradient steps of the critic after a roll-in
_RELABELLED = 100  # of them between two choices of the labels


class Teacher:
    """One expert as a source of labels.

    live     whether the expert must be asked about every state of a roll-in while it lasts, as a person who watches it
    critic   the expert's action values, learned from the store's steps; None: no critic is needed
    revises  whether labels change after they were given
    queries  states that the expert answered
    """

    revises = False

    def __init__(self, expert: Askable, store: DemoWriter, critic: FittedQ | None = None) -> None:
        self.critic, self.queries = critic, 0
        self.live: bool = getattr(expert, "live", False)
        self._answers: list[Array] = []  # of a live expert in this roll-in, (N, *action_shape) each
        self._ask, self._store = asking(expert, store.info.action_space, who="the expert"), store

    def begin(self, iteration: int) -> None:  # noqa: ARG002
        """Prepare the roll-in of an iteration."""
        self._answers = []

    def act(self, obs: Array) -> Array:
        """The expert's actions (N, *action_shape)."""
        actions = self._ask(obs)
        self.queries += len(obs)
        if self.live:
            self._answers.append(actions)
        return actions

    def label(self, rollout: Rollout, turns: Array) -> Array:
        """The expert's actions (T, N, *action_shape) in a roll-in; it is asked only where it did not act (`turns`)."""
        if self.live:
            return np.stack(self._answers[: len(turns)])  # one more if the environment failed
        labels, learners = rollout.actions.copy(), ~turns
        if learners.any():
            labels[learners] = self.act(rollout.obs[learners])
        return labels

    def known(self, rollout: Rollout, turns: Array) -> tuple[Array, Array]:
        """The labels (T, N, *action_shape) of a roll-in that was broken off, and which are known already (T, N)."""
        if self.live:
            return np.stack(self._answers[: len(turns)]), np.ones_like(turns)
        return rollout.actions, turns

    def fit(self, rng: np.random.Generator, updates: int = _UPDATES, held_out: int = 0) -> dict[str, float]:
        """Fit the critic, if any, to all steps except the last `held_out`; returns metrics."""
        if self.critic is None:
            return {}
        self.critic.take_in(_unseen(self._store, self.critic), self.act)
        return {"fqe_loss": self.critic.fit(updates, rng, held_out=held_out)}

    def batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        """One epoch of all states (B, ...) and their labels (B, ...), shuffled; see `DemoReader.minibatches`."""
        return self._store.reader().minibatches(batch_size, rng)

    def state_dict(self) -> dict[str, Any]:
        return {"queries": self.queries} | parts_state(self, "critic")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.queries = state["queries"]
        load_parts(self, state, "critic")


class Teachers:
    """K >= 2 experts as one source of labels, like `Teacher`.

    asked   (K,) states that each expert answered; a state of a roll-in counts once
    leader  who leads the roll-in: an expert's index, or K for the best one in each state
    """

    live = False
    revises = True

    def __init__(
        self,
        experts: Sequence[Askable],
        store: DemoWriter,
        config: FQEConfig,
        *,
        seed: int,
        device: torch.device | str = "cpu",
    ) -> None:
        if len(experts) < 2:
            raise InputError(f"several teachers are at least 2, got {len(experts)}")
        spaces = store.info.observation_space, store.info.action_space
        check_plain("DAgger from several teachers", *spaces)
        # More steps would follow one expert beyond the states in which it is the best.
        self.critic = FittedQ(*spaces, replace(config, n_step=1), seed=seed, device=device)
        self.asked, self.leader = np.zeros(len(experts), np.int64), 0
        self._asks = [asking(expert, spaces[1], who=f"expert {k + 1}") for k, expert in enumerate(experts)]
        self._store, self._device = store, device
        self._answers: list[Tensor] = []  # (K, T + 1, ...) of each piece in the critic's memory

    @property
    def queries(self) -> int:
        return int(self.asked.sum())

    def begin(self, iteration: int) -> None:
        """Choose the leader of this iteration's roll-in. Steps that a checkpoint left in the store are remembered."""
        self.leader = iteration % (len(self._asks) + 1)
        for piece in _unseen(self._store, self.critic):  # these queries were counted before
            self._remember(piece, self._all(piece.obs[:-1]))

    def act(self, obs: Array) -> Array:
        """The leader's actions (N, *action_shape); `label` counts these queries."""
        if self.leader < len(self._asks):
            return self._asks[self.leader](obs)
        best, _ = self._chosen(torch.from_numpy(obs).to(self._device), self._all(obs))
        return best.cpu().numpy()

    def label(self, rollout: Rollout, turns: Array) -> Array:  # noqa: ARG002
        """Ask every expert in the roll-in's states; the actions (T, N, *action_shape) of those that are now best."""
        flat, shape = rollout.flat_obs, rollout.actions.shape
        answers = self._all(flat)
        self.asked += len(flat)
        best, _ = self._chosen(torch.from_numpy(flat).to(self._device), answers)
        labels: Array = best.cpu().numpy().astype(rollout.actions.dtype).reshape(shape)
        by_expert = [list(rollout.segments(answer.cpu().numpy().reshape(shape))) for answer in answers]
        for piece, *each in zip(rollout.segments(labels), *by_expert, strict=True):
            here = torch.stack([torch.from_numpy(one.labels) for one in each]).to(self._device)
            self._remember(piece, here)
            self.asked += not piece.terminated
        return labels

    def known(self, rollout: Rollout, turns: Array) -> tuple[Array, Array]:
        """No label is known, since not every expert was asked."""
        return rollout.actions, np.zeros_like(turns)

    def fit(self, rng: np.random.Generator, updates: int = _UPDATES, held_out: int = 0) -> dict[str, float]:
        """Fit the critic, and choose the labels anew now and then; metrics with each expert's queries and share."""
        loss = 0.0
        best = self._relabel()
        for done in range(0, updates, _RELABELLED):
            loss = self.critic.fit(min(_RELABELLED, updates - done), rng, held_out=held_out)
            best = self._relabel()
        shares = {f"labels_{k + 1}": float((best == k).float().mean()) for k in range(len(self._asks))}
        queries = {f"queries_{k + 1}": float(count) for k, count in enumerate(self.asked)}
        return {"fqe_loss": loss} | shares | queries

    def batches(self, batch_size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, ...]]:
        """As `Teacher.batches`, with the labels as they are now."""
        obs, labels = self.critic.memory.last(len(self.critic.memory))
        order = torch.from_numpy(rng.permutation(len(obs))).to(obs.device)
        for rows in torch.split(order, batch_size):
            yield obs[rows], labels[rows]

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked.tolist()} | parts_state(self, "critic")

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.asked = np.array(state["asked"])
        load_parts(self, state, "critic")

    def _all(self, obs: Array) -> Tensor:
        """Every expert's actions (K, N, ...)."""
        return torch.from_numpy(np.stack([ask(obs) for ask in self._asks])).to(self._device)

    @torch.no_grad()
    def _chosen(self, obs: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
        """The best of the experts' actions (K, B, ...) in each state, (B, ...), and whose it is (B,)."""
        best = torch.stack([self.critic.q(obs, answer) for answer in answers]).argmax(0)
        return answers[best, torch.arange(len(best), device=best.device)], best

    def _remember(self, piece: Trajectory, answers: Tensor) -> None:
        """Take in a piece of T steps and the experts' actions (K, T, ...) in its states, except the last state."""
        last = answers[:, -1:] if piece.terminated else self._all(piece.obs[-1:])
        self._answers.append(torch.cat([answers, last.to(answers.dtype)], 1))
        self.critic.take_in([piece], lambda _: np.asarray(last[0].cpu()))

    def _relabel(self) -> Tensor:
        """Choose the labels of all states by the values as they are now; returns whose they are (R,)."""
        memory = self.critic.memory
        labels, best = self._chosen(memory.states(), torch.cat(self._answers, 1))
        memory.relabel(labels)
        return best


def teacher_of(
    expert: Askable | Sequence[Askable] | Teacher | Teachers,
    store: DemoWriter,
    *,
    seed: int,
    device: torch.device | str = "cpu",
) -> Teacher | Teachers:
    """The source of labels for one expert or a list of several; a ready source unchanged."""
    if isinstance(expert, Teacher | Teachers):
        return expert
    if isinstance(expert, Sequence):
        return Teachers(expert, store, FQEConfig(), seed=seed, device=device)
    return Teacher(expert, store)


def _unseen(store: DemoWriter, critic: FittedQ) -> list[Trajectory]:
    """The pieces in the store that the critic has not taken in."""
    reader = store.reader()
    return [reader[index] for index in range(critic.memory.pieces, len(reader))]
