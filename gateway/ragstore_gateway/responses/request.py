"""The body of a request for a response: the fields that the gateway reads."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.chat.body import FILE_SEARCH
from ragstore_gateway.openai_vector_stores.schemas import RankingOptions

RESULTS: Final = "file_search_call.results"
"""The value of `include` that requests the results of a search."""

MAX_STORES: Final = 20

Object: TypeAlias = dict[str, Any]


def given(fields: Object) -> Object:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


class Format(Struct, frozen=True):
    """The format of a reply."""

    type: Literal["text", "json_schema", "json_object"] = "text"
    name: str = ""
    schema: Object | None = None
    strict: bool | None = None
    description: str | None = None


class TextOptions(Struct, frozen=True):
    """Options of the reply's text."""

    format: Format = Format()
    verbosity: str | None = None


class Reasoning(Struct, frozen=True):
    """Options of reasoning."""

    effort: str | None = None


class FunctionTool(Struct, frozen=True, tag="function"):
    """A function of the caller."""

    name: str
    parameters: Object | None = None
    strict: bool | None = None
    description: str | None = None


class FileSearchTool(Struct, frozen=True, tag=FILE_SEARCH, forbid_unknown_fields=True):
    """A search of vector stores."""

    vector_store_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_STORES)]
    filters: Object | None = None
    max_num_results: Annotated[int, Meta(ge=1, le=50)] | None = None
    ranking_options: RankingOptions | None = None


class ToolChoice(Struct, frozen=True):
    """The tool that the model must call."""

    type: str
    name: str = ""


class ResponseRequest(Struct, frozen=True, kw_only=True):
    """A request for a response.

    Attributes:
        input: a text, or items: messages, calls of functions and their results.
        include: further fields of the response; `file_search_call.results` is known.
    """

    model: str
    input: str | list[Raw]
    instructions: str | None = None
    tools: list[FunctionTool | FileSearchTool] | None = None
    tool_choice: str | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    text: TextOptions | None = None
    reasoning: Reasoning | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | Object | None = None
    prompt: Object | None = None

    @property
    def file_search(self) -> FileSearchTool | None:
        """The search of vector stores; None without one."""
        return next((tool for tool in self.tools or () if isinstance(tool, FileSearchTool)), None)

    @property
    def functions(self) -> list[FunctionTool]:
        """The functions of the caller."""
        return [tool for tool in self.tools or () if isinstance(tool, FunctionTool)]


_NOT_SERVED: Final = {
    "background": "The gateway makes no responses in the background: leave it out",
    "conversation": "The gateway stores no conversations of this API: send the earlier items as input",
    "prompt": "The gateway has no stored prompts: send instructions",
}
_decode: Final = msgspec.json.Decoder(ResponseRequest).decode


def read_request(body: bytes) -> ResponseRequest:
    """Read the body of a request.

    Args:
        body: a JSON object.

    Raises:
        InvalidRequest: it is not one, or needs a function that the gateway does not have.
    """
    try:
        request = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # Slower, with an error that names the field.
        request = decode_configuration(ResponseRequest, body)
    for name, detail in _NOT_SERVED.items():
        if getattr(request, name):
            raise InvalidRequest.at(f"$.{name}", detail)
    if sum(isinstance(tool, FileSearchTool) for tool in request.tools or ()) > 1:
        raise InvalidRequest.at("$.tools", "Must have file_search once: it may name several vector stores")
    return request
