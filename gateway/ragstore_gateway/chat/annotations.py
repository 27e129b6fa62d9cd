"""OpenAI's annotations: which sources a response cites, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from ragstore_client.context import Citation, ContextPassage
from ragstore_gateway.chat.prompt_passage import PromptPassage


class UrlCitation(Struct, frozen=True):
    """A cited source."""

    url: Annotated[str, Meta(description="Address of the source, with its page; the name of an HTTP call.")]
    title: Annotated[str, Meta(description="Document, and page or heading.")]
    start_index: Annotated[int, Meta(description="Where the citation begins in the message, in code points.")]
    end_index: Annotated[int, Meta(description="Where it ends.")]
    passage_id: Annotated[str, Meta(description="Id of the passage in its knowledge base.")]


class Annotation(Struct, frozen=True):
    """An annotation of a message, as OpenAI has it for web search."""

    url_citation: UrlCitation
    type: Literal["url_citation"] = "url_citation"


def key_of(passage: ContextPassage) -> tuple[int, str | None, str]:
    """The key of a passage among the passages of a prompt."""
    return passage.number, passage.collection, passage.id


def annotations_of(
    citations: Iterable[Citation], passages: Mapping[tuple[int, str | None, str], PromptPassage]
) -> Iterator[Annotation]:
    """The annotations of a message.

    Args:
        citations: its citations. Invented ones, and the items of a list of sources, have no annotation.
        passages: the passages in the prompt, by `key_of`.
    """
    for citation in citations:
        if citation.listed:
            continue
        for cited in citation.passages:
            passage = passages[key_of(cited)]
            yield Annotation(
                UrlCitation(
                    passage.url or passage.title,
                    passage.title,
                    start_index=citation.marker_start,
                    end_index=citation.marker_end,
                    passage_id=passage.id,
                )
            )
