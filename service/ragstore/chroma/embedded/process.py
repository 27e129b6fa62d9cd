"""What runs in embedded Chroma's own process.

Chroma's Rust code holds Python's interpreter lock while it writes: 1,000 records stop every thread of a process for
half a second (measured with 1.5.9). So embedded Chroma gets a process to itself, and the service's event loop goes on.

Only this module imports `chromadb`. What its functions take and return crosses a process boundary; whatever Chroma
raises becomes a `Refusal`.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeAlias, TypeVar, cast
from uuid import UUID

from chroma_repair.data_lock import lock_data
from chroma_repair.unclean_shutdown import DirtyMarker
from ragstore.chroma.backend import (
    ChromaFilter,
    QueryResult,
    RecordBatch,
    Records,
    matrix,
    neighbours,
    present_metadatas,
    present_texts,
)
from ragstore.chroma.embedded.api import ChromaApi, FoundCollection, GetResult, Scope
from ragstore.model.metadata import CollectionMetadata, Scalar
from ragstore.model.vectors import Matrix

if TYPE_CHECKING:
    from chromadb.api.client import Client

    from chroma_repair.index_repair import RepairResult

P = ParamSpec("P")
T = TypeVar("T")

Described: TypeAlias = tuple[str, str, CollectionMetadata | None, int | None, dict[str, object]]
"""A collection: id, name, metadata, dimension, configuration."""


class Refusal(Exception):
    """Chroma raised an error.

    Args:
        kind: its type's name, or `DataInUse` when another process has the data.
        text: what it said.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind = kind
        self.text = text


class _Chroma:
    """Open data.

    Args:
        path: its folder.
        tenant: Chroma tenant; made when it is not there.
        database: Chroma database; made when it is not there.
    """

    def __init__(self, path: str, tenant: str, database: str) -> None:
        import chromadb
        from chromadb.config import Settings

        self.lock = lock_data(Path(path))
        self.path = path
        self.scope: Scope = {"tenant": tenant, "database": database}
        marker = DirtyMarker(Path(path))
        self.repaired = marker.repair()
        marker.write()
        client = chromadb.PersistentClient(path=path, settings=Settings(anonymized_telemetry=False))
        # What chromadb's own Collection calls. Going there directly spares a lookup and a second validation a call.
        self.api = cast("ChromaApi", cast("Client", client)._server)
        _ensure(lambda: self.api.get_tenant(tenant), lambda: self.api.create_tenant(tenant))
        _ensure(lambda: self.api.get_database(database, tenant), lambda: self.api.create_database(database, tenant))
        if marker.found:
            self._try_collections(marker)
        atexit.register(marker.remove)

    def _try_collections(self, marker: DirtyMarker) -> None:
        """After an unclean shutdown, have Chroma open every index.

        It rebuilds the repaired ones, which would take longer than the timeout of a call. Some indexes are damaged in a
        way that their files do not show, and Chroma fails or crashes on them: this process then ends, and the next one
        rebuilds the index that the marker names.
        """
        from chromadb.errors import ChromaError

        for collection in self.api.list_collections(None, 0, **self.scope):
            was_suspected = collection.name in marker.suspect_collections
            marker.write("" if was_suspected else collection.name)
            try:
                _read(self, str(collection.id), None, ("embeddings",), limit=1)
            except ChromaError:
                if not was_suspected:
                    os._exit(1)
        marker.write()


def _ensure(look: Callable[[], object], create: Callable[[], object]) -> None:
    from chromadb.errors import NotFoundError

    try:
        look()
    except NotFoundError:
        create()


_chroma: _Chroma | None = None


def _opened() -> _Chroma:
    if _chroma is None:
        raise Refusal("NotOpen", "Chroma is not open")
    return _chroma


def _refusing(operation: Callable[P, T]) -> Callable[P, T]:
    """Turn whatever an operation raises into a `Refusal`, which can cross to the parent."""

    @functools.wraps(operation)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return operation(*args, **kwargs)
        except Refusal:
            raise
        # Chroma's Rust code panics on some input, and the panic is a BaseException.
        except BaseException as error:  # noqa: BLE001
            raise Refusal(type(error).__name__, str(error)) from None

    return refusing


def prepare() -> None:
    """Set the process up: leave signals to the parent, and end when the parent does, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True, name="end-with-parent").start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(0)


@_refusing
def open_chroma(path: str, tenant: str, database: str) -> list[RepairResult]:
    """Open the data, once, and repair what a kill has damaged.

    Args:
        path: folder of the data.
        tenant: Chroma tenant.
        database: Chroma database.

    Returns:
        The collections that were damaged.

    Raises:
        Refusal: the folder cannot be used; its kind is `DataInUse` when another process has it.
    """
    global _chroma
    if _chroma is None:
        _chroma = _Chroma(path, tenant, database)
    return _chroma.repaired


@_refusing
def status() -> tuple[str, int, int]:
    """Version, number of collections, bytes on disk."""
    chroma = _opened()
    size = sum(entry.stat().st_size for entry in Path(chroma.path).rglob("*") if entry.is_file())
    return chroma.api.get_version(), chroma.api.count_collections(**chroma.scope), size


@_refusing
def max_batch_size() -> int:
    """Most records in one write."""
    return _opened().api.get_max_batch_size()


@_refusing
def create_collection(
    name: str, metadata: CollectionMetadata | None, configuration: dict[str, dict[str, object]]
) -> Described:
    """Create a collection; an empty metadata is None."""
    chroma = _opened()
    return _described(
        chroma.api.create_collection(name, configuration=configuration, metadata=metadata, **chroma.scope)
    )


@_refusing
def get_collection(name: str) -> Described:
    """Look a collection up."""
    chroma = _opened()
    return _described(chroma.api.get_collection(name, **chroma.scope))


@_refusing
def list_collections(limit: int | None, offset: int) -> list[Described]:
    """List collections."""
    chroma = _opened()
    return [_described(found) for found in chroma.api.list_collections(limit, offset, **chroma.scope)]


@_refusing
def count_collections() -> int:
    """How many collections there are."""
    chroma = _opened()
    return chroma.api.count_collections(**chroma.scope)


@_refusing
def replace_metadata(collection_id: str, metadata: Mapping[str, Scalar | None]) -> None:
    """Replace a collection's metadata."""
    chroma = _opened()
    chroma.api._modify(UUID(collection_id), new_metadata=dict(metadata), **chroma.scope)


@_refusing
def delete_collection(name: str) -> None:
    """Delete a collection."""
    chroma = _opened()
    chroma.api.delete_collection(name, **chroma.scope)


@_refusing
def upsert(collection_id: str, records: RecordBatch, marks: list[str] | None) -> None:
    """Write records in one transaction. Marks go into their `uris`, which nothing else here uses."""
    chroma = _opened()
    chroma.api._upsert(
        UUID(collection_id),
        ids=records.ids,
        embeddings=list(records.embeddings),
        metadatas=records.metadatas,
        documents=records.texts,
        uris=marks,
        **chroma.scope,
    )


@_refusing
def get(
    collection_id: str,
    ids: list[str] | None,
    where: ChromaFilter,
    where_document: ChromaFilter,
    limit: int | None,
    offset: int,
    include: tuple[str, ...],
) -> Records:
    """Read records in insertion order."""
    found = _read(_opened(), collection_id, ids, include, where, where_document, limit, offset)
    return Records(
        found["ids"],
        present_texts(found["documents"]),
        present_metadatas(found["metadatas"]),
        matrix(found["embeddings"]) if "embeddings" in include else None,
    )


@_refusing
def marks(collection_id: str, ids: list[str]) -> dict[str, str | None]:
    """Which of some ids are taken, and by which add."""
    found = _read(_opened(), collection_id, ids, ("uris",))
    return dict(zip(found["ids"], found["uris"] or [], strict=True))


def _read(
    chroma: _Chroma,
    collection_id: str,
    ids: list[str] | None,
    include: tuple[str, ...],
    where: ChromaFilter = None,
    where_document: ChromaFilter = None,
    limit: int | None = None,
    offset: int = 0,
) -> GetResult:
    return chroma.api._get(
        UUID(collection_id),
        ids=ids,
        where=where,
        limit=limit,
        offset=offset,
        where_document=where_document,
        include=list(include),
        **chroma.scope,
    )


@_refusing
def count(collection_id: str) -> int:
    """How many records there are."""
    chroma = _opened()
    return chroma.api._count(UUID(collection_id), **chroma.scope)


@_refusing
def delete(collection_id: str, ids: list[str]) -> None:
    """Delete records."""
    chroma = _opened()
    chroma.api._delete(UUID(collection_id), ids=ids, **chroma.scope)


@_refusing
def query(
    collection_id: str,
    embeddings: Matrix,
    n_results: int,
    where: ChromaFilter,
    where_document: ChromaFilter,
    include: tuple[str, ...],
) -> list[QueryResult]:
    """Find the nearest records for each row."""
    chroma = _opened()
    found = chroma.api._query(
        UUID(collection_id),
        query_embeddings=list(embeddings),
        n_results=n_results,
        where=where,
        where_document=where_document,
        include=[*include, "distances"],
        **chroma.scope,
    )
    return neighbours(found["ids"], found["documents"], found["metadatas"], found["embeddings"], found["distances"])


def _described(found: FoundCollection) -> Described:
    return str(found.id), found.name, found.metadata, found.dimension, found.configuration_json
