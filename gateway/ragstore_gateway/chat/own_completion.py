"""`OwnCompletion`: a completion that the gateway itself requests of the upstream, such as a rewritten question."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct
from multidict import CIMultiDict

from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import UNREADABLE
from ragstore_gateway.chat.headers import is_credential
from ragstore_gateway.chat.relay import read_all
from ragstore_gateway.chat.request_cost import send_counted
from ragstore_gateway.errors import UpstreamFailed

PATH: Final = "/chat/completions"
MAX_RESPONSE_BYTES: Final = 1024 * 1024

_KEPT: Final = "x-request-id"


class _Message(Struct, frozen=True):
    content: str | None = None


class _Choice(Struct, frozen=True):
    message: _Message = _Message()


class _Completion(Struct, frozen=True):
    choices: list[_Choice] = []


_decode: Final = msgspec.json.Decoder(_Completion).decode


class OwnCompletion:
    """Requests a completion for a chat. Its tokens are tokens of the caller's key.

    Args:
        chat: the parts of chat.
        headers: the headers of the chat's own request to the upstream, of which credentials are sent.
        model: the upstream's model.
        key_name: name of the caller's key; empty without keys.
    """

    def __init__(self, chat: Chat, headers: CIMultiDict[str], model: str, key_name: str) -> None:
        self._chat = chat
        self._headers = CIMultiDict(
            (name, value) for name, value in headers.items() if is_credential(name) or name.lower() == _KEPT
        )
        self._headers["Content-Type"] = "application/json"
        self._headers["Accept-Encoding"] = "identity"
        self._model = model
        self._key_name = key_name

    async def __call__(self, system: str, text: str) -> str:
        """The reply of the model; see `Complete`."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        body = msgspec.json.encode({"model": self._model, "messages": messages})
        with self._chat.cost(self._key_name, body) as cost:
            await cost.admit()
            response = await send_counted(self._chat.upstream, cost, "POST", PATH, self._headers, body, decompress=True)
            async with response:
                content = await read_all(response, MAX_RESPONSE_BYTES)
            await self._chat.slices.run(cost.feed(content))
        if response.status != HTTPStatus.OK:
            raise UpstreamFailed("The model server responded with an error")
        try:
            choices = _decode(content).choices
        except UNREADABLE:
            raise UpstreamFailed("The model server's response is not a completion") from None
        return choices[0].message.content or "" if choices else ""
