"""Hooks of `mkdocs build`: documents of the repository as pages, links out of docs/, equations.

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
    def mended(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        return _link(found["shown"], found["target"], found["anchor"] or "", page, config, files)

    return _LINK.sub(mended, markdown)


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
