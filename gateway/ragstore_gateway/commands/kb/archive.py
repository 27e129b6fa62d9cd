"""The archive of a knowledge base: JSON lines, first its configuration, then its documents, then their number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.kept_text import KEPT_TEXT, KeptText

MARKDOWN: Final = MEDIA_TYPES["markdown"]
FORMAT: Final = 2
"""Documents of format 1 have no pages and headings."""


class BadArchive(Exception):
    """An archive is damaged, or no archive. The message is one line for people."""


class Header(msgspec.Struct, frozen=True, tag_field="kind", tag="knowledge base"):
    """First line of an archive: format and configuration."""

    configuration: dict[str, Any]
    format: Literal[1, 2] = 2


class Document(KeptText, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="document"):
    """A document with its extracted text."""

    name: str
    metadata: dict[str, str | bool | int | float] = {}

    @property
    def media_type(self) -> str:
        """The media type that its text is ingested with."""
        return MARKDOWN if self._is_markdown else KEPT_TEXT

    def open(self) -> IO[bytes]:
        """Its content."""
        return BytesIO(self._encoded())

    def _encoded(self) -> bytes:
        if self._is_markdown:
            return self.text.encode()
        fields = {name: getattr(self, name) for name in KeptText.__struct_fields__}
        return msgspec.json.encode(KeptText(**fields))

    @property
    def _is_markdown(self) -> bool:
        # Its headings are in its text.
        return self.type == MARKDOWN


class End(msgspec.Struct, frozen=True, tag_field="kind", tag="end"):
    """The last line. An archive without it is incomplete."""

    documents: int


Entry = Header | Document | End
_decode: Final = msgspec.json.Decoder(Entry).decode


def line(entry: Entry) -> bytes:
    """A line of an archive.

    Args:
        entry: its content.
    """
    return msgspec.json.encode(entry) + b"\n"


@dataclass(frozen=True)
class Archive:
    """An archive that was checked.

    Attributes:
        file: the file, which can be read repeatedly.
        header: its configuration.
        count: number of its documents.
    """

    file: IO[bytes]
    header: Header
    count: int

    def documents(self) -> Iterator[Document]:
        """Its documents, one at a time."""
        for entry in _entries(self.file):
            if isinstance(entry, Document):
                yield entry


def opened(file: IO[bytes]) -> Archive:
    """Check an archive as a whole.

    Args:
        file: the file, which can be read repeatedly.

    Raises:
        BadArchive: it is damaged or incomplete.
    """
    entries = _entries(file)
    header = next(entries, None)
    if not isinstance(header, Header):
        raise BadArchive("It does not begin with a knowledge base")
    names: set[str] = set()
    for entry in entries:
        if isinstance(entry, End):
            if entry.documents != len(names) or next(entries, None) is not None:
                break
            return Archive(file, header, len(names))
        if isinstance(entry, Header) or entry.name in names:
            break
        names.add(entry.name)
    raise BadArchive("It is incomplete: documents are missing, repeated, or follow its end")


def _entries(file: IO[bytes]) -> Iterator[Entry]:
    file.seek(0)
    for number, content in enumerate(file, 1):
        try:
            yield _decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise BadArchive(f"Line {number} is no line of an archive of format 1 to {FORMAT}") from None


@contextmanager
def written(path: str) -> Iterator[IO[bytes]]:
    """A file that appears under its name when it is complete.

    Args:
        path: the file.
    """
    partial = Path(f"{path}.partial")
    try:
        with partial.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
