"""Videos of a comparison: the expert's and each learner's first test episode."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import imageio_ffmpeg

from imitate.compare.execute.training import expert_of, stored_policy
from imitate.compare.plan.comparison import Comparison
from imitate.compare.statistics.job_results import Film
from imitate.envs.seeds import TEST_SEED
from imitate.files import atomic, write_json
from imitate.media.video import record_video

__all__ = ["film", "poster"]


def film(
    root: Path,
    comparison: Comparison,
    out: Path,
    run: Path | None,
    source: str,
    *,
    progress: Callable[[int], None],  # noqa: ARG001
) -> None:
    """Film the first test episode of the run's policy, or of the expert. A still picture and a .json with the return
    are written beside the video. Both paths are below `root`; `source` is the run's name, or what the expert was made
    from.

    The return may differ from the test's: an observation alone may be rounded differently than among eight, and in some
    environments the last bit matters.
    """
    out, run = root / out, run and root / run
    out.unlink(missing_ok=True)  # left by a process that was killed before it wrote the return
    policy = expert_of(comparison) if run is None else stored_policy(comparison, run)
    returns = record_video(
        policy,
        comparison.env_id,
        out,
        env_kwargs=comparison.env_kwargs,
        seed=TEST_SEED,
        max_seconds=40,  # a small picture, since a video takes about 200 KB of the report
        width=400,
        crf=30,
    )
    poster(out)
    write_json(out.with_suffix(".json"), asdict(Film(returns[0], source)))


def poster(video: Path) -> None:
    """Write the video's first picture as a JPEG beside it; the page shows it before the video plays."""
    # Without "file:" a name may be an option or a protocol, without -update a pattern for many pictures.
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-nostdin", "-i", f"file:{video}"]
    command += ["-frames:v", "1", "-update", "1", "-q:v", "8", "-f", "image2"]
    with atomic(video.with_suffix(".jpg")) as picture:
        subprocess.run([*command, f"file:{picture}"], check=True, stdin=subprocess.DEVNULL)
