"""Detects and reads HDF5 files whose writer is active or has crashed, by the superblock: the first 48 bytes of version
3.

HDF5 opens such a file only in its mode for readers beside a writer (SWMR). In this mode it reads metadata with a wrong
checksum again and again, waiting twice as long each time, and never ends if the file is damaged. `Settled` presents the
file as if its writer had closed it, so that a wrong checksum is an error at once.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from imitate.errors import InputError

__all__ = ["SIGNATURE", "SIZE", "Settled", "being_written", "end_of_file", "half_open"]

SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of every HDF5 file."""
SIZE = 48
_VERSION = 8
_FLAGS = 11  # offset of the consistency flags: 1 is open for writing, 4 is SWMR mode
_END = slice(28, 36)
_CHECKSUM = slice(44, 48)


def being_written(superblock: bytes) -> bool:
    """True if a writer has the file open, or was killed while it had."""
    return len(superblock) == SIZE and superblock[_VERSION] == 3 and superblock[_FLAGS] & 5 != 0


def half_open(superblock: bytes) -> bool:
    """True if a writer has opened the file and not yet begun its SWMR mode, which takes milliseconds, or was killed in
    between. HDF5 then reads the file in no mode."""
    return being_written(superblock) and superblock[_FLAGS] & 5 != 5


def end_of_file(superblock: bytes) -> int:
    """The end of the file according to HDF5, as of the last time a writer opened or closed it."""
    return int.from_bytes(superblock[_END], "little")


class Settled(io.RawIOBase):
    """A file for h5py's `fileobj` driver, with a superblock that says that the file is closed and gives its real
    length.

    Raises InputError if the superblock is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb", buffering=0)
        block = bytearray(self._file.read(SIZE))
        if _lookup3(block[: _CHECKSUM.start]) != int.from_bytes(block[_CHECKSUM], "little"):
            self._file.close()
            raise InputError(f"{path} has a damaged superblock; restore it or record it again")
        block[_FLAGS] = 0
        block[_END] = os.fstat(self._file.fileno()).st_size.to_bytes(8, "little")
        block[_CHECKSUM] = _lookup3(block[: _CHECKSUM.start]).to_bytes(4, "little")
        self._block = bytes(block)

    def __repr__(self) -> str:
        return str(self._path)  # h5py uses this as the file's name

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        at, view = self._file.tell(), memoryview(buffer).cast("B")
        count = self._file.readinto(view) or 0
        head = self._block[at : at + count]
        view[: len(head)] = head
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _lookup3(data: bytes | bytearray) -> int:
    """Bob Jenkins's hash lookup3, HDF5's checksum of metadata; for lengths that are multiples of 4."""
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    words += [0] * (-len(words) % 3)
    a = b = c = _32(0xDEADBEEF + len(data))
    for at in range(0, len(words), 3):
        a, b, c = _32(a + words[at]), _32(b + words[at + 1]), _32(c + words[at + 2])
        if at + 3 < len(words):
            for turn in (4, 6, 8, 16, 19, 4):
                a, b, c = b, _32(c + b), _32(a - c) ^ _rotated(c, turn)
    for turn in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, _32((c ^ b) - _rotated(b, turn)), a
    return b


def _32(number: int) -> int:
    return number & 0xFFFFFFFF


def _rotated(number: int, bits: int) -> int:
    return _32(number << bits) | number >> (32 - bits)
