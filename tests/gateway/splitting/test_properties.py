"""Properties of every strategy, in both units, for texts of any script and form."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import get_args

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_gateway.extraction.extracted import Extracted, Page
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.splitting.chunk import Chunk, Chunking, ChunkStrategy, ChunkUnit
from ragstore_gateway.splitting.strategies import MAX_LAYER_TOKENS, split
from ragstore_gateway.splitting.tokens import count_tokens

SECTIONED = ("markdown", "layers")
STRATEGIES: tuple[ChunkStrategy, ...] = get_args(ChunkStrategy)
UNITS: tuple[ChunkUnit, ...] = ("characters", "tokens")

WORDS = st.sampled_from(
    [
        "a", "heating", "Zahnradbahn", "e\u0301", "\u0301", "o\u0302\u0323\u0301", "\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea\U0001f1eb", "ภาษาไทย", "漢字仮名", "한국어", "\u1100\u1161\u11a8", "क्षि", "\u0600",
        "\u00ad", "\u00a9", "https://example.org/a/very/long/path?with=a&query=string", "3.14", "x" * 40, "\u200b", "…",
    ]
)  # fmt: skip
SEPARATORS = st.sampled_from(
    [" ", " ", " ", "", ". ", "! ", "\n", "\n\n", "\n \n", "\n\n\n\n", "\t", "   ", "\u3000", "。", "\u2029", "\u00a0",
     "\n# ", "\n\n## Heading\n\n", "\n- ", "\n```\n", "\n> ", "|", " \u0301", "\u0085", "\x1c"]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.tuples(WORDS, SEPARATORS), max_size=60).map(lambda pairs: "".join(map("".join, pairs))),
    st.text(max_size=200),
)


@st.composite
def chunkings(draw: st.DrawFn, strategy: ChunkStrategy, unit: ChunkUnit) -> Chunking:
    size = draw(st.one_of(st.integers(1, 12), st.integers(1, 120)))
    return Chunking(strategy, size, draw(st.integers(0, size - 1)), unit)


def extracted(text: str) -> Extracted:
    """A text as extraction returns it: the only line break is a line feed."""
    source = text.replace("\r", "")
    half = len(source) // 2
    return Extracted(
        source,
        "text/markdown",
        pages=(Page(1, 0, half), Page(2, half, len(source))),
        headings=markdown_headings(source),
    )


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None)
@given(data=st.data())
def test_chunks_cover_the_text_within_size_and_overlap(
    strategy: ChunkStrategy, unit: ChunkUnit, data: st.DataObject
) -> None:
    document = extracted(data.draw(TEXTS))
    chunking = data.draw(chunkings(strategy, unit))
    chunks = split(document, chunking)
    assert split(document, chunking) == chunks
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    for layer, found in groupby(chunks, key=lambda chunk: chunk.metadata.get("layer", "chunk")):
        records = list(found)
        _check_spans(document.text, records)
        if layer == "chunk":
            _check_cover(document.text, records)
            _check_sizes(records, chunking)
            _check_overlaps(document, records, chunking)
            _check_clusters(document.text, records, chunking)
        else:
            _check_sizes(records, Chunking("recursive", MAX_LAYER_TOKENS, 0, "tokens"))
            assert not any(after.start < before.end for before, after in pairwise(records))
            if layer != "section":  # no section begins before the first heading
                _check_cover(document.text, records)


def _check_spans(text: str, chunks: list[Chunk]) -> None:
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        assert chunk.token_count == count_tokens(chunk.text)
    for before, after in pairwise(chunks):
        assert before.start < after.start
        assert before.end < after.end


def _check_cover(text: str, chunks: list[Chunk]) -> None:
    covered = {index for chunk in chunks for index in range(chunk.start, chunk.end)}
    assert all(character.isspace() for index, character in enumerate(text) if index not in covered)


def _check_sizes(chunks: list[Chunk], chunking: Chunking) -> None:
    for chunk in chunks:
        # A character is not split, even if it has more tokens.
        assert _size(chunk.text, chunking) <= chunking.size or len(chunk.text) == 1


def _check_overlaps(document: Extracted, chunks: list[Chunk], chunking: Chunking) -> None:
    sections = {heading.start for heading in document.headings} if chunking.strategy in SECTIONED else set()
    for before, after in pairwise(chunks):
        if after.start < before.end:
            assert _size(document.text[after.start : before.end], chunking) <= chunking.overlap
        elif chunking.overlap and sections.isdisjoint(range(before.start + 1, after.start + 1)):
            assert not _has_room(document.text, before, after, chunking)


def _has_room(text: str, before: Chunk, after: Chunk, chunking: Chunking) -> bool:
    """Whether the chunk could begin with the last word of the previous chunk."""
    start = before.start + len(before.text) - len(before.text.split()[-1])
    return (
        start > before.start
        and (start - 1, start) in {match.span() for match in regex.finditer(r"\X", text[: start + 1])}
        and _size(text[start : before.end], chunking) <= chunking.overlap
        and _size(text[start : after.end], chunking) <= chunking.size
    )


def _check_clusters(text: str, chunks: list[Chunk], chunking: Chunking) -> None:
    cuts = {cut for chunk in chunks for cut in (chunk.start, chunk.end)}
    for match in regex.finditer(r"\X", text):
        if any(cut in cuts for cut in range(match.start() + 1, match.end())):
            assert _size(match.group(), chunking) > chunking.size


def _size(text: str, chunking: Chunking) -> int:
    return len(text) if chunking.unit == "characters" else count_tokens(text)
