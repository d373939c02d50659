"""Reads the results of a comparison from its folder, or of several folders together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from imitate.compare.formatting import listed
from imitate.compare.plan.comparison import Comparison, overrides
from imitate.compare.plan.learners import base
from imitate.compare.statistics.entry import Entry
from imitate.compare.statistics.job_results import Failure, Film, Reference, References, Result, Runs
from imitate.compare.statistics.outcome import Outcome
from imitate.errors import InputError
from imitate.files import read_json

logger = logging.getLogger(__name__)

__all__ = ["merged", "read_finished", "read_outcome"]


_Run = tuple[str, int]
"""An algorithm and a seed."""

_SHARED = (
    "env_id", "env_kwargs", "expert", "budget", "curve_episodes", "num_envs", "demo_episodes", "demo_every",
    "keep_closest",
)  # fmt: skip
"""Fields in which comparisons that are reported together agree."""


def read_outcome(*folders: Path) -> Outcome:
    """Read the results of a comparison from its folder, or merge several with the same environment, expert and budget.

    Raises InputError if a folder holds no comparison, or if they do not fit together.
    """
    comparison = merged([_stored(folder) for folder in folders], folders)
    references = _references(folders)
    wanted, results = _read_results(folders)
    errors = [path for folder in folders for path in sorted((folder / "errors").glob("*.json"))]
    failures = [read_json(path, Failure).error for path in errors]
    # A run that has ended may still have failed to play the test episodes that were added since.
    ended = [wanted[run] for run, result in results.items() if len(result.returns) >= comparison.episodes]
    failures = [each for each in failures if not any(each.startswith(f"{name}:") for name in ended)]
    missing = [
        name
        for run, name in wanted.items()
        if run not in results and not any(failure.startswith(f"{name}:") for failure in failures)
    ]
    if (odd := _odd_curve(results, len(references.random.curve))) is not None:
        raise InputError(
            f"the curve of {wanted[odd]} in {folders[0]} is not that of its comparison: restore it"
        )
    experts = () if references.expert is None else (references.expert.measured,)
    least = min(len(each.returns) for each in (*results.values(), references.random, *experts))
    comparison = replace(comparison, episodes=min(comparison.episodes, least))
    return Outcome(
        comparison,
        _entries(results, comparison.algorithms, comparison.episodes),
        _entries(results, tuple(comparison.controls), comparison.episodes),
        _shortened(references, comparison),
        failures,
        missing,
        _films(folders),
    )


def _references(folders: Sequence[Path]) -> References:
    """The first folder's references. Raises InputError if another folder's expert has other weights or statistics, or
    if code of the user's own differs: its learners had another teacher, or another environment."""
    first, *others = (read_json(folder / "references.json", References) for folder in folders)
    for folder, other in zip(folders[1:], others, strict=True):
        a, b = (each.expert.sha256 if each.expert else "" for each in (first, other))
        what = "expert"
        if a == b and first.made_from and other.made_from:  # which older files lack
            both = zip_longest(first.made_from.split(), other.made_from.split(), fillvalue="none")
            a, b = next(((a, b) for a, b in both if a != b), ("", ""))
            what = "expert's VecNormalize file or code of your own"
        if a != b:
            raise InputError(
                f"{folder} can't be reported together with {folders[0]}: its {what} has the sha256 {b[:16]}, not "
                f"{a[:16]}; run it again with the same file"
            )
    return first


def _read_results(folders: Sequence[Path]) -> tuple[dict[_Run, str], dict[_Run, Result]]:
    """The names of all runs that were planned, and the results of those that ended; of two, the first folder's."""
    wanted: dict[_Run, str] = {}
    results: dict[_Run, Result] = {}
    for folder in folders:
        for name, place in read_json(folder / "runs.json", Runs).items():
            algorithm, _, seed = name.rpartition("-seed")
            run = (algorithm, int(seed))
            wanted[run] = name
            if run not in results and (result := Result.load(folder / place)) is not None:
                results[run] = result
    return wanted, results


def _films(folders: Sequence[Path]) -> dict[str, tuple[Path, float]]:
    """The film of each learner and its return; of two, the first. A link could bring any file into a report."""
    videos: dict[str, tuple[Path, float]] = {}
    for folder in folders:
        for note in sorted((folder / "videos").glob("*.json")):
            shown, film = read_json(note, Film).episode_return, note.with_suffix(".mp4")
            if not film.is_symlink() and not film.with_suffix(".jpg").is_symlink():
                videos.setdefault(note.stem, (film, shown))
    return videos


def _odd_curve(results: Mapping[_Run, Result], episodes: int) -> _Run | None:
    """The first run whose curve has another number of points than its algorithm's first, or of episodes at a point."""
    points: dict[str, int] = {}
    for run, result in results.items():
        same = points.setdefault(run[0], len(result.curve)) == len(result.curve)
        if not same or any(len(point.returns) != episodes for point in result.curve):
            return run
    return None


def _entries(results: Mapping[_Run, Result], algorithms: Sequence[str], episodes: int) -> list[Entry]:
    """The learners with results, by seed, with as many episodes each."""
    entries = []
    for algorithm in algorithms:
        seeds = [results[run] for run in sorted(results) if run[0] == algorithm]
        if seeds:
            cut = [
                replace(each, returns=each.returns[:episodes], last_returns=each.last_returns[:episodes])
                for each in seeds
            ]
            entries.append(Entry(algorithm, cut))
    return entries


def read_finished(*folders: Path) -> Outcome:
    """`read_outcome`; also raises InputError if no learner finished."""
    outcome = read_outcome(*folders)
    if not outcome.learners:
        reason = f": {outcome.failures[0]}" if outcome.failures else ""
        raise InputError(f"no learner of {folders[0]} finished, so there is nothing to report{reason}")
    return outcome


def merged(comparisons: Sequence[Comparison], folders: Sequence[Path]) -> Comparison:
    """One comparison of all algorithms and seeds. Raises InputError if they do not measure the same, or if a learner
    has other hyperparameters in one than in another."""
    first = comparisons[0]
    settings: dict[str, dict[str, Any]] = {}
    for other, folder in zip(comparisons, folders, strict=True):
        for name in _SHARED:
            a, b = getattr(first, name), getattr(other, name)
            if a != b:
                raise InputError(
                    f"{folder} can't be reported together with {folders[0]}: its {name} is {b!r}, not {a!r}"
                )
        for name in other.algorithms:
            b = overrides(other, name)
            if (a := settings.setdefault(name, b)) != b:
                raise InputError(
                    f"{folder} can't be reported together with {folders[0]}: {name} has {b}, not {a}; run it there as "
                    f"{base(name)}@label"
                )
    seeds = sorted({each.first_seed + n for each in comparisons for n in range(each.seeds)})
    if seeds[-1] - seeds[0] >= len(seeds):
        logger.warning(
            "these comparisons have the seeds %s: the command on the page repeats as many from %d on",
            ", ".join(map(str, seeds)),
            seeds[0],
        )
    both = replace(
        first,
        algorithms=tuple(dict.fromkeys(name for each in comparisons for name in each.algorithms)),
        first_seed=seeds[0],
        seeds=len(seeds),
        episodes=min(each.episodes for each in comparisons),
        hyperparameters={n: h for each in reversed(comparisons) for n, h in each.hyperparameters.items()},
    )
    if mixed := [name for name, own in settings.items() if overrides(both, name) != own]:
        logger.warning("the command on the page repeats %s with another folder's settings too", listed(mixed))
    return both


def _stored(folder: Path) -> Comparison:
    if not (folder / "comparison.json").is_file() or not (folder / "runs.json").is_file():
        raise InputError(f"{folder} holds no comparison to report; fill it with `imitate compare`")
    return Comparison.from_json(read_json(folder / "comparison.json", dict[str, Any]))


def _shortened(references: References, comparison: Comparison) -> References:
    """The references restricted to the learners' test episodes."""

    def cut(measured: Reference) -> Reference:
        return replace(measured, returns=measured.returns[: comparison.episodes])

    expert = references.expert
    return replace(
        references,
        random=cut(references.random),
        expert=expert and replace(expert, measured=cut(expert.measured)),
    )
