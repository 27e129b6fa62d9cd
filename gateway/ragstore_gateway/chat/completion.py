"""The response of a `rag/` model: the requested model's name, annotations, and how retrieval went."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.body import UNREADABLE, encode_raw, write_fields, write_list
from ragstore_gateway.chat.citations import ResponseCitations
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.chat.shown_passage import shown

DEBUG_FIELD: Final = "rag"
"""Field of a plain response with the details of retrieval."""


class _Named(Struct, frozen=True):
    model: Raw | UnsetType = UNSET
    choices: Raw | UnsetType = UNSET


class _Text(Struct, frozen=True):
    content: str | None = None


_NAMED: Final = msgspec.json.Decoder(_Named)
_TEXT: Final = msgspec.json.Decoder(_Text)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_LIST: Final = msgspec.json.Decoder(list[Raw])
_MODEL_KEY: Final = re.compile(rb'"model"\s*:\s*')


def debug_line(details: dict[str, object]) -> bytes:
    """Details of retrieval as a comment for a stream of server-sent events."""
    # ASCII only, so that no character of a metadata value ends the line.
    return f": RAG_DEBUG {json.dumps(details, allow_nan=False)}\n\n".encode()


def renamed(data: bytes, model: Raw) -> bytes:
    """A JSON object of the upstream with another model name. All other bytes stay where that is possible.

    Args:
        data: the object.
        model: the name, as JSON.

    Returns:
        The object; unchanged if it is none, or if it is neither a response nor a chunk of one.
    """
    try:
        named = _NAMED.decode(data)
    except UNREADABLE:
        return data
    if isinstance(named.model, UnsetType):
        # An error has no model and gets none.
        return data if isinstance(named.choices, UnsetType) else _with_model(data, model)
    # A key is followed by a colon, and quotes in texts are escaped, so this finds members of objects only.
    # The value is compared, and is no part of the pattern: a pattern of a long name takes seconds to compile.
    value = bytes(named.model)
    starts = [key.end() for key in _MODEL_KEY.finditer(data) if data.startswith(value, key.end())]
    if len(starts) != 1:
        return _with_model(data, model)
    return data[: starts[0]] + bytes(model) + data[starts[0] + len(value) :]


def _with_model(data: bytes, model: Raw) -> bytes:
    """An object with a model; unchanged if a name of its fields is not UTF-8, which a decoder of some fields skips."""
    try:
        return write_fields({**_FIELDS.decode(data), "model": model})
    except UNREADABLE:
        return data


def completed(
    content: bytes,
    model: Raw,
    passages: Sequence[PromptPassage],
    *,
    annotate: bool,
    debug: dict[str, object] | None,
    by_number: bool = False,
    list_sources: bool = False,
    show_passages: bool = False,
) -> Generator[None, None, bytes]:
    """A plain response of a `rag/` model, in steps.

    Args:
        content: the upstream's response.
        model: the requested name, as JSON.
        passages: the passages in the prompt.
        annotate: whether to annotate the messages.
        by_number: whether the annotations are in the order of their numbers; see `annotations_by_number`.
        list_sources: whether to end the messages with a list of the sources that they cite.
        show_passages: whether to add the passages.
        debug: details of retrieval to add; None for none.

    Returns:
        The response. Fields that are not changed have their own bytes. One that is not a completion is unchanged.
    """
    yield
    content = renamed(content, model)
    yield
    found = ResponseCitations(passages, by_number=by_number)
    checked: list[tuple[Raw, list[str]]] = []
    try:
        fields = _FIELDS.decode(content)
        yield
        choices = _LIST.decode(fields["choices"]) if "choices" in fields else []
        for choice in choices if passages else ():
            checked.append((yield from _checked(choice, found, annotate=annotate, list_sources=list_sources)))
    except UNREADABLE:
        return content
    invented = [label for _, labels in checked for label in labels]
    metrics.INVENTED_CITATIONS.inc(len(invented))
    changed = any(new is not old for (new, _), old in zip(checked, choices, strict=False))
    if not changed and debug is None and not show_passages:
        return content
    if changed:
        fields["choices"] = write_list([choice for choice, _ in checked])
        yield
    details = {} if debug is None else {**debug, "invented": invented}
    if show_passages:
        details["passages"] = shown(passages)
    if details:
        fields[DEBUG_FIELD] = encode_raw(details)
    return write_fields(fields)


def _checked(
    choice: Raw, found: ResponseCitations, *, annotate: bool, list_sources: bool
) -> Generator[None, None, tuple[Raw, list[str]]]:
    """A choice with annotations and a list of sources, and the labels of its invented citations."""
    yield
    fields = _FIELDS.decode(choice)
    if "message" not in fields:
        return choice, []
    message = _FIELDS.decode(fields["message"])
    text = _TEXT.decode(fields["message"]).content or ""
    yield
    yield from found.feed(0, text)
    citations = found.end(0)
    invented = [citation.label for citation in citations if citation.invented]
    annotations = [encode_raw(annotation) for annotation in found.annotations(citations)] if annotate else []
    listed = found.source_list(citations) if list_sources else ""
    if listed:
        message["content"] = encode_raw(text + listed)
        yield
    if not annotations and not listed:
        return choice, invented
    if not annotations:
        return Raw(write_fields({**fields, "message": encode_raw(message)})), invented
    own = message.get("annotations", Raw(b"null"))
    given = _LIST.decode(own) if bytes(own).startswith(b"[") else []
    message["annotations"] = encode_raw([*given, *annotations])
    return Raw(write_fields({**fields, "message": encode_raw(message)})), invented
