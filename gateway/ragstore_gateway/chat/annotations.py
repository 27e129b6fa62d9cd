"""OpenAI's annotations: which sources a response cites, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from ragstore_client.context import Citation, ContextPassage

MAX_NAME: Final = 2_000
"""Maximum number of characters of a URL or title. Each citation repeats it, so long ones would fill the memory."""

_TITLES: Final = ("title", "document_name", "file_name", "source")
_WEB: Final = re.compile(r"https?://", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[\s\x00-\x1f]*[a-z][a-z0-9+.-]*\s*:", re.IGNORECASE)


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


def annotations_of(citations: Iterable[Citation]) -> Iterator[Annotation]:
    """The annotations of a message.

    Args:
        citations: its citations. Invented ones, and the items of a list of sources, have no annotation.
    """
    for citation in citations:
        if citation.listed:
            continue
        for passage in citation.passages:
            yield Annotation(
                UrlCitation(
                    _url(passage), _title(passage), start_index=citation.marker_start, end_index=citation.marker_end
                )
            )


def _url(passage: ContextPassage) -> str:
    names = (passage.metadata.get("url"), passage.citation, passage.id)
    texts = [name for name in names if isinstance(name, str) and name.strip() and len(name) <= MAX_NAME]
    # A client makes a link of it: `javascript:` and the like are not passed on.
    return next((text for text in texts if _WEB.match(text) or not _SCHEME.match(text)), f"source-{passage.number}")


def _title(passage: ContextPassage) -> str:
    values = (passage.metadata.get(name) for name in _TITLES)
    title = next((value for value in values if isinstance(value, str) and value.strip()), passage.citation)
    return title[:MAX_NAME]
