"""No tensor of AggreVaTeD's losses stays on the CPU: they are run on a device that holds no numbers, where mixing
devices is an error, since most machines have no second one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from imitate.aggrevated.gate import Gate
from imitate.aggrevated.variants.estimators import find_estimator
from imitate.aggrevated.variants.scene import Scene
from imitate.configs.variants import VariantConfig
from imitate.imitators.cloning import imitation_loss, new_policy

META = torch.device("meta")
OBS, BOX, NAMES = spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (2,)), spaces.Discrete(4)


class Flat:
    """Two critics to whom all is one."""

    gamma, reward_scale, greedy = 0.9, 1.0, False

    def q(self, obs: Tensor, actions: Tensor) -> Tensor:
        return self.heads(obs, actions).mean(0)

    def heads(self, obs: Tensor, actions: Tensor) -> Tensor:
        of_obs = obs.sum(-1) + (actions.sum(-1) if actions.is_floating_point() else actions)
        return of_obs.expand(2, len(obs))

    def q_all(self, obs: Tensor) -> Tensor:
        return obs.sum(-1, keepdim=True).expand(-1, 4)


def scene(space: Any, **fields: Any) -> Scene:
    config = VariantConfig(**fields).completed(isinstance(space, spaces.Discrete))
    actor = new_policy(config, OBS, space, seed=0).to(META)
    return Scene(Flat(), actor, config, None, bool(config.line_search))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("space", "name", "search"),
    [
        *((BOX, name, False) for name in ("target", "score", "reparameterised")),
        (BOX, "target", True),
        *((NAMES, name, False) for name in ("exact", "score", "regression")),
    ],
)
def test_losses_stay_on_their_device(space: Any, name: Any, search: bool) -> None:
    seen = scene(space, estimator=name, beta=0.5, normalisation="baseline", line_search=search)
    gate = Gate(torch.ones(2), 1.0, True)
    obs = torch.zeros(5, 3, device=META)
    expert = torch.zeros(
        (5, 2) if space is BOX else 5, device=META, dtype=None if space is BOX else torch.int64
    )
    distribution = seen.actor(seen.actor.encoder.prepare(obs))
    loss, wanted = find_estimator(seen, None, OBS, 0).loss(
        Gate(gate.gap.to(META), 1.0, True) if name == "target" else gate, distribution, obs, expert
    )
    total = loss + imitation_loss(seen.actor, distribution, wanted)
    assert (total.device, total.shape) == (META, (5,))
