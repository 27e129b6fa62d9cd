"""The types of values that the contract takes and returns, other than structs."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

Scalar: TypeAlias = str | int | float | bool
"""One metadata value."""

Metadata: TypeAlias = Mapping[str, Scalar | Sequence[Scalar] | None]
"""Metadata to store. None means "absent"; the items of a list are of one type."""

StoredMetadata: TypeAlias = dict[str, Scalar | list[Scalar]]
"""Metadata as stored."""

Distance: TypeAlias = Literal["cosine", "l2", "ip"]
"""How the vectors of a collection are compared."""


class Base64(str):
    """A vector as base64 of little-endian float32, the way embedding services send it: `Base64("AACAPw==")`.

    A plain `str` is never a vector: it is far more often a text that was not embedded.
    """

    __slots__ = ()


class ArrayLike(Protocol):
    """numpy's arrays, for type checkers, which recognise their buffer only from Python 3.12 on."""

    def tobytes(self) -> bytes:
        """The raw values."""
        ...

    def tolist(self) -> object:
        """The values as a list."""
        ...


class Strings(Protocol):
    """Several strings: a list, tuple, set or any other collection, but not one `str`, which is a collection, too."""

    def __contains__(self, value: object, /) -> bool: ...

    def __iter__(self) -> Iterator[str]: ...

    def __len__(self) -> int: ...


if TYPE_CHECKING:
    from typing_extensions import Buffer

    JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None
    Where: TypeAlias = Mapping[str, "JSON"]
    Embedding: TypeAlias = Sequence[float] | Buffer | ArrayLike | Base64
    FloatOrNaN: TypeAlias = float
    FloatArray: TypeAlias = array[float]
else:
    # Neither a recursive type nor "anything with a buffer" exists at run time, where `typing.get_type_hints` and
    # msgspec evaluate the annotations of this package.
    JSON: TypeAlias = object
    Where: TypeAlias = Mapping[str, object]
    Embedding: TypeAlias = object
    FloatOrNaN: TypeAlias = float | None
    FloatArray: TypeAlias = array  # which can be subscripted only from Python 3.12 on
