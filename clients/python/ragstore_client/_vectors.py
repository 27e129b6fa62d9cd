"""Encodes vectors for the contract: little-endian float32, in base64.

numpy arrays are read through the buffer protocol, so numpy need not be importable here.
"""

from __future__ import annotations

import base64
import struct
import sys
from array import array
from collections.abc import Iterable
from typing import cast

from ragstore_client._exceptions import InvalidInput
from ragstore_client._models import Base64, Embedding
from ragstore_client._types import FloatArray

_NUMBERS = frozenset("efdbBhHiIlLqQ")
"""Format codes of the `struct` module for numbers: floats of 2, 4 and 8 bytes, and integers."""

_ORDERS = frozenset("@=<>!")
"""Prefixes of a format. Others are part of the format itself, such as the `Z` of numpy's complex numbers."""

TEXT_IS_NO_VECTOR = "the service searches vectors; embed the text first (base64 of float32 is passed as Base64)"


def to_float32(embedding: Embedding) -> FloatArray:
    """Convert a vector of any supported type to float32.

    Args:
        embedding: numbers; anything with a one-dimensional buffer of numbers; little-endian float32 as `bytes` or
            `bytearray`; or those bytes as `Base64`.

    Returns:
        The values as an `array` of typecode `f`, in this machine's byte order.

    Raises:
        InvalidInput: the vector is of another type, such as a plain `str`, or empty.
    """
    values = _read(embedding)
    if not values:
        raise InvalidInput("an embedding must not be empty")
    return values


def to_base64(embedding: Embedding) -> Base64:
    """Encode a vector for the contract.

    Args:
        embedding: as for `to_float32`; `Base64` is returned unchanged.

    Returns:
        Little-endian float32 in base64.

    Raises:
        InvalidInput: the value is not a vector.
    """
    return Base64(encode_vector(embedding))


def encode_vector(embedding: Embedding) -> str:
    """Encode a vector for the contract, as the plain string that msgspec encodes. See `to_base64`."""
    if isinstance(embedding, Base64):
        return str.__str__(embedding)
    if isinstance(embedding, memoryview) and _is_little_float32(embedding):
        return base64.b64encode(embedding).decode("ascii")
    values = to_float32(embedding)
    if sys.byteorder == "big":
        values = array("f", values)  # a copy: the caller's array must not change
        values.byteswap()
    return base64.b64encode(values).decode("ascii")


def dimension_of(encoded: str) -> int:
    """The dimension of a vector that `encode_vector` has encoded."""
    return (len(encoded) * 3 // 4 - encoded.count("=", -2)) // 4


def _read(embedding: Embedding) -> FloatArray:
    if isinstance(embedding, array) and embedding.typecode == "f":
        return embedding
    if isinstance(embedding, Base64):
        return _from_bytes(_from_base64(embedding))
    if isinstance(embedding, str):
        raise InvalidInput(f"an embedding must not be a str: {TEXT_IS_NO_VECTOR}")
    if isinstance(embedding, bytes | bytearray):
        return _from_bytes(embedding)
    if isinstance(embedding, list | tuple):
        return _from_numbers(embedding)
    try:
        view = memoryview(cast("memoryview", embedding))
    except (TypeError, ValueError, BufferError):  # no buffer, or one of a type that has no format: numpy's dates
        return _from_numbers(embedding)
    return _from_buffer(view)


def _from_numbers(numbers: object) -> FloatArray:
    try:
        return array("f", cast("Iterable[float]", numbers))
    except (TypeError, ValueError, OverflowError):
        # The cause would repeat the value, so only the type is named.
        raise InvalidInput(f"an embedding must consist of numbers; this {type(numbers).__name__} does not") from None


def _from_bytes(raw: bytes | bytearray) -> FloatArray:
    if len(raw) % 4:
        raise InvalidInput("the bytes of an embedding must be whole float32 values: 4 bytes each")
    values = array("f")
    values.frombytes(raw)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InvalidInput("an embedding given as Base64 must be base64") from None


def _from_buffer(view: memoryview) -> FloatArray:
    if view.ndim != 1:
        raise InvalidInput(f"an embedding must have one dimension, not {view.ndim}")
    if _is_little_float32(view):
        return _from_bytes(view.tobytes())
    # A format without a prefix means native sizes ("@"), which differ from the standard sizes for l and L.
    order, code = ("@", view.format) if len(view.format) == 1 else (view.format[0], view.format[1:])
    if order not in _ORDERS or code not in _NUMBERS:
        raise InvalidInput(f"an embedding cannot be read from a buffer of format {view.format!r}")
    return _from_numbers(struct.unpack(f"{order}{len(view)}{code}", view.tobytes()))


def _is_little_float32(view: memoryview) -> bool:
    plain = view.format == "<f" or (view.format in ("f", "=f", "@f") and sys.byteorder == "little")
    return plain and view.ndim == 1 and view.contiguous and view.nbytes > 0
