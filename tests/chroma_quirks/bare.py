"""Bare Chroma: clients, collections, and small programs that run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypedDict, cast
from uuid import UUID, uuid4

import chromadb
import numpy as np
from chromadb.api import ClientAPI
from chromadb.config import Settings
from numpy.typing import NDArray

DATABASE_PATH: Final = "/api/v2/tenants/default_tenant/databases/default_database"

_PREAMBLE: Final = """
import sys
import chromadb
from chromadb.config import Settings

client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
"""


Space: TypeAlias = Literal["cosine", "l2", "ip"]
Metadata: TypeAlias = Mapping[str, object] | None
Filter: TypeAlias = Mapping[str, object]
Embeddings: TypeAlias = Sequence[Sequence[float]] | NDArray[np.float32]


class Found(TypedDict):
    """The result of a get; columns that were not wanted are None."""

    ids: list[str]
    documents: list[str | None] | None
    metadatas: list[Metadata] | None
    embeddings: list[list[float | None]] | None


class Nearest(TypedDict):
    """The result of a query of m vectors: m lists a column."""

    ids: list[list[str]]
    distances: list[list[float | None]]


class BareCollection(Protocol):
    """`chromadb.Collection`, with types that admit what the tests send and receive."""

    @property
    def id(self) -> UUID: ...

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> Metadata: ...

    def add(
        self,
        ids: Sequence[str],
        embeddings: Embeddings,
        metadatas: Sequence[Metadata] | None = None,
        documents: Sequence[str] | None = None,
    ) -> None: ...

    def upsert(
        self,
        ids: Sequence[str],
        embeddings: Embeddings,
        metadatas: Sequence[Metadata] | None = None,
        documents: Sequence[str] | None = None,
    ) -> None: ...

    def get(
        self,
        ids: Sequence[str] | None = None,
        where: Filter | None = None,
        limit: int | None = None,
        offset: int | None = None,
        where_document: Filter | None = None,
        include: Sequence[str] = ("metadatas", "documents"),
    ) -> Found: ...

    def query(
        self,
        query_embeddings: Embeddings,
        *,
        ids: Sequence[str] | None = None,
        n_results: int = 10,
        where: Filter | None = None,
    ) -> Nearest: ...

    def count(self) -> int: ...

    def delete(self, ids: Sequence[str]) -> object: ...

    def modify(self, *, metadata: Metadata) -> None: ...


@dataclass(frozen=True)
class Instance:
    """A Chroma, and where it keeps its data.

    Attributes:
        client: a client of it.
        folder: its data.
        pid: the process that has the data open.
    """

    client: ClientAPI
    folder: Path
    pid: int

    def folders(self) -> int:
        """How many indexes have a folder."""
        return sum(entry.is_dir() for entry in self.folder.iterdir())

    def open_files(self) -> int:
        """How many files of indexes are open, deleted ones included."""
        names = []
        for descriptor in os.listdir(f"/proc/{self.pid}/fd"):
            with suppress(FileNotFoundError):  # the one by which the folder is listed
                names.append(os.readlink(f"/proc/{self.pid}/fd/{descriptor}"))
        return sum(name.startswith(f"{self.folder}/") and "chroma.sqlite3" not in name for name in names)


def persistent_client(folder: Path) -> ClientAPI:
    """Embedded Chroma over a folder."""
    return chromadb.PersistentClient(str(folder), settings=Settings(anonymized_telemetry=False))


def new_name() -> str:
    """A collection's name that no other test uses."""
    return f"t-{uuid4().hex}"


def new_collection(
    client: ClientAPI, space: Space | None = None, *, name: str = "", metadata: Mapping[str, str] | None = None
) -> BareCollection:
    """Make a collection.

    Args:
        client: where.
        space: its distance; Chroma's default when None.
        name: its name; a new one when empty.

    Returns:
        The collection.
    """
    made = client.create_collection(
        name or new_name(),
        configuration={} if space is None else {"hnsw": {"space": space}},
        metadata=None if metadata is None else dict(metadata),
        embedding_function=None,
    )
    return cast("BareCollection", made)


def get_collection(client: ClientAPI, name: str) -> BareCollection:
    """Look a collection up."""
    return cast("BareCollection", client.get_collection(name, embedding_function=None))


def start_program(code: str, folder: Path) -> subprocess.Popen[str]:
    """Start a program that finds embedded Chroma over a folder under the name `client`.

    Args:
        code: the program's text.
        folder: Chroma's data.

    Returns:
        The process; its output and errors are piped.
    """
    return subprocess.Popen(
        [sys.executable, "-c", _PREAMBLE + textwrap.dedent(code), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(code: str, folder: Path, timeout: float = 60.0) -> str:
    """Run such a program to its end.

    Args:
        code: the program's text.
        folder: Chroma's data.
        timeout: how long it may take, in seconds.

    Returns:
        Its output.
    """
    with start_program(code, folder) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert process.returncode == 0, errors
    return output
