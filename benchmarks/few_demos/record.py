"""Keep comparisons of few demonstrations as a record: every run's returns, its curve and what it cost.

    python benchmarks/few_demos/record.py FOLDER [FOLDER ...]   -> benchmarks/results/few-demos.json

A FOLDER is that of a suite. Runs that have not ended are left out, and a comparison with none is too. The record keeps
what it has: a learner's runs of a comparison are replaced only by those of the last FOLDER that has some.
"""

import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imitate.files import write_json

RESULTS = Path(__file__).parent.parent / "results" / "few-demos.json"
SETTINGS = ("env_id", "budget", "demo_episodes", "demo_every")
KEPT = ("seed", "returns", "last_returns", "env_steps", "demo_steps", "validation_steps", "cpu_seconds")


def part(folder: Path, described: dict[str, Any]) -> dict[str, Any]:
    """One comparison: its task, its references, and its runs by learner."""
    references = json.loads((folder / "references.json").read_text("utf-8"))
    runs: dict[str, list[dict[str, Any]]] = {}
    for place in json.loads((folder / "runs.json").read_text("utf-8")).values():
        path = folder / place / "result.json"
        if path.exists():
            found = json.loads(path.read_text("utf-8"))
            curve = [(point["steps"], statistics.fmean(point["returns"])) for point in found["curve"]]
            of_run = {name: found[name] for name in KEPT} | {"curve": curve, "machine": found["machine"]}
            runs.setdefault(found["algorithm"], []).append(of_run)
    expert = references["expert"]
    return {
        **{name: described[name] for name in SETTINGS},
        "expert": expert["spec"],
        "expert_returns": expert["measured"]["returns"],
        "random_returns": references["random"]["returns"],
        "runs": runs,
    }


def grown(record: dict[str, Any], suites: Sequence[Path]) -> dict[str, Any]:
    """The record with the runs of these suites."""
    for suite in suites:
        for name, described in json.loads((suite / "suite.json").read_text("utf-8"))["parts"].items():
            if (suite / name / "references.json").exists():
                found = part(suite / name, described)
                kept = record.setdefault(name, found)
                if others := [each for each in ("expert", *SETTINGS) if kept[each] != found[each]]:
                    raise SystemExit(f"record.py: {name} is recorded with another {' and '.join(others)}")
                kept["runs"] |= found["runs"]
    return {name: each for name, each in record.items() if each["runs"]}


if __name__ == "__main__":
    write_json(RESULTS, grown(json.loads(RESULTS.read_text("utf-8")), [Path(name) for name in sys.argv[1:]]))
