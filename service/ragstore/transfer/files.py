"""Export files: plain or compressed by zstd, written under a temporary name, continued where they were cut off.

Each page of documents is a frame of its own in a compressed file. Frames may follow each other (RFC 8878), so that a
file can be continued after its last whole one, and comes out the same as if it had been written at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import zstandard

from ragstore.transfer.failures import NotVerified, TransferFailed

STREAM: Final = "-"
"""The name that stands for standard input and output."""

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""What a frame of zstd begins with."""

LEVEL: Final = 3
CHUNK: Final = 1 << 20


class Sink(Protocol):
    """Where an export goes."""

    def write(self, content: bytes, /) -> object:
        """Take whole lines."""


class PartialFile:
    """A file that is not whole yet, next to where it shall be.

    Args:
        target: where it shall be; compressed if the name ends in `.zst`.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target.with_name(target.name + ".part")
        self._compressed = target.suffix == ".zst"
        self._file: BinaryIO | None = None

    def exists(self) -> bool:
        """Whether an earlier export was cut off."""
        return self.path.exists()

    def whole_lines(self) -> Iterator[tuple[bytes, int]]:
        """What an earlier export has left.

        Yields:
            Each whole line, and where in the file to cut so that it is the last; 0 while there is no such place.
        """
        with self.path.open("rb") as file:
            yield from _lines_of_frames(file) if self._compressed else _lines_of(file)

    def open(self, keep: int) -> None:
        """Begin to write.

        Args:
            keep: bytes of an earlier export to keep; 0 begins anew.
        """
        self.close()
        self._file = self.path.open("r+b" if keep else "wb")
        self._file.truncate(keep)
        self._file.seek(keep)

    def write(self, content: bytes) -> None:
        """Write whole lines, which can be read from now on."""
        if self._file is None:
            raise TransferFailed("The file is not open")
        self._file.write(_frame(content) if self._compressed else content)
        self._file.flush()

    def finish(self) -> int:
        """Give the file its name.

        Returns:
            Its size in bytes.
        """
        if self._file is None:
            raise TransferFailed("The file is not open")
        os.fsync(self._file.fileno())
        size = self._file.tell()
        self._file.close()
        self.path.replace(self._target)
        return size

    def discard(self) -> None:
        """Delete what is there."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the file as it is."""
        if self._file is not None:
            self._file.close()


class StandardOutput:
    """Standard output, plain."""

    def __init__(self) -> None:
        self._size = 0

    def write(self, content: bytes) -> None:
        """Write whole lines, which the reader gets now."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        self._size += len(content)

    def finish(self) -> int:
        """How many bytes were written."""
        return self._size


@contextmanager
def opened(name: str) -> Iterator[ReadableLines]:
    """An export to read, plain or compressed.

    Args:
        name: a file, or `-` for standard input.

    Yields:
        Its lines.

    Raises:
        TransferFailed: there is no such file, or it cannot be read.
        NotVerified: what is compressed is damaged.
    """
    try:
        # Descriptor 0 is standard input; it stays open.
        file = open(0 if name == STREAM else name, "rb", closefd=name != STREAM)  # noqa: SIM115 - closed below
    except OSError as error:
        raise TransferFailed(f"{name} cannot be read: {error.strerror}") from None
    with file:
        if file.peek(len(MAGIC)).startswith(MAGIC):
            plain = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield ReadableLines(io.BufferedReader(plain, CHUNK))
        else:
            yield ReadableLines(file)


class ReadableLines:
    """Lines of a file.

    Args:
        file: the file, decompressed.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def readline(self, most: int) -> bytes:
        """The next line with its end.

        Args:
            most: most bytes of it.

        Returns:
            The line; without its end where the file, or what is allowed of it, ends before.

        Raises:
            NotVerified: what is compressed is damaged.
            TransferFailed: the file cannot be read.
        """
        try:
            return self._file.readline(most)
        except zstandard.ZstdError:
            raise NotVerified("The file is damaged: it cannot be decompressed") from None
        except OSError as error:
            raise TransferFailed(f"The file cannot be read: {error.strerror}") from None


def _frame(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(content)


def _lines_of(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    place = 0
    for line in file:
        if not line.endswith(b"\n"):
            return
        place += len(line)
        yield line, place


def _lines_of_frames(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Lines of whole frames. Only a frame's last line ends at a place where the file can be cut."""
    place = 0
    rest = b""
    while True:
        frame = zstandard.ZstdDecompressor().decompressobj()
        plain = b""
        while not frame.eof:
            rest = rest or file.read(CHUNK)
            if not rest:
                return
            try:
                plain += frame.decompress(rest)
            except zstandard.ZstdError:
                return
            place += len(rest) - len(frame.unused_data)
            rest = frame.unused_data
        lines = plain.splitlines(keepends=True)
        for line in lines[:-1]:
            yield line, 0
        yield lines[-1], place
