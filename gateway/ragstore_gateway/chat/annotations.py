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
            yield _annotation(passages[key_of(cited)], citation.marker_start, citation.marker_end)


def annotations_by_number(
    citations: Iterable[Citation], passages: Mapping[tuple[int, str | None, str], PromptPassage]
) -> Iterator[Annotation]:
    """The annotations of a message, so that the n-th different source is the passage with the number n.

    An uncited number below the largest cited one has an annotation of no characters: without it, a client that counts
    the sources would show a wrong one for each larger number.

    Args:
        citations: its citations, as for `annotations_of`.
        passages: the passages in the prompt, by `key_of`.
    """
    spans: dict[int, list[Annotation]] = {}
    for citation in citations:
        for cited in () if citation.listed else citation.passages:
            passage = passages[key_of(cited)]
            spans.setdefault(passage.number, []).append(
                _annotation(passage, citation.marker_start, citation.marker_end)
            )
    largest = max(spans, default=0)
    best = {each.number: each for each in passages.values() if not each.is_further and each.number < largest}
    for number in sorted({*spans, *best}):
        yield from spans[number] if number in spans else [_annotation(best[number], 0, 0)]


def _annotation(passage: PromptPassage, start: int, end: int) -> Annotation:
    return Annotation(
        UrlCitation(
            passage.url or passage.title, passage.title, start_index=start, end_index=end, passage_id=passage.id
        )
    )
