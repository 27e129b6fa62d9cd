"""Filters, and reading what they select."""

from __future__ import annotations

import functools
import inspect

import pytest
from chromadb.api import ClientAPI
from chromadb.api.models.Collection import Collection
from chromadb.errors import InternalError, InvalidArgumentError

from tests.chroma_quirks.bare import BareCollection, Filter, new_collection
from tests.chroma_quirks.quirk import Quirk, shows


def numbers(client: ClientAPI, **values: float) -> BareCollection:
    """A collection whose documents have numbers under `n`, by their ids."""
    collection = new_collection(client)
    collection.add(
        ids=list(values), embeddings=[[1.0, 0.0]] * len(values), metadatas=[{"n": value} for value in values.values()]
    )
    return collection


def texts(client: ClientAPI, **contents: str) -> BareCollection:
    """A collection whose documents have texts, by their ids."""
    collection = new_collection(client)
    collection.add(ids=list(contents), embeddings=[[1.0, 0.0]] * len(contents), documents=list(contents.values()))
    return collection


@shows(
    Quirk(
        name="one-field-in-a-filter",
        summary=(
            "A `where` takes one field with one operator. Several fields, several operators, `{}`, integers beside "
            "floats in `$in`, and `$and` or `$or` of one clause are rejected, the last by the Python client alone."
        ),
        workaround="Filters are translated: several fields mean AND, `{}` selects everything, and so on.",
        works_around=(
            "ragstore.model.filters.combinations:to_chroma",
            "ragstore.model.filters.chroma_where:to_chroma",
            "ragstore_client.rag.chroma._calls:to_chroma_where",
        ),
        upstream="#825: Support for multiple conditions in the `where` metadata filtering (closed)",
    )
)
@pytest.mark.parametrize(
    "where",
    [
        {},
        {"n": 1, "m": 1},
        {"n": {"$gt": 0, "$lt": 2}},
        {"$and": [{"n": 1}]},
        {"$or": [{"n": 1}]},
        {"n": {"$in": [1, 1.5]}},
    ],
    ids=str,
)
def test_a_filter_that_people_expect_to_work_is_refused(client: ClientAPI, where: Filter) -> None:
    with pytest.raises(ValueError, match="Expected"):
        numbers(client, one=1).get(where=where)


@shows(
    Quirk(
        name="fractions-are-cut",
        summary="To compare a float of a filter with stored integers, its fraction is cut off: 1 equals 1.5.",
        workaround="Filters are written so that the cut changes nothing.",
        works_around=(
            "ragstore.model.filters.chroma_where:_float_to_chroma",
            "ragstore.model.filters.chroma_where:_membership_to_chroma",
        ),
        upstream="#7491: int/float union filter truncates float bounds — stored int 2 matches $eq: 2.5",
    )
)
@pytest.mark.parametrize(
    ("operator", "operand", "selected"),
    [
        ("$eq", 1.5, ["one", "half"]),
        ("$ne", 1.5, ["two"]),
        ("$gte", 1.5, ["one", "half", "two"]),
        ("$lt", 1.5, []),
        ("$in", [1.5], ["one", "half"]),
        ("$nin", [1.5], ["two"]),
    ],
)
def test_a_fraction_is_cut_when_it_is_compared_with_integers(
    client: ClientAPI, operator: str, operand: float | list[float], selected: list[str]
) -> None:
    where = {"n": {operator: operand}}
    assert numbers(client, one=1, half=1.5, two=2).get(where=where)["ids"] == selected


@shows(
    Quirk(
        name="largest-integer-equals-the-float-above-it",
        summary="The float `2**63` equals the largest integer, `2**63 - 1`.",
        workaround="Filters with that float are written so that they do not select that integer.",
        works_around=(
            "ragstore.model.filters.chroma_where:_truncated_only",
            "ragstore.model.filters.chroma_where:_without_truncated",
        ),
        upstream="#7491: int/float union filter truncates float bounds — stored int 2 matches $eq: 2.5",
    )
)
def test_the_largest_integer_equals_the_float_above_it(client: ClientAPI) -> None:
    collection = numbers(client, integer=2**63 - 1, float=2.0**63)
    assert collection.get(where={"n": 2.0**63})["ids"] == ["integer", "float"]


@shows(
    Quirk(
        name="integers-are-rounded-to-floats",
        summary=(
            "To compare an integer of a filter with stored floats it becomes a double, which rounds beyond `2**53`."
        ),
        workaround="Filters that are applied by ragstore round in the same way.",
        works_around=("ragstore.filters.where:_comparable",),
    )
)
def test_an_integer_is_rounded_when_it_is_compared_with_floats(client: ClientAPI) -> None:
    collection = numbers(client, float=float(2**53))
    assert collection.get(where={"n": 2**53 + 1})["ids"] == ["float"]


@shows(
    Quirk(
        name="lists-of-integers-and-of-floats-are-apart",
        summary="`$contains` with 1 does not find lists of floats that hold 1.0, and the other way round.",
        workaround="Both kinds of lists are searched.",
        works_around=("ragstore.model.filters.chroma_where:_containment_to_chroma",),
    )
)
def test_contains_finds_lists_of_one_kind_of_numbers(client: ClientAPI) -> None:
    collection = new_collection(client)
    collection.add(
        ids=["integers", "floats"],
        embeddings=[[1.0, 0.0]] * 2,
        metadatas=[{"list": [1, 2]}, {"list": [1.0, 2.0]}],
    )
    assert collection.get(where={"list": {"$contains": 1}})["ids"] == ["integers"]
    assert collection.get(where={"list": {"$contains": 1.0}})["ids"] == ["floats"]
    collection.delete(ids=["integers", "floats"])


@shows(
    Quirk(
        name="too-many-sql-variables",
        summary="About 33,000 strings or 17,000 numbers in `$in`, or 33,000 ids, end in an internal error of SQLite.",
        workaround="A filter takes 8,000 values and a request 10,000 ids; more is 400.",
        works_around=("ragstore.filters.grammar:MAX_VALUES",),
        upstream="#2762: Querying large number of entries returns (the same error)",
    )
)
def test_many_values_are_too_many_sql_variables(client: ClientAPI) -> None:
    collection = numbers(client, one=1)
    strings = [str(number) for number in range(33_000)]
    with pytest.raises(InternalError, match="too many SQL variables"):
        collection.get(where={"n": {"$in": strings}})
    with pytest.raises(InternalError, match="too many SQL variables"):
        collection.get(where={"n": {"$in": list(range(17_000))}})
    with pytest.raises(InternalError, match="too many SQL variables"):
        collection.get(ids=strings)


@shows(
    Quirk(
        name="wide-filters",
        summary="1,000 clauses side by side end in an internal error: SQLite's expression tree becomes too deep.",
        workaround="A filter takes 500 comparisons, and more than 100 clauses side by side are sent in groups.",
        works_around=("ragstore.model.filters.combinations:combine", "ragstore.filters.grammar:MAX_CLAUSES"),
    )
)
def test_a_thousand_clauses_side_by_side_are_too_many(client: ClientAPI) -> None:
    with pytest.raises(InternalError, match="Expression tree is too large"):
        numbers(client, one=1).get(where={"$or": [{"n": number} for number in range(1000)]})


@shows(
    Quirk(
        name="deep-filters",
        summary=(
            "120 levels of `$and` are rejected by a message that does not say why; some thousands raise "
            "`RecursionError` in the Python client."
        ),
        workaround="A filter takes 32 levels; more is 400.",
        works_around=("ragstore.filters.grammar:MAX_DEPTH",),
    )
)
def test_a_deep_filter_is_refused_or_overflows(client: ClientAPI) -> None:
    def nested(levels: int) -> Filter:
        deepest: Filter = {"n": 1}
        return functools.reduce(lambda where, _: {"$and": [where, {"n": 1}]}, range(levels), deepest)

    collection = numbers(client, one=1)
    assert collection.get(where=nested(32))["ids"] == ["one"]
    with pytest.raises(InvalidArgumentError, match=r"Invalid where clause|Failed to parse the request body"):
        collection.get(where=nested(120))
    with pytest.raises(RecursionError):
        collection.get(where=nested(3000))


@shows(
    Quirk(
        name="contains-stops-at-nul",
        summary=(
            "`$contains` finds nothing behind a NUL character in a text, and reads its operand up to the first NUL."
        ),
        workaround="An operand with NUL becomes a `$regex`. Text behind a NUL is not found.",
        works_around=("ragstore.model.filters.where_document:_comparison_to_chroma",),
        upstream=(
            "#7388 (related): embedded NUL byte in a document corrupts the FTS5 inverted index for the whole collection"
        ),
    )
)
def test_contains_stops_at_a_nul(client: ClientAPI) -> None:
    collection = texts(client, nul="before\0behind", plain="before")
    assert collection.get(where_document={"$contains": "behind"})["ids"] == []
    assert collection.get(where_document={"$contains": "before\0nothing"})["ids"] == ["nul", "plain"]
    assert collection.get(where_document={"$regex": "before\0behind"})["ids"] == ["nul"]


@shows(
    Quirk(
        name="large-regexes-are-internal-errors",
        summary="A regular expression that is too large is an internal error, `(code: 1043) constraint failed`.",
        workaround="That code is translated to 400.",
        works_around=("ragstore.chroma.errors:translate_error",),
    )
)
def test_a_regex_that_is_too_large_is_an_internal_error(client: ClientAPI) -> None:
    with pytest.raises(InternalError, match=r"\(code: 1043\)"):
        texts(client, one="text").get(where_document={"$regex": r"\w{1000}{1000}"})


@shows(
    Quirk(
        name="count-takes-no-filter",
        summary="`count` takes no filter, and a `get` does not return how many documents match beyond its page.",
        workaround="The ids alone of all matches are read, and counted.",
        works_around=("ragstore.chroma.chroma_store:count", "ragstore.chroma.chroma_store:_matching"),
        upstream="#769: Support `where` filters on `.count()`",
    )
)
def test_matches_cannot_be_counted(client: ClientAPI) -> None:
    assert "where" not in inspect.signature(Collection.count).parameters
    page = numbers(client, one=1, two=2).get(limit=1)
    assert set(page) == {"ids", "embeddings", "documents", "uris", "included", "data", "metadatas"}


@shows(
    Quirk(
        name="one-kind-of-error-for-different-causes",
        summary="A wrong dimension and an invalid regular expression are errors of one kind, `InvalidArgumentError`.",
        workaround="The text is matched, and not passed on.",
        works_around=("ragstore.chroma.errors:translate_error",),
    )
)
def test_errors_of_different_causes_have_one_kind(client: ClientAPI) -> None:
    collection = texts(client, one="text")
    with pytest.raises(InvalidArgumentError) as dimension:
        collection.query(query_embeddings=[[1.0, 0.0, 0.0]])
    with pytest.raises(InvalidArgumentError) as regex:
        collection.get(where_document={"$regex": "("})
    assert str(dimension.value) == "Collection expecting embedding with dimension of 2, got 3"
    assert str(regex.value).startswith("Regex syntax errror")
    assert type(dimension.value) is type(regex.value)
