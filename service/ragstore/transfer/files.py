"""Export files: plain or compressed with zstd, written under a temporary name, continued after an interruption.

In a compressed file each page of documents is a frame of its own. Frames may be concatenated (RFC 8878), so a file can
be continued after its last complete frame, and is the same as if it had been written without an interruption.
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
"""The name for standard input and output."""

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame."""

ZSTD_LEVEL: Final = 3
CHUNK_BYTES: Final = 1 << 20


class Sink(Protocol):
    """The destination of an export."""

    def write(self, content: bytes, /) -> object:
        """Write complete lines."""


class PartialFile:
    """A file that is being written, next to its target.

    Args:
        target: the final path; compressed if it ends in `.zst`.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self.path = target.with_name(target.name + ".part")
        self._compressed = target.suffix == ".zst"
        self._file: BinaryIO | None = None

    def exists(self) -> bool:
        """Whether an earlier export was interrupted."""
        return self.path.exists()

    def complete_lines(self) -> Iterator[tuple[bytes, int]]:
        """The content that an earlier export left.

        Yields:
            Each complete line, and the length to which the file can be truncated so that this line is the last; 0 if it
            cannot be truncated there.
        """
        with self.path.open("rb") as file:
            yield from _lines_of_frames(file) if self._compressed else _lines_of(file)

    def open(self, keep_bytes: int) -> None:
        """Open the file for writing.

        Args:
            keep_bytes: number of bytes of an earlier export to keep; 0 starts over.
        """
        self.close()
        self._file = self.path.open("r+b" if keep_bytes else "wb")
        self._file.truncate(keep_bytes)
        self._file.seek(keep_bytes)

    def write(self, content: bytes) -> None:
        """Write complete lines, and flush them."""
        if self._file is None:
            raise TransferFailed("The file is not open")
        self._file.write(_frame(content) if self._compressed else content)
        self._file.flush()

    def finish(self) -> int:
        """Rename the file to its target.

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
        """Delete the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it as it is."""
        if self._file is not None:
            self._file.close()


class StandardOutput:
    """Standard output, not compressed."""

    def __init__(self) -> None:
        self._size = 0

    def write(self, content: bytes) -> None:
        """Write complete lines, and flush them."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        self._size += len(content)

    def finish(self) -> int:
        """The number of bytes that were written."""
        return self._size


@contextmanager
def open_export(name: str) -> Iterator[LineReader]:
    """Open an export for reading, plain or compressed.

    Args:
        name: a file, or `-` for standard input.

    Yields:
        Its lines.

    Raises:
        TransferFailed: the file does not exist or cannot be read.
        NotVerified: the compressed content is damaged.
    """
    try:
        # File descriptor 0 is standard input; it stays open.
        file = open(0 if name == STREAM else name, "rb", closefd=name != STREAM)  # noqa: SIM115 - closed below
    except OSError as error:
        raise TransferFailed(f"{name} cannot be read: {error.strerror}") from None
    with file:
        if file.peek(len(ZSTD_MAGIC)).startswith(ZSTD_MAGIC):
            plain = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield LineReader(io.BufferedReader(plain, CHUNK_BYTES))
        else:
            yield LineReader(file)


class LineReader:
    """Reads lines of a file.

    Args:
        file: the decompressed file.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def readline(self, max_bytes: int) -> bytes:
        """The next line with its end.

        Args:
            max_bytes: maximum length.

        Returns:
            The line; without its end if the file ends, or the maximum is reached, before.

        Raises:
            NotVerified: the compressed content is damaged.
            TransferFailed: the file cannot be read.
        """
        try:
            return self._file.readline(max_bytes)
        except zstandard.ZstdError:
            raise NotVerified("The file is damaged: it cannot be decompressed") from None
        except OSError as error:
            raise TransferFailed(f"The file cannot be read: {error.strerror}") from None


def _frame(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL, write_checksum=True).compress(content)


def _lines_of(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    offset = 0
    for line in file:
        if not line.endswith(b"\n"):
            return
        offset += len(line)
        yield line, offset


def _lines_of_frames(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Lines of complete frames. The file can be truncated only after a frame's last line."""
    offset = 0
    rest = b""
    while True:
        frame = zstandard.ZstdDecompressor().decompressobj()
        plain = b""
        while not frame.eof:
            rest = rest or file.read(CHUNK_BYTES)
            if not rest:
                return
            try:
                plain += frame.decompress(rest)
            except zstandard.ZstdError:
                return
            offset += len(rest) - len(frame.unused_data)
            rest = frame.unused_data
        lines = plain.splitlines(keepends=True)
        for line in lines[:-1]:
            yield line, 0
        yield lines[-1], offset
