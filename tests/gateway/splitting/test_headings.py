"""A heading is in a chunk with the text that follows it, for generated Markdown and HTML."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.extraction.parsers.html import page
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.splitting.chunk import Chunk, Chunking, ChunkStrategy, ChunkUnit
from ragstore_gateway.splitting.headings import MAX_WORD_CHARACTERS
from ragstore_gateway.splitting.strategies import split
from ragstore_gateway.splitting.tokens import count_tokens

STRATEGIES: tuple[ChunkStrategy, ...] = get_args(ChunkStrategy)
UNITS: tuple[ChunkUnit, ...] = ("characters", "tokens")

TITLES = st.sampled_from(
    ["Lifts", "Is it safe? Yes.", "waste and recycling", "Zürich", "漢字仮名", "e\u0301t\u00e9", "3.14 Keys"]
)
SENTENCES = st.sampled_from(
    [
        "An approved body tests every lift at two-year intervals.", "the kettle boils.", "- Keys\n- Deposits",
        "It is switched off.", "漢字仮名交じり文" * 12, "> See https://example.org/a/very/long/path?with=a&query=string",
        "```\n# no heading\n\ncode()\n```", "| a | b |\n|---|---|\n| 1 | 2 |", "Ende",
    ]
)  # fmt: skip
BLOCKS = st.one_of(
    st.tuples(st.just("heading"), st.integers(1, 6), TITLES),
    st.tuples(st.just("text"), st.just(0), st.lists(SENTENCES, min_size=1, max_size=8).map(" ".join)),
    st.tuples(st.just("text"), st.just(0), SENTENCES),
)
DOCUMENTS = st.lists(BLOCKS, max_size=14)


@st.composite
def chunkings(draw: st.DrawFn, strategy: ChunkStrategy, unit: ChunkUnit) -> Chunking:
    size = draw(st.one_of(st.integers(4, 40), st.integers(40, 300)))
    return Chunking(strategy, size, draw(st.integers(0, size // 2)), unit)


def markdown(blocks: list[tuple[str, int, str]], separator: str) -> Extracted:
    """Markdown."""
    text = separator.join(f"{'#' * level} {text}" if level else text for _, level, text in blocks)
    return Extracted(text, "text/markdown", headings=markdown_headings(text))


def html(blocks: list[tuple[str, int, str]]) -> Extracted:
    """The text of an HTML page, whose headings have no marks."""
    body = "".join(f"<h{level}>{text}</h{level}>" if level else f"<p>{text}</p>" for _, level, text in blocks)
    source = f"<html><body><main><p>Preface of the page.</p>{body}</main></body></html>"
    return page(source.encode(), Request("text/html; charset=utf-8", "", "text", "", 1_000_000, 1.0))


def check(document: Extracted, chunking: Chunking) -> None:
    """Check that no chunk ends in a heading, or between a heading and its text."""
    for chunk in split(document, chunking):
        if chunk.metadata.get("layer", "chunk") != "chunk" or not document.text[chunk.end :].strip():
            continue
        ended = [heading for heading in document.headings if heading.start < chunk.end <= heading.end]
        assert all(not _has_room(document, heading, chunking) for heading in ended), chunk


def _has_room(document: Extracted, heading: Heading, chunking: Chunking) -> bool:
    """Whether a chunk has room for a heading, for those between it and its text, and for the first word of the text."""
    last = heading
    for each in document.headings:
        if each.start >= last.end and not document.text[last.end : each.start].strip():
            last = each
    following = document.text[last.end :].lstrip()
    start = len(document.text) - len(following)
    word = len(following.split()[0]) if following else 0
    # A text without spaces is cut after its first character, which here is one of one code point.
    end = start + (word if word <= MAX_WORD_CHARACTERS else 1)
    return bool(following) and _size(document.text[heading.start : end], chunking) <= chunking.size


def _size(text: str, chunking: Chunking) -> int:
    return len(text) if chunking.unit == "characters" else count_tokens(text)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_no_chunk_of_markdown_separates_a_heading_from_its_text(
    strategy: ChunkStrategy, unit: ChunkUnit, data: st.DataObject
) -> None:
    separator = data.draw(st.sampled_from(["\n\n", "\n\n\n", "\n \n"]))
    check(markdown(data.draw(DOCUMENTS), separator), data.draw(chunkings(strategy, unit)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_no_chunk_of_html_separates_a_heading_from_its_text(strategy: ChunkStrategy, data: st.DataObject) -> None:
    check(html(data.draw(DOCUMENTS)), data.draw(chunkings(strategy, "characters")))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("length", [20, 300, 700, 1000, 3000])
def test_a_heading_above_a_paragraph_of_any_length_begins_its_first_chunk(
    strategy: ChunkStrategy, unit: ChunkUnit, length: int
) -> None:
    paragraph = ("Passengers who are trapped are freed soon. " * 80)[:length].strip()
    text = f"# Rescue\n\n{paragraph}\n\n# Fire\n\n{paragraph}"
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    sizes = {"characters": (800, 100), "tokens": (160, 20)}
    found = [chunk for chunk in split(document, Chunking(strategy, *sizes[unit], unit)) if is_chunk(chunk)]
    for title in ("# Rescue", "# Fire"):
        assert any(f"{title}\n\nPassengers who" in chunk.text for chunk in found)
    assert not any(chunk.text in ("# Rescue", "# Fire") for chunk in found)


def is_chunk(chunk: Chunk) -> bool:
    """Whether this is no record of another layer."""
    return chunk.metadata.get("layer", "chunk") == "chunk"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_headings_without_texts_of_their_own_are_with_the_next_text(strategy: ChunkStrategy) -> None:
    text = "# Part\n\n## Empty\n\n## Also empty\n\n# Rescue\n\nTrapped passengers are freed."
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    chunks = [chunk.text for chunk in split(document, Chunking(strategy, 100, 0)) if is_chunk(chunk)]
    assert chunks == [text]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_heading_at_the_end_of_a_document_is_kept(strategy: ChunkStrategy) -> None:
    text = "Trapped passengers are freed.\n\n# Rescue"
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    assert split(document, Chunking(strategy, 30, 0))[-1].text.endswith("# Rescue")


def test_a_line_that_is_no_heading_of_its_format_is_a_paragraph_like_others() -> None:
    text = "# Lifts\n\nThe lift\nis tested. Every year.\n\nIt is old."
    chunks = split(Extracted(text, "text/plain"), Chunking("recursive", 24, 0))
    assert [chunk.text for chunk in chunks] == ["# Lifts", "The lift", "is tested. Every year.", "It is old."]
