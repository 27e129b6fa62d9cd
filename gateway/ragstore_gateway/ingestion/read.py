"""Reads texts from files, folders and standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ragstore_gateway.ingestion.index import Text

EXTENSIONS: Final = frozenset({".txt", ".text", ".md", ".markdown", ".rst"})
"""Files of a folder that are read. A file that is named is read whatever its extension."""

STDIN: Final = "-"


class Unreadable(Exception):
    """A text cannot be read. The message is one line for people."""


def found(arguments: list[str], *, recursive: bool) -> Iterator[str]:
    """The files that the arguments name, in order.

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


def read(name: str, source: str) -> Text:
    """Read one text.

    Args:
        name: a file, or `-` for standard input.
        source: stored with each chunk; the name of the file when empty.

    Returns:
        The text. Its URL is that of the file.

    Raises:
        Unreadable: the file cannot be read, or is not UTF-8.
    """
    try:
        if name == STDIN:
            return Text("stdin:", sys.stdin.buffer.read().decode(), source or "stdin")
        path = Path(name)
        return Text(path.resolve().as_uri(), path.read_bytes().decode(), source or path.name)
    except OSError as error:
        raise Unreadable(error.strerror or type(error).__name__) from None
    except UnicodeDecodeError:
        raise Unreadable("it is not UTF-8 text") from None
