"""Section expansion: from a retrieved passage to its whole section or document, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ragstore_client._exceptions import InvalidInput
from ragstore_client._models import Document, Scalar
from ragstore_client.rag._results import RetrievedPassage

_PARAGRAPH = "\n\n"

_TYPES_IN_ORDER = ("title", "heading", "paragraph", "text", "list", "table", "code", "caption", "footnote")
"""Reading order of the chunks of a section when their metadata has nothing but `doc_type`."""


class ExpandedPassage(msgspec.Struct, frozen=True):
    """The section or document that contains a passage.

    Attributes:
        documents: its chunks, in reading order.
        text: the chunks as one text, without repeating where they overlap.
    """

    documents: list[Document]
    text: str


def section_filter(passage: RetrievedPassage) -> dict[str, Scalar]:
    """The filter that selects the chunks of a passage's section.

    Returns:
        A filter by `section_id`, or else by `section_heading`, within the passage's document and layer. The filter of
        its document when it names no section.

    Raises:
        InvalidInput: the metadata names neither a section nor a document.
    """
    for key in ("section_id", "section_heading"):
        if passage.metadata.get(key):
            return _equal_to(passage, (key, "document_id", "layer"))
    return document_filter(passage)


def document_filter(passage: RetrievedPassage) -> dict[str, Scalar]:
    """The filter that selects the chunks of a passage's document.

    Returns:
        A filter by `document_id` within the passage's layer, because the layers repeat each other's text.

    Raises:
        InvalidInput: the metadata names no document.
    """
    if not passage.metadata.get("document_id"):
        raise InvalidInput("the passage's metadata names neither a section nor a document")
    return _equal_to(passage, ("document_id", "layer"))


def assemble(documents: Sequence[Document], around: RetrievedPassage | None = None) -> ExpandedPassage:
    """Assemble chunks.

    Args:
        documents: the chunks, in any order.
        around: a passage among them. A heading may occur twice in a document ("General"); only the run of chunks that
            contains the passage is used then.

    Returns:
        The chunks in reading order, and their text.
    """
    chunks = sorted(documents, key=_reading_order)
    if around is not None:
        chunks = _run_around(chunks, around.id)
    return ExpandedPassage(chunks, _join(chunks))


def _equal_to(passage: RetrievedPassage, keys: Sequence[str]) -> dict[str, Scalar]:
    values = {key: passage.metadata.get(key) for key in keys}
    return {key: value for key, value in values.items() if isinstance(value, str | int | float) and value != ""}


def _reading_order(chunk: Document) -> tuple[float, float, float, int]:
    kind = chunk.metadata.get("doc_type")
    rank = _TYPES_IN_ORDER.index(kind) if kind in _TYPES_IN_ORDER else len(_TYPES_IN_ORDER)
    start = _number(chunk, "char_start")
    # Pages and indices may restart in each section, so offsets into the source, where there are any, come first.
    return (start, _number(chunk, "page_number"), _number(chunk, "chunk_index"), rank)


def _number(chunk: Document, key: str) -> float:
    value = chunk.metadata.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _run_around(chunks: list[Document], passage_id: str) -> list[Document]:
    runs: list[list[Document]] = [chunks[:1]]
    for before, after in pairwise(chunks):
        if _is_next(before, after):
            runs[-1].append(after)
        else:
            runs.append([after])
    return next((run for run in runs if any(chunk.id == passage_id for chunk in run)), chunks)


def _is_next(before: Document, after: Document) -> bool:
    first, second = before.metadata.get("chunk_index"), after.metadata.get("chunk_index")
    if isinstance(first, int) and isinstance(second, int):
        return second in (first, first + 1)
    return True


def _join(chunks: Sequence[Document]) -> str:
    text, covered = "", 0
    for chunk in chunks:
        overlap = covered - int(_number(chunk, "char_start")) if text and "char_start" in chunk.metadata else 0
        # Offsets may count characters differently from the text, so the texts themselves must agree.
        if 0 < overlap <= len(chunk.text) and text.endswith(chunk.text[:overlap]):
            text += chunk.text[overlap:]
        elif overlap <= 0 or chunk.text not in text:
            text += (_PARAGRAPH if text else "") + chunk.text
        covered = max(covered, int(_number(chunk, "char_end")))
    return text
