"""`ResponsesCall`: a request for a response, as a chat completion of the upstream."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import aiohttp
from litestar.types import HTTPScope, Scope
from multidict import CIMultiDict

from ragstore.kit.byte_budget import FREE_BYTES, reserve
from ragstore.kit.context import record_facts
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.value_count import MAX_VALUES, too_many_json_values
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import write_object
from ragstore_gateway.chat.caller import caller_of
from ragstore_gateway.chat.calls import REQUEST_COPIES, Call, RagCall, upstream_target
from ragstore_gateway.chat.rag_models import Augmentation
from ragstore_gateway.chat.relay import Rewriter
from ragstore_gateway.responses.chat_request import chat_request
from ragstore_gateway.responses.event_stream import ResponseStream
from ragstore_gateway.responses.file_search import NO_MATCH, FileSearch, FoundFiles
from ragstore_gateway.responses.objects import FileSearchCall, OutputItem, begun, new_id
from ragstore_gateway.responses.reply import Reply, plain_response
from ragstore_gateway.responses.request import RESULTS, ResponseRequest, read_request

TARGET: Final = "/chat/completions"
BOTH: Final = (
    "A model whose name begins with rag/ searches knowledge bases of its own: leave out file_search, or name a model "
    "of the upstream without the prefix"
)


class ResponsesCall(RagCall):
    """A response of a `rag/` model, or with `file_search`.

    Args:
        chat: the parts of chat.
        search: searches vector stores.
    """

    def __init__(self, chat: Chat, request: ResponseRequest, search: FileSearch) -> None:
        super().__init__(chat, TARGET, chat_request(request))
        self._request = request
        self._search = search
        self._found: FoundFiles | None = None

    async def augmented(self, scope: Scope, headers: CIMultiDict[str]) -> tuple[bytes, Augmentation]:
        """The body for the upstream with passages; see `RagCall`."""
        tool = self._request.file_search
        if tool is None:
            return await super().augmented(scope, headers)
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
        return ResponseStream(begun(self._request), self._items(), self._reply(added))

    def changed(self, content: bytes, added: Augmentation, scope: Scope) -> Generator[None, None, bytes]:
        """The plain response; see `RagCall`."""
        return plain_response(content, begun(self._request), self._items(), self._reply(added))

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


async def response_call(chat: Chat, scope: HTTPScope, body: bytes, search: FileSearch) -> Call:
    """The call of a request for a response. The upstream serves it itself if it needs no passages.

    Args:
        chat: the parts of chat.
        scope: the request.
        search: searches vector stores.

    Raises:
        InvalidRequest: it needs passages, and is not valid.
        Overloaded: there is no room for a large one in time.
    """
    call = Call(chat, "POST", upstream_target(scope), body)
    head = call.head
    record_facts(model=head.model)
    if not head.is_rag and not head.file_search:
        return call
    if head.is_rag and head.file_search:
        raise InvalidRequest.at("$.tools", BOTH)
    if len(body) > FREE_BYTES:
        await reserve(REQUEST_COPIES * len(body))
    if await chat.slices.run(too_many_json_values(body)):
        raise InvalidRequest(f"The body must have at most {MAX_VALUES:,} values")
    return ResponsesCall(chat, read_request(body), search)
