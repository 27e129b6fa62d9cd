"""Hypothesis strategies for metadata and filters. They share a few keys and values, so that filters match."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from tests.support.filter_oracle import Json, Scalar, Value

KEYS: Final = ("a", "b", "c d", "é.'\"%")

INTEGERS: Final = (0, 1, -1, 2, -2, 3, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, 2**63 - 513, -(2**63))
FLOATS: Final = (
    *(0.0, 1.0, -1.0, 2.0, 0.5, 1.5, -0.5, -1.5, 0.1, 0.3, 0.1 + 0.2, 1.0000000001, 0.9999999999, 5e-324, -5e-324),
    *(2.0**53, 2.0**53 + 2, 2.0**62, 2.0**63, -(2.0**63), 2.0**63 + 2048, -(2.0**63) - 2048, 1e19, 1e300, -1e300),
)
STRINGS: Final = (
    "",
    "a",
    "A",
    "1",
    "1.0",
    "true",
    "é",
    "e\u0301",
    "a\x00b",
    "%",
    "_",
    "x' OR 1=1 --",
    "\U0001f600",
    "a b",
)
BOOLEANS: Final = (True, False)
LISTS: Final[list[list[Scalar]]] = [
    [1],
    [1, 2],
    [0, -1],
    [2**63 - 1],
    [1.0],
    [1.5, 2.0],
    [-0.5],
    [1e300],
    ["a"],
    ["a", "é"],
    [""],
    [True],
    [False, True],
]

# Chroma's HTTP server parses at most 15 digits exactly; see `ragstore.chroma.http.backend`.
floats: Final = st.sampled_from(FLOATS) | st.decimals(-1000, 1000, places=3).map(float)
integers: Final = st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
strings: Final = st.sampled_from(STRINGS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers: Final = integers | floats
scalars: Final[st.SearchStrategy[Scalar]] = numbers | strings | st.booleans()
one_type_lists: Final[st.SearchStrategy[list[Scalar]]] = st.one_of(
    st.sampled_from(LISTS),
    *(st.lists(items, min_size=1, max_size=4) for items in (integers, floats, strings, st.booleans())),
)
values: Final[st.SearchStrategy[Value]] = scalars | one_type_lists

metadatas: Final[st.SearchStrategy[dict[str, Value]]] = st.dictionaries(
    st.sampled_from(KEYS), values, max_size=len(KEYS)
)


def _of(operator: str, operands: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, object]]:
    return st.tuples(st.just(operator), operands)


_sets: Final = st.one_of(*(st.lists(items, min_size=1, max_size=4) for items in (numbers, strings, st.booleans())))
_operations: Final = st.one_of(
    *(_of(operator, scalars) for operator in ("$eq", "$ne", "$contains", "$not_contains")),
    *(_of(operator, numbers) for operator in ("$gt", "$gte", "$lt", "$lte")),
    *(_of(operator, _sets) for operator in ("$in", "$nin")),
)
_fields: Final[st.SearchStrategy[Json]] = st.dictionaries(
    st.sampled_from(KEYS), scalars | st.lists(_operations, min_size=1, max_size=3).map(dict), max_size=2
)


def _nested(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    clauses = st.lists(inner, min_size=1, max_size=3)
    combinations = st.dictionaries(st.sampled_from(("$and", "$or")), clauses, min_size=1, max_size=2)
    return st.builds(lambda nested, fields: {**nested, **fields}, combinations, _fields)


filters: Final[st.SearchStrategy[Json]] = st.recursive(_fields, _nested, max_leaves=6)
