"""Measure one commit once: the rows of frozen.toml, on seeds that were never used for tuning.

    python benchmarks/frozen.py --commit SHA [--jobs 2] [--only 'aggrevated-*'] [--device cuda] [--out FOLDER]
    python benchmarks/frozen.py --list
    python benchmarks/frozen.py --commit SHA --keep [--out FOLDER]

The commit is checked out into a worktree, FOLDER/tree, and everything runs from there, so work can go on in the
repository for days. A tree with changes is refused. The same command continues an interrupted measurement, even after
kill -9. A finished run is never repeated, even if it failed, since failures are results. FOLDER/record.json has every
episode of learners, teachers and random actions, the cost of each run, and its learning curve on other episodes.
--keep writes what has ended so far to benchmarks/results/frozen.json. Once that is committed, the same command takes
all runs from it that FOLDER lacks, also on another machine. Each run names its own machine, device and versions.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from frozen_rows import Plan, Row, matches, read_plan, rows_of

from imitate.errors import InputError
from imitate.files import atomic, lock, read_json, versions, write_json

HERE = Path(__file__).resolve()
COMMITTED = HERE.parent / "results" / "frozen.json"
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM)


@dataclass(frozen=True)
class Measurement:
    """A folder with the worktree, the results so far and the record."""

    out: Path
    commit: str
    plan: Plan
    rows: list[Row] = field(default_factory=list)

    def reference(self, task: str) -> Path:
        return self.out / "references" / f"{task}.json"

    def result(self, row: str, seed: int) -> Path:
        return self.out / "runs" / row / f"{seed}.json"

    def work(self, row: str, seed: int) -> Path:
        return self.out / "work" / f"{row}-{seed}"


def git(tree: Path, *arguments: str) -> str:
    """The output of a git command. Raises InputError with git's own words if it fails."""
    done = subprocess.run(["git", "-C", str(tree), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"git {arguments[0]} in {tree}: {done.stderr.strip()}")
    return done.stdout.strip()


def worktree(repository: Path, out: Path, commit: str) -> Path:
    """A checkout of the commit in `out`, created if missing, and a folder from which its packages are imported."""
    tree = out / "tree"
    if not tree.exists():
        git(repository, "worktree", "add", "--detach", str(tree), commit)
    check_clean(tree, commit)
    if not (tree / HERE.relative_to(HERE.parents[1])).exists():
        raise InputError(f"commit {commit[:12]} has no {HERE.name}: choose a later one")
    site, partial = out / "site", out / "site.partial"
    if not site.exists():
        shutil.rmtree(partial, ignore_errors=True)
        folders = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"][
            "package-dir"
        ]
        for package, folder in sorted(folders.items()):
            link = partial / package.replace(".", "/")
            if "." in package:
                link.symlink_to(tree / folder)
                continue
            link.mkdir(parents=True)
            for entry in (tree / folder).iterdir():
                (link / entry.name).symlink_to(entry)
        partial.rename(site)
    return tree


def check_clean(tree: Path, commit: str) -> None:
    """Raise InputError if the tree is not exactly the commit."""
    if (head := git(tree, "rev-parse", "HEAD")) != commit:
        raise InputError(f"{tree} is at {head[:12]}, not at {commit[:12]}: choose another --out")
    if changes := git(tree, "status", "--porcelain"):
        first = changes.splitlines()[0]
        raise InputError(
            f"{tree} has changes ({first}): a frozen measurement is of a commit alone; undo them, or commit them and "
            "measure that commit in another --out"
        )


def jobs(measured: Measurement) -> Iterator[tuple[str, int]]:
    """The (row, seed) of every run that has not ended: each row's first seed, then each row's second ..."""
    for n in range(len(measured.plan.seeds)):
        for row in measured.rows:
            if n < len(row.seeds) and not measured.result(row.name, row.seeds[n]).exists():
                yield row.name, row.seeds[n]


def carry_out(measured: Measurement, at_once: int, device: str) -> bool:
    """Measure the references, then run all jobs that have not ended; returns False after Ctrl-C."""
    import frozen_run  # imports torch, once for all processes

    fork = multiprocessing.get_context("fork")
    rows = {row.name: row for row in measured.rows}
    for task in dict.fromkeys(row.task for row in measured.rows):
        if not measured.reference(task).exists():
            print(f"{task}: teacher and random actions", flush=True)
            with fork.Pool(1) as pool:
                write_json(measured.reference(task), pool.apply(frozen_run.references, (measured.plan, task)))
    todo = list(jobs(measured))
    running: dict[Any, tuple[str, int, BaseProcess]] = {}
    interrupted = False
    try:
        while running or (todo and not interrupted):
            while todo and len(running) < at_once and not interrupted:
                check_clean(measured.out / "tree", measured.commit)
                name, seed = todo.pop(0)
                place = (measured.work(name, seed), measured.result(name, seed))
                given = (measured.plan, rows[name], seed, *place, device)
                process: BaseProcess = fork.Process(target=frozen_run.child, args=given)
                process.start()
                running[process.sentinel] = (name, seed, process)
            for sentinel in wait(list(running)):
                name, seed, process = running.pop(sentinel)
                process.join()
                interrupted |= not ended(measured.result(name, seed), process.exitcode, f"{name} seed {seed}")
    except KeyboardInterrupt:  # the runs get it too, and save their state
        for _, _, process in running.values():
            process.join()
        return False
    return not interrupted


def ended(result: Path, status: int | None, title: str) -> bool:
    """Print how a run ended; returns False if it was interrupted. A process that died silently counts as a failure."""
    if not result.exists():
        if status in INTERRUPTED:
            return False
        write_json(result, {"failed": f"the process ended with status {status}"})
    found = read_json(result, dict[str, Any])
    said = found.get("failed") or f"{sum(found['returns']) / len(found['returns']):.1f}"
    print(f"{title}: {said}", flush=True)
    return True


def write_record(measured: Measurement) -> dict[str, Any]:
    """Everything that has been measured so far, in one file."""
    from imitate.compare.machine import provenance

    references, rows, missing = {}, {}, 0
    for row in rows_of(measured.plan):
        path = measured.reference(row.task)
        if path.exists():
            references[row.task] = read_json(path, dict[str, Any])
        paths = {str(seed): measured.result(row.name, seed) for seed in row.seeds}
        found = {seed: read_json(path, dict[str, Any]) for seed, path in paths.items() if path.exists()}
        missing += len(paths) - len(found)
        about = {name: getattr(row, name) for name in ("task", "env", "env_kwargs", "algorithm", "expert")}
        rows[row.name] = about | {"seeds": found}
    record = {
        "command": f"python benchmarks/frozen.py --commit {measured.commit}",
        "commit": measured.commit,
        "missing_runs": missing,
        "episodes": measured.plan.episodes,
        "versions": versions(),
        "machine": provenance() | {"commit": measured.commit[:12]},
        "references": references,
        "rows": rows,
    }
    write_json(measured.out / "record.json", record)
    return record


def keep(measured: Measurement, committed: Path) -> None:
    """Write the record of what has ended so far, without the paths of this machine."""
    record = write_record(measured)
    for row in record["rows"].values():
        for run in row["seeds"].values():
            if demos := run.get("config", {}).get("demos"):
                run["config"]["demos"] = Path(demos).name
    with atomic(committed) as temporary:
        temporary.write_text(json.dumps(record, separators=(",", ":")) + "\n")


def restore(measured: Measurement, committed: Path) -> None:
    """Take what `measured` lacks from the record of the same commit, if one was committed."""
    if not committed.exists():
        return
    record = read_json(committed, dict[str, Any])
    if record["commit"] != measured.commit:
        return
    found = {measured.reference(task): reference for task, reference in record["references"].items()}
    for row, about in record["rows"].items():
        found |= {measured.result(row, int(seed)): result for seed, result in about["seeds"].items()}
    for path, result in found.items():
        if not path.exists():
            write_json(path, result)


def check_versions(out: Path) -> None:
    """Raise InputError if packages have changed since the measurement began."""
    path, now = out / "versions.json", versions()
    if not path.exists():
        write_json(path, now)
    if (then := read_json(path, dict[str, str])) != now:
        changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
        told = ", ".join(f"{name} {then.get(name)} -> {now.get(name)}" for name in changed)
        raise InputError(f"packages have changed since {out} was begun ({told}): restore them")


def listing(measured: Measurement) -> str:
    lines, total = [], 0.0
    for row in measured.rows:
        done = sum(measured.result(row.name, seed).exists() for seed in row.seeds)
        left = row.minutes * (len(row.seeds) - done)
        total += left
        lines.append(f"{row.name}: {done} of {len(row.seeds)} seeds, {left:.0f} core-minutes to go")
    runs = sum(len(row.seeds) for row in measured.rows)
    return "\n".join([*lines, f"{len(lines)} rows, {runs} runs, {total / 60:.1f} core-hours to go"])


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", default="HEAD", help="what to measure; by default the latest commit")
    parser.add_argument("--out", type=Path, help="by default frozen-SHA beside the repository")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", default="cpu", help="where learners learn, as in `imitate train`")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="rows, such as 'bc-*'; repeatable")
    parser.add_argument("--keep", action="store_true", help="write results/frozen.json from what has ended")
    parser.add_argument("--list", action="store_true", help="print the rows, what is done, and core-minutes")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        raise InputError(f"--jobs must be at least 1, got {arguments.jobs}")
    repository = HERE.parents[1]
    try:
        commit = git(repository, "rev-parse", "--verify", f"{arguments.commit}^{{commit}}")
    except InputError:
        raise InputError(f"{repository} has no commit {arguments.commit}: `git log` names them") from None
    home = Path(git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")).parent
    out = (arguments.out or home.parent / f"frozen-{commit[:12]}").resolve()
    plan = read_plan(HERE.with_name("frozen.toml"))
    chosen = [row for row in rows_of(plan) if not arguments.only or matches(row.name, arguments.only)]
    if not chosen:
        raise InputError(f"no row is called {', '.join(arguments.only)}: --list names them")
    measured = Measurement(out, commit, plan, chosen)
    restore(measured, COMMITTED)
    if arguments.list:
        print(listing(measured))
        return 0
    if arguments.keep:
        COMMITTED.parent.mkdir(exist_ok=True)
        keep(measured, COMMITTED)
        return 0
    tree = worktree(repository, out, commit)
    if tree != repository:  # go on with the commit's own code
        os.environ |= {"PYTHONPATH": str(out / "site"), "OMP_NUM_THREADS": "1"}
        os.execv(
            sys.executable,
            [sys.executable, str(tree / "benchmarks" / HERE.name), *again(arguments, commit, out)],
        )
    with lock(out, "a frozen measurement"):
        check_versions(out)
        finished = carry_out(measured, arguments.jobs, arguments.device)
        record = write_record(measured)
    print(f"{out / 'record.json'}: {record['missing_runs']} runs are missing")
    return 0 if finished else 128 + signal.SIGINT


def again(arguments: argparse.Namespace, commit: str, out: Path) -> list[str]:
    """The command line with all defaults spelled out."""
    only = [word for pattern in arguments.only or [] for word in ("--only", pattern)]
    given = ["--commit", commit, "--out", str(out), "--jobs", str(arguments.jobs)]
    return [*given, "--device", arguments.device, *only]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except InputError as error:
        print(f"frozen.py: {error}", file=sys.stderr)
        sys.exit(2)
