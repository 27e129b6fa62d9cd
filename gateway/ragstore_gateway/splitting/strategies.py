"""Splits an extracted text into chunks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, NamedTuple, assert_never

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.splitting.chunk import Chunk, Chunking, MetadataValue
from ragstore_gateway.splitting.measured_text import MeasuredText, Span
from ragstore_gateway.splitting.outline import Outline, Section
from ragstore_gateway.splitting.packing import ChunkLimit
from ragstore_gateway.splitting.regions import split_region
from ragstore_gateway.splitting.tokens import count_tokens

MAX_LAYER_TOKENS: Final = 4000
"""Maximum size of a record of a document, page or section: providers reject texts of more than about 8,000 tokens of
their own encodings. A larger one has several records."""

MAX_PREVIEW_CHARACTERS: Final = 200

_WHOLE: Final = Chunking("recursive", MAX_LAYER_TOKENS, 0, "tokens")


def split(extracted: Extracted, chunking: Chunking) -> list[Chunk]:
    """Split a text; see `chunks_of`."""
    return list(chunks_of(extracted, chunking))


def chunks_of(extracted: Extracted, chunking: Chunking, max_chunks: int = sys.maxsize) -> Iterator[Chunk]:
    """Split a text.

    The time is linear in the length of the chunks together, and a second a megabyte and more. With a large overlap, the
    chunks have much more characters than the text. `Splitter` limits both.

    Args:
        extracted: the text, with its pages and headings.
        chunking: how to split it; the overlap is less than the size.
        max_chunks: maximum number of chunks.

    Yields:
        The chunks, in order; none if the text has only whitespace. The records of documents, pages and sections of
        `layers` are before the chunks.

    Raises:
        ChunkLimit: there are more.
    """
    # A lone surrogate has no encoding; every other character remains at its index.
    text = extracted.text.encode("utf-8", "replace").decode()
    measured = MeasuredText(text, chunking.unit, extracted.headings, chunking.size)
    outline = Outline(extracted)
    match chunking.strategy:
        case "layers":
            found: Iterator[_Found] = _layers(measured, extracted, outline, chunking, max_chunks)
        case "markdown":
            found = (
                _Found(span, section)
                for section in outline.sections()
                for span in split_region(measured, section.span, chunking, max_chunks)
            )
        case "recursive" | "window" | "sentence" | "paragraph":
            found = (_Found(span) for span in split_region(measured, Span(0, len(text)), chunking, max_chunks))
        case other:
            assert_never(other)
    covered, layer = 0, ""
    for index, each in enumerate(found):
        if index == max_chunks:
            raise ChunkLimit
        overlap_end = covered if each.layer == layer else 0
        yield _chunk(index, each, overlap_end, extracted, measured, outline)
        covered, layer = each.span.end, each.layer


class _Found(NamedTuple):
    """A span that becomes a chunk.

    Attributes:
        section: its section, if the strategy has sections.
        layer: its layer, if the strategy is `layers`.
        layer_index: its index within its layer.
    """

    span: Span
    section: Section | None = None
    layer: str = ""
    layer_index: int = 0


def _layers(
    measured: MeasuredText, extracted: Extracted, outline: Outline, chunking: Chunking, max_chunks: int
) -> Iterator[_Found]:
    """The records of all layers. A chunk is within one section."""
    whole = MeasuredText(measured.text, "tokens", extracted.headings, MAX_LAYER_TOKENS)
    sections = outline.sections()
    named = [section for section in sections if section.heading]
    for span in split_region(whole, Span(0, len(whole.text)), _WHOLE):
        yield _Found(span, None, "document")
    for page in extracted.pages:
        for span in split_region(whole, Span(page.start, page.end), _WHOLE):
            yield _Found(span, None, "page")
    for section in named:
        for span in split_region(whole, section.span, _WHOLE):
            yield _Found(span, section, "section")
    chunks = (
        (section, span) for section in sections for span in split_region(measured, section.span, chunking, max_chunks)
    )
    for index, (section, span) in enumerate(chunks):
        yield _Found(span, section, "chunk", index)


def _chunk(
    index: int, found: _Found, overlap_end: int, extracted: Extracted, measured: MeasuredText, outline: Outline
) -> Chunk:
    start, end = found.span
    # The overlap is often on the page before, or in the section before.
    first = measured.trimmed(max(start, overlap_end), end).start
    whole = found.layer in {"document", "page"}
    page = None if found.layer == "document" else outline.page(first)
    last_page = None if page is None else outline.page(end - 1)
    return Chunk(
        index=index,
        start=start,
        end=end,
        text=extracted.text[start:end],
        token_count=count_tokens(measured.text[start:end]),
        page=page,
        heading="" if whole else found.section.heading if found.section else outline.heading(first),
        metadata=_layer_metadata(found, extracted.text) if found.layer else {},
        last_page=None if last_page == page else last_page,
    )


def _layer_metadata(found: _Found, text: str) -> dict[str, MetadataValue]:
    """Metadata that `ragstore_client.rag` filters by: layer, section, neighbours."""
    start, end = found.span
    metadata: dict[str, MetadataValue] = {
        "layer": found.layer,
        "text_preview": text[start : min(end, start + MAX_PREVIEW_CHARACTERS)],
    }
    if found.section and found.section.id:
        metadata["section_id"] = found.section.id
    if found.layer == "chunk":
        metadata["chunk_index"] = found.layer_index
    return metadata
