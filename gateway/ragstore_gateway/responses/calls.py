"""`ResponsesCall`: a request for a response, as a chat completion of the upstream."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import aiohttp
import msgspec
from litestar.types import HTTPScope, Message, Scope, Send
from msgspec import Raw
from multidict import CIMultiDict

from ragstore.kit.byte_budget import FREE_BYTES, reserve
from ragstore.kit.context import record_facts
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.value_count import MAX_VALUES, too_many_json_values
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import encode_raw, write_object
from ragstore_gateway.chat.caller import caller_of
from ragstore_gateway.chat.calls import REQUEST_COPIES, Call, RagCall, upstream_target
from ragstore_gateway.chat.rag_models import Augmentation
from ragstore_gateway.chat.relay import Rewriter
from ragstore_gateway.chat.request_cost import RequestCost
from ragstore_gateway.keys import key_name_of
from ragstore_gateway.responses.chat_request import chat_request
from ragstore_gateway.responses.event_stream import ResponseStream
from ragstore_gateway.responses.file_search import NO_MATCH, FileSearch, FoundFiles
from ragstore_gateway.responses.objects import FileSearchCall, OutputItem, Response, begun, new_id
from ragstore_gateway.responses.reply import Reply, plain_response
from ragstore_gateway.responses.request import RESULTS, ResponseRequest, read_request
from ragstore_gateway.responses.stored_responses import NO_TURNS, OWN_ID, EarlierTurns, StoredResponses

TARGET: Final = "/chat/completions"
BOTH: Final = (
    "A model whose name begins with rag/ searches knowledge bases of its own: leave out file_search, or name a model "
    "of the upstream without the prefix"
)


class ResponsesCall(RagCall):
    """A response of a `rag/` model, with `file_search`, or in a conversation that the gateway has stored.

    Args:
        chat: the parts of chat.
        search: searches vector stores.
        responses: the stored responses.
        earlier: the conversation that the request continues.
        store: whether to store the response.
    """

    def __init__(
        self,
        chat: Chat,
        request: ResponseRequest,
        search: FileSearch,
        responses: StoredResponses,
        earlier: EarlierTurns,
        *,
        store: bool,
    ) -> None:
        super().__init__(chat, TARGET, chat_request(request, earlier.items))
        self._request = request
        self._search = search
        self._responses = responses
        self._earlier = earlier
        self._begun = begun(request, store=store)
        self._found: FoundFiles | None = None
        self._stream: ResponseStream | None = None
        self._ended: Response | None = None

    async def respond(self, scope: Scope, send: Send, watch: CallerWatch, cost: RequestCost) -> None:
        """Retrieve, send the request, and relay the response, which is stored before its end is sent."""
        key = key_name_of(scope)
        is_stored = not self._begun.store

        async def send_stored(message: Message) -> None:
            nonlocal is_stored
            ended = self._ended if self._stream is None else self._stream.ended
            if ended is not None and not is_stored:
                is_stored = True
                content = msgspec.json.encode(ended)
                await self._responses.write(ended.id, key, self._earlier, self._input_items(), content)
            await send(message)

        await super().respond(scope, send_stored, watch, cost)

    async def augmented(self, scope: Scope, headers: CIMultiDict[str]) -> tuple[bytes, Augmentation]:
        """The body for the upstream with passages; see `RagCall`."""
        tool = self._request.file_search
        if tool is None:
            if self.head.is_rag:
                return await super().augmented(scope, headers)
            return self.body, Augmentation()
        fields, conversation = await self.chat.slices.run(self.read())
        if conversation is None:
            return self.body, Augmentation(reason="no_question")
        caller = caller_of(scope, fields, self.chat.settings)
        found = self._found = await self._search.find(tool, conversation.question, caller.bases, caller.variables)
        fields["messages"] = found.messages(conversation)
        added = Augmentation(passages=found.passages, reason="" if found.passages else NO_MATCH)
        metrics.retrieval(added.reason or "used")
        record_facts(upstream_model=self._request.model, sources=added.source_count)
        return write_object(fields), added

    def is_completion(self, response: aiohttp.ClientResponse) -> bool:
        """A response is made of whatever the upstream sends with the status 200; see `RagCall`."""
        return True

    def rewriter(self, added: Augmentation, scope: Scope) -> Rewriter:
        """Makes the events of a response; see `RagCall`."""
        self._stream = ResponseStream(self._begun, self._items(), self._reply(added))
        return self._stream

    def changed(self, content: bytes, added: Augmentation, scope: Scope) -> Generator[None, None, bytes]:
        """The plain response; see `RagCall`."""
        self._ended = yield from plain_response(content, self._begun, self._items(), self._reply(added))
        return msgspec.json.encode(self._ended)

    def _input_items(self) -> list[Raw]:
        """The items of the request."""
        given = self._request.input
        if not isinstance(given, str):
            return given
        return [encode_raw({"type": "message", "role": "user", "content": given})]

    def _reply(self, added: Augmentation) -> Reply:
        text = self._request.text
        return Reply(
            added.passages,
            () if self._found is None else self._found.results,
            annotate=self.chat.settings.rag_annotations,
            # A list of sources behind it would make JSON unreadable.
            list_sources=added.list_sources and (text is None or text.format.type == "text"),
        )

    def _items(self) -> list[OutputItem]:
        """The items before the reply."""
        if self._found is None:
            return []
        shown = self._found.results if RESULTS in (self._request.include or ()) else None
        return [FileSearchCall(new_id("fs"), [self._found.question], "completed", shown)]


async def response_call(
    chat: Chat, scope: HTTPScope, body: bytes, search: FileSearch, responses: StoredResponses
) -> Call:
    """The call of a request for a response. The upstream serves it if it needs neither passages nor a stored response.

    Args:
        chat: the parts of chat.
        scope: the request.
        search: searches vector stores.
        responses: the stored responses.

    Raises:
        InvalidRequest: it needs passages or a stored response, and is not valid.
        Overloaded: there is no room for a large one in time.
    """
    call = Call(chat, "POST", upstream_target(scope), body)
    head = call.head
    record_facts(model=head.model)
    if not head.is_rag and not head.file_search and not OWN_ID.fullmatch(head.previous_response):
        return call
    if head.is_rag and head.file_search:
        raise InvalidRequest.at("$.tools", BOTH)
    if len(body) > FREE_BYTES:
        await reserve(REQUEST_COPIES * len(body))
    if await chat.slices.run(too_many_json_values(body)):
        raise InvalidRequest(f"The body must have at most {MAX_VALUES:,} values")
    request = read_request(body)
    previous = request.previous_response_id
    earlier = await responses.earlier(previous, key_name_of(scope)) if previous else NO_TURNS
    return ResponsesCall(chat, request, search, responses, earlier, store=responses.stores(body, request.store))
