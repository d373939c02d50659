"""Experience of online learners: T steps of N environments, continuing where the last rollout stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np

from imitate.datasets.trajectory import Trajectory
from imitate.envs.numbers import Array, all_finite
from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.envs.stepping import Chooser, Score, Scores, stepping
from imitate.envs.vec import CountsGames, VecEnv
from imitate.errors import InputError

__all__ = ["Rollout", "Sampler", "whole_episodes"]


@dataclass(frozen=True, slots=True)
class Rollout:
    """T steps of N environments; arrays are (T, N, ...) unless noted otherwise.

    obs         raw
    actions     as the chooser recorded them
    rewards     the environment's own, float32
    ends        (E, 2) int: the (t, n) at which episodes ended, in order
    end_obs     (E, *obs_shape) the true final observations of those episodes
    last_obs    (N, *obs_shape) the true successors of the last row
    running     (T, N) bool: rows that are steps of an episode; None if all are
    cut         (N,) bool: a limit of steps ended this environment's last episode; None if there was none
    """

    obs: Array
    actions: Array
    rewards: Array
    terminated: Array
    truncated: Array
    ends: Array
    end_obs: Array
    last_obs: Array
    running: Array | None = None
    cut: Array | None = None

    def __post_init__(self) -> None:
        for name in ("obs", "end_obs", "last_obs", "rewards"):
            array = getattr(self, name)
            if not all_finite(array):
                raise InputError(
                    f"{name} of the environment hold NaN or infinity: nothing can be learned from them"
                )

    @classmethod
    def of_episode(cls, trajectory: Trajectory, actions: Array, rewards: Array) -> Self:
        """An episode of T steps as a rollout of one environment, with these actions (T, ...) and rewards (T,)."""
        steps = len(trajectory)
        end = np.arange(steps)[:, None] == steps - 1  # (T, 1)
        return cls(
            trajectory.obs[:-1, None],
            actions[:, None],
            rewards[:, None],
            terminated=end & trajectory.terminated,
            truncated=end & (not trajectory.terminated),
            ends=np.array([[steps - 1, 0]]),
            end_obs=trajectory.obs[-1:],
            last_obs=trajectory.obs[-1:],
        )

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated

    @property
    def steps(self) -> Array:
        """(T, N) bool: `running`, with None expanded."""
        return np.ones(self.rewards.shape, bool) if self.running is None else self.running

    def whole(self) -> Iterator[tuple[int, int, float, int]]:
        """Last step t, environment n, return and length of each episode that came to its end, in the order of `ends`;
        of a rollout that begins with new episodes."""
        sums = (self.rewards * self.steps).cumsum(0, dtype=np.float64)  # (T, N)
        returns, steps = np.zeros(sums.shape[1]), np.full(sums.shape[1], -1)
        for t, n in self.ends.tolist():
            if t < len(sums) - 1 or self.cut is None or not self.cut[n]:
                yield t, n, float(sums[t, n] - returns[n]), t - int(steps[n])
            returns[n], steps[n] = sums[t, n], t

    @property
    def next_obs(self) -> Array:
        """The true successors (T, N, *obs_shape)."""
        successors = np.concatenate([self.obs[1:], self.last_obs[None]])
        if len(self.ends):
            successors[tuple(self.ends.T)] = self.end_obs
        return successors

    @property
    def flat_obs(self) -> Array:
        """(T * N, *obs_shape)"""
        return self.obs.reshape(-1, *self.obs.shape[2:])

    def next_values(self, values: Array, value: Callable[[Array], Array]) -> Array:
        """Values of the true successors (T, N).

        `values` (T, N) are the values of `obs`; each row's successor is usually the next row. `value`, a function of
        observations (B, ...), is called only for the last row and for the ends of episodes.
        """
        next_values = np.empty_like(values)
        next_values[:-1] = values[1:]
        next_values[-1] = value(self.last_obs)
        if len(self.ends):
            next_values[tuple(self.ends.T)] = value(self.end_obs)
        return next_values

    def segments(self, labels: Array, known: Array | None = None) -> Iterator[Trajectory]:
        """Each environment's steps as trajectories, cut at the ends of episodes and after its last row.

        A cut elsewhere than at an end counts as `truncated`. `labels` (T, N, *action_shape) become `expert_actions`.
        With `known` (T, N) bool, only the rows whose labels are known are yielded, cut where an unknown one follows.
        """
        for n, steps in enumerate(self.steps.sum(0)):  # an environment idles only after its last episode
            cuts = {int(t): self.end_obs[i] for i, (t, m) in enumerate(self.ends) if m == n}
            if steps:
                cuts.setdefault(int(steps) - 1, self.last_obs[n])
            if steps and known is not None:
                for t in np.flatnonzero(known[: steps - 1, n] != known[1:steps, n]).tolist():
                    cuts.setdefault(t, self.obs[t + 1, n])
            begin = 0
            for t in sorted(cuts):
                rows, begin = slice(begin, t + 1), t + 1
                if known is not None and not known[t, n]:
                    continue
                terminated = bool(self.terminated[t, n])
                yield Trajectory(
                    np.concatenate([self.obs[rows, n], cuts[t][None]]),
                    self.actions[rows, n],
                    self.rewards[rows, n],
                    terminated=terminated,
                    truncated=not terminated,
                    expert_actions=labels[rows, n],
                )


class Sampler:
    """Steps the environments and remembers where it stopped; counts steps and returns of finished episodes.

    After an exception, or steps that were taken elsewhere, the environments are no longer where the last rollout
    stopped. Then the next one begins new episodes.

    broken_off   the rows of a rollout that an exception ended; None if there were none
    renewals     the number of times that this happened
    """

    def __init__(self, envs: VecEnv, renew: Callable[[], None] | None = None) -> None:
        """Call `restart` to begin the first episodes. New ones begin later by `renew`, which calls `restart` with
        another seed; the default does no more."""
        self.envs = envs
        self._renew = renew or (lambda: self.restart(draw_seed(self._seed)))
        self._stale = False
        self.renewals = 0
        self.env_steps = 0
        self.broken_off: Rollout | None = None

    def restart(self, seed: int) -> None:
        """Drop unfinished episodes and begin new ones from this seed."""
        self._seed, self._stale = seed, True
        self._obs = self.envs.reset(episode_seeds(seed))
        self._begun = np.ones(self.envs.num_envs, bool)
        self._scores = Scores(self.envs)
        self._ended: list[Score] = []
        self._stale = False

    def count(self, steps: int) -> None:
        """So many steps were taken elsewhere (`whole_episodes`)."""
        self.env_steps += steps
        self._stale = True

    def collect(self, choose: Chooser[Array], num_steps: int, limit: int | None = None) -> Rollout:
        """`num_steps` steps of every environment, or fewer so that all together take at most `limit`.

        Raises InputError if the limit is less than one step of each, and a `Fault` if an environment fails.
        """
        self.broken_off = None
        if limit is not None:
            num_steps = min(num_steps, limit // self.envs.num_envs)
        if num_steps < 1:
            raise InputError(
                f"a limit of {limit} steps is less than one step of each of {self.envs.num_envs} environments"
            )
        if self._stale:
            self.renewals += 1
            self._renew()
        shape = (num_steps, self.envs.num_envs)
        all_obs = np.empty((*shape, *self._obs.shape[1:]), self._obs.dtype)
        rewards = np.empty(shape, np.float32)
        terminated, truncated = np.empty(shape, bool), np.empty(shape, bool)
        actions: list[Array] = []
        end_obs: list[Array] = []
        last_obs = self._obs

        def rollout() -> Rollout:
            steps = len(actions)
            ends = np.argwhere(terminated[:steps] | truncated[:steps])
            return Rollout(
                all_obs[:steps],
                np.stack(actions),
                rewards[:steps],
                terminated[:steps],
                truncated[:steps],
                ends=ends,
                end_obs=np.concatenate(end_obs)[: len(ends)] if end_obs else all_obs[0, :0],
                last_obs=last_obs,
            )

        try:
            steps = stepping(self.envs, choose, self._obs, begun=self._begun)
            for t, (obs, recorded, step, ends) in enumerate(islice(steps, num_steps)):
                all_obs[t], rewards[t] = obs, step.rewards
                terminated[t], truncated[t] = step.terminated, step.truncated
                self._ended += self._scores.add(step, ends)
                if ends:
                    end_obs.append(step.final_obs[ends])
                last_obs = step.final_obs
                actions.append(recorded)  # last: rows that have an action are whole
            whole = rollout()
        except BaseException:  # Ctrl-C too
            self._stale = True
            if actions:
                self.broken_off = rollout()
            raise
        finally:
            self.env_steps += len(actions) * self.envs.num_envs
        self._obs, self._begun = step.obs, step.terminated | step.truncated
        return whole

    @property
    def ended(self) -> list[Score]:
        """The training episodes that ended since the last `pop_episodes`."""
        return self._ended.copy()

    def pop_episodes(self) -> dict[str, float]:
        """Mean return and length of the training episodes that ended since the last call; empty if none did.

        If `envs` counts games (`CountsGames`), these are raw scores of full games, not what the learner sees.
        """
        ended, self._ended = [(score.episode_return, score.length) for score in self._ended], []
        return self.means_of(ended)

    def means_of(self, ended: list[tuple[float, int]]) -> dict[str, float]:
        """`pop_episodes` of episodes with these returns and lengths."""
        if isinstance(self.envs, CountsGames):
            ended = self.envs.pop_games()
        if not ended:
            return {}
        returns, lengths = zip(*ended, strict=True)
        return {"train_return": float(np.mean(returns)), "train_length": float(np.mean(lengths))}


def whole_episodes(
    envs: VecEnv,
    choose: Chooser[Array],
    seeds: Iterable[int],
    limit: int | None = None,
    *,
    count: Callable[[int], None] | None = None,
) -> Rollout:
    """One whole episode per seed; `running` is False where an environment idles because no seed is left.

    The seeds fix which episodes are played, so short episodes are not over-represented. After `limit` steps in total,
    unfinished episodes are cut (`truncated`) and no others begin. `count` hears how many steps each row takes, as it is
    taken: an environment may fail later.

    Raises InputError if the limit is less than one step of each environment that plays.
    """
    rows, running, end_obs = [], [], []
    most: float = math.inf if limit is None else limit
    for obs, recorded, step, ends in stepping(envs, choose, envs.reset(seeds), limit=most):
        rows.append((obs, recorded, step.rewards, step.terminated, step.truncated))
        running.append(envs.running | step.terminated | step.truncated)
        end_obs.append(step.final_obs[ends])
        if count is not None:
            count(int(running[-1].sum()))
    if not rows:
        raise InputError(
            f"a limit of {limit} steps is less than one step of each of {envs.num_envs} environments"
        )
    all_obs, actions, rewards, terminated, truncated = (
        np.stack(column) for column in zip(*rows, strict=True)
    )
    cut = envs.running & ~(terminated[-1] | truncated[-1])
    if cut.any():  # the limit cuts the episodes in flight
        truncated[-1] |= cut
        end_obs[-1] = step.final_obs[terminated[-1] | truncated[-1]]
    return Rollout(
        all_obs,
        actions,
        rewards,
        terminated,
        truncated,
        ends=np.argwhere(terminated | truncated),
        end_obs=np.concatenate(end_obs),
        last_obs=step.final_obs,
        running=np.stack(running),
        cut=cut,
    )
