"""Writes the notebooks from the tutorials, with what their cells print.

pip install -c constraints.txt -e ".[notebooks]" && python docs/notebooks.py
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TUTORIALS = ("record-and-clone", "dagger")
_CODE = re.compile(r"(?ms)^```(bash|python)\n(.*?)^```$")
_UNRUN = re.compile(r"(?ms)^<!-- not run: [^\n]+ -->\n(```.*?^```)$")


def cells_of(tutorial: str) -> list[tuple[str, str]]:
    """The kind and the source of each cell of a tutorial's notebook."""
    text = (DOCS / "tutorials" / f"{tutorial}.md").read_text("utf-8")
    text = re.sub(r"\]\((?!https?:|#)([^)]+)\)", _from_here, text)
    text = _UNRUN.sub(lambda found: found[1].replace("```bash", "```sh"), text)
    cells, end = [], 0
    for found in _CODE.finditer(text):
        cells.append(("markdown", text[end : found.start()].strip()))
        lines = found[2].strip().splitlines()
        cells.append(
            ("code", "\n".join(f"!{line}" for line in lines) if found[1] == "bash" else found[2].strip())
        )
        end = found.end()
    return [cell for cell in [*cells, ("markdown", text[end:].strip())] if cell[1]]


def _from_here(found: re.Match[str]) -> str:
    """A link of a tutorial, as notebooks/ has it."""
    return f"]({found[1]})" if found[1].startswith("../") else f"](../tutorials/{found[1]})"


def notebook(tutorial: str) -> dict[str, Any]:
    """A notebook that was not executed."""
    cells = []
    for number, (kind, source) in enumerate(cells_of(tutorial)):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": source}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def executed(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with what its cells print; raises nbclient's CellExecutionError if one fails."""
    import nbformat
    from nbclient import NotebookClient

    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    node = nbformat.from_dict(found)
    NotebookClient(node, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in node.cells:
        cell.metadata.clear()  # times of the execution
        if cell.cell_type == "code":
            text = printed(
                "".join(each.get("text", "") for each in cell.outputs if each.get("name") == "stdout")
            )
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)] if text else []
    plain: dict[str, Any] = json.loads(nbformat.writes(node))
    plain["metadata"] = found["metadata"]
    return plain


def printed(text: str) -> str:
    """The text that a terminal shows in the end, without progress bars."""
    lines = [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    return "\n".join(line for line in lines if "%|" not in line).strip("\n")


if __name__ == "__main__":
    for name in TUTORIALS:
        with tempfile.TemporaryDirectory() as folder:
            written = executed(notebook(name), Path(folder))
        path = DOCS / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(path)
