"""What both filter languages share: `$and` and `$or`, their errors and bounds, and reading JSON."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from ragstore.errors import InvalidFilter
from ragstore.kit.errors import FieldError

MAX_DEPTH: Final = 32
"""Levels of `$and` and `$or`. Chroma's server refuses about 100 levels of JSON; what ragstore adds must fit below."""

MAX_CLAUSES: Final = 500
"""Comparisons in one filter. SQLite refuses expression trees of 1,000."""

MAX_VALUES: Final = 8_000
"""Values in all `$in` and `$nin` of a filter; a number with a fraction counts twice. SQLite takes 32,766 variables: ids
may need 10,000 of them, a number takes 2 and a comparison up to 12."""

GROUP: Final = 100
"""Most clauses side by side in what Chroma is sent; more are put in groups, or SQLite's tree becomes too deep."""

C = TypeVar("C")
"""A language's comparison: what stands between `$and` and `$or`."""


class Combination(msgspec.Struct, Generic[C], frozen=True):
    """Filters joined.

    Attributes:
        operator: `$and`: all must hold; `$or`: one must.
        clauses: two or more.
    """

    operator: str
    clauses: tuple[C | Combination[C], ...]


Filter: TypeAlias = C | Combination[C]


class Complaint:
    """Makes the errors of one filter parameter.

    Args:
        parameter: `where` or `where_document`.
    """

    def __init__(self, parameter: str) -> None:
        self.parameter = parameter

    @property
    def root(self) -> str:
        """JSON path of the whole filter."""
        return f"$.{self.parameter}"

    def about(self, message: str, path: str | None = None) -> InvalidFilter:
        """An error.

        Args:
            message: what is wrong; no value of the filter's may stand in it.
            path: JSON path of the place; the whole filter when None.

        Returns:
            The error, for the caller to raise.
        """
        detail = f"Invalid '{self.parameter}' filter: {message}"
        if path is None:
            return InvalidFilter(detail, [FieldError(self.root, message)])
        return InvalidFilter(f"{detail} at {path}", [FieldError(path, message)])


class Reader(ABC, Generic[C]):
    """Reads one filter. Made anew for each.

    Args:
        complaint: makes the errors.
    """

    def __init__(self, complaint: Complaint) -> None:
        self.complaint = complaint
        self._clauses = 0
        self._values = 0

    @abstractmethod
    def comparisons(self, key: str, value: object, path: str) -> list[C]:
        """Read what stands under a key that is neither `$and` nor `$or`.

        Args:
            key: the key.
            value: the decoded JSON under it.
            path: its JSON path.

        Returns:
            The comparisons, which must all hold.

        Raises:
            InvalidFilter: it is not of the language.
        """

    def read_text(self, text: str) -> Filter[C] | None:
        """Read a filter that came as text in a query parameter.

        Args:
            text: the parameter.

        Returns:
            The filter, or None when it selects everything.

        Raises:
            InvalidFilter: it is no JSON, or not of the language.
        """
        try:
            value = msgspec.json.decode(text)
        except RecursionError:
            raise self._too_deep() from None
        except (msgspec.MsgspecError, UnicodeError):
            raise self.complaint.about("must be valid JSON") from None
        return self._filter(value, self.complaint.root, 0)

    def read(self, value: object) -> Filter[C] | None:
        """Read a filter given as a JSON value; null and a field that is absent select everything.

        Args:
            value: the decoded JSON.

        Returns:
            The filter, or None when it selects everything.

        Raises:
            InvalidFilter: it is not of the language.
        """
        if value is None or value is msgspec.UNSET:
            return None
        return self._filter(value, self.complaint.root, 0)

    def count_values(self, count: int) -> None:
        """Count the values of a list.

        Args:
            count: how many there are, or count as.

        Raises:
            InvalidFilter: the filter's lists hold more than `MAX_VALUES`.
        """
        self._values += count
        if self._values > MAX_VALUES:
            raise self.complaint.about(f"more than {MAX_VALUES} values in its lists (fractions count twice)")

    def _filter(self, value: object, path: str, depth: int) -> Filter[C] | None:
        if depth > MAX_DEPTH:
            raise self._too_deep()
        if not isinstance(value, dict):
            raise self.complaint.about("must be a JSON object", path)
        clauses: list[Filter[C]] = []
        for key, below in value.items():
            if not isinstance(key, str):  # MessagePack allows it
                raise self.complaint.about("a key must be a string", path)
            if key == "$and" or key == "$or":
                clause = self._combination(key, below, f"{path}.{key}", depth)
                clauses += [] if clause is None else [clause]
            else:
                comparisons = self.comparisons(key, below, f"{path}.{key}")
                self._count_clauses(len(comparisons))
                clauses += comparisons
        return _combined("$and", clauses)

    def _combination(self, key: str, value: object, path: str, depth: int) -> Filter[C] | None:
        if not isinstance(value, list) or not value:
            raise self.complaint.about(f"'{key}' takes a non-empty list of filters", path)
        clauses = [self._filter(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
        if key == "$or" and None in clauses:
            return None
        return _combined(key, [clause for clause in clauses if clause is not None])

    def _count_clauses(self, count: int) -> None:
        self._clauses += count
        if self._clauses > MAX_CLAUSES:
            raise self.complaint.about(f"more than {MAX_CLAUSES} comparisons")

    def _too_deep(self) -> InvalidFilter:
        return self.complaint.about(f"nested more than {MAX_DEPTH} levels deep")


def _combined(operator: str, clauses: list[Filter[C]]) -> Filter[C] | None:
    if not clauses:
        return None
    return clauses[0] if len(clauses) == 1 else Combination(operator, tuple(clauses))


def to_chroma(filtered: Filter[C], comparison: Callable[[C], dict[str, object]]) -> dict[str, object]:
    """Write a filter for Chroma.

    Args:
        filtered: the filter.
        comparison: writes one comparison.

    Returns:
        A filter of Chroma's own language that selects the same documents.
    """
    if isinstance(filtered, Combination):
        return joined(filtered.operator, [to_chroma(clause, comparison) for clause in filtered.clauses])
    return comparison(filtered)


def joined(operator: str, clauses: list[dict[str, object]]) -> dict[str, object]:
    """Join clauses for Chroma, which wants two or more, and not too many side by side.

    Args:
        operator: `$and` or `$or`.
        clauses: one or more clauses.

    Returns:
        One clause that means all of them.
    """
    while len(clauses) > GROUP:
        clauses = [joined(operator, clauses[start : start + GROUP]) for start in range(0, len(clauses), GROUP)]
    return clauses[0] if len(clauses) == 1 else {operator: clauses}
