"""`chat_request`: the request for a chat completion that a request for a response becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.chat.body import FILE_SEARCH, UNREADABLE
from ragstore_gateway.responses.request import Object, ResponseRequest, ToolChoice, given

ITEM: Final = "The gateway does not serve items of this type"

_IGNORED: Final = frozenset({"reasoning", "file_search_call"})
"""Items of earlier responses that a chat has no place for. Their results are searched again."""

_ROLES: Final = frozenset({"user", "assistant", "system", "developer"})
_TEXTS: Final = frozenset({"input_text", "output_text", "text"})

Message: TypeAlias = dict[str, Any]


class _Part(Struct, frozen=True):
    type: str
    text: str = ""
    refusal: str = ""
    image_url: str | None = None
    detail: str | None = None
    file_id: str | None = None
    filename: str | None = None
    file_data: str | None = None


class _Item(Struct, frozen=True):
    type: str = "message"
    role: str = ""
    content: str | list[_Part] = ""
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[_Part] = ""


_decode: Final = msgspec.json.Decoder(_Item).decode


def chat_request(request: ResponseRequest, earlier: Sequence[Raw] = ()) -> bytes:
    """The body of a request for a chat completion.

    Args:
        earlier: the items of the conversation that it continues.

    Raises:
        InvalidRequest: an item of the input, or a choice of a tool, has no place in a chat.
    """
    text, reasoning = request.text, request.reasoning
    functions = [{"type": "function", "function": _given(tool)} for tool in request.functions]
    fields: Object = {
        "model": request.model,
        "messages": _messages(request, earlier),
        "tools": functions or None,
        "tool_choice": _tool_choice(request.tool_choice) if functions else None,
        "parallel_tool_calls": request.parallel_tool_calls if functions else None,
        "max_completion_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "response_format": None if text is None else _response_format(request),
        "verbosity": None if text is None else text.verbosity,
        "reasoning_effort": None if reasoning is None else reasoning.effort,
        "metadata": request.metadata,
        "user": request.user,
        "stream": True if request.stream else None,
        "stream_options": {"include_usage": True} if request.stream else None,
    }
    return msgspec.json.encode(given(fields))


def _given(struct: Struct) -> Object:
    """The fields of a struct that have a value, without its tag."""
    return given(structs.asdict(struct))


def _response_format(request: ResponseRequest) -> Object | None:
    if request.text is None or request.text.format.type == "text":
        return None
    wanted = request.text.format
    if wanted.type == "json_object":
        return {"type": "json_object"}
    own = {name: value for name, value in _given(wanted).items() if name != "type"}
    return {"type": "json_schema", "json_schema": own}


def _tool_choice(choice: str | ToolChoice | None) -> str | Object | None:
    """The choice of a tool. A search of vector stores is made in any case."""
    if choice is None or isinstance(choice, str):
        return choice
    if choice.type == FILE_SEARCH:
        return None
    if choice.type != "function":
        raise InvalidRequest.at("$.tool_choice", "Must be auto, none, required, a function, or file_search")
    return {"type": "function", "function": {"name": choice.name}}


def _messages(request: ResponseRequest, earlier: Sequence[Raw]) -> list[Message]:
    messages: list[Message] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    for raw in earlier:
        _add(messages, _read(raw, "$.previous_response_id"), "$.previous_response_id")
    if isinstance(request.input, str):
        return [*messages, {"role": "user", "content": request.input}]
    for index, raw in enumerate(request.input):
        _add(messages, _read(raw, f"$.input[{index}]"), f"$.input[{index}]")
    return messages


def _read(raw: Raw, path: str) -> _Item:
    try:
        return _decode(raw)
    except UNREADABLE:
        raise InvalidRequest.at(path, "Must be a message, a function_call or a function_call_output") from None


def _add(messages: list[Message], item: _Item, path: str) -> None:
    """Add an item to the messages of a chat.

    Raises:
        InvalidRequest: a chat has no place for it.
    """
    if item.type == "message" and item.role in _ROLES:
        messages.append({"role": item.role, "content": _content(item.content, f"{path}.content")})
    elif item.type == "function_call":
        function = {"name": item.name, "arguments": item.arguments}
        call = {"id": item.call_id, "type": "function", "function": function}
        last = messages[-1] if messages else {}
        if last.get("role") != "assistant":
            messages.append(last := {"role": "assistant", "content": None})
        last.setdefault("tool_calls", []).append(call)
    elif item.type == "function_call_output":
        content = _content(item.output, f"{path}.output")
        messages.append({"role": "tool", "tool_call_id": item.call_id, "content": content})
    elif item.type not in _IGNORED:
        raise InvalidRequest.at(path, ITEM)


def _content(content: str | list[_Part], path: str) -> str | list[Object]:
    if isinstance(content, str):
        return content
    return [_part(part, f"{path}[{index}]") for index, part in enumerate(content)]


def _part(part: _Part, path: str) -> Object:
    if part.type in _TEXTS:
        return {"type": "text", "text": part.text}
    if part.type == "refusal":
        return {"type": "refusal", "refusal": part.refusal}
    if part.type == "input_image" and part.image_url:
        return {"type": "image_url", "image_url": given({"url": part.image_url, "detail": part.detail or None})}
    if part.type == "input_file" and (part.file_id or part.file_data):
        file = {"file_id": part.file_id, "filename": part.filename, "file_data": part.file_data}
        return {"type": "file", "file": given(file)}
    raise InvalidRequest.at(path, "The gateway does not serve parts of this type")
