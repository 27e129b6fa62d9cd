"""Reads documents from URLs, files, folders and standard input."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path, PurePath
from typing import Final

from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import ExtractionUnavailable
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.extraction.formats import EXTENSIONS
from ragstore_gateway.plain_collections.index import Text

STDIN: Final = "-"

_WEB: Final = re.compile(r"https?://", re.IGNORECASE)


class Unreadable(Exception):
    """A document cannot be read. The message is one line for people."""


def is_url(name: str) -> bool:
    """Whether a document is a page of the web.

    Args:
        name: the document's name.
    """
    return _WEB.match(name) is not None


def found(arguments: list[str], *, recursive: bool) -> Iterator[str]:
    """The documents that the arguments name, in order. Of a folder, files with an extension of a document are read.

    Args:
        arguments: URLs, files, folders, or `-` for standard input.
        recursive: whether to descend into the folders of a folder.
    """
    for argument in arguments:
        folder = Path(argument)
        if argument == STDIN or is_url(argument) or not folder.is_dir():
            yield argument
            continue
        entries = folder.rglob("*") if recursive else folder.iterdir()
        yield from (str(entry) for entry in sorted(entries) if entry.suffix.lower() in EXTENSIONS and entry.is_file())


def read_bytes(name: str, max_bytes: int = -1) -> bytes:
    """The content of a file or of standard input.

    Args:
        name: the file, or `-` for standard input.
        max_bytes: maximum number of bytes that are read; all if negative.

    Raises:
        OSError: it cannot be read.
    """
    if name == STDIN:
        return sys.stdin.buffer.read(max_bytes)
    with Path(name).open("rb") as file:
        return file.read(max_bytes)


class DocumentReader:
    """Reads documents and extracts their texts.

    Args:
        extractor: extracts the texts of files.
        max_bytes: largest document that the extractor accepts.
        read_page: fetches a page of the web, and returns its text.
        source: stored with each chunk; the name of the file, or the URL, when empty.
    """

    def __init__(
        self, extractor: Extractor, max_bytes: int, read_page: Callable[[str], Awaitable[str]], source: str
    ) -> None:
        self._extractor = extractor
        self._max_bytes = max_bytes
        self._read_page = read_page
        self._source = source

    async def read(self, name: str) -> Text:
        """Read one document.

        Args:
            name: a URL, a file, or `-` for standard input.

        Returns:
            The text. Its URL is the URL of the page or of the file.

        Raises:
            ExtractionUnavailable: no text can be extracted at present.
            Unreadable: the document cannot be read, or its text cannot be extracted.
        """
        try:
            if is_url(name):
                return Text(name, await self._read_page(name), self._source or name)
            url, content = await asyncio.to_thread(_opened, name, self._max_bytes + 1)
            extracted = await self._extractor.extract(content, name="" if name == STDIN else name)
        except OSError as error:
            raise Unreadable(error.strerror or type(error).__name__) from None
        except ExtractionUnavailable:
            raise
        except ServiceError as error:
            raise Unreadable(error.detail) from None
        source = self._source or ("stdin" if name == STDIN else PurePath(name).name)
        return Text(url, extracted.text, source, extracted.headings)


def _opened(name: str, max_bytes: int) -> tuple[str, bytes]:
    """The URL and the first bytes of a file or of standard input."""
    return "stdin:" if name == STDIN else Path(name).resolve().as_uri(), read_bytes(name, max_bytes)
