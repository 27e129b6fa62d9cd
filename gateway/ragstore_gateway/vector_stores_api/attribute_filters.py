"""OpenAI's filters over attributes, as filters of vector stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.vector_stores.filters import Filter, parse

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
    return parse(_where(given, _PATH, 0), _PATH)


def _where(given: object, path: str, depth: int) -> Where:
    if depth > MAX_DEPTH:
        raise InvalidRequest.at(path, f"A filter has at most {MAX_DEPTH} levels")
    if not isinstance(given, Mapping):
        raise InvalidRequest.at(path, "A filter must be an object")
    kind = given.get("type")
    if kind in COMBINATIONS:
        nested = given.get("filters")
        if not isinstance(nested, list) or not nested:
            raise InvalidRequest.at(f"{path}.filters", "Must be a list of filters that is not empty")
        return {f"${kind}": [_where(each, f"{path}.filters[{index}]", depth + 1) for index, each in enumerate(nested)]}
    if kind not in COMPARISONS:
        raise InvalidRequest.at(f"{path}.type", f"Must be one of {', '.join((*COMPARISONS, *COMBINATIONS))}")
    key = given.get("key")
    if not isinstance(key, str) or not key or key.startswith("$"):
        raise InvalidRequest.at(f"{path}.key", "Must be the key of an attribute, which does not begin with $")
    return _checked({key: {f"${kind}": given.get("value")}}, f"{path}.value")


def _checked(where: Where, path: str) -> Where:
    """Check one comparison by itself, so that an error names the path of its value."""
    try:
        parse(where)
    except InvalidRequest as error:
        raise InvalidRequest.at(path, error.field_errors[0].message) from None
    return where
