"""From a hit to what it was cut from: its section or document, whole and in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from ragstore_client._exceptions import InvalidInput
from ragstore_client._models import Document, Scalar

if TYPE_CHECKING:
    from ragstore_client.rag._results import RetrievedPassage

_PARAGRAPH = "\n\n"

_TYPES_IN_ORDER = ("title", "heading", "paragraph", "text", "list", "table", "code", "caption", "footnote")
"""How pieces of a section follow one another when nothing but `doc_type` tells."""


class ExpandedPassage(msgspec.Struct, frozen=True):
    """What a hit was cut from.

    Attributes:
        documents: its pieces, in reading order.
        text: the pieces as one text; where they overlap, the overlap stands once.
    """

    documents: list[Document]
    text: str


def section_filter(hit: RetrievedPassage) -> dict[str, Scalar]:
    """What the pieces of a hit's section have in common.

    Args:
        hit: a hit.

    Returns:
        A filter: by `section_id`, or else by `section_heading`, within the hit's document and layer. The filter of
        its document when it names no section.

    Raises:
        InvalidInput: it does not tell where it comes from.
    """
    for key in ("section_id", "section_heading"):
        if hit.metadata.get(key):
            return _shared(hit, (key, "document_id", "layer"))
    return document_filter(hit)


def document_filter(hit: RetrievedPassage) -> dict[str, Scalar]:
    """What the pieces of a hit's document have in common.

    Args:
        hit: a hit.

    Returns:
        A filter by `document_id` within the hit's layer: the layers repeat one another's text.

    Raises:
        InvalidInput: it does not tell which document it comes from.
    """
    if not hit.metadata.get("document_id"):
        raise InvalidInput("the hit's metadata names neither a section nor a document")
    return _shared(hit, ("document_id", "layer"))


def passage(documents: Sequence[Document], around: RetrievedPassage | None = None) -> ExpandedPassage:
    """Put pieces together.

    Args:
        documents: the pieces, in any order.
        around: a hit among them. A heading may come twice in a document ("General"); only the run of pieces that holds
            the hit is taken then.

    Returns:
        The pieces in reading order, and their text.
    """
    pieces = sorted(documents, key=_place)
    if around is not None:
        pieces = _run_around(pieces, around.id)
    return ExpandedPassage(pieces, _text(pieces))


def _shared(hit: RetrievedPassage, keys: Sequence[str]) -> dict[str, Scalar]:
    values = {key: hit.metadata.get(key) for key in keys}
    return {key: value for key, value in values.items() if isinstance(value, str | int | float) and value != ""}


def _place(document: Document) -> tuple[float, float, float, int]:
    kind = document.metadata.get("doc_type")
    rank = _TYPES_IN_ORDER.index(kind) if kind in _TYPES_IN_ORDER else len(_TYPES_IN_ORDER)
    start = _number(document, "char_start")
    # Pages and indices may begin anew in each section, so offsets into the source, where there are any, come first.
    return (start, _number(document, "page_number"), _number(document, "chunk_index"), rank)


def _number(document: Document, key: str) -> float:
    value = document.metadata.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _run_around(pieces: list[Document], hit_id: str) -> list[Document]:
    runs: list[list[Document]] = [pieces[:1]]
    for before, after in pairwise(pieces):
        if _follows(before, after):
            runs[-1].append(after)
        else:
            runs.append([after])
    return next((run for run in runs if any(piece.id == hit_id for piece in run)), pieces)


def _follows(before: Document, after: Document) -> bool:
    first, second = before.metadata.get("chunk_index"), after.metadata.get("chunk_index")
    if isinstance(first, int) and isinstance(second, int):
        return second in (first, first + 1)
    return True


def _text(pieces: Sequence[Document]) -> str:
    text, covered = "", 0
    for piece in pieces:
        overlap = covered - int(_number(piece, "char_start")) if text and "char_start" in piece.metadata else 0
        # Offsets may count other characters than the text has: the texts themselves must agree.
        if 0 < overlap <= len(piece.text) and text.endswith(piece.text[:overlap]):
            text += piece.text[overlap:]
        elif overlap <= 0 or piece.text not in text:
            text += (_PARAGRAPH if text else "") + piece.text
        covered = max(covered, int(_number(piece, "char_end")))
    return text
