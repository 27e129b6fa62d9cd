"""The common grammar of both filter languages: `$and` and `$or`, limits, errors, and parsing of JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from ragstore.kit.errors import FieldError, InvalidRequest

MAX_DEPTH: Final = 32
"""Levels of `$and` and `$or`. Chroma's server rejects about 100 levels of JSON, and ragstore adds some."""

MAX_CLAUSES: Final = 500
"""Comparisons in one filter. SQLite rejects expression trees of depth 1,000."""

MAX_VALUES: Final = 8_000
"""Values in all `$in` and `$nin` of a filter; a number with a fraction counts twice. SQLite accepts 32,766 variables:
ids may need 10,000 of them, a number takes 2 and a comparison up to 12."""


C = TypeVar("C")
"""A language's comparison: the leaf of `$and` and `$or`."""


class Combination(msgspec.Struct, Generic[C], frozen=True):
    """Filters combined by `$and` or `$or`.

    Attributes:
        operator: `$and`: all must hold; `$or`: one must.
        clauses: one or more.
    """

    operator: str
    clauses: tuple[C | Combination[C], ...]


Filter: TypeAlias = C | Combination[C]


class InvalidFilter(InvalidRequest, title="Invalid filter"):
    """A `where` or `where_document` that is not of the filter language."""


class FilterErrors:
    """Creates the errors of one filter parameter.

    Args:
        parameter: `where` or `where_document`.
    """

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter

    @property
    def root(self) -> str:
        """JSON path of the whole filter."""
        return f"$.{self.parameter}"

    def error(self, message: str, path: str | None = None) -> InvalidFilter:
        """An error, for the caller to raise.

        Args:
            message: what is wrong, without any value of the filter.
            path: JSON path of the invalid part; the whole filter if None.
        """
        detail = f"Invalid '{self.parameter}' filter: {message}"
        if path is None:
            return InvalidFilter(detail, [FieldError(self.root, message)])
        return InvalidFilter(f"{detail} at {path}", [FieldError(path, message)])


class FilterParser(ABC, Generic[C]):
    """Parses one filter. It counts clauses and values, so each filter needs a new one."""

    def __init__(self, errors: FilterErrors) -> None:
        self.errors = errors
        self._clauses = 0
        self._values = 0

    @abstractmethod
    def comparisons(self, key: str, value: object, path: str) -> list[C]:
        """Parse a key other than `$and` and `$or`.

        Args:
            value: the decoded JSON value of the key.
            path: its JSON path.

        Returns:
            The comparisons, which must all hold.

        Raises:
            InvalidFilter: the key or the value is invalid.
        """

    def parse_text(self, text: str) -> Filter[C] | None:
        """Parse a filter from the text of a query parameter.

        Returns:
            The filter, or None if it selects everything.

        Raises:
            InvalidFilter: the text is not JSON, or the filter is invalid.
        """
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise self._too_deep() from None
        except (msgspec.MsgspecError, UnicodeError):
            raise self.errors.error("must be valid JSON") from None
        return self._filter(value, self.errors.root, 0)

    def parse(self, value: object) -> Filter[C] | None:
        """Parse a filter from a decoded JSON value. Null and an absent field select everything.

        Returns:
            The filter, or None if it selects everything.

        Raises:
            InvalidFilter: the filter is invalid.
        """
        if value is None or value is msgspec.UNSET:
            return None
        return self._filter(value, self.errors.root, 0)

    def count_clauses(self, count: int) -> None:
        """Count comparisons towards `MAX_CLAUSES`.

        Raises:
            InvalidFilter: the filter has more.
        """
        self._clauses += count
        if self._clauses > MAX_CLAUSES:
            raise self.errors.error(f"more than {MAX_CLAUSES} comparisons")

    def count_values(self, count: int) -> None:
        """Count the values of a list towards `MAX_VALUES`.

        Raises:
            InvalidFilter: the filter's lists have more values.
        """
        self._values += count
        if self._values > MAX_VALUES:
            raise self.errors.error(f"more than {MAX_VALUES} values in its lists (fractions count twice)")

    def _filter(self, value: object, path: str, depth: int) -> Filter[C] | None:
        if depth > MAX_DEPTH:
            raise self._too_deep()
        if not isinstance(value, dict):
            raise self.errors.error("must be a JSON object", path)
        clauses: list[Filter[C]] = []
        for key, nested in value.items():
            if not isinstance(key, str):  # MessagePack allows it
                raise self.errors.error("a key must be a string", path)
            if key == "$and" or key == "$or":
                clause = self._combination(key, nested, f"{path}.{key}", depth)
                clauses += [] if clause is None else [clause]
            else:
                comparisons = self.comparisons(key, nested, f"{path}.{key}")
                self.count_clauses(len(comparisons))
                clauses += comparisons
        return _combined("$and", clauses)

    def _combination(self, key: str, value: object, path: str, depth: int) -> Filter[C] | None:
        if not isinstance(value, list) or not value:
            raise self.errors.error(f"'{key}' takes a non-empty list of filters", path)
        clauses = [self._filter(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        if key == "$or" and None in clauses:
            return None
        return _combined(key, [clause for clause in clauses if clause is not None])

    def _too_deep(self) -> InvalidFilter:
        return self.errors.error(f"nested more than {MAX_DEPTH} levels deep")


def _combined(operator: str, clauses: list[Filter[C]]) -> Filter[C] | None:
    if not clauses:
        return None
    return clauses[0] if len(clauses) == 1 else Combination(operator, tuple(clauses))
