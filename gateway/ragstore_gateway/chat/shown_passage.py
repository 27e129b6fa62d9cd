"""The passages of a prompt as a caller gets them who sends `X-RAG-Passages: true`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.chat.headers import Headers
from ragstore_gateway.chat.prompt_passage import PromptPassage

HEADER: Final = "X-RAG-Passages"

_VALUES: Final[Mapping[bytes, bool]] = {b"true": True, b"1": True, b"false": False, b"0": False, b"": False}


class ShownPassage(Struct, frozen=True, omit_defaults=True):
    """A passage of the prompt.

    Attributes:
        number: its number, which the reply cites.
        id: its id; empty for the response of an HTTP call, which has neither a text nor a score here.
        base: name of its knowledge base, or of the HTTP call.
        base_id: id of its knowledge base; empty for an HTTP call.
        document: id of its document.
        document_name: name of its document in the knowledge base; empty for a record of others.
        start: where it begins in the text of the document, in characters.
        end: where it ends.
        score: its relevance.
    """

    number: int
    title: str
    base: str
    base_id: str = ""
    url: str = ""
    id: str = ""
    document: str = ""
    document_name: str = ""
    page: int | UnsetType = UNSET
    start: int | UnsetType = UNSET
    end: int | UnsetType = UNSET
    score: float | UnsetType = UNSET
    text: str | UnsetType = UNSET


def shown(passages: Iterable[PromptPassage]) -> Sequence[ShownPassage]:
    """The passages of a prompt, with their texts."""
    return [_shown(passage) for passage in passages]


def requests_passages(headers: Headers) -> bool:
    """Whether a request has the header with the value `true`.

    Args:
        headers: its headers, with names in lower case.

    Raises:
        InvalidRequest: the header is neither `true` nor `false`.
    """
    given = next((value for name, value in headers if name == HEADER.lower().encode()), b"")
    requested = _VALUES.get(given.strip().lower())
    if requested is None:
        raise InvalidRequest.at(HEADER, "Must be true or false")
    return requested


def _shown(passage: PromptPassage) -> ShownPassage:
    if passage.is_response:
        return ShownPassage(passage.number, passage.title, passage.collection or "")
    relevance = passage.relevance
    return ShownPassage(
        passage.number,
        passage.title,
        passage.collection or "",
        passage.base_id,
        passage.url,
        passage.id,
        str(passage.metadata.get("document_id", "")),
        str(passage.metadata.get("document_name", "")),
        _number(passage, "page_number"),
        _number(passage, "char_start"),
        _number(passage, "char_end"),
        UNSET if relevance is None else round(relevance, 6),
        passage.text,
    )


def _number(passage: PromptPassage, key: str) -> int | UnsetType:
    value = passage.metadata.get(key)
    return value if isinstance(value, int) else UNSET
