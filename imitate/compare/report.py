from pathlib import Path
def write_report(out: Path) -> Path:
    return out
