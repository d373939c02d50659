"""Weights and samples follow from seeds, and torch's global state is left as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from imitate.envs.seeds import draw_seed, episode_seeds
from imitate.errors import InputError
from imitate.nn.merged import wider
from imitate.nn.networks import seeded
from imitate.nn.policy import ActorPolicy
from imitate.nn.stored_policy import load_policy, save_policy

BOX = spaces.Box(np.float32([-2, 0]), np.float32([2, 10]))
OBS = spaces.Box(-1.0, 1.0, (3,), np.float32)


@pytest.mark.parametrize("seed", [-1, None, 1.5, "1", 1 << 64])
def test_what_is_no_seed_is_refused_by_learners_and_their_draws(seed: Any) -> None:
    policy = ActorPolicy(OBS, BOX)
    for use in (lambda: draw_seed(seed, 1), lambda: seeded(seed).__enter__(), lambda: policy.seed(seed)):
        with pytest.raises(InputError, match=r"a seed must be a whole number from 0 to 2\*\*64 - 1, got"):
            use()


def test_drawn_seeds_fill_63_bits() -> None:
    seeds = [draw_seed(number, 1) for number in range(100)]
    assert 1 << 61 < max(seeds) < 1 << 63
    assert {seed & 1 for seed in seeds} == {0, 1}


def test_episodes_have_the_upper_31_bits_of_numpys_first_number() -> None:
    """Recordings name these seeds, so they are for ever."""
    words = [int(np.random.SeedSequence((5, n)).generate_state(1)[0]) for n in (1, 4, 7)]
    seeds = episode_seeds(5, 1, 3)
    assert [next(seeds) for _ in words] == [word // 2 for word in words]


def test_a_seed_may_be_a_numpy_int() -> None:
    policy, obs = ActorPolicy(OBS, BOX), np.zeros((4, 3), np.float32)
    policy.seed(np.int64(3))  # type: ignore[arg-type]
    given = policy.act(obs, deterministic=False)
    policy.seed(3)
    np.testing.assert_array_equal(given, policy.act(obs, deterministic=False))


def test_weights_depend_on_the_seed_alone_and_leave_torchs_generator_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with seeded(5):
        first = ActorPolicy(OBS, BOX).output.weight
    with seeded(5):
        second = ActorPolicy(OBS, BOX).output.weight
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())


def test_another_default_type_of_torch_is_refused_before_anything_is_learned(tmp_path: Path) -> None:
    save_policy(tmp_path, ActorPolicy(OBS, BOX))
    torch.set_default_dtype(torch.float64)
    try:
        for make in (lambda: seeded(0).__enter__(), lambda: load_policy(tmp_path)):
            with pytest.raises(
                InputError, match=r"torch's default type is torch\.float64: call torch\.set_default"
            ):
                make()
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_is_loaded_or_copied_leaves_torchs_generator_alone(tmp_path: Path) -> None:
    policy = ActorPolicy(OBS, BOX)
    save_policy(tmp_path, policy)
    before = torch.get_rng_state()
    load_policy(tmp_path)
    policy.adapted(OBS, BOX)
    wider(policy, 3)
    assert torch.equal(before, torch.get_rng_state())
