"""Extra files a task needs on another machine: expert weights and user modules."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from imitate.experts.load import carry, expert_files

__all__ = ["Luggage"]


@dataclass(frozen=True)
class Luggage:
    """Names of an expert and of the user's modules; their files are looked up only if the task travels.

    expert      a spec for `load_expert`
    own         names of environments and learners, which may be `module:name`
    statistics  `vecnormalize` of `load_expert`
    """

    expert: str | None = None
    own: tuple[str, ...] = ()
    statistics: str | None = None

    def pack(self) -> dict[str, Path]:
        """The files on this machine, keyed by the names under which `unpack` expects them."""
        files = {} if self.expert is None else expert_files(self.expert)
        packed = {f"expert/{name}": path for name, path in files.items()}
        if self.statistics is not None and Path(self.statistics).is_file():  # else it is "none"
            packed["statistics"] = Path(self.statistics)
        for name in (*self.own, self.expert or ""):
            packed |= {f"modules/{source}": path for source, path in _sources(name).items()}
        return packed

    def unpack(self, folder: Path) -> None:
        """Make the packed files, now in `folder`, available to this process."""
        if (folder / "modules").is_dir():
            sys.path.append(str(folder / "modules"))
        if self.expert is not None and (folder / "expert").is_dir():
            carry(self.expert, next((folder / "expert").glob("*.zip"), folder / "expert"))
        if self.statistics is not None and (folder / "statistics").is_file():
            carry(self.statistics, folder / "statistics")


def _sources(name: str) -> dict[str, Path]:
    """The source files of the module in `module:name`, or of its package. Empty if it is installed, since it should
    then be on the other machine too."""
    top = name.rpartition(":")[0].partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None or top == "imitate" or "site-packages" in Path(file).parts:
        return {}
    path = Path(file)
    if path.name != "__init__.py":
        return {path.name: path}
    package = path.parent
    return {source.relative_to(package.parent).as_posix(): source for source in package.rglob("*.py")}
