"""The `where_document` language: which documents a filter over text selects.

`{"$contains": "text"}` and `{"$not_contains": "text"}` look for the text as it stands, case and all.
`{"$regex": "..."}` and `{"$not_regex": "..."}` take a regular expression of Rust's `regex` crate.
Several operators in one object mean all of them; `$and` and `$or` take lists of filters; `{}` selects everything.

One limit: in a text that holds a NUL character, `$contains` does not find what stands behind it; `$regex` does.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from ragstore.model.filters import grammar
from ragstore.model.filters.grammar import Complaint, Filter, Reader

OPERATORS: Final = ("$contains", "$not_contains", "$regex", "$not_regex")
MAX_TEXT: Final = 1000
"""Characters in one operand. A regular expression costs memory in proportion."""

_NUL: Final = "\x00"
_SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$#&-~")

COMPLAINT: Final = Complaint("where_document")


class TextComparison(msgspec.Struct, frozen=True):
    """One operator on the text.

    Attributes:
        operator: one of `OPERATORS`.
        operand: the text or expression to look for.
    """

    operator: str
    operand: str


WhereDocument: TypeAlias = Filter[TextComparison]


def parse_text(text: str) -> WhereDocument | None:
    """Read a filter given as JSON text; see `Reader.read_text`."""
    return _WhereDocumentReader(COMPLAINT).read_text(text)


def parse(value: object) -> WhereDocument | None:
    """Read a filter given as a JSON value; see `Reader.read`."""
    return _WhereDocumentReader(COMPLAINT).read(value)


class _WhereDocumentReader(Reader[TextComparison]):
    def comparisons(self, key: str, value: object, path: str) -> list[TextComparison]:
        if key not in OPERATORS:
            raise self.complaint.about(f"unknown operator '{key}'", path)
        if not isinstance(value, str) or not value:
            raise self.complaint.about(f"'{key}' takes a non-empty string", path)
        if len(value) > MAX_TEXT:
            raise self.complaint.about(f"'{key}' takes at most {MAX_TEXT} characters", path)
        return [TextComparison(key, value)]


def to_chroma(where_document: WhereDocument) -> dict[str, object]:
    """Write a filter for Chroma.

    Args:
        where_document: the filter.

    Returns:
        The same in Chroma's own form.
    """
    return grammar.to_chroma(where_document, _comparison_to_chroma)


def _comparison_to_chroma(comparison: TextComparison) -> dict[str, object]:
    operator, operand = comparison.operator, comparison.operand
    if _NUL in operand and operator in ("$contains", "$not_contains"):
        # Chroma looks for what stands before the NUL only (measured with 1.5.9); a regular expression holds it all.
        literally = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in operand)
        return {"$regex" if operator == "$contains" else "$not_regex": literally}
    return {operator: operand}
