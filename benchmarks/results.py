"""Write RESULTS.md, SPEED.md, docs/, the README's results and the package's summaries from templates/ and the records.

    python benchmarks/results.py

A test fails if one of these documents does not agree with the records.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
from evidence import KNOWN, LEARNERS, LEAST_SEEDS, LEVELS
from frozen_shown import Frozen, scored
from mujoco_suite import clones
from shown import (
    BESIDE,
    LONG_PPO,
    Shown,
    beside,
    by_teacher,
    commits_of,
    costs_by_task,
    costs_of_three,
    figures,
    gain,
    reached,
    signed,
    spent,
    suite_scores,
)

from imitate.compare.statistics.intervals import interval
from imitate.reproduce.experiments import read_experiments
from imitate.reproduce.rows import ROWS_FILE
from imitate.reproduce.summaries import SUMMARIES, Summary

BENCHMARKS = Path(__file__).parent
README = BENCHMARKS.parent / "README.md"
RESULTS, SPEED = BENCHMARKS / "RESULTS.md", BENCHMARKS / "SPEED.md"
SCALE = BENCHMARKS.parent / "docs" / "scale.md"
EXPERIMENTS = BENCHMARKS.parent / "docs" / "experiments.md"
FEW_DEMOS = BENCHMARKS.parent / "docs" / "few-demonstrations.md"
BEGIN, END = "<!-- results: written by benchmarks/results.py -->\n", "<!-- end of results -->\n"
"""The lines around the part of the README that this script writes."""
OLDER_SEARCHES = tuple(f"lunarlander-dqn-{seed}" for seed in range(101, 105))
"""Searches of `imitate improve` before its plan was changed; that of seed 100 is in another record."""
NEWER_SEARCHES = tuple(f"lunarlander-dqn-{seed}" for seed in range(105, 108))
"""Searches by its present plan."""
NEWEST_SEARCHES = tuple(f"lunarlander-dqn-{seed}" for seed in range(113, 118))
"""Searches since QDagger has layer norm."""
PAGES = BENCHMARKS.parent / "docs" / "algorithms"
_ROWS = re.compile(r"(?s)(<!-- rows: ([\w-]+), .*? -->\n).*?(<!-- end of rows -->\n)")
"""The part of an algorithm's page that this script writes."""
ROWS: dict[str, dict[str, Any]] = tomllib.loads(ROWS_FILE.read_text("utf-8"))


def documents(records: Path = BENCHMARKS / "results") -> dict[Path, str]:
    """The text of each document, according to the records."""
    known = {path.stem: json.loads(path.read_text("utf-8")) for path in records.glob("*.json")}
    readme = README.read_text("utf-8")
    results = BEGIN + render("README-results.md", known) + END
    readme = re.sub(f"(?s){re.escape(BEGIN)}.*{re.escape(END)}", lambda _: results, readme)
    written = {RESULTS: "RESULTS.md", SPEED: "SPEED.md", SCALE: "scale.md", EXPERIMENTS: "experiments.md"}
    written[FEW_DEMOS] = "few-demonstrations.md"
    texts = {path: render(template, known) for path, template in written.items()}
    found = summaries(known)
    for path in PAGES.glob("*.md"):
        texts[path] = _ROWS.sub(
            lambda part: f"{part[1]}\n{table_of(part[2], found)}\n{part[3]}", path.read_text("utf-8")
        )
    short = {name: vars(summary) for name, summary in found.items()}
    return {README: readme, SUMMARIES: json.dumps(short, indent=1) + "\n"} | texts


def summaries(known: dict[str, Any]) -> dict[str, Summary]:
    """The records of rows in short, for the package."""
    found = {}
    for name in (name for name in ROWS if name in known):
        record, seeds = known[name], known[name]["seeds"]
        counted = [
            sum(seed.get(kind, 0) for kind in ("env_steps", "demo_steps", "validation_steps"))
            for seed in seeds
        ]
        cpu = record.get("machine", {}).get("cpu", "")
        on_cpu = [seed for seed in seeds if "device" not in seed and seed.get("cpu", cpu) == cpu]
        spent_ = [seed.get("cpu_seconds", seed.get("seconds", 0.0)) / 60 for seed in on_cpu]
        ci95 = interval([seed["returns"] for seed in seeds]) if len(seeds) >= LEAST_SEEDS else None
        found[name] = Summary(
            means=tuple(round(seed["mean"], 3) for seed in seeds),
            ci95=None if ci95 is None else (round(ci95[0], 3), round(ci95[1], 3)),
            expert=record["expert_mean"],
            random=record["random"],
            steps=max(counted),
            minutes=round(statistics.fmean(spent_), 2) if spent_ else ROWS[name]["core_minutes"],
            cpu=cpu,
            commit=", ".join(commits_of(record)),
        )
    return found


def table_of(algorithm: str, found: dict[str, Summary]) -> str:
    """The rows of an algorithm, each with a link to its record; two seeds are shown by themselves."""
    lines = [
        "| task | row | return | 95 % interval | expert | steps | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, each in found.items():
        row = ROWS[name]
        if row["algorithm"].partition(":")[0] != algorithm:
            continue
        seeds = len(each.means)
        means = f" ({', '.join(f'{mean:,.1f}' for mean in each.means)})" if 1 < seeds < LEAST_SEEDS else ""
        ci95 = "" if each.ci95 is None else f"{each.ci95[0]:,.1f} to {each.ci95[1]:,.1f}"
        expert = "" if each.expert is None else f"{each.expert:,.1f}"
        text = ", ".join([row["label"], *([row["settings"]] if "settings" in row else [])])
        label = f"[{text}](../../benchmarks/results/{name}.json)"
        lines.append(
            f"| {row['env']} | {label} | {each.mean:,.1f}{means} | {ci95} | {expert} | {each.steps:,} | {seeds} |"
        )
    return (
        "\n".join(lines) + "\n"
        if len(lines) > 2
        else "No row of the results table is of this algorithm yet.\n"
    )


def render(template: str, known: dict[str, Any]) -> str:
    """Fill a template from the records. Raises jinja2.UndefinedError if they lack something that the text uses."""
    teachers = known["teachers"]["teachers"]
    rows = {name: figures(name, row, known[name], teachers) for name, row in ROWS.items() if name in known}
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in rows.values():
        sections.setdefault(row.get("section", row["env"]), []).append(row)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(BENCHMARKS / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "r0": lambda figure: f"{figure:,.0f}",
        "r2": lambda figure: f"{figure:.2f}",
        "r1": lambda figure: "" if figure is None else f"{figure:.1f}",
        "percent": lambda share: f"{share:.0%}",
        "mean": statistics.fmean,
        "median": statistics.median,
        "gain": gain,
        "reached": reached,
        "spent": spent,
        "scored": scored,
        "signed": signed,
    }
    shown = Shown(ROWS, known, teachers)
    environment.globals |= {
        "learners": LEARNERS,
        "levels": LEVELS,
        "best_known": KNOWN["best"],
        "long_ppo": LONG_PPO,
        "beside": {name: beside(name, known) for name in BESIDE if name in known},
    }
    environment.globals |= {
        "frozen": Frozen(known["frozen"]),
        "clones": clones,
        "by_teacher": by_teacher,
        "suite": suite_scores,
    }
    environment.globals |= {"costs_of_three": costs_of_three, "costs_by_task": costs_by_task}
    environment.globals |= {"OLDER_SEARCHES": OLDER_SEARCHES}
    environment.globals |= {"NEWER_SEARCHES": NEWER_SEARCHES, "NEWEST_SEARCHES": NEWEST_SEARCHES}
    environment.globals |= {"ends": ends, "on_the_way": on_the_way}
    environment.globals |= {"experiments": read_experiments(), "rows": ROWS, "summaries": summaries(known)}
    missing = [name for name in ROWS if name not in known]
    text = environment.get_template(template).render(
        record=known, row=rows, sections=sections, missing=missing, shown=shown
    )
    return "\n\n".join(filled(block) for block in re.split(r"\n{2,}", text))


def ends(runs: list[dict[str, Any]]) -> str:
    """The ends of the interval of a learner's mean return; empty for fewer than three seeds."""
    if len(runs) < LEAST_SEEDS:
        return ""
    low, high = interval([run["returns"] for run in runs])
    return f"{low:,.1f} to {high:,.1f}"


def on_the_way(runs: list[dict[str, Any]], steps: float) -> float:
    """The mean over runs of the last point of each curve up to these steps."""
    return statistics.fmean([score for at, score in run["curve"] if at <= steps][-1] for run in runs)


def filled(block: str) -> str:
    """A paragraph or list wrapped to full lines, since its figures change its length; tables and code stay as they
    are."""
    if block.startswith(("|", "#", "    ", "```")):
        return block
    end = "\n" if block.endswith("\n") else ""
    items = re.split(r"\n(?=- )", block)
    indents = ["  " if item.startswith("- ") else "" for item in items]
    wrap = partial(textwrap.fill, width=118, break_long_words=False, break_on_hyphens=False)
    lines = [
        wrap(" ".join(item.split()), subsequent_indent=i) for item, i in zip(items, indents, strict=True)
    ]
    return "\n".join(lines) + end


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
