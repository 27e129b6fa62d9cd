"""OpenAI's annotations: which sources a response cites, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ragstore_client.context import Citation, ContextPassage

_TITLES: Final = ("title", "document_name", "file_name", "source")
_SCHEMES: Final = ("http://", "https://")


class UrlCitation(Struct, frozen=True):
    """A cited source."""

    url: Annotated[str, Meta(description="URL of the source; its name where it has none.")]
    title: Annotated[str, Meta(description="Title of the source.")]
    start_index: Annotated[int, Meta(description="Where the citation begins in the message, in characters.")]
    end_index: Annotated[int, Meta(description="Where it ends.")]


class Annotation(Struct, frozen=True):
    """An annotation of a message, as OpenAI has it for web search."""

    url_citation: UrlCitation
    type: Literal["url_citation"] = "url_citation"


def annotations_of(citations: Iterable[Citation]) -> list[Annotation]:
    """The annotations of a message.

    Args:
        citations: its citations. Invented ones, and the items of a list of sources, have no annotation.
    """
    return [
        Annotation(
            UrlCitation(
                _url(passage), _title(passage), start_index=citation.marker_start, end_index=citation.marker_end
            )
        )
        for citation in citations
        if not citation.listed
        for passage in citation.passages
    ]


def _url(passage: ContextPassage) -> str:
    url = passage.metadata.get("url")
    # A client makes a link of it: `javascript:` and the like are not passed on.
    return url if isinstance(url, str) and url.lower().startswith(_SCHEMES) else passage.citation


def _title(passage: ContextPassage) -> str:
    values = (passage.metadata.get(name) for name in _TITLES)
    return next((value for value in values if isinstance(value, str) and value.strip()), passage.citation)
