"""Texts that take four bytes for each character in memory, kept as UTF-8.

CPython stores all characters of a text with the width of the widest one: a passage of ASCII with one emoji takes four
times its bytes. The documents of a large request are in memory together, so such texts are packed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final, TypeAlias

MIN_PACKED: Final = 16
"""Minimum number of characters of a packed text. A shorter one is smaller than the packed text and its object."""

WIDE_BYTES: Final = 3
"""A text that takes more bytes for each character takes four; narrower ones take one or two."""


class PackedText:
    """A text as UTF-8. Unpickled, it is a `str`.

    Args:
        content: the bytes of the text.
        length: number of its characters.

    Attributes:
        content: the same bytes.
    """

    __slots__ = ("_length", "content")

    def __init__(self, content: bytes, length: int) -> None:
        self.content: Final = content
        self._length: Final = length

    @classmethod
    def join(cls, slices: Iterable[str]) -> PackedText:
        """Pack a text that comes in slices."""
        content, length = BytesIO(), 0  # its buffer becomes the bytes without a copy
        for each in slices:
            content.write(each.encode())
            length += len(each)
        return cls(content.getvalue(), length)

    def __len__(self) -> int:
        """Number of characters."""
        return self._length

    def __str__(self) -> str:
        """The text."""
        return _decoded(self.content)

    def __eq__(self, other: object) -> bool:
        """Whether another text is the same."""
        return str(self) == str(other) if isinstance(other, (str, PackedText)) else NotImplemented

    def __hash__(self) -> int:
        """The hash of the text."""
        return hash(str(self))

    def __reduce__(self) -> tuple[object, ...]:
        """Unpickle as a `str`."""
        return _decoded, (self.content,)

    def slices(self, max_bytes: int) -> Iterator[str]:
        """The text in slices.

        Args:
            max_bytes: maximum size of a slice, at least 4.

        Yields:
            The slices.
        """
        start = 0
        while start < len(self.content):
            end = start + max_bytes
            while end < len(self.content) and self.content[end] & 0xC0 == 0x80:  # within a character
                end -= 1
            yield _decoded(self.content[start:end])
            start = end


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "surrogatepass")


Text: TypeAlias = str | PackedText
"""A text of a document to write."""


def pack_text(text: str) -> Text:
    """Pack a text if that makes it smaller."""
    is_wide = len(text) >= MIN_PACKED and sys.getsizeof(text) > WIDE_BYTES * len(text)
    return PackedText(text.encode("utf-8", "surrogatepass"), len(text)) if is_wide else text


def utf8(text: Text) -> bytes:
    """The bytes of a text in UTF-8."""
    return text.content if isinstance(text, PackedText) else text.encode("utf-8", "surrogatepass")
