"""Hooks of `mkdocs build`: documents of the repository as pages, links out of docs/, equations, tables of results.

A page may link to any file of the repository by its relative path, as on the page of a code host. Documents become
pages of the site, data and pictures are copied to it, and of sources and folders the path remains.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.superfences import SuperFencesException

from imitate.reproduce.rows import read_rows
from imitate.reproduce.summaries import read_summaries

ROOT = Path(__file__).parent.parent
DOCUMENTS = {
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "results.md",
    "benchmarks/SPEED.md": "speed.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages of documents that are not in docs/; the README's place is the home page's."""
COPIED = {".csv", ".gif", ".html", ".ipynb", ".json", ".png", ".toml"}
"""Files that the site gets if a page links to them."""
_LINK = re.compile(
    r"(?ms)(?P<code>^```.*?^```$|`[^`\n]+`)"
    r"|\[(?P<shown>(?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
"""A link within the repository, or code, in which nothing is a link."""
_SOURCES = tempfile.TemporaryDirectory()
_ROWS = re.compile(r"<!-- rows: ([\w-]+) -->")


@event_priority(100)  # before mkdocstrings reads its settings
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    fence = {"name": "math", "class": "math", "format": _equation}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    # Two of its layers are folders beside it here, so the reference is made from a copy of the sources that has them in
    # their places.
    for folder, place in (("imitate", ""), ("datasets", "datasets"), ("experts", "experts")):
        for path in (ROOT / folder).rglob("*.py*"):
            if path.suffix in (".py", ".pyi"):
                copy = Path(_SOURCES.name) / "imitate" / place / path.relative_to(ROOT / folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [_SOURCES.name]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in DOCUMENTS.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page, text = f"notebooks/{path.stem}.md", as_markdown(json.loads(path.read_text("utf-8")))
        files.append(File.generated(config, page, content=f"{text}\n\n[The notebook]({path.name})\n"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    text = _ROWS.sub(lambda found: results_of(found[1], page.file.src_uri), markdown)

    def mended(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        return _link(found["shown"], found["target"], found["anchor"] or "", page, config, files)

    return _LINK.sub(mended, text)


def _link(shown: str, target: str, anchor: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A link as the site has it."""
    here = page.file.src_uri
    origin = next(
        (source for source, name in DOCUMENTS.items() if name == here != "index.md"), f"docs/{here}"
    )
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
    if path in DOCUMENTS:
        inside = DOCUMENTS[path]
    elif path.startswith("docs/") and Path(path).suffix != ".ipynb":
        inside = path.removeprefix("docs/")
    elif not (ROOT / path).exists():
        inside = target  # MkDocs says that it leads nowhere
    elif (ROOT / path).suffix in COPIED:
        inside = f"files/{path}"
        if files.get_file_from_path(inside) is None:
            files.append(File.generated(config, inside, abs_src_path=str(ROOT / path)))
    else:
        is_path = path.endswith(shown.strip("`/"))
        return f"`{path}`" if is_path else f"{shown} (`{path}`)"
    return f"[{shown}]({posixpath.relpath(inside, posixpath.dirname(here) or '.')}{anchor})"


def _equation(source: str, *_: Any, **__: Any) -> str:
    """LaTeX as MathML, which browsers draw without a script."""
    try:
        drawn = convert(source, display="block")
    except Exception as error:  # of other kinds Markdown says nothing
        raise SuperFencesException(f"latex2mathml can't read {source}: {error!r}") from error
    if "\\" in drawn:
        raise SuperFencesException(f"latex2mathml does not know a command in {source}")
    return f'<div class="equation">{drawn}</div>'


def results_of(algorithm: str, page: str) -> str:
    """The table of an algorithm's rows, each with a link to its record."""
    rows, found = read_rows(), read_summaries()
    lines = [
        "| task | row | return | 95 % interval | expert | steps | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    up = "../" * (page.count("/") + 1)
    for name, row in rows.items():
        if row.algorithm.partition(":")[0] != algorithm or name not in found:
            continue
        each = found[name]
        interval = "" if each.ci95 is None else f"{each.ci95[0]:,.1f} to {each.ci95[1]:,.1f}"
        expert = "" if each.expert is None else f"{each.expert:,.1f}"
        label = f"[{row.label}]({up}benchmarks/results/{name}.json)"
        lines.append(
            f"| {row.env} | {label} | {each.mean:,.1f} | {interval} | {expert} | {each.steps:,} | {len(each.means)} |"
        )
    return "\n".join(lines) if len(lines) > 2 else "No row of the results table is of this algorithm yet."


def as_markdown(notebook: dict[str, Any]) -> str:
    """A notebook as a page: its text, its code and what the code printed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        commands = source.startswith("!")
        code = "\n".join(line.removeprefix("!") for line in source.splitlines()) if commands else source
        parts.append(f"```{'bash' if commands else 'python'}\n{code}\n```")
        printed = "".join(
            "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
            for output in cell["outputs"]
        )
        if printed.strip():
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts)
