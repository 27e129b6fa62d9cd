"""Documents from files, folders and standard input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragstore_gateway.commands.read import STDIN, found, read_bytes
from ragstore_gateway.extraction.formats import EXTENSIONS, MEDIA_TYPES

UNKNOWN: Final = "application/octet-stream"
"""The gateway recognises the format by the content."""


@dataclass(frozen=True)
class File:
    """A document in a file.

    Attributes:
        path: the file, or `-` for standard input.
        name: its name in the knowledge base.
    """

    path: str
    name: str

    @property
    def media_type(self) -> str:
        """Its media type, by the extension of its name."""
        known = EXTENSIONS.get(Path(self.name).suffix.lower())
        if known is not None:
            return MEDIA_TYPES[known]
        return "text/plain" if self.path == STDIN else UNKNOWN

    def read(self) -> bytes:
        """Its content.

        Raises:
            OSError: it cannot be read.
        """
        return read_bytes(self.path)


def files(arguments: list[str], *, recursive: bool, name: str) -> Iterator[File]:
    """The documents that the arguments name, in order.

    Args:
        arguments: files, folders, or `-` for standard input. A document of a folder is named by its path in it.
        recursive: whether to descend into the folders of a folder.
        name: the name of the document of standard input.
    """
    for argument in arguments:
        for path in found([argument], recursive=recursive):
            if path == STDIN:
                yield File(path, name)
            elif path == argument:
                yield File(path, Path(path).name)
            else:
                yield File(path, Path(path).relative_to(argument).as_posix())
