"""The examples of docs/extraction-and-splitting.md are what the strategies return."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.splitting.chunk import Chunking, ChunkStrategy
from ragstore_gateway.splitting.strategies import split
from tests.support.pages import blocks_of

PAGE = "docs/extraction-and-splitting.md"
SIZES: dict[ChunkStrategy, tuple[int, int]] = {
    "recursive": (90, 20),
    "window": (90, 20),
    "sentence": (90, 0),
    "paragraph": (150, 0),
    "markdown": (90, 0),
    "layers": (150, 0),
}


def shown(text: str, strategy: ChunkStrategy) -> str:
    """The chunks of a text, as the page shows them."""
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    size, overlap = SIZES[strategy]
    lines = [f"{strategy}, size {size}, overlap {overlap}"]
    for chunk in split(document, Chunking(strategy, size, overlap)):
        layer = f" {chunk.metadata['layer']}" if chunk.metadata else ""
        heading = f" ({chunk.heading})" if chunk.heading else ""
        lines.append(f"{chunk.start}-{chunk.end}{layer}{heading}: {chunk.text!r}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("strategy", get_args(ChunkStrategy))
def test_the_page_shows_the_chunks_of_each_strategy(strategy: ChunkStrategy) -> None:
    example, *outputs = (block.code for block in blocks_of(PAGE) if block.language == "text")
    assert shown(example.rstrip("\n"), strategy) in outputs


def test_the_page_lists_every_strategy() -> None:
    page = (Path(__file__).resolve().parents[3] / PAGE).read_text()
    for strategy in get_args(ChunkStrategy):
        assert f"\n| `{strategy}`" in page
