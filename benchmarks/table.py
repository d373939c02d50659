"""Run rows of rows.toml and record their results.

    python benchmarks/table.py ROW [ROW ...] [--seeds 3] [--at-once 1] [--device cuda]
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
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

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
    name: str,
    seeds: int | None = None,
    record: dict[str, Any] | None = None,
    *,
    device: str | None = None,
    pool: Executor | None = None,
) -> Iterator[dict[str, Any]]:
    """The record of a row after each of its seeds that `record` lacks; a pool runs several at once.

    Raises CalledProcessError if one of the row's commands fails, InputError if `record` is of other commands.
    """
    row = read_rows()[name]
    known = [] if record is None else [each["commands"] for each in record["seeds"]]
    lacking = []
    for seed in range(row.first_seed, row.first_seed + (row.seeds if seeds is None else seeds)):
        commands = row.commands(seed, device)
        if _anywhere(commands) in map(_anywhere, known):
            continue
        if known and _unseeded(known[0]) != _unseeded(commands):
            raise InputError(f"the record of {name} is of other commands; delete it to measure these")
        lacking.append(commands)
    with ThreadPoolExecutor(1) as one_by_one:
        running = [(pool or one_by_one).submit(_run_seed, row, commands, device) for commands in lacking]
        try:
            record = _begun(name, row) if record is None else record
            for done in as_completed(running):
                found = done.result()
                if config := found.pop("config", None):
                    record.setdefault("config", config)  # of one seed; others differ in seed and device
                record["seeds"] = sorted([*record["seeds"], found], key=_seed)
                print(
                    f"{name} seed {_seed(found)}: {found['mean']:.1f} +- {found['std']:.1f}", file=sys.stderr
                )
                yield _summed_up(record, row)
        finally:
            for waiting in running:
                waiting.cancel()


def _run_seed(row: Row, commands: list[str], device: str | None) -> dict[str, Any]:
    """Run a seed in a folder of its own, and measure it and its teacher, if it made one."""
    with tempfile.TemporaryDirectory() as folder:
        here = provenance()
        found = run_seed(commands, Path(folder)) | {"commit": here.get("commit"), "cpu": here["cpu"]}
        if device is not None:
            found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else device
        if row.teacher:
            found["teacher_returns"] = measured(str(Path(folder) / "teacher"), row).returns.tolist()
    return found


def _summed_up(record: dict[str, Any], row: Row) -> dict[str, Any]:
    """The record with its means."""
    record["mean"] = statistics.fmean(seed["mean"] for seed in record["seeds"])
    if row.teacher:
        record["expert_returns"] = [seed["teacher_returns"] for seed in record["seeds"]]
        record["expert_mean"] = statistics.fmean(map(statistics.fmean, record["expert_returns"]))
    if record["expert_mean"] is not None:
        share = (record["mean"] - record["random"]) / (record["expert_mean"] - record["random"])
        record["share_of_range"] = share
    return record


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


def _anywhere(commands: list[str]) -> list[str]:
    """The commands without the device."""
    return [re.sub(r" --device \w+", "", command) for command in commands]


def _unseeded(commands: list[str]) -> list[str]:
    """The commands without device and seed, which are the same for all seeds of a row."""
    return [re.sub(r" --seed \d+", "", command) for command in _anywhere(commands)]


def _seed(found: dict[str, Any]) -> int:
    """The seed of a run, or 0 where the commands have none."""
    named = re.search(r"--seed (\d+)", " ".join(found["commands"]))
    return 0 if named is None else int(named[1])


def main() -> None:
    rows = read_rows()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--seeds", type=int, help="how many; by default what rows.toml says")
    parser.add_argument("--at-once", type=int, default=1, help="how many seeds, of all rows; by default 1")
    parser.add_argument("--device", help="where learners learn, as in `imitate train`; by default the CPU")
    parser.add_argument("--list", action="store_true", help="print the rows and their commands")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name}: {'; '.join(row.commands(0))}" for name, row in rows.items()))
        return
    if not arguments.rows or (unknown := [name for name in arguments.rows if name not in rows]):
        parser.error(f"no row {', '.join(unknown)}" if arguments.rows else "which rows? --list names them")
    for name in arguments.rows:  # imports its module, which two threads must not do at the same time
        make_env(rows[name].env, rows[name].env_kwargs).close()
    with (
        ThreadPoolExecutor(arguments.at_once) as pool,
        ThreadPoolExecutor(len(arguments.rows)) as rows_at_once,
    ):

        def measure(name: str) -> str:
            """Complete a row's record, written after each seed, as a row may take a day; the line that sums it up."""
            path = BENCHMARKS / "results" / f"{name}.json"
            begun = json.loads(path.read_text("utf-8")) if path.exists() else None
            for grown in run_row(name, arguments.seeds, begun, device=arguments.device, pool=pool):
                write_json(path, grown)
            record = json.loads(path.read_text("utf-8"))
            expert = "" if record["expert_mean"] is None else f" of {record['expert_mean']:.1f}"
            return f"{name}: {record['mean']:.1f}{expert}, random {record['random']:.1f}"

        try:
            for line in rows_at_once.map(measure, arguments.rows):
                print(line)
        except InputError as error:
            parser.error(str(error))


if __name__ == "__main__":
    main()
