"""The body of a chat request. It is patched, and fields that this version does not know keep their bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Raw, Struct

from ragstore.kit.decoding import JSON
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.value_count import has_too_many_values
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS
from ragstore_gateway.chat.json_text import beginning, inner, is_text

RAG_PREFIX: Final = "rag/"

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
"""Exceptions of a decoder for bytes that are not JSON, or not of the type."""


class Head(Struct, frozen=True):
    """The fields that the gateway reads of a request that it passes through.

    Attributes:
        model: the model; of a name that is longer than the gateway takes, only the beginning.
        stream: whether the response may be a stream: some upstreams accept `1` and `"true"`, too.
        file_search: whether it has the tool `file_search`.
        previous_response: id of the response that it continues; empty for none.
    """

    model: str = ""
    stream: bool = False
    file_search: bool = False
    previous_response: str = ""

    @property
    def is_rag(self) -> bool:
        """Whether the model is one with retrieval."""
        return self.model.startswith(RAG_PREFIX)


class _Given(Struct, frozen=True):
    model: Raw = Raw(b'""')
    stream: Raw = Raw(b"null")
    tools: Raw = Raw(b"null")
    previous_response_id: Raw = Raw(b"null")


class _Tool(Struct, frozen=True):
    type: str = ""


MAX_LENIENT_BYTES: Final = 1024 * 1024
"""Maximum size of a body that Python's decoder reads if msgspec cannot. It needs 20 ms for each MiB, in one piece."""

FILE_SEARCH: Final = "file_search"

_BEFORE_OBJECT: Final = b" \t\r\n\xef\xbb\xbf\xff\xfe\x00"
"""Spaces, and the marks of encodings that Python's decoder knows."""

_START_BYTES: Final = 64

_NOT_STREAMED: Final = (b"null", b"false")
_GIVEN: Final = msgspec.json.Decoder(_Given)
_MAX_NAME_BYTES: Final = 4 * (MAX_NAME_CHARACTERS + 1)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_RAW_LIST: Final = msgspec.json.Decoder(list[Raw])
_TOOL: Final = msgspec.json.Decoder(_Tool)


def read_head(body: bytes) -> Head:
    """Read the head of a request.

    Args:
        body: the request's body.

    Returns:
        The head; an empty one if the body is not a JSON object. The upstream judges such a body.

    Raises:
        InvalidRequest: it may be an object, cannot be read, and is large.
    """
    try:
        given = _GIVEN.decode(body)
    except msgspec.ValidationError:
        return Head()
    except UNREADABLE:
        return _lenient_head(body)
    return Head(
        read_name(given.model),
        bytes(given.stream) not in _NOT_STREAMED,
        _has_file_search(given.tools),
        read_name(given.previous_response_id),
    )


def _has_file_search(tools: Raw) -> bool:
    """Whether a list of tools has `file_search`. One of more values than a body may have counts as such a list."""
    content = bytes(tools)
    if FILE_SEARCH.encode() not in content:
        return False
    if has_too_many_values(content, JSON):
        return True
    try:
        given = _RAW_LIST.decode(content)
    except UNREADABLE:
        return False
    return any(_type_of(tool) == FILE_SEARCH for tool in given)


def _type_of(tool: Raw) -> str:
    try:
        return _TOOL.decode(tool).type
    except UNREADABLE:
        return ""


def read_name(value: Raw) -> str:
    """A name, which is cut behind the first character that is too many; empty for another value than a text."""
    try:
        return beginning(inner(value), _MAX_NAME_BYTES)[: MAX_NAME_CHARACTERS + 1] if is_text(value) else ""
    except UNREADABLE:
        return ""


def _lenient_head(body: bytes) -> Head:
    """Read a body that Python's decoder accepts and msgspec does not.

    JavaScript's encoder writes half of a surrogate pair as an escape, where a text was cut in the middle of an emoji.

    Raises:
        InvalidRequest: it is large.
    """
    if len(body) > MAX_LENIENT_BYTES:
        if body[:_START_BYTES].lstrip(_BEFORE_OBJECT)[:1] in (b"{", b""):
            raise InvalidRequest("A body of more than 1 MiB must be valid JSON, without halves of surrogate pairs")
        return Head()
    try:
        decoded = _decoded(body)
    except ValueError:
        return Head()
    model, stream = decoded.get("model"), decoded.get("stream")
    name = _without_surrogates(model[: MAX_NAME_CHARACTERS + 1]) if isinstance(model, str) else ""
    tools = decoded.get("tools")
    types = [tool.get("type") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    previous = decoded.get("previous_response_id")
    previous = _without_surrogates(previous[:MAX_NAME_CHARACTERS]) if isinstance(previous, str) else ""
    return Head(name, stream is not None and stream is not False, FILE_SEARCH in types, previous)


_NOT_STREAMED_FIELD: Final = frozenset({b"", b"null", b"false", b"f", b"0", b"no", b"n", b"off"})
_PART: Final = re.compile(rb'\bname="?stream"?[^\r\n]{0,200}\r?\n(?:[^\r\n]{1,200}\r?\n){0,8}\r?\n([^\r\n]{0,16})')
_PAIR: Final = re.compile(rb"(?<![^&])stream=([^&]{0,16})")
_MODEL_PART: Final = re.compile(_PART.pattern.replace(b"stream", b"model"))
_MODEL_PAIR: Final = re.compile(_PAIR.pattern.replace(b"stream", b"model"))
_MAX_FIELD: Final = 2_500
_MAX_FIELDS: Final = 20


def form_requests_stream(content_type: str, query: bytes, body: bytes) -> bool:
    """Whether a query or a form has a field `stream` that is true, in the way that clients write it.

    The upstream decides. A response that is a stream nevertheless is counted when it begins.

    Args:
        content_type: the type of the body.
        query: the request's query.
    """
    if _is_true(query, b"stream=", _PAIR):
        return True
    if content_type.startswith("application/x-www-form-urlencoded"):
        return _is_true(body, b"stream=", _PAIR)
    names = (b'name="stream"', b"name=stream")
    return content_type.startswith("multipart/") and any(_is_true(body, name, _PART) for name in names)


def _is_true(form: bytes, name: bytes, field: re.Pattern[bytes]) -> bool:
    """Whether a field has a value that is not false. More fields than a client sends count as one."""
    start = form.find(name)
    for _ in range(_MAX_FIELDS):
        if start < 0:
            return False
        found = field.match(form, start, start + _MAX_FIELD)
        if found and found[1].strip().lower() not in _NOT_STREAMED_FIELD:
            return True
        start = form.find(name, start + 1)
    return start >= 0


def form_has_rag_model(content_type: str, query: bytes, body: bytes) -> bool:
    """Whether a query or a form has a field `model` that names a model with retrieval.

    Args:
        content_type: the type of the body.
        query: the request's query.
    """
    if any(map(_names_rag_model, _values(query, b"model=", _MODEL_PAIR))):
        return True
    if content_type.startswith("application/x-www-form-urlencoded"):
        return any(map(_names_rag_model, _values(body, b"model=", _MODEL_PAIR)))
    names = (b'name="model"', b"name=model")
    return content_type.startswith("multipart/") and any(
        value.lstrip().startswith(RAG_PREFIX.encode()) for name in names for value in _values(body, name, _MODEL_PART)
    )


def _names_rag_model(value: bytes) -> bool:
    return unquote_to_bytes(value).startswith(RAG_PREFIX.encode())


def _values(form: bytes, name: bytes, field: re.Pattern[bytes]) -> Iterator[bytes]:
    """The beginnings of the values of a field. A client sends few fields, so further ones are not read."""
    start = form.find(name)
    for _ in range(_MAX_FIELDS):
        if start < 0:
            return
        if found := field.match(form, start, start + _MAX_FIELD):
            yield found[1]
        start = form.find(name, start + 1)


def read_fields(body: bytes) -> dict[str, Raw]:
    """The fields of a JSON object, with the bytes of their values.

    Args:
        body: the object.

    Raises:
        ValueError: it is not an object.
    """
    try:
        return _FIELDS.decode(body)
    except UNREADABLE:
        if len(body) > MAX_LENIENT_BYTES:
            raise ValueError("too large to be read by Python's decoder") from None
        decoded = _decoded(body)
    try:
        return {name: Raw(json.dumps(_without_surrogates(value)).encode()) for name, value in decoded.items()}
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decoded(body: bytes) -> dict[str, Any]:
    """Decode an object by Python's decoder.

    Raises:
        ValueError: it is none, or has too many values or levels.
    """
    if has_too_many_values(body, JSON):
        raise ValueError("too many values")
    try:
        decoded: object = json.loads(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(decoded, dict):
        raise ValueError("not an object")
    return decoded


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    return value


def write_fields(fields: Mapping[str, Raw | object]) -> bytes:
    """A JSON object, in which values of type `Raw` have their own bytes."""
    return msgspec.json.encode(fields)


def write_object(fields: Mapping[str, Raw]) -> bytes:
    """A JSON object of values, which are copied once. `write_fields` needs four times as long for 31 MB."""
    pieces: list[bytes | Raw] = []
    for name, value in fields.items():
        pieces += [b",", msgspec.json.encode(name), b":", value]
    return b"".join([b"{", *pieces[1:], b"}"])


def write_list(values: Sequence[bytes | Raw]) -> Raw:
    """A JSON list of values, which are copied once."""
    pieces: list[bytes | Raw] = []
    for value in values:
        pieces += [b",", value]
    return Raw(b"".join([b"[", *pieces[1:], b"]"]))


def encode_raw(value: object) -> Raw:
    """A value as JSON."""
    return Raw(msgspec.json.encode(value))
