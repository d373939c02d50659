"""What an environment and an expert are made of, for a machine that does not have it: weights, and modules of the
current folder."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from imitate.experts.load import carry, expert_files

__all__ = ["Luggage"]


@dataclass(frozen=True)
class Luggage:
    """The names of an environment and an expert, whose files are looked up only where they travel."""

    env_id: str
    expert: str | None = None

    def pack(self) -> dict[str, Path]:
        """Their files on this machine, by the names that `unpack` expects below a folder."""
        files = {} if self.expert is None else expert_files(self.expert)
        packed = {f"expert/{name}": path for name, path in files.items()}
        for spec in (self.env_id, self.expert or ""):
            packed |= {f"modules/{name}": path for name, path in _sources(spec).items()}
        return packed

    def unpack(self, folder: Path) -> None:
        """Let this process find what `pack` named and somebody has written to `folder`."""
        if (folder / "modules").is_dir():
            sys.path.append(str(folder / "modules"))
        if self.expert is not None and (folder / "expert").is_dir():
            carry(self.expert, folder / "expert")


def _sources(spec: str) -> dict[str, Path]:
    """The module of `module:name`, or the package that it is in, unless it has been installed: then it should be on the
    other machine too."""
    top = spec.rpartition(":")[0].partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or top == "imitate" or "site-packages" in Path(file).parts:
        return {}
    path = Path(file)
    if path.name != "__init__.py":
        return {path.name: path}
    package = path.parent
    return {source.relative_to(package.parent).as_posix(): source for source in package.rglob("*.py")}
