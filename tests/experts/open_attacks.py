"""Open every case below a folder as an expert, and say what came of it, a JSON line each.

`test_experts_attacks` runs this in a child process: a case may kill it, or hang until the watchdog does.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import time
import traceback
from pathlib import Path

import numpy as np
from gymnasium import spaces
from memory import peak_memory

from imitate.errors import InputError
from imitate.experts import load_expert

SECONDS = 20


def opened(case: Path) -> str:
    """ "opened", "refused: why", or a traceback."""
    archives = sorted(case.glob("*.zip"))
    try:
        expert = load_expert(archives[0] if archives else case)
        expert.describe()
        space = expert.observation_space
        if isinstance(space, spaces.Box | spaces.Discrete):
            expert.act(np.zeros((2, *(space.shape or ())), space.dtype))
    except InputError as error:
        line = " ".join(str(error).split())
        return f"refused: {line}" if len(line) < 2_000 else f"a message of {len(line)} characters"
    except BaseException:
        return traceback.format_exc()
    return "opened"


def main(folder: Path, done: set[str]) -> None:
    logging.disable()
    for case in sorted(folder.iterdir()):
        if case.name in done:
            continue
        print(json.dumps({"case": case.name, "begun": True}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        start = time.perf_counter()
        outcome = opened(case)
        seconds = time.perf_counter() - start
        faulthandler.cancel_dump_traceback_later()
        peak = peak_memory()
        print(
            json.dumps({"case": case.name, "outcome": outcome, "peak": peak, "seconds": seconds}), flush=True
        )
