"""Growth of speed with environments, minibatches, widths and recorded steps; writes benchmarks/results/growth.json.

    python benchmarks/speed/growth.py

Each figure is of a process of its own, on one thread, without imports and set-up. Ours and the peer's take turns. PPO
plays CartPole in iterations of 2,048 steps, whatever the number of environments, with 4 passes over them, beside
Stable-Baselines3's. BC clones 20,000 recorded pairs, beside the same gradient steps as a plain torch loop on tensors in
memory. Reading is one pass of shuffled minibatches of 256 over a file with 17 numbers a step, streamed where it exceeds
256 MiB.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from peers import demonstrate, measure

from imitate.files import machine, versions, write_json

sys.path.insert(0, str(Path(__file__).parents[1]))
from size import LENGTH, STATES, measured, record, shuffled

RECORD = Path(__file__).parents[1] / "results" / "growth.json"
REPETITIONS = 3
ENVIRONMENTS, BATCHES, WIDTHS = (1, 4, 16, 64, 256), (32, 256, 2_048), (32, 64, 256, 1_024)
STEPS = (10**3, 10**4, 10**5, 10**6, 10**7)
ITERATION = 2_048


def by_environments(count: int, **settings: int) -> dict[str, int]:
    """PPO's settings with this many environments."""
    whole = {"num_envs": count, "batch_size": 256, "width": 64, "num_epochs": 4, "steps": 4 * ITERATION}
    return whole | {"num_steps": ITERATION // count} | settings


def both(ours: str, theirs: str, data: Path, settings: dict[str, int]) -> dict[str, Any]:
    """Medians of the rates of two functions of peers.py, and the median of their ratios."""
    pairs = [[measure(name, settings, data)["rate"] for name in (ours, theirs)] for _ in range(REPETITIONS)]
    own, other = (statistics.median(rates) for rates in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(ours, settings, f"{own:,.0f} {other:,.0f} {ratio:.2f}", flush=True)
    return settings | {"ours": own, "theirs": other, "ratio": ratio}


def reading(steps: int, folder: Path) -> dict[str, Any]:
    """CPU seconds of one shuffled pass over so many steps, and peak MiB of the process."""
    path = folder / f"{steps}.h5"
    record(path, STATES, steps // LENGTH)
    found = measured(shuffled, path)
    path.unlink()
    print("reading", steps, found, flush=True)
    return {"steps": steps, "cpu": found["cpu"], "peak_mib": found["peak_mib"]}


def main() -> None:
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder)
        demonstrate(data)
        ppo, bc = (
            partial(both, "ppo_imitate", "ppo_sb3", data),
            partial(both, "bc_imitate", "bc_bare", data),
        )
        rows = {
            "ppo by environments": [ppo(by_environments(n)) for n in ENVIRONMENTS],
            "ppo by minibatch": [ppo(by_environments(8, batch_size=n)) for n in BATCHES],
            "ppo by width": [ppo(by_environments(8, width=n)) for n in WIDTHS],
            "bc by minibatch": [bc({"batch_size": n, "width": 64}) for n in BATCHES],
            "bc by width": [bc({"batch_size": 256, "width": n}) for n in WIDTHS],
            "reading by steps": [reading(steps, data) for steps in STEPS],
        }
    write_json(RECORD, {"machine": machine(), "versions": versions(), "rows": rows})
    print(f"{RECORD}: {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
