"""Reads and writes the frames of mp4 files one by one, through PyAV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from imitate.datasets.convert.foreign import needs
from imitate.datasets.storage.contain import contained
from imitate.envs.spaces import Array
from imitate.errors import InputError

__all__ = ["frames", "writing"]

_CODECS = {"h264", "hevc", "av1", "libdav1d", "libaom-av1", "vp9", "mpeg4"}
_LARGEST_FRAME = 1 << 23  # pixels; a decoder keeps up to 16 frames. 3840 x 2160 is less
_BYTES_A_SECOND = 1 << 18
_LOSSLESS = {"crf": "0", "preset": "veryfast", "g": "2", "bf": "0"}


def frames(path: Path, shape: tuple[int, ...]) -> Iterator[tuple[float, Array]]:
    """Yield (seconds, picture (H, W, 3) uint8) for each frame. A child process decodes the file first.

    Raises InputError for another kind of file, or another size.
    """
    needs("av")
    contained(partial(_decode_all, path, shape), str(path), 10 + path.stat().st_size / _BYTES_A_SECOND)
    yield from _frames(path, shape)


@contextmanager
def writing(path: Path, size: tuple[int, ...], fps: int) -> Iterator[Callable[[Array], None]]:
    """Yield a function that adds pictures (n, H, W, 3) uint8 to a lossless H.264 video in RGB; every second frame can
    be sought."""
    av = needs("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with av.open(str(path), "w", format="mp4") as container:
            stream = container.add_stream("libx264rgb", rate=fps, options=_LOSSLESS)
            stream.height, stream.width = size[:2]
            stream.pix_fmt = "rgb24"
            stream.thread_count = 1

            def add(pictures: Array) -> None:
                for picture in pictures:
                    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
                    container.mux(stream.encode(frame))

            yield add
            container.mux(stream.encode(None))
    except av.FFmpegError as error:  # of the disk; its name of the file can't be changed
        raise OSError(error.errno, error.strerror, str(path)) from error


def _stream(container: Any, shape: tuple[int, ...]) -> Any:
    if len(container.streams.video) != 1:
        raise InputError(f"it has {len(container.streams.video)} videos, wanted 1")
    stream = container.streams.video[0]
    if stream.codec_context.name not in _CODECS:
        raise InputError(
            f"its codec is {stream.codec_context.name}, wanted one of {', '.join(sorted(_CODECS))}"
        )
    size = (stream.codec_context.height, stream.codec_context.width)
    if size != tuple(shape[:2]):
        raise InputError(f"its frames have {size} pixels, the data set says {shape}")
    if size[0] * size[1] > _LARGEST_FRAME:
        raise InputError(
            f"its frames have {size} pixels, over the limit of {_LARGEST_FRAME}: make them smaller"
        )
    return stream


def _frames(path: Path, shape: tuple[int, ...]) -> Iterator[tuple[float, Array]]:
    with needs("av").open(str(path), format="mp4") as container:
        stream = _stream(container, shape)
        stream.thread_count = 1  # each thread holds its own frames
        for frame in container.decode(stream):
            if (frame.height, frame.width) != tuple(shape[:2]):
                raise InputError(
                    f"a frame has {(frame.height, frame.width)} pixels, the data set says {shape}"
                )
            yield float(frame.pts * stream.time_base), frame.to_ndarray(format="rgb24")


def _decode_all(path: Path, shape: tuple[int, ...]) -> None:
    for _ in _frames(path, shape):
        pass
