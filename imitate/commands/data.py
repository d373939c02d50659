"""`imitate data info|validate`"""

from __future__ import annotations

from pathlib import Path

import tyro

from imitate.commands.options import print_json, report, subcommand
from imitate.datasets.validate import describe, validate

__all__ = ["data"]


def data(argv: list[str]) -> int:
    def info(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
        """Describe demonstrations: episodes, steps, returns, spaces, expert, size.

        Args:
            file: a file of demonstrations
            json: print JSON
        """
        report(describe(file), as_json=json)
        return 0

    def check(file: tyro.conf.Positional[Path], /, json: bool = False) -> int:
        """Check every invariant of demonstrations; status 2 if one is broken.

        Args:
            file: a file of demonstrations
            json: print JSON
        """
        problems = validate(file)
        if json:
            print_json({"valid": not problems, "problems": problems})
        else:
            print("\n".join(problems) or f"{file}: valid")
        return 2 if problems else 0

    return subcommand({"info": info, "validate": check}, argv, "data")
