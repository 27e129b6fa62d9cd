"""The calls for models: the upstream's list with `rag/` models, and one model."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from litestar.types import Scope, Send
from msgspec import Raw

from ragstore.kit.disconnect import CallerWatch
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import RAG_PREFIX, encode_raw, read_fields, write_fields
from ragstore_gateway.chat.calls import RESIZED, Call, send_body
from ragstore_gateway.chat.headers import response_headers
from ragstore_gateway.chat.models import read_models
from ragstore_gateway.chat.names import check_name
from ragstore_gateway.chat.relay import read_all, relay
from ragstore_gateway.chat.request_cost import RequestCost

_MODELS: Final = "/models/"


class ListModels(Call):
    """`GET /v1/models`."""

    async def respond(self, scope: Scope, send: Send, watch: CallerWatch, cost: RequestCost) -> None:
        """Relay the upstream's list, with `rag/` models added."""
        headers = self.headers(scope)
        headers["Accept-Encoding"] = "identity"
        response = await self.send(headers, b"", cost, decompress=True)
        own = response_headers(response.raw_headers, without=RESIZED)
        if response.status != HTTPStatus.OK:
            await relay(response, own, scope, send, watch, self.chat.slices, meter=cost)
            return
        content = await read_all(response, self.chat.settings.max_body_bytes)
        await send_body(scope, send, response.status, own, await self._with_rag(content))

    async def _with_rag(self, content: bytes) -> bytes:
        """The list with `rag/` models; unchanged if it is no list of models."""
        try:
            entries = read_models(content)
            fields = read_fields(content)
        except ValueError:
            return content
        own = [Raw(write_fields(entry.fields)) for entry in entries]
        fields["data"] = encode_raw([*own, *await self.chat.models.with_rag(entries)])
        return write_fields(fields)


class GetRagModel(Call):
    """`GET /v1/models/rag/...`.

    Args:
        chat: the parts of chat.
        target: path and query below the upstream's base URL.
        name: the model's name without the prefix.
    """

    def __init__(self, chat: Chat, target: str, name: str) -> None:
        super().__init__(chat, "GET", target, b"")
        self.name = name

    async def respond(self, scope: Scope, send: Send, watch: CallerWatch, cost: RequestCost) -> None:
        """Send the model."""
        entry = await self.chat.models.entry(self.name, self.headers(scope))
        await send_body(scope, send, HTTPStatus.OK, [(b"content-type", b"application/json")], bytes(entry))


def model_call(chat: Chat, target: str) -> Call:
    """The call of a request for one model.

    Args:
        chat: the parts of chat.
        target: path and query below the upstream's base URL.

    Raises:
        InvalidRequest: the name of a `rag/` model is too long.
    """
    name = unquote(target.partition("?")[0].removeprefix(_MODELS))
    if name.startswith(RAG_PREFIX):
        check_name(name, "$.model")
        return GetRagModel(chat, target, name.removeprefix(RAG_PREFIX))
    return Call(chat, "GET", target, b"")
