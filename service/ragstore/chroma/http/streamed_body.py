"""Bodies of large writes to a Chroma server, encoded while they are sent.

Encoded as a whole, a body takes its size in memory beside the records, and blocks the event loop for the time of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from ragstore.chroma.http.bodies import ENCODER, MAX_BODY_BYTES, OVERSIZED
from ragstore.errors import TooLargeForChroma
from ragstore.model.large_bodies.packed_text import PackedText, Text

BLOCK_BYTES: Final = 256 * 1024
"""Bytes that are encoded and sent in one step. A value may be larger."""

SLICE_CHARACTERS: Final = 64 * 1024
"""Characters of a text that are encoded in one step. A text keeps what is encoded of it as a whole."""

END: Final = b"]}"

Columns: TypeAlias = Mapping[str, Sequence[object]]


def _encoded(value: object) -> Iterator[bytes]:
    """A value as JSON, in parts if it has a long text."""
    if not _has_long_text(value):
        yield ENCODER.encode(value)
    elif isinstance(value, Mapping):
        for index, (key, member) in enumerate(value.items()):
            yield (b"," if index else b"{") + msgspec.json.encode(key) + b":"
            yield from _encoded(member)
        yield b"}"
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield b"," if index else b"["
            yield from _encoded(member)
        yield b"]"
    elif isinstance(value, (str, PackedText)):
        yield b'"'
        for part in _slices(value):
            yield msgspec.json.encode(part)[1:-1]
        yield b'"'


def _has_long_text(value: object) -> bool:
    if isinstance(value, (str, PackedText)):
        return len(value) > SLICE_CHARACTERS
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(map(_has_long_text, members))


def _slices(text: Text) -> Iterator[str]:
    if isinstance(text, PackedText):
        yield from text.slices(SLICE_CHARACTERS)
        return
    for start in range(0, len(text), SLICE_CHARACTERS):
        yield text[start : start + SLICE_CHARACTERS]


def _head(name: str, *, is_first: bool) -> bytes:
    return (b"{" if is_first else b"],") + msgspec.json.encode(name) + b":["


class StreamedBody:
    """The body of a write of some rows.

    Args:
        columns: columns of n rows.
        rows: which rows.
        values_bytes: size of all their values.

    Attributes:
        row_count: number of the rows.
        size: size of the body in bytes.
    """

    def __init__(self, columns: Columns, rows: range, values_bytes: int) -> None:
        self._columns = columns
        self._rows = rows
        self.row_count = len(rows)
        heads = sum(len(_head(name, is_first=index == 0)) for index, name in enumerate(columns))
        self.size = heads + values_bytes + len(columns) * (len(rows) - 1) + len(END)

    async def blocks(self) -> AsyncIterator[bytes]:
        """Encode the body.

        Yields:
            Its bytes.
        """
        block = bytearray()
        for part in self._parts():
            block += part
            if len(block) >= BLOCK_BYTES:
                yield bytes(block)
                block.clear()
                await asyncio.sleep(0)
        yield bytes(block)

    def _parts(self) -> Iterator[bytes]:
        for index, (name, values) in enumerate(self._columns.items()):
            yield _head(name, is_first=index == 0)
            for row in self._rows:
                if row != self._rows.start:
                    yield b","
                yield from _encoded(values[row])
        yield END


async def streamed_bodies(columns: Columns, *, may_split: bool) -> list[StreamedBody]:
    """The bodies of a write, each within the limit of a Chroma server.

    Args:
        columns: columns of n rows.
        may_split: whether there may be several.

    Raises:
        TooLargeForChroma: a row is too large by itself, or all together are and must not be split.
    """
    sizes = await _row_sizes(columns)
    sums = [0, *accumulate(sizes)]
    bodies: list[StreamedBody] = []
    start = 0
    while start < len(sizes):
        end = _last_end(columns, sums, start)
        if end == start or (end < len(sizes) and not may_split):
            raise TooLargeForChroma(OVERSIZED)
        bodies.append(_body(columns, sums, start, end))
        start = end
    return bodies


def _body(columns: Columns, sums: list[int], start: int, end: int) -> StreamedBody:
    return StreamedBody(columns, range(start, end), sums[end] - sums[start])


def _last_end(columns: Columns, sums: list[int], start: int) -> int:
    """End of the longest body from a row that fits."""
    end = start
    while end < len(sums) - 1 and _body(columns, sums, start, end + 1).size <= MAX_BODY_BYTES:
        end += 1
    return end


async def _row_sizes(columns: Columns) -> list[int]:
    """The size of each row's values."""
    sizes: list[int] = []
    passed = 0
    for row in range(len(next(iter(columns.values())))):
        size = 0
        for values in columns.values():
            for part in _encoded(values[row]):
                size += len(part)
                passed += len(part)
                if passed >= BLOCK_BYTES:
                    passed = 0
                    await asyncio.sleep(0)
        sizes.append(size)
    return sizes
