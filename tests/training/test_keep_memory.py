"""Blocks that are freed are not given back to the system: no page faults when they are asked for again."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from imitate.training.process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(8):
        np.ones(1 << 23)  # 64 MB: mapped and given back either way
        blocks = [np.ones(1 << 18) for _ in range(8)]  # 2 MB each
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep":
    keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_freed_blocks_are_kept() -> None:
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", PROGRAM, how])) for how in ("keep", "leave")
    }
    assert faults["keep"] < faults["leave"] / 2
