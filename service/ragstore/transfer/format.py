"""The format of export files: lines of JSON.

    {"format":"ragstore-export","version":1,"collection":{"name":…,"metadata":…,"count":…,"dimension":…,"distance":…}}
    {"id":…,"text":…,"metadata":…,"embedding":"base64 of little-endian float32"}
    …
    {"count":20000,"sha256":"of every byte before this line"}

Documents stand in insertion order and the keys of metadata are sorted, so equal collections give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from copy import copy
from typing import Final, Literal, Protocol, Self

import msgspec

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, encoded
from ragstore.transfer.failures import NotVerified

LINE_MAX: Final = 256 * 1024 * 1024
"""Longest line that is read, so that a file of something else does not fill the memory."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line.

    Attributes:
        format: tells such files from others.
        version: of the format.
        collection: the collection as it was when the export began.
    """

    format: Literal["ragstore-export"]
    version: Literal[1]
    collection: CountedCollection


class Trailer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line.

    Attributes:
        count: documents in the file.
        sha256: of every byte before this line, in hexadecimal digits.
    """

    count: int
    sha256: str


class _Lines(Protocol):
    """Something that gives lines."""

    def readline(self, most: int, /) -> bytes:
        """The next line with its end, or as much of it as is allowed; empty at the end."""


class Checksum:
    """Lines, counted and summed as they pass."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self.documents = 0

    def header(self, collection: CountedCollection) -> bytes:
        """The first line."""
        return self._passed(encoded(Header("ragstore-export", 1, collection)) + b"\n")

    def document(self, document: Document) -> bytes:
        """The line of a document."""
        self.documents += 1
        return self._passed(encoded(document) + b"\n")

    def trailer(self) -> bytes:
        """The last line."""
        return encoded(Trailer(self.documents, self.sha256)) + b"\n"

    @property
    def sha256(self) -> str:
        """Of what passed so far, in hexadecimal digits."""
        return self._sum.hexdigest()

    def copy(self) -> Self:
        """The same, which stays as it is when further lines pass here."""
        copied = copy(self)
        copied._sum = self._sum.copy()
        return copied

    def read(self, line: bytes, *, is_document: bool) -> None:
        """Take a line that was read."""
        self.documents += is_document
        self._passed(line)

    def _passed(self, line: bytes) -> bytes:
        self._sum.update(line)
        return line


class ExportReader:
    """Reads an export, line by line, and tells what is wrong with it.

    Args:
        lines: the lines.
    """

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._number = 0
        self._decoder = msgspec.json.Decoder(Document)
        self.checksum = Checksum()
        line = self._line()
        try:
            self.collection = msgspec.json.decode(line, type=Header).collection
        except (msgspec.MsgspecError, UnicodeError):
            raise NotVerified("This is no export of ragstore, or one of a later version") from None
        self.checksum.read(line, is_document=False)

    def documents(self) -> Iterator[Document]:
        """The documents, one by one.

        Yields:
            Documents. After the last one, the count and the checksum are known to be right.

        Raises:
            NotVerified: the file is cut short or damaged.
        """
        while True:
            line = self._line()
            if line.startswith(b'{"count":'):
                self._check(line)
                return
            try:
                document = self._decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError):
                raise NotVerified(f"The file is damaged: line {self._number} is no document") from None
            self._check_embedding(document)
            self.checksum.read(line, is_document=True)
            yield document

    def _line(self) -> bytes:
        line = self._lines.readline(LINE_MAX)
        self._number += 1
        if not line.endswith(b"\n"):
            told = f"after {self.checksum.documents} documents" if self._number > 1 else "in its first line"
            raise NotVerified(f"The file is cut short {told}: it has no last line with count and checksum")
        return line

    def _check(self, line: bytes) -> None:
        try:
            trailer = msgspec.json.decode(line, type=Trailer)
        except (msgspec.MsgspecError, UnicodeError):
            raise NotVerified(f"The file is damaged: line {self._number} is no last line") from None
        if trailer.count != self.checksum.documents:
            raise NotVerified(
                f"The file is damaged: it holds {self.checksum.documents} documents and says {trailer.count}"
            )
        if trailer.sha256 != self.checksum.sha256:
            raise NotVerified("The file is damaged: its checksum is not the one in its last line")
        if self._lines.readline(1):
            raise NotVerified("The file is damaged: something follows its last line")

    def _check_embedding(self, document: Document) -> None:
        dimension = self.collection.dimension
        if dimension is None or len(document.embedding) != 4 * dimension:
            raise NotVerified(f"The file is damaged: line {self._number} has an embedding of another dimension")
