"""A running gateway, for the commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Annotated, Final, Self, TypeVar

import httpx
import msgspec
import numpy as np

from ragstore import settings as store_settings
from ragstore_client import AsyncClient
from ragstore_gateway.chat.body import RAG_PREFIX
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.settings import KEY_VARIABLE

T = TypeVar("T")

DEFAULT_URL: Final = "http://127.0.0.1:8090"
TIMEOUT_SECONDS: Final = 600.0


class GatewayFailed(Exception):
    """The gateway cannot be reached, or responds with an error. The message is one line for people."""


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
        text: its text.
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


class _Problem(msgspec.Struct):
    detail: str = ""


class RemoteGateway:
    """A running gateway.

    Args:
        url: its address.

    Attributes:
        store: the store: `RAGSTORE_URL` if it is set, else the gateway itself, which serves the store in its process.
    """

    def __init__(self, url: str) -> None:
        key = os.environ.get(KEY_VARIABLE, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS)
        store_key = os.environ.get(store_settings.KEY_VARIABLE, "") or key
        self.store = AsyncClient(os.environ.get(store_settings.URL_VARIABLE, "") or url, api_key=store_key or None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.store.aclose()
        await self._http.aclose()

    async def model(self) -> str:
        """The gateway's embedding model."""
        return (await self._health()).model

    async def can_chat(self) -> bool:
        """Whether the gateway has an upstream."""
        return (await self._health()).upstream.configured

    async def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed texts.

        Args:
            texts: the texts.
            kind: what they are.
        """
        content = await self._call("POST", "/embed", {"inputs": list(texts), "kind": kind})
        return np.asarray(_decoded(content, _Vectors).vectors, dtype=np.float32)

    async def extract(self, url: str) -> RemotePage:
        """The text of a page, which the gateway fetches.

        Args:
            url: its URL.
        """
        content = await self._call("POST", "/extract", [url])
        return _decoded(content, _Pages).items[0]

    async def read(self, path: str, kind: type[T]) -> T:
        """The resource of a path.

        Args:
            path: the path, with its query.
            kind: the type of the resource.
        """
        return _decoded(await self._call("GET", path), kind)

    async def send_text(self, path: str, text: str, kind: type[T]) -> T:
        """Post a text.

        Args:
            path: the path, with its query.
            text: the text.
            kind: the type of the response.
        """
        return _decoded(await self._call("POST", path, text), kind)

    async def chat(self, question: str, model: str) -> str:
        """Ask a model, with retrieval if its name begins with `rag/`.

        Args:
            question: the question.
            model: the model.

        Returns:
            The reply.
        """
        body = {"model": model, "messages": [{"role": "user", "content": question}]}
        completion = _decoded(await self._call("POST", "/v1/chat/completions", body), _Completion)
        return completion.choices[0].message.content or ""

    async def rag_model(self) -> str:
        """The first model with retrieval.

        Raises:
            GatewayFailed: there is none.
        """
        models = _decoded(await self._call("GET", "/v1/models"), _Models).data
        found = next((model.id for model in models if model.id.startswith(RAG_PREFIX)), "")
        if not found:
            raise GatewayFailed("The upstream has no model")
        return found

    async def _health(self) -> _Health:
        return _decoded(await self._call("GET", "/health"), _Health)

    async def _call(self, method: str, path: str, body: object = None) -> bytes:
        try:
            if isinstance(body, str):
                response = await self._http.request(method, path, content=body, headers={"Content-Type": "text/plain"})
            else:
                response = await self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise GatewayFailed(
                f"The gateway at {self._http.base_url} cannot be reached: {type(error).__name__}"
            ) from None
        if response.is_success:
            return response.content
        try:
            detail = msgspec.json.decode(response.content, type=_Problem).detail
        except msgspec.MsgspecError:
            detail = ""
        raise GatewayFailed(f"{method} {path}: {response.status_code} {detail}".strip())


def _decoded(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.MsgspecError:
        raise GatewayFailed("The gateway's response has another form: is it a ragstore-gateway?") from None
