"""The documents that a command ingests: files, pages of the web, standard input."""

from __future__ import annotations

import asyncio
import errno
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, Protocol

from ragstore_gateway.commands.gateway_client.client import GatewayClient
from ragstore_gateway.extraction.formats import EXTENSIONS, MEDIA_TYPES
from ragstore_gateway.ingestion.names import name_of_url

STDIN: Final = "-"
"""Standard input or output, in place of a file."""

UNKNOWN: Final = "application/octet-stream"
"""The gateway recognises the format by the content."""

_WEB: Final = re.compile(r"https?://", re.IGNORECASE)


class Document(Protocol):
    """A document to ingest."""

    @property
    def name(self) -> str:
        """Its name in the knowledge base."""

    @property
    def media_type(self) -> str:
        """Its media type."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Metadata of its chunks beside the gateway's keys."""

    @property
    def is_remote(self) -> bool:
        """Whether the gateway reads it from the web, which takes long."""

    async def open(self, gateway: GatewayClient) -> IO[bytes]:
        """Its content, which can be read repeatedly.

        Args:
            gateway: reads pages of the web.

        Raises:
            GatewayFailed: the gateway cannot read it.
            OSError: it cannot be read.
        """


@dataclass(frozen=True)
class File:
    """A file.

    Attributes:
        path: the file.
        name: its name in the knowledge base.
    """

    path: Path
    name: str
    is_remote: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def origin(self) -> str:
        """The file, for messages."""
        return str(self.path)

    @property
    def media_type(self) -> str:
        """Its media type, by the extension of its name."""
        known = EXTENSIONS.get(Path(self.name).suffix.lower())
        return UNKNOWN if known is None else MEDIA_TYPES[known]

    async def open(self, gateway: GatewayClient) -> IO[bytes]:
        """Open it; see `Document`."""
        return await asyncio.to_thread(self._opened)

    def _opened(self) -> IO[bytes]:
        file = self.path.open("rb")
        if file.seekable():
            return file
        # A named pipe: a document is sent again if the gateway's queue is full.
        with file, ExitStack() as until_copied:
            copy = until_copied.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(file, copy)
            until_copied.pop_all()
            return copy


@dataclass(frozen=True)
class WebPage:
    """A page of the web, which the gateway fetches."""

    url: str
    media_type: str = MEDIA_TYPES["markdown"]
    is_remote: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        """Its URL, as a name of a document."""
        return name_of_url(self.url)

    @property
    def origin(self) -> str:
        """Its URL, for messages."""
        return self.url

    async def open(self, gateway: GatewayClient) -> IO[bytes]:
        """Its main text, as Markdown if it is an HTML page; see `Document`."""
        return BytesIO((await gateway.page(self.url)).encode())


@dataclass(frozen=True)
class StandardInput:
    """Standard input.

    Attributes:
        name: its name in the knowledge base.
        copy: a copy of it, once it was read.
    """

    name: str
    copy: IO[bytes] | None = None
    origin: str = "standard input"
    is_remote: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def media_type(self) -> str:
        """Its media type, by the extension of its name; plain text without one."""
        return MEDIA_TYPES[EXTENSIONS.get(Path(self.name).suffix.lower(), "text")]

    def read(self, copy: IO[bytes]) -> StandardInput:
        """Copy it to a file. Not in a thread: an interruption could not end that."""
        shutil.copyfileobj(sys.stdin.buffer, copy)
        return replace(self, copy=copy)

    async def open(self, gateway: GatewayClient) -> IO[bytes]:
        """The copy; see `Document`."""
        if self.copy is None:
            raise OSError(errno.EBADF, "Standard input was not read")
        return self.copy


Given = File | WebPage | StandardInput


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
            yield WebPage(argument)
        elif path.is_dir():
            entries = path.rglob("*") if recursive else path.iterdir()
            for entry in sorted(entries):
                if entry.suffix.lower() in EXTENSIONS and entry.is_file():
                    yield File(entry, _printable(entry.relative_to(path).as_posix()))
        else:
            yield File(path, _printable(path.name))


def _printable(name: str) -> str:
    """A file's name as UTF-8: Linux allows any bytes, and no request can have them."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
