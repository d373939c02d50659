"""How speed.py's rows measure. Under the peers' Python too, so nothing is imported that they lack."""

from __future__ import annotations

import time
from collections.abc import Callable

CARTPOLE, NUM_ENVS = "CartPole-v1", 8


def rate(work: Callable[[], int]) -> float:
    """Samples or environment steps, whatever `work` counts, a CPU second."""
    begin = time.process_time()
    amount = work()
    return amount / (time.process_time() - begin)
