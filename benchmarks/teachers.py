"""Measure the teachers of the rows again, on the rows' test episodes, and keep every return.

    python benchmarks/teachers.py

Older records keep only the mean of their teacher. For these, `results/teachers.json` has the teacher's episodes,
measured later and perhaps on another machine. Each begins in the same state as in the row, so learner and teacher are
paired by episode.
"""

import json
from typing import Any

from table import BENCHMARKS, EPISODES, read_rows

from imitate.compare.machine import provenance
from imitate.datasets.evaluation import evaluate
from imitate.experts import load_expert
from imitate.files import versions, write_json

RECORD = BENCHMARKS / "results" / "teachers.json"


def lacking() -> dict[str, str]:
    """The environment of each teacher whose episodes a row's record lacks."""
    found = {}
    for name, row in read_rows().items():
        path = BENCHMARKS / "results" / f"{name}.json"
        if row.expert is None or row.algorithm == "expert" or row.teacher or not path.exists():
            continue
        if "expert_returns" not in json.loads(path.read_text("utf-8")):
            assert not row.env_kwargs, "a teacher is measured in the environment as its id makes it"
            found[row.expert] = row.env
    return found


def main() -> None:
    teachers: dict[str, Any] = {}
    for spec, env in lacking().items():
        measured = evaluate(load_expert(spec), env, episodes=EPISODES)
        teachers[spec] = {"env": env, "mean": measured.mean, "returns": measured.returns.tolist()}
        print(f"{spec}: {measured}")
    command = "python benchmarks/teachers.py"
    write_json(
        RECORD,
        {"command": command, "versions": versions(), "machine": provenance(), "teachers": teachers},
    )


if __name__ == "__main__":
    main()
