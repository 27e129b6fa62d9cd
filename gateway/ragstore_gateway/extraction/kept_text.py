"""An extracted text with its pages and headings, as a document of its own: what an export of a knowledge base has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from ragstore_gateway.errors import ExtractionFailed, NoText
from ragstore_gateway.extraction.extracted import Extracted, Heading, Page
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.text_builder import MAX_LEVEL, check_length, clean, one_line

KEPT_TEXT: Final = "application/vnd.ragstore.text+json"
"""The media type of such a document."""


class TextPage(Struct, frozen=True):
    """A page of a text."""

    number: Annotated[int, Meta(ge=1, description="Its number.")]
    start: Annotated[int, Meta(ge=0, description="Index of its first character in the text.")]
    end: Annotated[int, Meta(ge=0, description="Index after its last character.")]


class TextHeading(Struct, frozen=True):
    """A heading of a text."""

    level: Annotated[int, Meta(ge=1, le=MAX_LEVEL, description="1 for the highest.")]
    text: Annotated[str, Meta(description="The heading, without marks.")]
    start: Annotated[int, Meta(ge=0, description="Index of its first character in the text, marks included.")]
    end: Annotated[int, Meta(ge=0, description="Index after its last character.")]


class KeptText(Struct, frozen=True, kw_only=True):
    """An extracted text."""

    text: str
    type: Annotated[str, Meta(description="Media type, as recognised.")]
    title: Annotated[str, Meta(description="Title, if known.")] = ""
    language: Annotated[str, Meta(description="ISO 639-1 code of its language, if known.")] = ""
    published: Annotated[str, Meta(description="Date of publication, if known.")] = ""
    pages: Annotated[
        list[TextPage], Meta(description="Pages, slides or sheets, in order, for formats that have some.")
    ] = []
    headings: Annotated[list[TextHeading], Meta(description="Headings, in order.")] = []


_decode: Final = msgspec.json.Decoder(KeptText).decode


def pages_of(extracted: Extracted) -> list[TextPage]:
    """The pages of a text.

    Args:
        extracted: the text.
    """
    return [TextPage(page.number, page.start, page.end) for page in extracted.pages]


def headings_of(extracted: Extracted) -> list[TextHeading]:
    """The headings of a text.

    Args:
        extracted: the text.
    """
    return [TextHeading(each.level, each.text, each.start, each.end) for each in extracted.headings]


def read_kept_text(content: bytes, max_characters: int) -> Extracted:
    """The text of such a document.

    Args:
        content: the document.
        max_characters: maximum number of characters of the text.

    Raises:
        DocumentTooLarge: the text is longer.
        ExtractionFailed: the document is damaged: it is another JSON, or a page or a heading is not in the text.
        NoText: the text is blank.
    """
    damaged = ExtractionFailed(f"The document is no {KEPT_TEXT}, or its pages and headings are not those of its text")
    try:
        kept = _decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise damaged from None
    check_length(len(kept.text), max_characters)
    if not kept.text.strip():
        raise NoText("The document has no text")
    spans = [(page.start, page.end) for page in kept.pages]
    headings = [(each.start, each.end) for each in kept.headings]
    is_sound = (
        kept.type in MEDIA_TYPES.values()
        and clean(kept.text) == kept.text
        and all(one_line(text) == text for text in (kept.title, *(each.text for each in kept.headings)))
        and all(before.number < after.number for before, after in pairwise(kept.pages))
        and _in_order(spans, len(kept.text))
        and _in_order(headings, len(kept.text))
    )
    if not is_sound:
        raise damaged
    return Extracted(
        kept.text,
        kept.type,
        kept.title,
        one_line(kept.language),
        one_line(kept.published),
        tuple(Page(page.number, page.start, page.end) for page in kept.pages),
        tuple(Heading(each.level, each.text, each.start, each.end) for each in kept.headings),
    )


def _in_order(spans: Iterable[tuple[int, int]], length: int) -> bool:
    """Whether spans are within a text, one after the other."""
    last = 0
    for start, end in spans:
        if not last <= start <= end <= length:
            return False
        last = end
    return True
