"""`GatewayClient`: the operations of a running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from io import BytesIO
from types import TracebackType
from typing import IO, Any, Final, Self
from urllib.parse import quote

import httpx
import msgspec

from ragstore.kit.decoding import NDJSON
from ragstore_gateway.commands.gateway_client.connection import GatewayConnection, GatewayFailed, decoded
from ragstore_gateway.commands.gateway_client.responses import (
    Accepted,
    Base,
    Completion,
    Descriptor,
    Documents,
    DocumentState,
    Health,
    Message,
    Models,
    Outcome,
    Outcomes,
    Passage,
    Passages,
    Progress,
    Text,
    WebPages,
)

PAGE: Final = 200


class BatchDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A document of a batch: a line of its request."""

    document_name: str
    content_type: str
    content: bytes
    metadata: Mapping[str, Any] = {}


class GatewayClient:
    """A running gateway. A context manager.

    Args:
        url: its address. The key is `RAGSTORE_GATEWAY_API_KEY` of the environment.
    """

    def __init__(self, url: str) -> None:
        self._connection = GatewayConnection(url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, trace)

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

    async def check_access(self) -> None:
        """Check that the gateway can be reached, and that the key may read.

        Raises:
            GatewayFailed: it cannot be reached, or the key may not.
        """
        await self._connection.call("GET", "/ragstore/rags/descriptors", params={"limit": 1})

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
                raise GatewayFailed(
                    f"There is {what} knowledge base '{name}': `ragstore-gateway kb list` lists the bases, and "
                    "`ragstore-gateway kb create NAME` creates one",
                    error.status,
                ) from None
            raise
        return _written(response)

    async def create(self, configuration: dict[str, Any]) -> Base:
        """Create a knowledge base."""
        return _written(await self._connection.call("POST", "/ragstore/rags", configuration))

    async def ingest(
        self, id: str, name: str, content: IO[bytes], media_type: str, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """Send a document. If the gateway's queue is full, it is sent again after `Retry-After`.

        Args:
            id: the knowledge base.
            name: the document's name.
            content: the document, which can be read repeatedly. It is sent in parts.
            metadata: the metadata of its chunks, which may have variables.

        Returns:
            The id of its ingestion.

        Raises:
            OSError: the document cannot be read.
        """
        params = {"documentName": name, **({"metadata": msgspec.json.encode(metadata).decode()} if metadata else {})}
        response = await self._connection.upload(f"/ragstore/rags/{id}/ingest", content, media_type, params)
        return decoded(response, Accepted).ingestion_id

    async def ingest_batch(self, id: str, documents: Sequence[BatchDocument]) -> list[Outcome]:
        """Send small documents with one request. If the gateway is busy, it is sent again after `Retry-After`.

        Args:
            id: the knowledge base.

        Returns:
            Their outcomes, in their order.
        """
        body = await asyncio.to_thread(lambda: b"".join(msgspec.json.encode(each) + b"\n" for each in documents))
        response = await self._connection.upload(f"/ragstore/rags/{id}/ingest/batch", BytesIO(body), NDJSON, {})
        return decoded(response, Outcomes).documents

    async def progress(self, id: str, ingestion_ids: Sequence[str]) -> Progress:
        """The states of ingestions, and what the documents of their base wait for.

        Args:
            id: the knowledge base.
            ingestion_ids: the ingestions, at most 100.
        """
        path = f"/ragstore/rags/{id}/ingestions"
        params = [("ingestionId", each) for each in ingestion_ids]
        return decoded(await self._connection.call("GET", path, params=params), Progress)

    async def documents(self, id: str) -> AsyncIterator[DocumentState]:
        """The documents of a knowledge base, by name.

        Args:
            id: the knowledge base.
        """
        index = 0
        while True:
            params = {"index": index, "limit": PAGE}
            page = decoded(
                await self._connection.call("GET", f"/ragstore/rags/{id}/documents", params=params), Documents
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

    async def query(self, id: str, question: str, parameters: dict[str, Any]) -> Sequence[Passage]:
        """The passages that are nearest to a question.

        Args:
            id: the knowledge base.
            parameters: `maxResults`, `minScore`, `where` and `earlier`.
        """
        body = {"query": question, **parameters}
        return decoded(await self._connection.call("POST", f"/ragstore/rags/{id}/query", body), Passages).results

    async def page(self, url: str) -> str:
        """The main text of a page of the web, which the gateway fetches. An HTML page becomes Markdown.

        Raises:
            GatewayFailed: the page cannot be read.
        """
        response = await self._connection.patient_call("POST", "/extract", {"urls": [url], "format": "markdown"})
        page = decoded(response, WebPages).items[0]
        if not page.ok:
            raise GatewayFailed(page.error)
        return page.text

    async def has_upstream(self) -> bool:
        """Whether the gateway has an upstream, and so models for chat."""
        return decoded(await self._connection.call("GET", "/health"), Health).upstream.configured

    async def models(self) -> list[str]:
        """The models for chat: the upstream's, and the `rag/` models."""
        return [model.id for model in decoded(await self._connection.call("GET", "/v1/models"), Models).data]

    async def chat(self, messages: Sequence[dict[str, object]], model: str) -> Message:
        """The reply of a model.

        Args:
            messages: the conversation, as OpenAI's API has it.
        """
        body = {"model": model, "messages": messages}
        completion = decoded(await self._connection.call("POST", "/v1/chat/completions", body), Completion)
        return completion.choices[0].message


def _written(response: httpx.Response) -> Base:
    resource = Descriptor(response.headers.get("X-Resource-URI", ""), "", "")
    try:
        return Base(resource.id, resource.version, decoded(response, dict[str, Any]))
    except ValueError:
        raise GatewayFailed("The gateway's response names no version: is it a ragstore-gateway?") from None
