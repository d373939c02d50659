"""Every learner on CUDA: `pytest -m gpu` on a machine that has one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import TINY, maker

from imitate.imitators.guided.updates import Phase
from imitate.nn.graphed import Graphed
from imitate.nn.state import load_state, save_state
from imitate.nn.stored_policy import load_policy, save_policy
from imitate.rl.batches import Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this torch sees no GPU"),
]


@pytest.mark.parametrize("name", TINY)
def test_every_learner_trains_resumes_and_acts_on_both_devices(name: str, tmp_path: Path) -> None:
    make = maker(name, tmp_path, "cuda")
    learner = make()
    for _ in range(3):
        learner.step()
    save_state(tmp_path / "state", learner.state_dict())
    resumed = (
        learner if name in ("dagger", "aggrevated", "aggrevate") else make()
    )  # those go on with their own store
    resumed.load_state_dict(load_state(tmp_path / "state"))
    resumed.step()
    save_policy(tmp_path / "policy", resumed.policy)
    space = resumed.policy.observation_space
    space.seed(0)
    obs = np.stack([space.sample() for _ in range(5)])
    on_cpu, on_gpu = (load_policy(tmp_path / "policy", device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(on_cpu.act(obs), on_gpu.act(obs), atol=1e-4)
    assert on_gpu.act(obs, deterministic=False).shape == on_cpu.act(obs, deterministic=False).shape


@pytest.mark.parametrize("name", ["ppo", "rpo", "sac", "tqc", "td3", "dqn", "dac", "iq-continuous"])
def test_a_replayed_step_is_the_step_itself(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = []
    for replays in (True, False):
        if not replays:
            monkeypatch.setattr(Graphed, "__call__", lambda graphed, batch: graphed.step(batch))
        folder = tmp_path / f"replays-{replays}"
        folder.mkdir()
        learner = maker(name, folder, "cuda")()
        for _ in range(3):
            metrics = learner.step()
        learned.append((metrics, learner.policy.state_dict()))
        assert any(graphed.recorded for graphed in graphs(learner)) == replays
    (metrics, weights), (metrics_apart, weights_apart) = learned
    assert metrics == pytest.approx(metrics_apart, rel=1e-3, abs=1e-3)
    for key, weight in weights.items():
        torch.testing.assert_close(weight, weights_apart[key], atol=1e-4, rtol=1e-3)


def graphs(learner: object) -> list[Graphed]:
    """The recorded steps of a learner."""
    held = [*vars(learner).values(), *getattr(learner, "_steps", {}).values()]
    return [each for each in held if isinstance(each, Graphed)]


@pytest.mark.parametrize(
    "phase", [Phase(True, True, True), Phase(False, True, True), Phase(False, False, False)]
)
def test_a_replayed_step_of_guided_is_the_step_itself(
    phase: Phase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On the same batches: in play a rounding error is enough for another choice between student and expert.
    learned = []
    for replays in (True, False):
        if not replays:
            monkeypatch.setattr(Graphed, "__call__", lambda graphed, batch: graphed.step(batch))
        updates = maker("guided", tmp_path, "cuda")().learner.updater
        generator = torch.Generator("cuda").manual_seed(0)
        for _ in range(4):
            metrics = updates.step(guided_batch(generator), phase, 0.5, generator)
        updates.check()
        assert any(graphed.recorded for graphed in updates._steps.values()) == replays
        learned.append({**metrics, **updates.student.state_dict()})
    replayed, launched = learned
    for key, tensor in replayed.items():
        torch.testing.assert_close(tensor, launched[key], atol=1e-4, rtol=1e-3)


def guided_batch(generator: torch.Generator) -> Batch:
    """32 random samples on Pendulum, with one expert's actions."""

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(32, *shape, generator=generator, device=generator.device)

    batch = {
        "obs": drawn(3),
        "next_obs": drawn(3),
        "returns": drawn(),
        "discounts": torch.full_like(drawn(), 0.9),
    }
    return batch | {
        "actions": drawn(1).tanh(),
        "advice": drawn(1, 1).tanh(),
        "next_advice": drawn(1, 1).tanh(),
    }


def test_a_replayed_step_that_diverges_is_named_and_changes_nothing(tmp_path: Path) -> None:
    learner = maker("sac", tmp_path, "cuda")()
    for _ in range(3):
        learner.step()
    before = learner.policy.output.weight.clone()
    batch = {name: torch.full_like(column, torch.nan) for name, column in learner.batches(1)[0].items()}
    learner.update(batch)
    with pytest.raises(FloatingPointError, match="training diverged"):
        learner.end_iteration([])
    assert torch.equal(before, learner.policy.output.weight)


def test_a_policy_that_is_moved_still_samples(tmp_path: Path) -> None:
    policy = maker("ppo", tmp_path, "cpu")().policy
    obs = np.zeros((5, 4), np.float32)
    draws = [policy.to(device).act(np.repeat(obs, 20, 0), deterministic=False) for device in ("cuda", "cpu")]
    assert all(len(set(draw.tolist())) == 2 for draw in draws)
    policy.to("cuda")
    assert not np.array_equal(*(policy.act(np.repeat(obs, 20, 0), deterministic=False) for _ in range(2)))
