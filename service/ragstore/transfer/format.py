"""The format of export files: lines of JSON.

    {"format":"ragstore-export","version":1,"collection":{"name":…,"metadata":…,"count":…,"dimension":…,"distance":…}}
    {"id":…,"text":…,"metadata":…,"embedding":"base64 of little-endian float32"}
    …
    {"count":20000,"sha256":"of every byte before this line"}

Documents are in insertion order and the keys of metadata are sorted, so equal collections give equal bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from copy import copy
from typing import Final, Literal, Protocol, Self

import msgspec

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, to_json
from ragstore.transfer.failures import NotVerified

MAX_LINE_BYTES: Final = 256 * 1024 * 1024
"""Maximum length of a line, so that a file of another kind does not fill the memory."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line.

    Attributes:
        format: identifies the format.
        version: version of the format.
        collection: the collection as it was when the export began.
    """

    format: Literal["ragstore-export"]
    version: Literal[1]
    collection: CountedCollection


class Trailer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line.

    Attributes:
        count: number of documents in the file.
        sha256: checksum of every byte before this line, in hexadecimal digits.
    """

    count: int
    sha256: str


class LineSource(Protocol):
    """Lines to read."""

    def readline(self, max_bytes: int, /) -> bytes:
        """The next line with its end, or its first `max_bytes`; empty at the end."""


class Checksum:
    """Encodes lines, counts the documents in them and updates the checksum."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.documents = 0

    def header(self, collection: CountedCollection) -> bytes:
        """The first line."""
        return self._updated(to_json(Header("ragstore-export", 1, collection)) + b"\n")

    def document(self, document: Document) -> bytes:
        """The line of a document."""
        self.documents += 1
        return self._updated(to_json(document) + b"\n")

    def trailer(self) -> bytes:
        """The last line."""
        return to_json(Trailer(self.documents, self.sha256)) + b"\n"

    @property
    def sha256(self) -> str:
        """The checksum so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def copy(self) -> Self:
        """An independent copy of the current state."""
        copied = copy(self)
        copied._digest = self._digest.copy()
        return copied

    def add_line(self, line: bytes, *, is_document: bool) -> None:
        """Count a line that was read."""
        self.documents += is_document
        self._updated(line)

    def _updated(self, line: bytes) -> bytes:
        self._digest.update(line)
        return line


class ExportReader:
    """Reads an export line by line, and checks it.

    Args:
        lines: the lines of the file.
    """

    def __init__(self, lines: LineSource) -> None:
        self._lines = lines
        self._number = 0
        self._decoder = msgspec.json.Decoder(Document)
        self.checksum = Checksum()
        line = self._line()
        try:
            self.collection = msgspec.json.decode(line, type=Header).collection.with_actual_distance()
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise NotVerified("The file is not an export of ragstore, or one of a later version") from None
        self.checksum.add_line(line, is_document=False)

    def documents(self) -> Iterator[Document]:
        """The documents, one by one.

        Yields:
            Documents. After the last one, the count and the checksum have been checked.

        Raises:
            NotVerified: the file is truncated or damaged.
        """
        while True:
            line = self._line()
            if line.startswith(b'{"count":'):
                self._check_trailer(line)
                return
            try:
                document = self._decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                raise NotVerified(f"The file is damaged: line {self._number} is not a valid document") from None
            self._check_embedding(document)
            self.checksum.add_line(line, is_document=True)
            yield document

    def _line(self) -> bytes:
        line = self._lines.readline(MAX_LINE_BYTES)
        self._number += 1
        if not line.endswith(b"\n"):
            where = f"after {self.checksum.documents} documents" if self._number > 1 else "in its first line"
            raise NotVerified(f"The file is truncated {where}: the trailer with count and checksum is missing")
        return line

    def _check_trailer(self, line: bytes) -> None:
        try:
            trailer = msgspec.json.decode(line, type=Trailer)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise NotVerified(f"The file is damaged: line {self._number} is not a valid trailer") from None
        if trailer.count != self.checksum.documents:
            raise NotVerified(
                f"The file is damaged: it has {self.checksum.documents} documents, its trailer says {trailer.count}"
            )
        if trailer.sha256 != self.checksum.sha256:
            raise NotVerified("The file is damaged: its checksum differs from the one in its trailer")
        if self._lines.readline(1):
            raise NotVerified("The file is damaged: there is content after its trailer")

    def _check_embedding(self, document: Document) -> None:
        dimension = self.collection.dimension
        if dimension is None or len(document.embedding) != 4 * dimension:
            raise NotVerified(f"The file is damaged: line {self._number} has an embedding of another dimension")
