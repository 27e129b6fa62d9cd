"""The documents that a command ingests: files, pages of the web, standard input."""

from __future__ import annotations

import errno
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Final

from ragstore_client.gateway import FileDocument, PageDocument, folder_documents
from ragstore_gateway.extraction.formats import EXTENSIONS, MEDIA_TYPES
from ragstore_gateway.ingestion.names import name_of_url

STDIN: Final = "-"
"""Standard input or output, in place of a file."""

_WEB: Final = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True)
class StandardInput:
    """Standard input.

    Attributes:
        name: its name in the knowledge base.
        copy: a copy of it, once it was read.
    """

    name: str
    copy: IO[bytes] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def media_type(self) -> str:
        """Its media type, by the extension of its name; plain text without one."""
        return MEDIA_TYPES[EXTENSIONS.get(Path(self.name).suffix.lower(), "text")]

    def read(self, copy: IO[bytes]) -> StandardInput:
        """Copy it to a file. Not in a thread: an interruption could not end that."""
        shutil.copyfileobj(sys.stdin.buffer, copy)
        return replace(self, copy=copy)

    def open(self) -> IO[bytes]:
        """The copy."""
        if self.copy is None:
            raise OSError(errno.EBADF, "Standard input was not read")
        return self.copy


Given = FileDocument | PageDocument | StandardInput


def origin_of(document: Given) -> str:
    """The file or the URL of a document, for messages."""
    match document:
        case FileDocument():
            return str(document.path)
        case PageDocument():
            return document.url
        case StandardInput():
            return "standard input"


def documents_of(arguments: list[str], *, recursive: bool, stdin_name: str) -> Iterator[Given]:
    """The documents that the arguments name, in order.

    Args:
        arguments: URLs, files, folders, or `-` for standard input. Of a folder, files with an extension of a document
            are found; each is named by its path in the folder.
        recursive: whether to descend into the folders of a folder.
        stdin_name: the name of the document of standard input.

    Raises:
        OSError: a folder cannot be read.
    """
    for argument in arguments:
        path = Path(argument)
        if argument == STDIN:
            yield StandardInput(stdin_name)
        elif _WEB.match(argument):
            yield PageDocument(argument, name_of_url(argument))
        elif path.is_dir():
            yield from folder_documents(path, recursive=recursive)
        else:
            yield FileDocument(path)
