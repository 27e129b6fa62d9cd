"""Knowledge bases of a running gateway, over its routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from ragstore_gateway.commands.gateway_connection import GatewayConnection, GatewayFailed, checked, decoded, problem
from ragstore_gateway.extraction.kept_text import KeptText

PAGE: Final = 200
QUEUE_FULL: Final = "queue_full"
MAX_REPETITIONS: Final = 60
"""Number of times that a document is sent again to a gateway whose queue is full."""

MAX_WAIT_SECONDS: Final = 30.0


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """A knowledge base in a list."""

    resource: str
    name: str
    description: str

    @property
    def id(self) -> str:
        """Its id."""
        return self.resource.rpartition("/")[2].partition("?")[0]

    @property
    def version(self) -> int:
        """Its current version."""
        return int(self.resource.rpartition("version=")[2])


class Base(msgspec.Struct, frozen=True):
    """A version of a knowledge base.

    Attributes:
        configuration: its configuration, as the gateway returns it.
    """

    id: str
    version: int
    configuration: dict[str, Any]


class Accepted(msgspec.Struct, frozen=True, rename="camel"):
    """An accepted document."""

    ingestion_id: str


class State(msgspec.Struct, frozen=True, rename="camel"):
    """The state of an ingestion."""

    status: str
    chunks: int
    progress: float
    unchanged: bool

    @property
    def has_ended(self) -> bool:
        """Whether it has completed or failed."""
        return self.status not in {"pending", "processing"}


class DocumentState(msgspec.Struct, frozen=True):
    """A document of a knowledge base."""

    name: str
    status: str
    chunks: int


class Text(KeptText, frozen=True, kw_only=True):
    """The text of a document."""

    name: str


class Hit(msgspec.Struct, frozen=True):
    """A passage that was found."""

    id: str
    text: str
    score: float
    metadata: dict[str, str | int | float | bool]


class _Documents(msgspec.Struct):
    documents: list[DocumentState]


class _Hits(msgspec.Struct):
    results: list[Hit]


class KnowledgeBases:
    """The knowledge bases of a running gateway.

    Args:
        connection: the connection to it.
    """

    def __init__(self, connection: GatewayConnection) -> None:
        self._connection = connection

    async def descriptors(self, part: str = "") -> AsyncIterator[Descriptor]:
        """The knowledge bases, newest first.

        Args:
            part: part of their names or descriptions.
        """
        index = 0
        while True:
            params: dict[str, str | int] = {"filter": part, "index": index, "limit": PAGE}
            page = decoded(
                await self._connection.call("GET", "/ragstore/rags/descriptors", params=params), list[Descriptor]
            )
            for descriptor in page:
                yield descriptor
            if len(page) < PAGE:
                return
            index += 1

    async def find(self, name: str, version: int = 0) -> Base:
        """A knowledge base.

        Args:
            name: its name, or its id.
            version: a version; 0 for the current one.

        Raises:
            GatewayFailed: there is none.
        """
        id = name
        async for descriptor in self.descriptors(name):
            if descriptor.name == name:
                id = descriptor.id
                break
        try:
            response = await self._connection.call(
                "GET", f"/ragstore/rags/{quote(id, safe='')}", params={"version": version}
            )
        except GatewayFailed as error:
            if error.status == httpx.codes.NOT_FOUND:
                what = f"no version {version} of" if version else "no"
                raise GatewayFailed(f"There is {what} knowledge base '{name}'", error.status) from None
            raise
        return _written(response)

    async def create(self, configuration: dict[str, Any]) -> Base:
        """Create a knowledge base."""
        return _written(await self._connection.call("POST", "/ragstore/rags", configuration))

    async def ingest(self, id: str, name: str, content: bytes, media_type: str) -> str:
        """Send a document.

        Args:
            id: the knowledge base.
            name: the document's name.

        Returns:
            The id of its ingestion.
        """
        path = f"/ragstore/rags/{id}/ingest"
        params = {"documentName": name}
        response = await self._connection.upload(path, content, media_type, params)
        for _ in range(MAX_REPETITIONS):
            if response.status_code != httpx.codes.TOO_MANY_REQUESTS and problem(response).code != QUEUE_FULL:
                break
            await asyncio.sleep(_seconds(response.headers.get("Retry-After", "")))
            response = await self._connection.upload(path, content, media_type, params)
        return decoded(checked(response), Accepted).ingestion_id

    async def state(self, id: str, ingestion_id: str) -> State:
        """The state of an ingestion.

        Args:
            id: the knowledge base.
            ingestion_id: the ingestion.
        """
        return decoded(
            await self._connection.call("GET", f"/ragstore/rags/{id}/ingestion/{ingestion_id}/status"), State
        )

    async def documents(self, id: str) -> AsyncIterator[DocumentState]:
        """The documents of a knowledge base, by name.

        Args:
            id: the knowledge base.
        """
        index = 0
        while True:
            params = {"index": index, "limit": PAGE}
            page = decoded(
                await self._connection.call("GET", f"/ragstore/rags/{id}/documents", params=params), _Documents
            )
            for document in page.documents:
                yield document
            if len(page.documents) < PAGE:
                return
            index += 1

    async def text(self, id: str, name: str) -> Text:
        """The text of a document.

        Args:
            id: the knowledge base.
            name: the document's name.
        """
        return decoded(await self._connection.call("GET", f"/ragstore/rags/{id}/texts/{quote(name)}"), Text)

    async def query(self, id: str, question: str, parameters: dict[str, Any]) -> Sequence[Hit]:
        """The passages that are nearest to a question.

        Args:
            id: the knowledge base.
            parameters: `maxResults`, `minScore`, `where` and `earlier`.
        """
        body = {"query": question, **parameters}
        return decoded(await self._connection.call("POST", f"/ragstore/rags/{id}/query", body), _Hits).results


def _written(response: httpx.Response) -> Base:
    resource = Descriptor(response.headers.get("X-Resource-URI", ""), "", "")
    try:
        return Base(resource.id, resource.version, decoded(response, dict[str, Any]))
    except ValueError:
        raise GatewayFailed("The gateway's response names no version: is it a ragstore-gateway?") from None


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), MAX_WAIT_SECONDS) if retry_after.isdecimal() else 1.0
