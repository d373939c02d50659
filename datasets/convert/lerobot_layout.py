"""Names and paths in a LeRobotDataset v3.0."""

from __future__ import annotations

__all__ = ["CHUNK", "DATA_PATH", "FINAL", "PROVENANCE", "VERSION", "VIDEO_PATH", "numbered"]

VERSION = "v3.0"
CHUNK = 1000
"""Files in a folder, at most."""
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
FINAL = "meta/imitate_final.parquet"
PROVENANCE = "meta/imitate.json"
"""These two are ours; LeRobot does not look at them."""


def numbered(chunk: int, file: int, suffix: str) -> str:
    """`chunk-000/file-000.parquet`."""
    return f"chunk-{int(chunk):03d}/file-{int(file):03d}{suffix}"
