"""The calls under `/v1` that reach the upstream, as ASGI applications."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import cached_property
from http import HTTPStatus
from typing import Final, TypedDict
from urllib.parse import unquote

import aiohttp
import msgspec
from litestar.types import HTTPScope, Receive, Scope, Send
from msgspec import Raw, Struct
from multidict import CIMultiDict

from ragstore.kit.byte_budget import FREE_BYTES, give_back, reserve
from ragstore.kit.context import current_request, record_facts, renew_deadline
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import CallerGone, FieldError, InvalidRequest, NotFound, Unauthorized
from ragstore.kit.time_slices import rest, run_whole
from ragstore.kit.value_count import MAX_VALUES, too_many_json_values
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.body import (
    RAG_PREFIX,
    UNREADABLE,
    Head,
    encode_raw,
    form_has_rag_model,
    form_requests_stream,
    read_fields,
    read_head,
    write_object,
)
from ragstore_gateway.chat.caller import caller_of
from ragstore_gateway.chat.completion import completed
from ragstore_gateway.chat.conversation import Conversation, read_conversation
from ragstore_gateway.chat.error_format import FROM_UPSTREAM
from ragstore_gateway.chat.event_stream import EventStream
from ragstore_gateway.chat.headers import request_headers, response_headers
from ragstore_gateway.chat.names import check_name, check_names
from ragstore_gateway.chat.own_completion import OwnCompletion
from ragstore_gateway.chat.rag_models import Augmentation
from ragstore_gateway.chat.relay import Rewriter, is_event_stream, read_all, relay
from ragstore_gateway.chat.request_cost import RequestCost, send_counted
from ragstore_gateway.chat.shown_passage import requests_passages
from ragstore_gateway.chat.usage import readable_encodings
from ragstore_gateway.errors import RetrievalFailed
from ragstore_gateway.keys import key_of

_V1: Final = "/v1"
RESIZED: Final = frozenset({b"content-length", b"content-encoding"})
"""Headers of a response that a changed body makes wrong."""

RAG_ELSEWHERE: Final = (
    "Only POST /v1/chat/completions and POST /v1/responses serve models whose names begin with rag/: send the request "
    "there, or name a model of the upstream without the prefix"
)
NO_FILE_SEARCH: Final = (
    "This path has no tool file_search: use it in POST /v1/responses, or use a model whose name begins with rag/, or "
    "POST /v1/vector_stores/{vector_store_id}/search"
)


class _Format(Struct, frozen=True):
    type: str = ""


_FORMAT: Final = msgspec.json.Decoder(_Format)


class _Shown(TypedDict):
    """The parts of retrieval that a response shows."""

    annotate: bool
    by_number: bool
    debug: dict[str, object] | None
    list_sources: bool
    show_passages: bool


REQUEST_COPIES: Final = 2
"""Maximum number of copies of a request's body that exist while it is changed: the messages, and the new body."""

RESPONSE_COPIES: Final = 6
"""The same for a plain response: as received, renamed, its message, choice and choices with annotations, as sent."""


def upstream_target(scope: HTTPScope) -> str:
    """The path and the query of a request below the upstream's base URL, as the caller sent them.

    Raises:
        NotFound: the path leaves `/v1`, or has characters that a URL cannot have.
    """
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path, query = raw.decode("latin-1"), scope["query_string"].decode("latin-1")
    inner = unquote(unquote(path)).replace("\\", "/").split("/")
    if not path.startswith(_V1 + "/") or ".." in inner or "." in inner or not (path + query).isascii():
        raise NotFound("There is no such path")
    return path.removeprefix(_V1) + (f"?{query}" if query else "")


class Call:
    """A request that is passed through.

    Args:
        chat: the parts of chat.
        target: path and query below the upstream's base URL.
        body: the caller's body.
    """

    def __init__(self, chat: Chat, method: str, target: str, body: bytes) -> None:
        self.chat = chat
        self.method = method
        self.target = target
        self.body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond."""
        chat = self.chat
        self.check(scope)
        chat.upstream.check()
        renew_deadline(chat.budget_seconds)
        key = key_of(scope)
        if key is not None:
            record_facts(key=key.name)
        # Other requests read or change what the upstream keeps.
        generates = self.method == "POST"
        with chat.cost("" if key is None else key.name, self.body, generates=generates) as cost:
            # Before the tokens: a stream that is refused costs none.
            if chat.limits_streams and self.requests_stream(scope):
                cost.count_stream()
            await cost.admit()
            try:
                async with CallerWatch(receive, lambda: chat.is_authorized(key)) as watch:
                    await self.respond(scope, send, watch, cost)
            except (CallerGone, Unauthorized):
                # A response that has begun cannot become an error.
                if FROM_UPSTREAM not in scope:
                    raise

    @cached_property
    def head(self) -> Head:
        """The fields of the body that the gateway reads.

        Raises:
            InvalidRequest: the body may be JSON, cannot be read, and is large.
        """
        return read_head(self.body) if self.body else Head()

    def check(self, scope: Scope) -> None:
        """Check that the upstream can do what is requested.

        Some upstreams accept any model and ignore unknown tools: the caller would not notice the lack of passages.

        Args:
            scope: the scope of the request.

        Raises:
            InvalidRequest: the request needs the gateway's own retrieval, which this path does not have.
        """
        content_type, query = _content_type(scope), scope["query_string"]
        if self.head.is_rag or form_has_rag_model(content_type, query, self.body):
            raise InvalidRequest(RAG_ELSEWHERE, [FieldError("$.model", RAG_ELSEWHERE)])
        self.check_tools()

    def check_tools(self) -> None:
        """Check that no tool needs files of the gateway.

        Raises:
            InvalidRequest: one does.
        """
        if self.head.file_search:
            raise InvalidRequest(NO_FILE_SEARCH, [FieldError("$.tools", NO_FILE_SEARCH)])

    async def respond(self, scope: Scope, send: Send, watch: CallerWatch, cost: RequestCost) -> None:
        """Send the request, and relay the response."""
        headers = self.headers(scope)
        if cost.counts_tokens and "Accept-Encoding" in headers:
            headers["Accept-Encoding"] = readable_encodings(headers.popall("Accept-Encoding"))
        response = await self.send(headers, self.body, cost)
        own = response_headers(response.raw_headers)
        await relay(response, own, scope, send, watch, self.chat.slices, meter=cost)

    async def send(
        self, headers: CIMultiDict[str], body: bytes, cost: RequestCost, *, decompress: bool = False
    ) -> aiohttp.ClientResponse:
        """Send a request to the upstream, and count it.

        Args:
            cost: the cost of the caller's request.
            decompress: whether to decompress the response's body.

        Raises:
            ServiceError: there is no response, or the key has too many streams; see `send_counted`.
        """
        upstream = self.chat.upstream
        return await send_counted(upstream, cost, self.method, self.target, headers, body, decompress=decompress)

    def requests_stream(self, scope: Scope) -> bool:
        """Whether the request is for a stream, as far as the gateway knows its format."""
        query = scope["query_string"]
        return form_requests_stream(_content_type(scope), query, self.body) or self.head.stream

    def headers(self, scope: Scope) -> CIMultiDict[str]:
        """The headers of the request to the upstream."""
        request = current_request()
        return request_headers(
            scope["headers"],
            request_id="" if request is None else request.request_id,
            authorization=self.chat.upstream.authorization,
            forward_key=self.chat.settings.forward_key,
        )


class RagCall(Call):
    """A chat with a `rag/` model.

    Args:
        chat: the parts of chat.
        target: path and query below the upstream's base URL.
        body: the caller's body.
    """

    def __init__(self, chat: Chat, target: str, body: bytes) -> None:
        super().__init__(chat, "POST", target, body)
        self._is_json_requested = False

    def check(self, scope: Scope) -> None:
        """Check the name of the model, the tools, and the header of passages; see `Call`."""
        check_name(self.head.model, "$.model")
        self.check_tools()
        requests_passages(scope["headers"])

    async def respond(self, scope: Scope, send: Send, watch: CallerWatch, cost: RequestCost) -> None:
        """Retrieve, send the request with context, and relay the response."""
        headers = self.headers(scope)
        # The response is changed, so it must be readable.
        headers["Accept-Encoding"] = "identity"
        body, added = await self.augmented(scope, headers)
        response = await self.send(headers, body, cost, decompress=True)
        # The response may take long, and the upstream has the copies now.
        del body
        give_back(self._copied_bytes)
        await self._relay(response, added, scope, send, watch, cost)

    @property
    def _copied_bytes(self) -> int:
        """Number of bytes of the copies that are made of a large body."""
        return REQUEST_COPIES * len(self.body) if len(self.body) > FREE_BYTES else 0

    async def augmented(self, scope: Scope, headers: CIMultiDict[str]) -> tuple[bytes, Augmentation]:
        """The body for the upstream, and what was added to it, without the messages."""
        await reserve(self._copied_bytes)
        if self._copied_bytes:
            # The head was read just before, and each reading of a large body takes its time.
            await rest()
        steps = self.read()
        fields, conversation = await self.chat.slices.run(steps) if self._copied_bytes else run_whole(steps)
        # A list of sources behind it would make JSON unreadable.
        self._is_json_requested = _requests_json(fields.get("response_format"))
        caller = caller_of(scope, fields, self.chat.settings)
        if caller.conversation_id:
            record_facts(conversation=caller.conversation_id)
        rag_model, upstream_model = await self.chat.models.find(self.head.model.removeprefix(RAG_PREFIX), headers)
        if conversation is None:
            added = rag_model.without_question(fields.get("messages"))
            metrics.retrieval(added.reason)
        else:
            complete = OwnCompletion(self.chat, headers, upstream_model, caller.key)
            added = await rag_model.augment(conversation, caller, complete)
        record_facts(upstream_model=upstream_model, sources=added.source_count)
        if added.reason:
            record_facts(reason=added.reason)
        if added.failed and self.chat.settings.on_retrieval_failure == "fail":
            raise RetrievalFailed(f"The passages for the question could not be retrieved: {added.reason}")
        fields["model"] = encode_raw(upstream_model)
        if added.messages is not None:
            fields["messages"] = added.messages
        if self._copied_bytes:
            await rest()
        return write_object(fields), replace(added, messages=None)

    def read(self) -> Generator[None, None, tuple[dict[str, Raw], Conversation | None]]:
        """The fields of the body and the question in it, in steps.

        Raises:
            InvalidRequest: it is not an object, has too many values, or a name is too long.
        """
        if (yield from too_many_json_values(self.body)):
            raise InvalidRequest(f"The body must have at most {MAX_VALUES:,} values")
        try:
            fields = read_fields(self.body)
        except ValueError:
            raise InvalidRequest("The body must be a JSON object") from None
        check_names(fields)
        yield
        return fields, (yield from read_conversation(fields.get("messages")))

    async def _relay(
        self,
        response: aiohttp.ClientResponse,
        added: Augmentation,
        scope: Scope,
        send: Send,
        watch: CallerWatch,
        cost: RequestCost,
    ) -> None:
        """Send the upstream's response, changed if it is a reply."""
        settings, slices = self.chat.settings, self.chat.slices
        headers = response_headers(response.raw_headers, without=RESIZED)
        headers.append((b"x-rag-sources", str(added.source_count).encode()))
        if added.reason:
            headers.append((b"x-rag-reason", added.reason.encode()))
        if response.status == HTTPStatus.OK and is_event_stream(response):
            rewriter = self.rewriter(added, scope)
            await relay(response, headers, scope, send, watch, slices, rewriter=rewriter, meter=cost)
        elif response.status == HTTPStatus.OK and self.is_completion(response):
            content = await read_all(response, settings.max_body_bytes, copies=RESPONSE_COPIES)
            await slices.run(cost.feed(content))
            content = await slices.run(self.changed(content, added, scope))
            await send_body(scope, send, response.status, headers, content)
        else:
            await relay(response, headers, scope, send, watch, slices, meter=cost)

    def is_completion(self, response: aiohttp.ClientResponse) -> bool:
        """Whether a plain response of the upstream with the status 200 is one that `changed` changes."""
        return response.content_type == "application/json"

    def rewriter(self, added: Augmentation, scope: Scope) -> Rewriter:
        """Changes the upstream's stream.

        Args:
            added: what retrieval has added to the request.
        """
        return EventStream(encode_raw(self.head.model), added.passages, **self._shown(added, scope))

    def changed(self, content: bytes, added: Augmentation, scope: Scope) -> Generator[None, None, bytes]:
        """The upstream's plain response, changed in steps.

        Args:
            added: what retrieval has added to the request.
        """
        return completed(content, encode_raw(self.head.model), added.passages, **self._shown(added, scope))

    def _shown(self, added: Augmentation, scope: Scope) -> _Shown:
        settings = self.chat.settings
        return {
            "annotate": settings.rag_annotations,
            "by_number": settings.rag_annotation_order == "number",
            "debug": added.debug if settings.rag_debug else None,
            "list_sources": added.list_sources and not self._is_json_requested,
            "show_passages": requests_passages(scope["headers"]),
        }


def _requests_json(response_format: Raw | None) -> bool:
    """Whether a reply is to be JSON.

    Args:
        response_format: OpenAI's field of this name.
    """
    try:
        return response_format is not None and _FORMAT.decode(response_format).type not in ("", "text")
    except UNREADABLE:
        return False


async def send_body(scope: Scope, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a whole response."""
    scope[FROM_UPSTREAM] = True  # type: ignore[typeddict-unknown-key]  # a key of our own
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def completion_call(chat: Chat, scope: HTTPScope, body: bytes) -> Call:
    """The call of a request for a chat completion."""
    target = upstream_target(scope)
    if len(body) > FREE_BYTES:
        await rest()  # its pieces were joined just before
    head = read_head(body)
    record_facts(model=head.model)
    call = RagCall(chat, target, body) if head.is_rag else Call(chat, "POST", target, body)
    call.head = head
    return call


def _content_type(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return given.decode("latin-1").lower()
