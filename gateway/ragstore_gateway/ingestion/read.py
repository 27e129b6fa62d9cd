"""Reads documents from files, folders and standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import ExtractionUnavailable
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.extraction.formats import EXTENSIONS
from ragstore_gateway.ingestion.index import Text

STDIN: Final = "-"


class Unreadable(Exception):
    """A document cannot be read. The message is one line for people."""


def found(arguments: list[str], *, recursive: bool) -> Iterator[str]:
    """The files that the arguments name, in order. Of a folder, those with an extension of a document are read.

    Args:
        arguments: files, folders, or `-` for standard input.
        recursive: whether to descend into the folders of a folder.
    """
    for argument in arguments:
        folder = Path(argument)
        if argument == STDIN or not folder.is_dir():
            yield argument
            continue
        entries = folder.rglob("*") if recursive else folder.iterdir()
        yield from (str(entry) for entry in sorted(entries) if entry.suffix.lower() in EXTENSIONS and entry.is_file())


async def read(name: str, source: str, extractor: Extractor, max_bytes: int) -> Text:
    """Read one document and extract its text.

    Args:
        name: a file, or `-` for standard input.
        source: stored with each chunk; the name of the file when empty.
        extractor: extracts its text.
        max_bytes: largest document that the extractor accepts.

    Returns:
        The text. Its URL is that of the file.

    Raises:
        ExtractionUnavailable: no text can be extracted at present.
        Unreadable: the file cannot be read, or its text cannot be extracted.
    """
    try:
        url, content = await asyncio.to_thread(_opened, name, max_bytes + 1)
        extracted = await extractor.extract(content, name="" if name == STDIN else name)
    except OSError as error:
        raise Unreadable(error.strerror or type(error).__name__) from None
    except ExtractionUnavailable:
        raise
    except ServiceError as error:
        raise Unreadable(error.detail) from None
    return Text(url, extracted.text, source or ("stdin" if name == STDIN else PurePath(name).name))


def _opened(name: str, max_bytes: int) -> tuple[str, bytes]:
    """The URL and the first bytes of a file or of standard input."""
    if name == STDIN:
        return "stdin:", sys.stdin.buffer.read(max_bytes)
    path = Path(name).resolve()
    with path.open("rb") as file:
        return path.as_uri(), file.read(max_bytes)
