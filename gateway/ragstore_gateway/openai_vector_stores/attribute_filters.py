"""OpenAI's filters over attributes, as filters of vector stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.vector_stores.filters import MAX_CLAUSES, MAX_VALUES, Filter, parse

COMPARISONS: Final = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin")
COMBINATIONS: Final = ("and", "or")
MAX_DEPTH: Final = 32

_PATH: Final = "$.filters"


def parse_filter(given: Mapping[str, Any]) -> Filter:
    """Parse a filter.

    Args:
        given: a comparison, `{"type": "eq", "key": …, "value": …}`, or a combination, `{"type": "and", "filters":
            […]}`.

    Raises:
        InvalidRequest: it is neither; the error names the path.
    """
    return parse(_Converter().where(given, _PATH, 0), _PATH)


class _Converter:
    """Converts one filter. A filter that is too large is rejected before the rest of it is read."""

    def __init__(self) -> None:
        self._comparisons = 0
        self._values = 0

    def where(self, given: object, path: str, depth: int) -> Where:
        if depth > MAX_DEPTH:
            raise InvalidRequest.at(path, f"A filter has at most {MAX_DEPTH} levels")
        if not isinstance(given, Mapping):
            raise InvalidRequest.at(path, "A filter must be an object")
        kind = given.get("type")
        if kind in COMBINATIONS:
            nested = given.get("filters")
            if not isinstance(nested, list) or not nested:
                raise InvalidRequest.at(f"{path}.filters", "Must be a list of filters that is not empty")
            below = f"{path}.filters"
            return {f"${kind}": [self.where(each, f"{below}[{n}]", depth + 1) for n, each in enumerate(nested)]}
        if kind not in COMPARISONS:
            raise InvalidRequest.at(f"{path}.type", f"Must be one of {', '.join((*COMPARISONS, *COMBINATIONS))}")
        key = given.get("key")
        if not isinstance(key, str) or not key or key.startswith("$"):
            raise InvalidRequest.at(f"{path}.key", "Must be the key of an attribute, which does not begin with $")
        value = given.get("value")
        self._count(value, path)
        return _checked({key: {f"${kind}": value}}, f"{path}.value")

    def _count(self, value: object, path: str) -> None:
        self._comparisons += 1
        if self._comparisons > MAX_CLAUSES:
            raise InvalidRequest.at(path, f"A filter has at most {MAX_CLAUSES} comparisons")
        self._values += len(value) if isinstance(value, list) else 0
        if self._values > MAX_VALUES:
            raise InvalidRequest.at(f"{path}.value", f"The lists of a filter have at most {MAX_VALUES} values")


def _checked(where: Where, path: str) -> Where:
    """Check one comparison by itself, so that an error names the path of its value."""
    try:
        parse(where)
    except InvalidRequest as error:
        raise InvalidRequest.at(path, error.field_errors[0].message) from None
    return where
