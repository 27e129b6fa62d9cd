"""A ragstore that is reached over its HTTP contract: what transfers ask of it, tried again where that makes sense."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_delay, wait_random_exponential
from yarl import URL

from ragstore.api.schemas import (
    Collection,
    CollectionCreated,
    CollectionPage,
    NewCollection,
    WriteResult,
)
from ragstore.kit.problems import Problem
from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.failures import TransferFailed

T = TypeVar("T")

MSGPACK: Final = "application/msgpack"
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 120.0
"""Longest wait for one answer. The service answers earlier, if only with 504."""

LATER: Final = frozenset({408, 429, 502, 503, 504})
"""Answers that mean "try again"."""


class ServiceFailed(TransferFailed):
    """The service did not do what it was asked.

    Args:
        address: the service's address.
        detail: what it says.
        status: its HTTP status; 0 when it did not answer.
        retry_after: after how many seconds trying again makes sense, where it tells.
    """

    def __init__(self, address: str, detail: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(f"{address}: {detail}")
        self.status = status
        self.retry_after = retry_after


class _Later(ServiceFailed):
    """Trying again makes sense."""


class _Page(msgspec.Struct, frozen=True):
    """A page of documents with their embeddings."""

    documents: list[Document]
    total: int | None


class _Body(msgspec.Struct, frozen=True):
    """Documents to write."""

    documents: Sequence[Document]


class Service:
    """A ragstore. Made by `connected`.

    Args:
        address: its address, such as `http://127.0.0.1:8080`.
        session: what requests go through.
        patience: for how many seconds a request is tried again.
    """

    def __init__(self, address: str, session: aiohttp.ClientSession, patience: float) -> None:
        self.address = address.rstrip("/")
        self._session = session
        self._patience = patience

    async def collections(self) -> list[Collection]:
        """All collections, by name."""
        return (await self._ask(CollectionPage, "GET", "/collections")).collections

    async def collection(self, name: str) -> CountedCollection:
        """A collection as it stands.

        Raises:
            TransferFailed: the service cannot count its documents, so it could not be read or written either.
        """
        found = await self._ask(Collection, "GET", _path(name))
        if found.count is None:
            raise TransferFailed(f"{self.address}: Collection '{name}' is damaged: Chroma cannot count its documents")
        return CountedCollection(found.name, found.metadata, found.count, found.dimension, found.distance)

    async def create(self, described: CountedCollection) -> bool:
        """Create a collection.

        Args:
            described: name, metadata and distance of it.

        Returns:
            False when there is one of that name.
        """
        body = NewCollection(described.name, dict(described.metadata), distance=described.distance)
        try:
            # An answer that was lost on its way would make the second attempt find the collection of the first.
            await self._ask(CollectionCreated, "POST", "/collections", body, repeatable=False)
        except ServiceFailed as failure:
            if failure.status == HTTPStatus.CONFLICT:
                return False
            raise
        return True

    async def page(self, name: str, offset: int, limit: int) -> tuple[list[Document], int]:
        """Documents in insertion order.

        Args:
            name: the collection.
            offset: documents to pass over.
            limit: most documents, 1000 or fewer.

        Returns:
            The documents, and how many the collection holds.
        """
        query = f"?include=embedding&limit={limit}&offset={offset}"
        page = await self._ask(_Page, "GET", f"{_path(name)}/documents{query}")
        return page.documents, page.total or 0

    async def documents(self, name: str, ids: Sequence[str]) -> dict[str, Document]:
        """Those of some documents that are there.

        Args:
            name: the collection.
            ids: 1000 ids or fewer.

        Returns:
            Documents by id.
        """
        body = {"ids": ids, "limit": len(ids), "include": ["embedding"], "total": False}
        page = await self._ask(_Page, "POST", f"{_path(name)}/documents/filter", body)
        return {document.id: document for document in page.documents}

    async def upsert(self, name: str, documents: Sequence[Document]) -> None:
        """Write documents, in as many requests as the service's limits make of them.

        Args:
            name: the collection.
            documents: one or more documents.
        """
        try:
            await self._ask(WriteResult, "PUT", f"{_path(name)}/documents", _Body(documents))
        except ServiceFailed as failure:
            if len(documents) == 1 or not _too_many(failure):
                raise
            half = len(documents) // 2
            await self.upsert(name, documents[:half])
            await self.upsert(name, documents[half:])

    async def _ask(self, kind: type[T], method: str, path: str, body: object = None, *, repeatable: bool = True) -> T:
        """One request, tried again while the service asks for that."""
        data = None if body is None else msgspec.msgpack.encode(body)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Later),
            wait=_wait,
            stop=stop_after_delay(self._patience),
            reraise=True,
        )
        answer: tuple[str, bytes] = await retrying(self._once, method, path, data, repeatable)
        content_type, content = answer
        try:
            if content_type == MSGPACK:
                return msgspec.msgpack.decode(content, type=kind)
            return msgspec.json.decode(content, type=kind)
        except (msgspec.MsgspecError, UnicodeError):
            raise ServiceFailed(self.address, "the answer is not that of a ragstore") from None

    async def _once(self, method: str, path: str, data: bytes | None, repeatable: bool) -> tuple[str, bytes]:
        """One request. Its answer's content type, and the answer."""
        headers = {"Accept": MSGPACK} if data is None else {"Accept": MSGPACK, "Content-Type": MSGPACK}
        url = URL(self.address + path, encoded=True)
        lost = _Later if repeatable else ServiceFailed
        try:
            async with self._session.request(method, url, data=data, headers=headers, allow_redirects=False) as answer:
                content = await answer.read()
        except TimeoutError:
            raise lost(self.address, "no answer in time") from None
        except aiohttp.ClientConnectorError as error:
            raise _Later(self.address, f"cannot be reached: {error.os_error.strerror or 'no connection'}") from None
        except aiohttp.ClientError as error:
            raise lost(self.address, f"the connection broke: {type(error).__name__}") from None
        if answer.status in LATER:
            raise _Later(self.address, _detail(answer.status, content), answer.status, _seconds(answer))
        if not 200 <= answer.status < 300:
            raise ServiceFailed(self.address, _detail(answer.status, content), answer.status)
        return answer.content_type, content


@asynccontextmanager
async def connected(address: str, key: str, patience: float) -> AsyncIterator[Service]:
    """A service, for a while. Nothing is asked of it yet.

    Args:
        address: its address.
        key: the key to show; empty means none.
        patience: for how many seconds a request is tried again.

    Yields:
        The service.

    Raises:
        TransferFailed: the address is none, or the key holds what no header can.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise TransferFailed("An address is such as http://127.0.0.1:8080, without user, password and query")
    if not key.isprintable() or not key.isascii():
        raise TransferFailed("The key holds characters that no key has")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS, connect=CONNECT_SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, auto_decompress=True) as session:
        yield Service(address, session, patience)


def _path(name: str) -> str:
    return f"/collections/{quote(name, safe='')}"


def _too_many(failure: ServiceFailed) -> bool:
    """Whether fewer documents may pass: the body is too large, or holds more documents than fit in one write."""
    return failure.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or (
        failure.status == HTTPStatus.BAD_REQUEST and "documents fit in one request" in str(failure)
    )


def _detail(status: int, content: bytes) -> str:
    try:
        return f"{msgspec.json.decode(content, type=Problem).detail} ({status})"
    except (msgspec.MsgspecError, UnicodeError):
        return f"answered with {status}"


def _seconds(answer: aiohttp.ClientResponse) -> float | None:
    try:
        return float(answer.headers.get("Retry-After", ""))
    except ValueError:
        return None


_backoff = wait_random_exponential(multiplier=0.2, max=10)


def _wait(state: RetryCallState) -> float:
    """How long to wait: as the service says, and a little more each time."""
    failure = state.outcome.exception() if state.outcome else None
    told = failure.retry_after if isinstance(failure, ServiceFailed) and failure.retry_after else 0.0
    return max(told, _backoff(state))
