"""OpenAI's filters over attributes, in the `where` language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstore.filters.grammar import MAX_DEPTH, Combination, FilterErrors, InvalidFilter
from ragstore.filters.where import Comparison, Where, WhereParser
from ragstore.kit.errors import InvalidRequest

COMPARISONS: Final = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
COMBINATIONS: Final = ("and", "or")

_ERRORS: Final = FilterErrors("filters")


def parse_filter(given: Mapping[str, Any]) -> Where:
    """Parse a filter.

    Args:
        given: a comparison, `{"type": "eq", "key": …, "value": …}`, or a combination, `{"type": "and", "filters":
            […]}`.

    Raises:
        InvalidRequest: it is neither; the error names the path.
    """
    try:
        return _translated(given, _ERRORS.root, 0, WhereParser(_ERRORS))
    except InvalidFilter as error:
        raise InvalidRequest(error.detail, error.field_errors) from None


def _translated(given: object, path: str, depth: int, parser: WhereParser) -> Where:
    """Translate a filter. One that is too large is rejected before the rest of it is read."""
    if depth > MAX_DEPTH:
        raise InvalidRequest.at(path, f"A filter has at most {MAX_DEPTH} levels")
    if not isinstance(given, Mapping):
        raise InvalidRequest.at(path, "A filter must be an object")
    kind = given.get("type")
    if kind in COMBINATIONS:
        nested = given.get("filters")
        below = f"{path}.filters"
        if not isinstance(nested, list) or not nested:
            raise InvalidRequest.at(below, "Must be a list of filters that is not empty")
        clauses = (_translated(each, f"{below}[{n}]", depth + 1, parser) for n, each in enumerate(nested))
        return Combination(f"${kind}", tuple(clauses))
    if kind not in COMPARISONS:
        raise InvalidRequest.at(f"{path}.type", f"Must be one of {', '.join((*COMPARISONS, *COMBINATIONS))}")
    key = given.get("key")
    if not isinstance(key, str) or not key or key.startswith("$"):
        raise InvalidRequest.at(f"{path}.key", "Must be the key of an attribute, which does not begin with $")
    parser.count_clauses(1)
    return Comparison(key, f"${kind}", parser.operand(f"${kind}", given.get("value"), f"{path}.value"))
