"""Keep a finished comparison as a record: its summary and every run's returns.

python benchmarks/off_policy/record.py FOLDER NAME
"""

import json
import sys
from pathlib import Path

from imitate.files import write_json

RESULTS = Path(__file__).parent.parent / "results"


def record(folder: Path) -> dict[str, object]:
    runs = json.loads((folder / "runs.json").read_text("utf-8"))
    found = {
        name: json.loads((folder / place / "result.json").read_text("utf-8")) for name, place in runs.items()
    }
    return {"summary": json.loads((folder / "summary.json").read_text("utf-8")), "runs": found}


if __name__ == "__main__":
    write_json(RESULTS / f"{sys.argv[2]}.json", record(Path(sys.argv[1])))
