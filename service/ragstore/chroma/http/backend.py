"""`HttpBackend`: Chroma as a server, a cluster or Chroma Cloud, over its v2 HTTP API.

chromadb's own `AsyncHttpClient` is not used: it has no timeouts, keeps a connection pool for each event loop, sends
embeddings as text where base64 is possible, and costs 50 MiB to import. The API is spoken with aiohttp, which took a
fraction of httpx's CPU time for the same call.

One limit: Chroma's server reads JSON numbers of more than 15 digits inexactly (measured with 1.5.9): of metadata floats
with 16 or 17 digits, one in ten comes back with its last bit changed. Embeddings are not touched: they travel as bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from ragstore.chroma.backend import (
    CLEARED,
    SYNC_THRESHOLD,
    ChromaFilter,
    QueryResult,
    RecordBatch,
    Records,
    distance_of,
    index_configuration,
    matrix,
    neighbours,
    present_metadatas,
    present_texts,
)
from ragstore.chroma.errors import meaning
from ragstore.chroma.http.bodies import OVERSIZED, encoded, payload
from ragstore.chroma.http.responses import (
    UNREADABLE,
    ChromaProblem,
    CollectionAnswer,
    MarksAnswer,
    NeighboursAnswer,
    Nothing,
    Preflight,
    RecordsAnswer,
    bare_ids,
    require_columns,
    require_neighbours,
)
from ragstore.errors import ChromaFailed, ChromaTimeout, ChromaUnavailable, CollectionNotFound, TooLargeForChroma
from ragstore.kit.context import backend_timing
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.vectors import Matrix

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
"""Longest wait for a connection. Longer means that Chroma is away, not that it is busy."""

AWAY: Final = "Chroma cannot be reached"

TOO_LARGE: Final = 413
"""Status of a request whose body is larger than a server, or a proxy before it, takes."""

BUSY: Final = (429, 502, 503)
"""Answers of Chroma, or of a proxy before it, that mean "later"."""


class _ConnectionLost(ChromaUnavailable):
    """A connection ended before the answer came, so what was asked may have been done."""


class _DatabaseGone(ChromaFailed):
    """Chroma came back without the database, so it must be made again."""


class HttpBackend:
    """A Chroma server; see `Backend` for what each method does.

    Args:
        url: its address.
        tenant: Chroma tenant; made when it is not there.
        database: Chroma database; made when it is not there.
        headers: sent with every request.
        timeout: longest wait for one answer, in seconds.
        connections: most connections at once.
        ca_file: file of certificate authorities to trust; empty means the system's.
        sync_threshold: writes to a new collection after which Chroma saves its index.
        headers_of_call: makes further headers for each request, such as the one that continues a trace.
    """

    conditional: Final = True

    def __init__(
        self,
        url: str,
        tenant: str,
        database: str,
        *,
        headers: dict[str, str],
        timeout: float,
        connections: int,
        ca_file: str = "",
        sync_threshold: int = SYNC_THRESHOLD,
        headers_of_call: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        self._api = url.rstrip("/").removesuffix("/api/v2") + "/api/v2"
        self._tenant = f"/tenants/{quote(tenant, safe='')}"
        self._database = f"{self._tenant}/databases/{quote(database, safe='')}"
        self._names = (tenant, database)
        self._headers = headers
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(CONNECT_SECONDS, timeout))
        self._connections = connections
        self._ca_file = ca_file
        self._sync_threshold = sync_threshold
        self._headers_of_call = headers_of_call
        self._session: aiohttp.ClientSession | None = None
        self._preflight: Preflight | None = None
        self._preparing = asyncio.Lock()

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""
        trusted = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=trusted),
            headers=self._headers,
            timeout=self._timeout,
            auto_decompress=True,
        )
        # aiohttp sends a DELETE twice without telling, and a deletion whose answer was lost would be "not found". It
        # has no public way to be kept from that; what may be sent twice is sent twice below.
        self._session._retry_connection = False

    async def close(self) -> None:
        """Let go of Chroma."""
        if self._session is not None:
            await self._session.close()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        return StoreStatus("remote", await self._ask(str, "GET", "/version"), await self.count_collections())

    async def max_batch_size(self) -> int:
        """Most records that Chroma takes in one write."""
        return (await self._ready()).max_batch_size

    # -- collections --------------------------------------------------------------------------

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        body = {
            "name": name,
            "metadata": metadata or None,
            "configuration": index_configuration(distance, self._sync_threshold),
        }
        return _collection(await self._ask(CollectionAnswer, "POST", self._collections(), body, name=name))

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        return _collection(await self._ask(CollectionAnswer, "GET", self._collections(name), name=name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections."""
        window = f"?offset={offset}" + ("" if limit is None else f"&limit={limit}")
        found = await self._ask(list[CollectionAnswer], "GET", self._collections() + window)
        return [_collection(collection) for collection in found]

    async def count_collections(self) -> int:
        """How many collections there are."""
        return await self._ask(int, "GET", f"{self._database}/collections_count")

    async def replace_metadata(self, collection_id: str, metadata: CollectionMetadata) -> None:
        """Replace a collection's metadata; it may be empty."""
        await self._ask(Nothing, "PUT", self._collections(collection_id), {"new_metadata": metadata or CLEARED})

    async def delete_collection(self, name: str) -> None:
        """Delete a collection. One that is gone after the connection was lost was deleted before it was lost."""
        try:
            await self._ask(Nothing, "DELETE", self._collections(name), name=name)
        except _ConnectionLost:
            with suppress(CollectionNotFound):
                await self._ask(Nothing, "DELETE", self._collections(name), name=name)

    # -- records ------------------------------------------------------------------------------

    async def add(self, collection_id: str, records: RecordBatch, marks: list[str]) -> set[str]:
        """Write those records whose ids are free. The marks go into their `uris`, which nothing else here uses."""
        body = {**await self._written(records), "uris": marks}
        await self._ask(Nothing, "POST", self._collections(collection_id, "add"), body)
        there = await self.marks(collection_id, records.ids)
        return {added for added, mark in zip(records.ids, marks, strict=True) if there.get(added) == mark}

    async def marks(self, collection_id: str, ids: list[str]) -> dict[str, str | None]:
        """Which ids are taken, and by which add."""
        body = {"ids": ids, "include": ["uris"]}
        found = await self._ask(MarksAnswer, "POST", self._collections(collection_id, "get"), body)
        require_columns(found, ("uris",))
        return dict(zip(found.ids, found.uris, strict=True))

    async def withdraw(self, collection_id: str, ids: list[str], mark: str) -> None:
        """Delete those of some records that an add wrote. What took their place meanwhile has no such mark."""
        selected = {"ids": ids, "where": {"chroma:uri": mark}}
        await self._ask(Nothing, "POST", self._collections(collection_id, "delete"), selected)

    async def upsert(self, collection_id: str, records: RecordBatch) -> None:
        """Write records in one transaction."""
        body = await self._written(records)
        await self._ask(Nothing, "POST", self._collections(collection_id, "upsert"), body)

    async def get(
        self,
        collection_id: str,
        *,
        ids: list[str] | None = None,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        limit: int | None = None,
        offset: int = 0,
        include: tuple[str, ...] = (),
    ) -> Records:
        """Read records in insertion order."""
        body = {
            "ids": ids,
            "where": where,
            "where_document": where_document,
            "limit": limit,
            "offset": offset,
            "include": include,
        }
        found = await self._ask(RecordsAnswer, "POST", self._collections(collection_id, "get"), body)
        require_columns(found, include)
        return Records(
            found.ids,
            present_texts(found.documents),
            present_metadatas(found.metadatas),
            matrix(found.embeddings) if "embeddings" in include else None,
        )

    async def count(self, collection_id: str) -> int:
        """How many records a collection holds."""
        return await self._ask(int, "GET", self._collections(collection_id, "count"))

    async def delete(self, collection_id: str, ids: list[str]) -> None:
        """Delete records."""
        await self._ask(Nothing, "POST", self._collections(collection_id, "delete"), {"ids": ids})

    async def query(
        self,
        collection_id: str,
        embeddings: Matrix,
        n_results: int,
        *,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        include: tuple[str, ...] = (),
    ) -> list[QueryResult]:
        """Find the nearest records for each row of a matrix."""
        body = {
            "query_embeddings": embeddings.tolist(),
            "n_results": n_results,
            "where": where,
            "where_document": where_document,
            "include": [*include, "distances"],
        }
        found = await self._ask(NeighboursAnswer, "POST", self._collections(collection_id, "query"), body)
        require_neighbours(found, len(embeddings), [*include, "distances"])
        bare = bare_ids(found)
        if bare and not bare <= set((await self.get(collection_id, ids=sorted(bare))).ids):
            raise ChromaFailed("A document was deleted while it was read")
        return neighbours(found.ids, found.documents, found.metadatas, found.embeddings, found.distances)

    # -- the wire -----------------------------------------------------------------------------

    async def _written(self, records: RecordBatch) -> dict[str, object]:
        """The body of a write."""
        # msgspec writes bytes as base64, which is what Chroma reads where it can.
        base64 = (await self._ready()).supports_base64_encoding
        embeddings = records.embeddings
        rows = [row.astype("<f4", copy=False).tobytes() for row in embeddings] if base64 else embeddings.tolist()
        return {"ids": records.ids, "embeddings": rows, "documents": records.texts, "metadatas": records.metadatas}

    def _collections(self, *parts: str) -> str:
        return "/".join([f"{self._database}/collections", *(quote(part, safe="") for part in parts)])

    async def _ready(self) -> Preflight:
        """Before the first call that needs it: learn Chroma's limits, and make the tenant and database."""
        if self._preflight is None:
            async with self._preparing:
                if self._preflight is None:
                    tenant, database = self._names
                    await self._ensure(self._tenant, "/tenants", tenant)
                    await self._ensure(self._database, f"{self._tenant}/databases", database)
                    self._preflight = await self._send(Preflight, "GET", "/pre-flight-checks")
        return self._preflight

    async def _ensure(self, there: str, parent: str, name: str) -> None:
        status, _ = await self._exchange("GET", there)
        if status == 404:
            await self._exchange("POST", parent, {"name": name})

    async def _ask(self, kind: type[T], method: str, path: str, body: object = None, *, name: str = "") -> T:
        """Ask Chroma something, once it is ready.

        Args:
            kind: type of the answer.
            method: HTTP method.
            path: path below the API's root, with its query.
            body: JSON body, if any.
            name: the collection's name, when it is asked for by name.

        Returns:
            The answer.
        """
        await self._ready()
        try:
            return await self._send(kind, method, path, body, name=name)
        except _DatabaseGone:
            self._preflight = None
            await self._ready()
            return await self._send(kind, method, path, body, name=name)

    async def _send(self, kind: type[T], method: str, path: str, body: object = None, *, name: str = "") -> T:
        status, content = await self._exchange(method, path, body)
        if status == TOO_LARGE:
            raise TooLargeForChroma(OVERSIZED)
        if status >= 400:
            try:
                problem = msgspec.json.decode(content, type=ChromaProblem)
            except UNREADABLE:
                problem = ChromaProblem()
            if problem.message == f"Database [{self._names[1]}] does not exist":
                raise _DatabaseGone("Chroma lost the database")
            raise meaning(problem.error, problem.message, collection=name)
        try:
            return msgspec.json.decode(content, type=kind)
        except UNREADABLE:
            raise ChromaFailed("Chroma's answer could not be read") from None

    async def _exchange(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """One request and its answer, or the error that tells why there is none.

        A kept connection may have been closed by Chroma meanwhile. The request is then sent once more, unless it
        creates or deletes a collection: one that did arrive would fail the second time.
        """
        data = None if body is None else encoded(body)
        repeatable = method != "DELETE" and not (method == "POST" and path.endswith("/collections"))
        try:
            status, content = await self._once(method, path, data)
        except _ConnectionLost:
            if not repeatable:
                raise
            status, content = await self._once(method, path, data)
        if status in BUSY:
            raise ChromaUnavailable("Chroma is too busy")
        return status, content

    async def _once(self, method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
        if self._session is None:
            raise ChromaUnavailable("The store was not started")
        headers = {} if self._headers_of_call is None else self._headers_of_call()
        if data is not None:
            headers["Content-Type"] = "application/json"
        # encoded=True: the path is quoted already, and a second quoting would change names.
        url = URL(self._api + path, encoded=True)
        request = self._session.request(
            method, url, data=None if data is None else payload(data), headers=headers, allow_redirects=False
        )
        try:
            with backend_timing():
                async with request as answer:
                    return answer.status, await answer.read()
        except TimeoutError:
            raise ChromaTimeout("Chroma did not answer in time") from None
        except aiohttp.ClientConnectorError:  # a ClientOSError, too, but nothing was sent
            raise ChromaUnavailable(AWAY) from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            raise _ConnectionLost(AWAY) from None
        except aiohttp.ClientError:
            raise ChromaUnavailable(AWAY) from None


def _collection(found: CollectionAnswer) -> Collection:
    return Collection(
        found.id, found.name, found.metadata or {}, found.dimension, distance_of(found.configuration_json)
    )
