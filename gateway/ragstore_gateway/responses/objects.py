"""The response and its items, as OpenAI's API has them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct

from ragstore_gateway.responses.request import Object, ResponseRequest, given

Status: TypeAlias = Literal["in_progress", "completed", "incomplete", "searching"]


class UrlCitation(Struct, frozen=True, tag="url_citation"):
    """A citation of a passage of a `rag/` model."""

    url: str
    title: str
    start_index: Annotated[int, Meta(description="Where the citation begins in the text, in code points.")]
    end_index: int
    passage_id: str


class FileCitation(Struct, frozen=True, tag="file_citation"):
    """A citation of a file of a vector store."""

    file_id: str
    filename: str
    index: Annotated[int, Meta(description="Where the citation begins in the text, in code points.")]


Annotation: TypeAlias = UrlCitation | FileCitation


class OutputText(Struct, frozen=True, tag="output_text"):
    """A text of a reply."""

    text: str
    annotations: Sequence[Annotation] = ()
    logprobs: Sequence[Object] = ()


class OutputMessage(Struct, frozen=True, tag="message"):
    """A reply."""

    id: str
    status: Status
    content: Sequence[OutputText] = ()
    role: Literal["assistant"] = "assistant"


class FunctionCall(Struct, frozen=True, tag="function_call"):
    """A call of a function of the caller."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class FileSearchResult(Struct, frozen=True):
    """A passage that a search of vector stores found."""

    file_id: str
    filename: str
    score: float
    text: str
    attributes: Object


class FileSearchCall(Struct, frozen=True, tag="file_search_call"):
    """A search of vector stores."""

    id: str
    queries: Sequence[str]
    status: Status
    results: Sequence[FileSearchResult] | None = None


OutputItem: TypeAlias = OutputMessage | FunctionCall | FileSearchCall


class InputDetails(Struct, frozen=True):
    """Details of the tokens of the prompt."""

    cached_tokens: int = 0


class OutputDetails(Struct, frozen=True):
    """Details of the tokens of the reply."""

    reasoning_tokens: int = 0


class Usage(Struct, frozen=True):
    """The tokens of a response."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputDetails = InputDetails()
    output_tokens_details: OutputDetails = OutputDetails()


class IncompleteDetails(Struct, frozen=True):
    """Why a response is not complete."""

    reason: Literal["max_output_tokens", "content_filter"]


class Response(Struct, frozen=True, kw_only=True):
    """A response."""

    id: str
    created_at: int
    model: str
    status: Status
    output: Sequence[OutputItem] = ()
    usage: Usage | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: Object = {}
    parallel_tool_calls: bool = True
    reasoning: Object = {}
    temperature: float | None = None
    text: Object = {}
    tool_choice: Object | str = "auto"
    tools: Sequence[Object] = ()
    top_p: float | None = None
    user: str | None = None
    object: Literal["response"] = "response"
    error: None = None
    previous_response_id: str | None = None
    store: bool = False
    background: bool = False
    truncation: str = "disabled"


_FINISH: Final[dict[str, Literal["max_output_tokens", "content_filter"]]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}


def new_id(prefix: str) -> str:
    """An id of an item.

    Args:
        prefix: its kind, such as `msg`.
    """
    return f"{prefix}_{uuid4().hex}"


def begun(request: ResponseRequest, *, store: bool) -> Response:
    """A response to which nothing has been added yet.

    Args:
        store: whether it will be stored.
    """
    text = request.text
    return Response(
        id=new_id("resp_ragstore"),
        created_at=int(time.time()),
        model=request.model,
        status="in_progress",
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        metadata=dict(request.metadata or {}),
        parallel_tool_calls=request.parallel_tool_calls is not False,
        reasoning={} if request.reasoning is None else _object(request.reasoning),
        temperature=request.temperature,
        text={"format": {"type": "text"}} if text is None else _object(text),
        tool_choice="auto" if request.tool_choice is None else msgspec.to_builtins(request.tool_choice),
        tools=[_object(tool) for tool in request.tools or ()],
        top_p=request.top_p,
        user=request.user,
        previous_response_id=request.previous_response_id,
        store=store,
    )


def ended(response: Response, output: Sequence[OutputItem], finish: str, usage: Usage | None) -> Response:
    """A response with its output.

    Args:
        response: the response that has begun.
        finish: why the model has ended, as a chat completion says it.
        usage: its tokens; None if the upstream does not say.
    """
    reason = _FINISH.get(finish)
    return msgspec.structs.replace(
        response,
        output=output,
        usage=usage,
        status="completed" if reason is None else "incomplete",
        incomplete_details=None if reason is None else IncompleteDetails(reason),
    )


def _object(struct: Struct) -> Object:
    return given(msgspec.to_builtins(struct))
