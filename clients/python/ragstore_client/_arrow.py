"""Reads tables through Arrow's C stream interface, with ctypes alone: no further package is needed.

The interface is stable by specification (https://arrow.apache.org/docs/format/CStreamInterface.html). Each batch of
rows is copied into Python's objects and then released, so nothing here outlives the memory that it reads.
"""

from __future__ import annotations

import ctypes
import struct
from array import array
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from itertools import pairwise
from typing import Any, Protocol

from ragstore_client._exceptions import InvalidInput

_NUMBERS = {
    "c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "e": "e", "f": "f", "g": "d"
}  # fmt: skip
"""Arrow's formats of numbers, and the equivalent formats of the `struct` module."""

_VIEW_BYTES, _INLINE_BYTES = 16, 12


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_char_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(_Schema))),
    ("dictionary", POINTER(_Schema)),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Schema))),
    ("private_data", c_void_p),
]
_Array._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(_Array))),
    ("dictionary", POINTER(_Array)),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Array))),
    ("private_data", c_void_p),
]
_Stream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(c_int, POINTER(_Stream), POINTER(_Schema))),
    ("get_next", ctypes.CFUNCTYPE(c_int, POINTER(_Stream), POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(c_char_p, POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, POINTER(_Stream))),
    ("private_data", c_void_p),
]


class ArrowStream(Protocol):
    """A table with Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A capsule with a stream of batches."""
        ...


Columns = dict[str, list[object]]


def read_batches(table: ArrowStream) -> Iterator[Columns]:
    """Read a table batch by batch.

    Yields:
        The columns of a batch, by name, as lists. The first batch has no rows, so that the names are known of an empty
        table, too. A list of numbers is an `array`. A value of a type that metadata cannot have is an object whose
        class is named after the type.

    Raises:
        InvalidInput: the table is a column without fields, or cannot be read.
    """
    capsule = table.__arrow_c_stream__()
    to_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    to_pointer.restype, to_pointer.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    stream = ctypes.cast(to_pointer(capsule, b"arrow_array_stream"), POINTER(_Stream))
    schema = _Schema()
    _check(stream.contents.get_schema(stream, ctypes.byref(schema)))
    try:
        if schema.format != b"+s":
            raise InvalidInput("the object is no table: its Arrow stream has no columns")
        fields = [schema.children[index].contents for index in range(schema.n_children)]
        names = [field.name.decode() for field in fields]
        yield {name: [] for name in names}
        while True:
            batch = _Array()
            _check(stream.contents.get_next(stream, ctypes.byref(batch)))
            if not batch.release:
                return  # the end of the stream
            try:
                columns = [
                    _values(field, batch.children[index].contents, batch.offset, batch.length)
                    for index, field in enumerate(fields)
                ]
            finally:
                batch.release(ctypes.byref(batch))
            yield dict(zip(names, columns, strict=True))
    finally:
        schema.release(ctypes.byref(schema))


def _check(error: int) -> None:
    if error:
        raise InvalidInput(f"the table could not be read: error {error} of its Arrow stream")


def _values(schema: _Schema, column: _Array, start: int, length: int) -> list[object]:
    """The values of a column from an index on."""
    first = column.offset + start
    found = _read(schema, column, first, length)
    if column.null_count == 0 or column.n_buffers == 0 or not column.buffers[0]:
        return found
    valid = _bits(column.buffers[0], first, length)
    return [value if is_valid else None for value, is_valid in zip(found, valid, strict=True)]


def _read(schema: _Schema, column: _Array, first: int, length: int) -> list[object]:
    kind = schema.format.decode()
    if schema.dictionary:
        words = _values(schema.dictionary.contents, column.dictionary.contents, 0, column.dictionary.contents.length)
        indexes = _numbers(column.buffers[1], _NUMBERS[kind], first, length)
        return [words[int(index)] if 0 <= index < len(words) else None for index in indexes]
    if kind in _NUMBERS:
        return list(_numbers(column.buffers[1], _NUMBERS[kind], first, length))
    if kind == "b":
        return list(_bits(column.buffers[1], first, length))
    if kind == "n":
        return [None] * length
    if kind in ("u", "U", "z", "Z"):
        return _texts(column, kind, first, length)
    if kind in ("vu", "vz"):
        return _views(column, kind, first, length)
    if kind.startswith("+") and (bounds := _bounds(column, kind, first, length)) is not None:
        child, elements = schema.children[0].contents, column.children[0].contents
        return [_elements(child, elements, begin, end) for begin, end in bounds]
    unsupported: object = type(f"Arrow's type {kind!r}", (), {})()
    return [unsupported] * length


def _elements(schema: _Schema, column: _Array, begin: int, end: int) -> object:
    """The elements of one list: numbers without nulls as an `array`, which a vector is sent from without a detour."""
    kind = schema.format.decode()
    if kind in _NUMBERS and kind != "e" and column.null_count == 0 and not schema.dictionary:
        return _numbers(column.buffers[1], _NUMBERS[kind], column.offset + begin, end - begin)
    return _values(schema, column, begin, end - begin)


def _bounds(column: _Array, kind: str, first: int, length: int) -> list[tuple[int, int]] | None:
    """Where each list begins and ends in the column of elements."""
    if kind.startswith("+w:"):
        size = int(kind[3:])
        return [(index * size, (index + 1) * size) for index in range(first, first + length)]
    if kind in ("+l", "+L"):
        offsets = _numbers(column.buffers[1], "i" if kind == "+l" else "q", first, length + 1)
        return [(int(begin), int(end)) for begin, end in pairwise(offsets)]
    if kind in ("+vl", "+vL"):
        code = "i" if kind == "+vl" else "q"
        begins, sizes = (_numbers(column.buffers[index], code, first, length) for index in (1, 2))
        return [(int(begin), int(begin) + int(size)) for begin, size in zip(begins, sizes, strict=True)]
    return None


def _numbers(buffer: int | None, code: str, first: int, length: int) -> array[Any]:
    size = struct.calcsize(code)
    raw = ctypes.string_at(buffer + first * size, length * size) if buffer and length else b""
    if code == "e":
        return array("f", struct.unpack(f"{len(raw) // size}e", raw))
    numbers: array[Any] = array(code)
    numbers.frombytes(raw)
    return numbers


def _bits(buffer: int, first: int, length: int) -> Iterator[bool]:
    raw = ctypes.string_at(buffer, (first + length + 7) // 8) if length else b""
    return (bool(raw[index >> 3] >> (index & 7) & 1) for index in range(first, first + length))


def _decoder(kind: str) -> Callable[[bytes], object]:
    return bytes if kind in ("z", "Z", "vz") else lambda raw: raw.decode()


def _texts(column: _Array, kind: str, first: int, length: int) -> list[object]:
    offsets = _numbers(column.buffers[1], "i" if kind in ("u", "z") else "q", first, length + 1)
    if not offsets:
        return []
    begin, decode = int(offsets[0]), _decoder(kind)
    size = int(offsets[-1]) - begin
    raw = ctypes.string_at(column.buffers[2] + begin, size) if size else b""
    return [decode(raw[one - begin : other - begin]) for one, other in pairwise(offsets)]


def _views(column: _Array, kind: str, first: int, length: int) -> list[object]:
    decode, found = _decoder(kind), []
    views = ctypes.string_at(column.buffers[1] + first * _VIEW_BYTES, length * _VIEW_BYTES) if length else b""
    for at in range(0, len(views), _VIEW_BYTES):
        size, _, buffer, offset = struct.unpack_from("=iiii", views, at)
        if size <= _INLINE_BYTES:
            found.append(decode(views[at + 4 : at + 4 + size]))
        else:
            found.append(decode(ctypes.string_at(column.buffers[2 + buffer] + offset, size)))
    return found
