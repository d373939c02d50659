"""Names and paths in a LeRobotDataset v3.0."""

from __future__ import annotations

__all__ = ["CHUNK", "DATA_PATH", "FINAL", "PROVENANCE", "VERSION", "VIDEO_PATH", "numbered"]

VERSION = "v3.0"
CHUNK = 1000
"""Maximum number of files in a folder."""
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
FINAL = "meta/imitate_final.parquet"
PROVENANCE = "meta/imitate.json"
"""These two files are ours; LeRobot ignores them."""


def numbered(chunk: int, file: int, suffix: str) -> str:
    """A path such as `chunk-000/file-000.parquet`."""
    return f"chunk-{int(chunk):03d}/file-{int(file):03d}{suffix}"
