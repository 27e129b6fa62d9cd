"""`Chunk` and `Chunking`: what splitting returns, and what it is configured with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

ChunkStrategy: TypeAlias = Literal["recursive", "window", "sentence", "paragraph", "markdown", "layers"]
"""The strategies. `regions` and `strategies` have a case for each of them; mypy reports a missing one."""

ChunkUnit: TypeAlias = Literal["characters", "tokens"]
OVERLAP_TOO_LARGE: Final = "Must be less than chunkSize"
"""The fault of an overlap that is not smaller than a chunk."""

MetadataValue: TypeAlias = str | int | float | bool


class Chunking(Struct, frozen=True):
    """How texts are split.

    Attributes:
        strategy: where a text may be split.
        size: maximum size of a chunk, in units.
        overlap: maximum size of what a chunk repeats of the chunk before, in units; less than `size`.
        unit: characters, or tokens of o200k_base.
        with_headings: whether the title and the headings precede the text of a chunk where it is embedded. It changes
            no span.
    """

    strategy: ChunkStrategy = "recursive"
    size: Annotated[int, Meta(ge=1)] = 512
    overlap: Annotated[int, Meta(ge=0)] = 64
    unit: ChunkUnit = "characters"
    with_headings: bool = False


WINDOW: Final = Chunking("window", 800, 100)
"""The windows of `ragstore-gateway ingest` and of `/summarize`, by default."""


class Chunk(Struct, frozen=True):
    """A span of an extracted text.

    Attributes:
        index: its index among the chunks of the text.
        start: index of its first character in the extracted text.
        end: index after its last character.
        text: the characters, `text[start:end]` of the extracted text.
        token_count: number of its tokens, o200k_base.
        page: number of the page of its first character behind the overlap; None for a text without pages.
        heading: the nearest heading above that character; empty for a text without headings.
        metadata: further metadata of the strategy, such as the keys of `layers`.
        last_page: number of the page of its last character, if that is another one.
    """

    index: int
    start: int
    end: int
    text: str
    token_count: int
    page: int | None = None
    heading: str = ""
    metadata: Mapping[str, MetadataValue] = {}
    last_page: int | None = None

    @property
    def span(self) -> ChunkSpan:
        """The chunk without its text."""
        given = (self.start, self.end, self.token_count, self.page, self.heading, self.metadata)
        return ChunkSpan(*given, self.last_page)


class ChunkSpan(Struct, frozen=True, array_like=True, gc=False):
    """A chunk without its text; see `Chunk`. A gateway reads chunks that an earlier version has recorded."""

    start: int
    end: int
    token_count: int
    page: int | None
    heading: str
    metadata: Mapping[str, MetadataValue]
    last_page: int | None = None
