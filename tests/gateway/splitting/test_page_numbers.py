"""The pages of chunks, over PDF files whose words name their pages."""

from __future__ import annotations

import re
from itertools import groupby

import msgspec
import pytest

from ragstore_gateway.extraction.extracted import Extracted, Heading
from ragstore_gateway.extraction.parsers.pdf import document
from ragstore_gateway.extraction.protocol import Request
from ragstore_gateway.splitting.chunk import Chunk, Chunking, ChunkSpan, ChunkStrategy
from ragstore_gateway.splitting.strategies import split
from tests.gateway.extraction.documents import pdf

LINES = 23
"""Lines of a page: it is no multiple of a chunk."""


@pytest.fixture(scope="module")
def manual() -> Extracted:
    """A PDF file of 12 pages, as it is extracted. The word `p3w7.` is on page 3."""
    pages = []
    for number in range(1, 13):
        lines = []
        for line in range(LINES):
            words = " ".join(f"p{number}w{line * 8 + word}" for word in range(8))
            lines.append(f"BT /F1 12 Tf 20 {780 - 24 * line} Td ({words}.) Tj ET")
        pages.append("\n".join(lines))
    return document(pdf(pages), Request("", "", "text", "", 1_000_000, 1.0))


def pages_of(text: str) -> list[int]:
    """The pages of the words of a text. Its first and last words may be parts."""
    return [int(number) for number in re.findall(r"p(\d+)w", text)]


def new_part(chunk: Chunk, before: Chunk | None) -> str:
    """The text of a chunk behind the overlap."""
    return chunk.text if before is None else chunk.text[max(0, before.end - chunk.start) :]


@pytest.mark.parametrize("strategy", ["recursive", "window", "sentence", "paragraph", "markdown", "layers"])
@pytest.mark.parametrize(("size", "overlap"), [(512, 64), (800, 100), (300, 200)])
def test_a_chunk_has_the_page_of_its_first_new_character_and_the_page_where_it_ends(
    manual: Extracted, strategy: ChunkStrategy, size: int, overlap: int
) -> None:
    crossing = 0
    for layer, found in groupby(
        split(manual, Chunking(strategy, size, overlap)), key=lambda chunk: chunk.metadata.get("layer")
    ):
        before: Chunk | None = None
        for chunk in found:
            pages = pages_of(new_part(chunk, before))
            if layer == "document":
                assert (chunk.page, chunk.last_page) == (None, None)
            else:
                assert chunk.page == pages[0]
                assert chunk.last_page == (None if pages[-1] == pages[0] else pages[-1])
                crossing += len(set(pages_of(chunk.text))) > 1
            before = chunk
    assert crossing


def test_a_chunk_has_the_heading_of_its_first_new_character() -> None:
    text = "One\n\nalpha beta gamma\n\nTwo\n\ndelta epsilon zeta"
    headings = (Heading(1, "One", 0, 3), Heading(1, "Two", 23, 26))
    chunks = split(Extracted(text, "text/html", headings=headings), Chunking("window", 24, 8))
    found = {chunk.heading for chunk in chunks if "epsilon" in chunk.text}
    assert found == {"Two"}
    second = next(chunk for chunk in chunks if chunk.text.startswith("gamma"))
    assert (second.text, second.heading) == ("gamma\n\nTwo\n\ndelta", "Two")


def test_spans_that_an_earlier_version_has_recorded_are_read() -> None:
    recorded = msgspec.msgpack.encode([[0, 3, 1, 2, "One", {}]])
    assert msgspec.msgpack.decode(recorded, type=list[ChunkSpan]) == [ChunkSpan(0, 3, 1, 2, "One", {})]
