"""Imitation against RL on the same budget of environment steps, with a report to open in a browser.

python examples/03_compare.py [ENV] [BUDGET] [SEEDS]
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from imitate.compare import Comparison, compare


def main(env_id: str = "CartPole-v1", budget: str = "50000", seeds: str = "2") -> dict[str, object]:
    # The bundled expert has the name of its environment. zoo:ALGO/ENV, hub:ORG/REPO, a .zip or a folder work too.
    comparison = Comparison(
        env_id,
        ("bc", "dagger", "ppo"),
        expert=env_id,
        seeds=int(seeds),
        budget=int(budget),
        episodes=20,
        hyperparameters={"bc": {"max_epochs": 50}, "dagger": {"final_updates": 1_000}},
    )
    out = Path(tempfile.mkdtemp(prefix="imitate-")) / "report"
    report = compare(comparison, out)
    summary: dict[str, object] = json.loads((out / "summary.json").read_text("utf-8"))
    print(f"open {report}")
    return summary


# Worker processes import this file; without this guard each of them would start another comparison.
if __name__ == "__main__":
    main(*sys.argv[1:])
