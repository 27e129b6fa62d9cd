"""Writes a model in ONNX's format. The `onnx` package would be installed for this alone.

github.com/onnx/onnx/blob/main/onnx/onnx.proto describes the messages; the numbers of their fields are written here.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Attribute: TypeAlias = int | float | Sequence[int]
Shape: TypeAlias = Sequence[int | str]
"""The length of each axis; a name stands for any length."""

IR_VERSION: Final = 10
OPSET: Final = 17
MICROSOFT: Final = "com.microsoft"
"""The domain of onnxruntime's own operators."""

_ELEMENT_TYPES: Final[Mapping[str, int]] = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
INT32: Final = _ELEMENT_TYPES["int32"]
_INT4: Final = 22
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE, _INTS_ATTRIBUTE = 1, 2, 7
_VARINT, _LENGTH, _FIXED32 = 0, 2, 5


class OnnxGraph:
    """A graph of operators. Each method that adds a value returns its name."""

    def __init__(self) -> None:
        self._fields: list[bytes] = [_bytes(2, "graph")]
        self._count = 0

    def input(self, name: str, element_type: str, shape: Shape) -> str:
        """Add an input.

        Args:
            element_type: a type of numpy, such as `int64`.
        """
        self._fields.append(_bytes(11, _value(name, element_type, shape)))
        return name

    def output(self, name: str, element_type: str, shape: Shape) -> None:
        """Declare a value as an output.

        Args:
            element_type: a type of numpy, such as `float32`.
        """
        self._fields.append(_bytes(12, _value(name, element_type, shape)))

    def constant(self, value: NDArray[Any]) -> str:
        """Add a tensor."""
        return self._tensor(value.shape, _ELEMENT_TYPES[value.dtype.name], value.tobytes())

    def packed_constant(self, value: NDArray[np.uint8], shape: Sequence[int]) -> str:
        """Add a tensor of 4-bit numbers with a sign.

        Args:
            value: two numbers in each byte, the first one in the lower bits.
            shape: the shape of the numbers.
        """
        return self._tensor(shape, _INT4, value.tobytes())

    def node(
        self, operator: str, *inputs: str, domain: str = "", output: str | None = None, **attributes: Attribute
    ) -> str:
        """Add an operator with one output.

        Args:
            inputs: the names of its inputs; empty for an absent one.
            output: the name of its output; None for a new one.
        """
        output = self._name() if output is None else output
        fields = [*(_bytes(1, each) for each in inputs), _bytes(2, output), _bytes(4, operator)]
        fields += [_bytes(5, _attribute(name, value)) for name, value in attributes.items()]
        self._fields.append(_bytes(1, b"".join(fields) + _bytes(7, domain)))
        return output

    def encoded(self) -> bytes:
        """The model as the content of a file."""
        opsets = [
            _bytes(8, _bytes(1, domain) + _number(2, version)) for domain, version in (("", OPSET), (MICROSOFT, 1))
        ]
        return b"".join([_number(1, IR_VERSION), _bytes(7, b"".join(self._fields)), *opsets])

    def _tensor(self, shape: Sequence[int], element_type: int, content: bytes) -> str:
        name = self._name()
        dimensions = b"".join(_number(1, each) for each in shape)
        self._fields.append(_bytes(5, dimensions + _number(2, element_type) + _bytes(8, name) + _bytes(9, content)))
        return name

    def _name(self) -> str:
        self._count += 1
        return f"value_{self._count}"


def _value(name: str, element_type: str, shape: Shape) -> bytes:
    dimensions = b"".join(
        _bytes(1, _bytes(2, length) if isinstance(length, str) else _number(1, length)) for length in shape
    )
    tensor = _number(1, _ELEMENT_TYPES[element_type]) + _bytes(2, dimensions)
    return _bytes(1, name) + _bytes(2, _bytes(1, tensor))


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _bytes(1, name) + _key(2, _FIXED32) + struct.pack("<f", value) + _number(20, _FLOAT_ATTRIBUTE)
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, _INT_ATTRIBUTE)
    return _bytes(1, name) + b"".join(_number(8, each) for each in value) + _number(20, _INTS_ATTRIBUTE)


def _key(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _number(field: int, value: int) -> bytes:
    return _key(field, _VARINT) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    content = value.encode() if isinstance(value, str) else value
    return _key(field, _LENGTH) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
