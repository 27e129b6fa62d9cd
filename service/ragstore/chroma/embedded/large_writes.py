"""Sends the records of a large write to Chroma's process in chunks.

Pickled as a whole, embeddings need twice their memory again in the service, and texts once. A chunk is pickled when the
previous chunk has been sent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import msgspec
import numpy as np

from ragstore.chroma.operations import AddRecords, Operation, UpsertRecords
from ragstore.chroma.records import RecordBatch, UpsertMetadata, size_of_rows
from ragstore.kit.time_slices import TimeSlices
from ragstore.model.large_bodies.packed_text import utf8
from ragstore.model.vectors import Matrix

T = TypeVar("T")

CHUNK_BYTES: Final = 1024 * 1024
"""Size of the embeddings, texts and metadata of a chunk. A single record may be larger."""

_keys: Final = itertools.count()


@dataclass(slots=True)
class _Received:
    """Records that are being received, by columns."""

    embeddings: Matrix
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    metadatas: list[UpsertMetadata] = field(default_factory=list)


_received: Final[dict[int, _Received]] = {}
"""In Chroma's process: the records of the writes that are being received."""


class Chunk:
    """Some records of a write.

    Args:
        key: key of the write.
        rows: which of them.
    """

    def __init__(self, key: int, records: RecordBatch, rows: slice) -> None:
        self._key = key
        self._records = records
        self._rows = rows

    def __reduce__(self) -> tuple[Callable[..., None], tuple[object, ...]]:
        """Unpickle by `_receive`. Texts are encoded here, because a text keeps what the pickler encodes."""
        records, rows = self._records, self._rows
        texts = [utf8(text) for text in records.texts[rows]]
        head = (self._key, rows.start, records.embeddings.shape)
        return _receive, (*head, records.ids[rows], records.embeddings[rows], texts, records.metadatas[rows])


class _Reference:
    """Becomes the records of a write when it is unpickled."""

    def __init__(self, key: int) -> None:
        self._key = key

    def __reduce__(self) -> tuple[Callable[[int], RecordBatch], tuple[int]]:
        return _take, (self._key,)


async def split_write(operation: Operation[T]) -> tuple[list[Chunk], Operation[T]]:
    """Split an operation that is a large write, in slices of the event loop's time.

    Args:
        operation: any operation.

    Returns:
        The chunks to send before it, and the operation to send, without its records if there are chunks.
    """
    whole: Operation[T] = operation
    if not isinstance(operation, (AddRecords, UpsertRecords)):
        return [], whole
    records: RecordBatch = operation.records
    rows = await TimeSlices().run(_rows_of_chunks(records))
    if not rows:
        return [], whole
    key = next(_keys)
    reference = msgspec.structs.replace(operation, records=_Reference(key))
    return [Chunk(key, records, each) for each in rows], cast("Operation[T]", reference)


def _rows_of_chunks(records: RecordBatch) -> Generator[None, None, list[slice]]:
    """The rows of each chunk; none if the records are not larger than one. Yields after each row."""
    rows: list[slice] = []
    start = size = 0
    for row, row_bytes in enumerate(size_of_rows(records)):
        if size > CHUNK_BYTES:
            rows.append(slice(start, row))
            start, size = row, 0
        size += row_bytes
        yield
    if rows or size > CHUNK_BYTES:
        rows.append(slice(start, len(records.ids)))
    return rows


def _receive(
    key: int,
    start: int,
    shape: tuple[int, int],
    ids: list[str],
    embeddings: Matrix,
    texts: list[bytes],
    metadatas: Sequence[UpsertMetadata],
) -> None:
    """Add a chunk to the records of its write."""
    if start == 0:
        _received[key] = _Received(np.empty(shape, dtype=np.float32))
    records = _received[key]
    records.ids.extend(ids)
    records.embeddings[start : start + len(ids)] = embeddings
    records.texts.extend(text.decode("utf-8", "surrogatepass") for text in texts)
    records.metadatas.extend(metadatas)


def _take(key: int) -> RecordBatch:
    received = _received.pop(key)
    return RecordBatch(received.ids, received.embeddings, received.texts, received.metadatas)


def receive(chunk: Chunk | None) -> None:
    """Called in Chroma's process with a chunk, whose unpickling has received it."""
