"""Run rows of rows.toml and record their results.

    python benchmarks/table.py ROW [ROW ...] [--seeds 3]
    python benchmarks/table.py --list

A row is `imitate` commands with the committed presets, once for each seed; a row takes from seconds to half an hour,
Pong two hours, Breakout days. Its record, results/ROW.json, has the commands, the run's whole configuration, every
return (including the teacher's and random actions'), steps, seconds, versions, the machine and the protocol. Returns
come from 50 deterministic episodes, which are the same for learners, expert and random actions and serve no other
purpose. `python benchmarks/results.py` then writes the documents.

Seeds that a record already has are not run again: it is gone on with. To measure newer code, delete it first.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from imitate.compare.machine import provenance
from imitate.datasets import make_env
from imitate.datasets.evaluation import Evaluation, evaluate
from imitate.datasets.play import RandomPolicy
from imitate.errors import InputError
from imitate.experts import load_expert
from imitate.files import versions, write_json
from imitate.reproduce.rows import EPISODES, Row, read_rows
from imitate.reproduce.run_row import run_seed

BENCHMARKS = Path(__file__).parent


def run_row(
    name: str, seeds: int | None = None, record: dict[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """The record of a row after each of its seeds that `record` lacks.

    Raises CalledProcessError if one of the row's commands fails, InputError if `record` is of other commands.
    """
    row = read_rows()[name]
    record = _begun(name, row) if record is None else record
    for seed in range(row.first_seed, row.first_seed + (row.seeds if seeds is None else seeds)):
        commands = row.commands(seed)
        if any(each["commands"] == commands for each in record["seeds"]):
            continue
        if record["seeds"] and _unseeded(record["seeds"][0]["commands"]) != _unseeded(commands):
            raise InputError(f"the record of {name} is of other commands; delete it to measure these")
        with tempfile.TemporaryDirectory() as folder:
            found = run_seed(commands, Path(folder)) | {"commit": provenance().get("commit")}
            if row.teacher:
                found["teacher_returns"] = measured(str(Path(folder) / "teacher"), row).returns.tolist()
        if config := found.pop("config", None):
            record.setdefault("config", config)  # of the first seed; the others differ in the seed
        record["seeds"].append(found)
        print(f"{name} seed {seed}: {found['mean']:.1f} +- {found['std']:.1f}", file=sys.stderr)
        record["mean"] = statistics.fmean(seed["mean"] for seed in record["seeds"])
        if row.teacher:
            record["expert_returns"] = [seed["teacher_returns"] for seed in record["seeds"]]
            record["expert_mean"] = statistics.fmean(map(statistics.fmean, record["expert_returns"]))
        if record["expert_mean"] is not None:
            share = (record["mean"] - record["random"]) / (record["expert_mean"] - record["random"])
            record["share_of_range"] = share
        yield record


def _begun(name: str, row: Row) -> dict[str, Any]:
    """A record without seeds: the returns of random actions and of the expert."""
    actions = make_env(row.env, row.env_kwargs).action_space
    random = evaluate(RandomPolicy(actions), row.env, episodes=EPISODES, env_kwargs=row.env_kwargs)
    record: dict[str, Any] = {"row": name, "env": row.env, "env_kwargs": row.env_kwargs, "expert": row.expert}
    record |= {"protocol": row.protocol, "versions": versions(), "machine": provenance()}
    record |= {"random": random.mean, "random_returns": random.returns.tolist()}
    record |= {"expert_mean": None, "seeds": []}
    # The row's own measurement is the expert's, or each seed has a teacher of its own.
    if row.expert is not None and row.algorithm != "expert" and not row.teacher:
        expert = measured(row.expert, row)
        record |= {"expert_mean": expert.mean, "expert_returns": expert.returns.tolist()}
    return record


def measured(expert: str, row: Row) -> Evaluation:
    """The test episodes of an expert in the row's environment."""
    return evaluate(load_expert(expert), row.env, episodes=EPISODES, env_kwargs=row.env_kwargs)


def _unseeded(commands: list[str]) -> list[str]:
    """The commands without the seed, which are the same for all seeds of a row."""
    return [re.sub(r"--seed \d+", "", command) for command in commands]


def main() -> None:
    rows = read_rows()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--seeds", type=int, help="how many; by default what rows.toml says")
    parser.add_argument("--list", action="store_true", help="print the rows and their commands")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name}: {'; '.join(row.commands(0))}" for name, row in rows.items()))
        return
    if not arguments.rows or (unknown := [name for name in arguments.rows if name not in rows]):
        parser.error(f"no row {', '.join(unknown)}" if arguments.rows else "which rows? --list names them")
    for name in arguments.rows:
        path = BENCHMARKS / "results" / f"{name}.json"
        begun = json.loads(path.read_text()) if path.exists() else None
        try:
            for record in run_row(name, arguments.seeds, begun):
                write_json(path, record)  # after each seed, as a row may take a day
        except InputError as error:
            parser.error(str(error))
        record = json.loads(path.read_text())
        expert = "" if record["expert_mean"] is None else f" of {record['expert_mean']:.1f}"
        print(f"{name}: {record['mean']:.1f}{expert}, random {record['random']:.1f}")


if __name__ == "__main__":
    main()
