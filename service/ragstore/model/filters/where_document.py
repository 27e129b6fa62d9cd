"""The `where_document` language: filters over text.

`{"$contains": "text"}` and `{"$not_contains": "text"}` search for the exact, case-sensitive text.
`{"$regex": "..."}` and `{"$not_regex": "..."}` take a regular expression of Rust's `regex` crate.
Several operators in one object must all hold; `$and` and `$or` take lists of filters; `{}` selects everything.

One limit: in a text with a NUL character, `$contains` does not find text after it. `$regex` does.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from ragstore.filters.grammar import Filter, FilterErrors, FilterParser
from ragstore.model.filters import combinations
from ragstore.model.filters.regex_size import MAX_UNICODE_CLASSES, is_too_large

OPERATORS: Final = ("$contains", "$not_contains", "$regex", "$not_regex")
REGEX: Final = ("$regex", "$not_regex")
MAX_TEXT: Final = 1000
"""Characters in one operand. A regular expression costs memory in proportion."""

MAX_REGEX_CHARACTERS: Final = 10_000
"""Characters in all regular expressions of a filter. The sizes of 500,000 characters, the maximum of 500
comparisons, take 2 s to compute."""

_NUL: Final = "\x00"
_SPECIAL: Final = frozenset(r"\.+*?()|[]{}^$#&-~")

ERRORS: Final = FilterErrors("where_document")


class TextComparison(msgspec.Struct, frozen=True):
    """One operator on the text.

    Attributes:
        operator: one of `OPERATORS`.
        operand: the text or expression to search for.
    """

    operator: str
    operand: str


WhereDocument: TypeAlias = Filter[TextComparison]


def parse_text(text: str) -> WhereDocument | None:
    """Parse a filter from JSON text; see `FilterParser.parse_text`."""
    return _WhereDocumentParser(ERRORS).parse_text(text)


def parse(value: object) -> WhereDocument | None:
    """Parse a filter from a decoded JSON value; see `FilterParser.parse`."""
    return _WhereDocumentParser(ERRORS).parse(value)


class _WhereDocumentParser(FilterParser[TextComparison]):
    def __init__(self, errors: FilterErrors) -> None:
        super().__init__(errors)
        self._regex_characters = 0

    def comparisons(self, key: str, value: object, path: str) -> list[TextComparison]:
        if key not in OPERATORS:
            raise self.errors.error(f"unknown operator '{key}'", path)
        if not isinstance(value, str) or not value:
            raise self.errors.error(f"'{key}' takes a non-empty string", path)
        if len(value) > MAX_TEXT:
            raise self.errors.error(f"'{key}' takes at most {MAX_TEXT} characters", path)
        if key in REGEX:
            self._check_regex(value, path)
        return [TextComparison(key, value)]

    def _check_regex(self, value: str, path: str) -> None:
        self._regex_characters += len(value)
        if self._regex_characters > MAX_REGEX_CHARACTERS:
            raise self.errors.error(f"more than {MAX_REGEX_CHARACTERS} characters in its regular expressions")
        if is_too_large(value):
            message = f"at most {MAX_UNICODE_CLASSES} classes such as '\\w' or '.', repetitions written out"
            raise self.errors.error(f"a regular expression is too large: it may have {message}", path)


def to_chroma(where_document: WhereDocument) -> dict[str, object]:
    """Translate a filter to Chroma's language."""
    return combinations.to_chroma(where_document, _comparison_to_chroma)


def _comparison_to_chroma(comparison: TextComparison) -> dict[str, object]:
    operator, operand = comparison.operator, comparison.operand
    if _NUL in operand and operator in ("$contains", "$not_contains"):
        # Chroma searches only for the text before the NUL (measured with 1.5.9). A regular expression has all of it.
        literally = "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in operand)
        return {"$regex" if operator == "$contains" else "$not_regex": literally}
    return {operator: operand}
