"""The speed of splitting: MB/s of each strategy and unit, for a million characters of the handbook."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, get_args

from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.parsers.plain import markdown_headings
from ragstore_gateway.splitting.chunk import Chunking, ChunkStrategy, ChunkUnit
from ragstore_gateway.splitting.strategies import split
from ragstore_gateway.splitting.tokens import count_tokens

CHARACTERS: Final = 1_000_000


def main() -> None:
    """Print a table."""
    handbook = Path("examples/handbook/handbook.md").read_text()
    text = (handbook * (CHARACTERS // len(handbook) + 1))[:CHARACTERS]
    document = Extracted(text, "text/markdown", headings=markdown_headings(text))
    count_tokens("load the vocabulary")
    strategies: tuple[ChunkStrategy, ...] = get_args(ChunkStrategy)
    print("| unit |", " | ".join(strategies), "|")
    units: tuple[ChunkUnit, ...] = get_args(ChunkUnit)
    for unit in units:
        speeds = []
        for strategy in strategies:
            start = time.perf_counter()
            split(document, Chunking(strategy, 512, 64, unit))
            speeds.append(f"{CHARACTERS / 1e6 / (time.perf_counter() - start):.1f}")
        print(f"| {unit} |", " | ".join(speeds), "|")


if __name__ == "__main__":
    main()
