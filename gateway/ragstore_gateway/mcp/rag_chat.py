"""`RagChat`: a chat with a `rag/` model, for a tool."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from litestar.types import HTTPScope, Message
from msgspec import Struct

from ragstore_gateway.api.inner_bodies import receiving
from ragstore_gateway.chat.annotations import UrlCitation
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import RAG_PREFIX, UNREADABLE
from ragstore_gateway.chat.calls import RagCall
from ragstore_gateway.errors import UpstreamFailed
from ragstore_gateway.mcp.schemas import Answer, CitedSource

PATH: Final = "/chat/completions"

_DROPPED: Final = frozenset({b"accept", b"content-length", b"content-type", b"content-encoding", b"last-event-id"})
"""Headers of the request that describe its own body and response. Headers of MCP are dropped, too."""


class _Annotation(Struct, frozen=True):
    url_citation: UrlCitation


class _ReplyMessage(Struct, frozen=True):
    content: str | None = None
    annotations: list[_Annotation] = []


class _Choice(Struct, frozen=True):
    message: _ReplyMessage = _ReplyMessage()


class _Completion(Struct, frozen=True):
    choices: list[_Choice] = []


_decode: Final = msgspec.json.Decoder(_Completion).decode


class RagChat:
    """Sends questions to `rag/` models, as `POST /v1/chat/completions` does: with its limits, traces and ledger.

    Args:
        chat: the parts of chat.
    """

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    async def reply_to(self, scope: HTTPScope, question: str, assistant: str) -> Answer:
        """The reply to a question.

        Args:
            scope: the request of the caller.
            assistant: name of an assistant; empty for a plain model.

        Raises:
            ServiceError: there is no reply; see `RagCall`.
        """
        self._chat.upstream.check()
        headers = [(name, value) for name, value in scope["headers"] if not _is_dropped(name)]
        inner: HTTPScope = {
            **scope,
            "path": f"/v1{PATH}",
            "raw_path": f"/v1{PATH}".encode(),
            "query_string": b"",
            "headers": [*headers, (b"content-type", b"application/json")],
        }
        if not assistant:
            assistant = await self._chat.models.default(RagCall(self._chat, PATH, b"").headers(inner))
        messages = [{"role": "user", "content": question}]
        body = msgspec.json.encode({"model": RAG_PREFIX + assistant, "messages": messages})
        response = _Response()
        await RagCall(self._chat, PATH, body)(inner, receiving(body), response.receive)
        return response.answer()


class _Response:
    """A whole response."""

    def __init__(self) -> None:
        self._status = HTTPStatus.OK.value
        self._headers: dict[bytes, bytes] = {}
        self._content = bytearray()

    async def receive(self, message: Message) -> None:
        """Receive an ASGI message of the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = dict(message["headers"])
        elif message["type"] == "http.response.body":
            self._content += message["body"]

    def answer(self) -> Answer:
        """The reply in it.

        Raises:
            UpstreamFailed: it is an error, or no completion.
        """
        if self._status != HTTPStatus.OK:
            raise UpstreamFailed(f"The model server responded with status {self._status}")
        try:
            choices = _decode(bytes(self._content)).choices
        except UNREADABLE:
            raise UpstreamFailed("The model server's response is not a completion") from None
        message = choices[0].message if choices else _ReplyMessage()
        cited = dict.fromkeys((each.url_citation.title, each.url_citation.url) for each in message.annotations)
        return Answer(
            message.content or "",
            [CitedSource(title, url) for title, url in cited],
            int(self._headers.get(b"x-rag-sources", b"0")),
            self._headers.get(b"x-rag-reason", b"").decode(),
        )


def _is_dropped(name: bytes) -> bool:
    return name in _DROPPED or name.startswith(b"mcp-")
