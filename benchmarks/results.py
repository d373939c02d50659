"""Write RESULTS.md, SPEED.md, docs/scale.md and the README's results from templates/, rows.toml and the records.

    python benchmarks/results.py

A test fails where one of these documents says something else than the records.
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

BENCHMARKS = Path(__file__).parent
README = BENCHMARKS.parent / "README.md"
RESULTS, SPEED = BENCHMARKS / "RESULTS.md", BENCHMARKS / "SPEED.md"
SCALE = BENCHMARKS.parent / "docs" / "scale.md"
BEGIN, END = "<!-- results: written by benchmarks/results.py -->\n", "<!-- end of results -->\n"
ROWS: dict[str, dict[str, Any]] = tomllib.loads((BENCHMARKS / "rows.toml").read_text())


def documents(records: Path = BENCHMARKS / "results") -> dict[Path, str]:
    """What each document must say."""
    readme = re.sub(
        f"(?s){re.escape(BEGIN)}.*{re.escape(END)}",
        lambda _: BEGIN + render("README.md", records) + END,
        README.read_text(),
    )
    written = {RESULTS: "RESULTS.md", SPEED: "SPEED.md", SCALE: "scale.md"}
    return {README: readme} | {path: render(template, records) for path, template in written.items()}


def render(template: str, records: Path) -> str:
    """A template filled from the records. Raises jinja2.UndefinedError where one lacks what the text asks for."""
    known = {path.stem: json.loads(path.read_text()) for path in records.glob("*.json")}
    rows = {name: row | {"name": name} | figures(known[name]) for name, row in ROWS.items() if name in known}
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
        "reached": reached,
    }
    missing = [name for name in ROWS if name not in known]
    text = environment.get_template(template).render(
        record=known, row=rows, sections=sections, missing=missing
    )
    return "\n\n".join(filled(block) for block in re.split(r"\n{2,}", text))


def filled(block: str) -> str:
    """A paragraph or list in lines of even length, whatever its figures came to; tables and code stay as they are."""
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


def figures(record: dict[str, Any]) -> dict[str, Any]:
    """What the tables show of a record. Steps include demonstrations and validation, of the seed that took most."""
    counted = ("env_steps", "demo_steps", "validation_steps")
    share = record.get("share_of_range")
    return {
        "mean": record["mean"],
        "each": ", ".join(f"{seed['mean']:.1f}" for seed in record["seeds"]),
        "expert_return": record["expert_mean"],
        "share": "" if share is None else f"{share:.1%}",
        "commit": record.get("machine", {}).get("commit", "older"),
        "steps": max(sum(seed.get(kind, 0) for kind in counted) for seed in record["seeds"]),
    }


def reached(record: dict[str, Any], goal: float) -> list[int]:
    """Training steps of each seed at its first validation of at least `goal`; seeds that never were are left out."""
    curves = [[steps for steps, mean, *_ in seed["curve"] if mean >= goal] for seed in record["seeds"]]
    return [steps[0] for steps in curves if steps]


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
