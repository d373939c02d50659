"""The moving average of a policy's weights, which SAC, TQC and TD3 may hand over."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from imitate.configs.sac import SACConfig
from imitate.configs.td3 import TD3Config
from imitate.envs.make import make_env
from imitate.envs.vec import SyncVecEnv
from imitate.rl.continuous import ActorCritic
from imitate.rl.sac import SAC
from imitate.rl.td3 import TD3

BOTH = pytest.mark.parametrize(("learner", "config"), [(SAC, SACConfig), (TD3, TD3Config)])


def made(learner: Any, config: Any, average: float, **settings: object) -> ActorCritic:
    base: dict[str, object] = {
        "total_steps": 1_000, "learning_starts": 100, "hidden": (8,), "batch_size": 16, "replay_size": 1_000,
        "rounds_per_iteration": 8, "learning_rate": 3e-3, "actor_every": 2, "average": average,
    }  # fmt: skip
    envs = SyncVecEnv([lambda: make_env("ContinuousIdentity-v0")] * 2)
    return learner(config(**base | settings), envs=envs, seed=3)  # type: ignore[no-any-return]


@BOTH
def test_the_average_follows_the_steps_of_the_policy_alone(learner: Any, config: Any) -> None:
    """Decays 1/10, 2/11, 3/12 and so on up to 0.5, after every second update of the critics."""
    run = made(learner, config, 0.5, rounds_per_iteration=20)
    acting, update = run.policy_net.stack, run.update
    wanted = [run.policy.output.bias.detach().clone()]

    def watched(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        found = update(batch)
        if run.updates % 2 == 0:
            decay = min(len(wanted) / (9 + len(wanted)), 0.5)
            wanted.append(wanted[-1].lerp(acting.biases[-1].detach(), 1 - decay))
        return found

    run.update = watched  # type: ignore[method-assign]
    run.step()
    assert run.updates >= 40
    assert len(wanted) == 1 + run.updates // 2
    torch.testing.assert_close(run.policy.output.bias, wanted[-1])
    assert not torch.equal(run.policy.output.bias, acting.biases[-1])


@BOTH
def test_the_average_changes_nothing_that_acts_or_learns(learner: Any, config: Any) -> None:
    """The critics that are handed over with it are those that learn."""
    plain, averaged = made(learner, config, 0.0), made(learner, config, 0.9)
    for run in (plain, averaged):
        for _ in range(3):
            run.step()
        assert run.updates
        assert run.policy.critic is run.critics.online
    assert plain.policy is plain.actor.policy
    assert averaged.policy is not averaged.actor.policy
    ours, theirs = (run.actor.policy.state_dict() for run in (plain, averaged))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@BOTH
def test_a_resumed_average_goes_on_to_the_same_bytes(learner: Any, config: Any) -> None:
    run, resumed = made(learner, config, 0.9), made(learner, config, 0.9)
    for _ in range(2):
        run.step()
    resumed.load_state_dict(run.state_dict())
    run.restart()
    for each in (run, resumed):
        each.step()
    for of in (lambda each: each.policy, lambda each: each.actor.policy):
        ours, theirs = of(run).state_dict(), of(resumed).state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_state_without_an_average_has_no_part_for_it() -> None:
    assert not {"acting", "average"} & made(SAC, SACConfig, 0.0).state_dict().keys()
