"""A running gateway, for the commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Final, Self

import msgspec
import numpy as np

from ragstore import settings as store_settings
from ragstore_client import AsyncClient
from ragstore_gateway.chat.body import RAG_PREFIX
from ragstore_gateway.commands.gateway_connection import GatewayConnection, GatewayFailed, decoded
from ragstore_gateway.embeddings.embedder import Kind, Vectors

DEFAULT_URL: Final = "http://127.0.0.1:8090"


class _Upstream(msgspec.Struct):
    configured: bool


class _Health(msgspec.Struct):
    model: str
    upstream: _Upstream


class _Vectors(msgspec.Struct):
    vectors: list[list[float]]


class RemotePage(msgspec.Struct):
    """A page that the gateway has read.

    Attributes:
        ok: whether there is one.
        error: why not.
    """

    ok: bool
    text: str = ""
    error: str = ""


class _Pages(msgspec.Struct):
    items: Annotated[list[RemotePage], msgspec.Meta(min_length=1)]


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: Annotated[list[_Choice], msgspec.Meta(min_length=1)]


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class RemoteGateway:
    """A running gateway.

    Args:
        url: its address.

    Attributes:
        connection: the connection to it.
        store: the store: `RAGSTORE_URL` if it is set, else the gateway itself, which serves the store in its process.
    """

    def __init__(self, url: str) -> None:
        self.connection = GatewayConnection(url)
        store_key = os.environ.get(store_settings.KEY_VARIABLE, "") or self.connection.key
        self.store = AsyncClient(os.environ.get(store_settings.URL_VARIABLE, "") or url, api_key=store_key or None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.aclose()
        await self.connection.__aexit__(kind, error, trace)

    async def model(self) -> str:
        """The gateway's embedding model."""
        return (await self._health()).model

    async def can_chat(self) -> bool:
        """Whether the gateway has an upstream."""
        return (await self._health()).upstream.configured

    async def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed texts.

        Args:
            kind: what they are.
        """
        content = await self.connection.call("POST", "/embed", {"inputs": list(texts), "kind": kind})
        return np.asarray(decoded(content, _Vectors).vectors, dtype=np.float32)

    async def extract(self, url: str) -> RemotePage:
        """The text of a page, which the gateway fetches."""
        return decoded(await self.connection.call("POST", "/extract", [url]), _Pages).items[0]

    async def chat(self, question: str, model: str) -> str:
        """Ask a model, with retrieval if its name begins with `rag/`.

        Returns:
            The reply.
        """
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        completion = decoded(await self.connection.call("POST", "/v1/chat/completions", body), _Completion)
        return completion.choices[0].message.content or ""

    async def rag_model(self) -> str:
        """The first model with retrieval.

        Raises:
            GatewayFailed: there is none.
        """
        models = decoded(await self.connection.call("GET", "/v1/models"), _Models).data
        found = next((model.id for model in models if model.id.startswith(RAG_PREFIX)), "")
        if not found:
            raise GatewayFailed("The upstream has no model")
        return found

    async def _health(self) -> _Health:
        return decoded(await self.connection.call("GET", "/health"), _Health)
