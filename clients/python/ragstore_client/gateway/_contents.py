"""Documents to ingest: texts, files, pages of the web."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import IO, Protocol, TypeAlias

import msgspec

from ragstore_client._json import to_text
from ragstore_client._types import Metadata

MARKDOWN = "text/markdown"
UNKNOWN = "application/octet-stream"
"""The gateway recognises the format by the content."""

_OFFICE = "application/vnd.openxmlformats-officedocument"

MEDIA_TYPES = {
    ".txt": "text/plain",
    ".text": "text/plain",
    ".rst": "text/plain",
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdown": MARKDOWN,
    ".mkd": MARKDOWN,
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".csv": "text/csv",
    ".tsv": "text/csv",
    ".pdf": "application/pdf",
    ".docx": f"{_OFFICE}.wordprocessingml.document",
    ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}.presentationml.presentation",
}
"""Media types of documents by the extensions of their files."""


class Content(Protocol):
    """A document to ingest, as the client reads it: `TextDocument`, `FileDocument`, or a class with these members."""

    @property
    def name(self) -> str:
        """Its name in the knowledge base. It replaces the document of this name."""

    @property
    def media_type(self) -> str:
        """Its media type."""

    @property
    def metadata(self) -> Metadata:
        """Metadata of its chunks beside the gateway's keys."""

    def open(self) -> IO[bytes]:
        """Its content, as a file that can be read repeatedly. The client closes it.

        Raises:
            OSError: it cannot be read.
        """


class TextDocument(msgspec.Struct, frozen=True):
    """A text to ingest.

    Attributes:
        name: name in the knowledge base.
        media_type: media type; `text/markdown` for a text whose headings are marked.
        metadata: metadata of its chunks beside the gateway's keys.
    """

    name: str
    text: str
    media_type: str = "text/plain"
    metadata: Metadata = {}

    def open(self) -> IO[bytes]:
        """The text as UTF-8."""
        return BytesIO(to_text(self.text, "text").encode())

    def __repr__(self) -> str:
        """The document without its text."""
        return f"TextDocument(name={self.name!r}, text=<{len(self.text)} characters>, metadata={self.metadata!r})"


class FileDocument:
    """A file to ingest.

    Args:
        path: the file.
        name: name in the knowledge base; the name of the file by default.
        media_type: media type; by default it follows from the extension of the name.
        metadata: metadata of its chunks beside the gateway's keys.
    """

    def __init__(
        self, path: str | Path, name: str = "", *, media_type: str = "", metadata: Metadata | None = None
    ) -> None:
        self.path = Path(path)
        self.name = name or _as_unicode(self.path.name)
        self.media_type = media_type or MEDIA_TYPES.get(Path(self.name).suffix.lower(), UNKNOWN)
        self.metadata: Metadata = metadata or {}

    def open(self) -> IO[bytes]:
        """Open the file. A named pipe is copied to a temporary file: a document may be sent more than once."""
        file = self.path.open("rb")
        if file.seekable():
            return file
        with file, ExitStack() as until_copied:
            copy = until_copied.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            until_copied.pop_all()
            return copy

    def __repr__(self) -> str:
        """The file and the name."""
        return f"FileDocument({str(self.path)!r}, {self.name!r})"


class PageDocument(msgspec.Struct, frozen=True):
    """A page of the web to ingest. The gateway reads it, and keeps its main text as Markdown.

    Attributes:
        name: name in the knowledge base; the URL by default.
        metadata: metadata of its chunks beside the gateway's keys.
    """

    url: str
    name: str = ""
    metadata: Metadata = {}

    def __post_init__(self) -> None:
        """Set the default name."""
        if not self.name:
            msgspec.structs.force_setattr(self, "name", self.url)


NewContent: TypeAlias = Content | PageDocument
"""A document to ingest."""


def folder_documents(folder: str | Path, *, recursive: bool = True) -> Iterator[FileDocument]:
    """The documents of a folder, in the order of their paths.

    Args:
        folder: the folder. Files with an extension of `MEDIA_TYPES` are documents.
        recursive: whether to descend into the folders of the folder.

    Yields:
        Each document. Its name is its path in the folder, such as `guides/install.md`.

    Raises:
        OSError: a folder cannot be read.
    """
    root = Path(folder)
    for path in sorted(root.rglob("*") if recursive else root.iterdir()):
        if path.suffix.lower() in MEDIA_TYPES and path.is_file():
            yield FileDocument(path, _as_unicode(path.relative_to(root).as_posix()))


def _as_unicode(name: str) -> str:
    """A file's name as UTF-8: Linux allows any bytes, and no request can have them."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
