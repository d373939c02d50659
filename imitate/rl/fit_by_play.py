"""Fits a learner's policy to another that plays first (`imitate.nn.refit` says why)."""

from __future__ import annotations

import numpy as np
import torch

from imitate.envs.seeds import draw_seed
from imitate.envs.spaces import Array
from imitate.nn.policy import ActorPolicy
from imitate.nn.refit import refit
from imitate.rl.on_policy import OnPolicy

__all__ = ["fit_by_play"]

_STEPS = 10_000  # at most; a tenth of a short run
_UPDATES, _BATCH = 2_000, 256


def fit_by_play(learner: OnPolicy, imitator: ActorPolicy, limit: int | None) -> dict[str, float]:
    """Let the imitator play, with the noise of the learner's policy, and fit that to its actions in these states.

    It takes at most `limit` environment steps. Returns metrics.
    """
    policy, envs = learner.policy, learner.sampler.envs
    spread = policy.log_std.detach().exp().cpu().numpy()

    def lead(obs: Array, _begun: Array) -> tuple[Array, Array]:
        unit = imitator.to_unit(torch.from_numpy(imitator.act(obs)).to(learner.device)).cpu().numpy()
        raw = unit + spread * learner.rng.standard_normal(unit.shape, np.float32)
        return learner.actor.from_unit(raw.clip(-1.0, 1.0)), raw

    steps = max(min(_STEPS, learner.config.total_steps // 10) // envs.num_envs, 1)
    obs = learner.flat(learner.sampler.collect(lead, steps, limit).obs)
    generator = torch.Generator(learner.device).manual_seed(draw_seed(learner.seed, 0, 1))
    drawn = (
        obs[torch.randint(len(obs), (_BATCH,), generator=generator, device=learner.device)]
        for _ in range(_UPDATES)
    )
    loss = refit(policy, imitator, drawn, _UPDATES)
    return {"refit_loss": float(loss)} | learner.pop_episodes()
