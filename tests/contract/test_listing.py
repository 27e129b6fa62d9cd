"""The contract on listing documents: pages, totals, order, and the `where` language."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.contract.conftest import Listing
from tests.support.documents import add, document, documents, documents_path, ids_of
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

# -- pages -------------------------------------------------------------------------------------


def test_documents_are_listed_in_insertion_order(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, document("c"), document("a"))
    add(http, collection, document("b"))

    assert ids_of(listing(collection)) == ["c", "a", "b"]


def test_listed_documents_carry_id_text_and_metadata(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, document("a", text="words", page=1))

    assert listing(collection).json() == {
        "documents": [{"id": "a", "text": "words", "metadata": {"page": 1}}],
        "count": 1,
        "total": 1,
    }


def test_listed_documents_carry_embeddings_on_request(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, document("a", embedding=[3, 4]), document("b", embedding=[5, 6]))

    found = listing(collection, include=["embedding"]).json()["documents"]

    assert [one["embedding"] for one in found] == [pytest.approx([3, 4]), pytest.approx([5, 6])]


def test_an_empty_collection_lists_nothing(collection: str, listing: Listing) -> None:
    assert listing(collection).json() == {"documents": [], "count": 0, "total": 0}


def test_the_limit_is_100_by_default(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, *documents(120))

    assert len(ids_of(listing(collection))) == 100


def test_total_counts_all_matches_and_count_this_page(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, *documents(7, kind="wanted"), document("x", kind="other"))

    page = listing(collection, where={"kind": "wanted"}, limit=3, offset=2).json()

    assert [found["id"] for found in page["documents"]] == ["doc-2", "doc-3", "doc-4"]
    assert page["count"] == 3
    assert page["total"] == 7


def test_a_page_beyond_the_last_match_is_empty_and_has_the_total(
    http: httpx.Client, collection: str, listing: Listing
) -> None:
    add(http, collection, *documents(3))

    assert listing(collection, offset=10).json() == {"documents": [], "count": 0, "total": 3}


def test_total_false_skips_the_count(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, *documents(3))

    page = listing(collection, total=False, limit=2).json()

    assert page["count"] == 2
    assert page["total"] is None


@pytest.mark.parametrize("limit", [1001, 5000, 2**40])
def test_a_limit_above_1000_is_clamped(http: httpx.Client, collection: str, listing: Listing, limit: int) -> None:
    add(http, collection, *documents(1005))

    page = listing(collection, limit=limit).json()

    assert page["count"] == len(page["documents"]) == 1000
    assert page["total"] == 1005


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_1_is_400(collection: str, listing: Listing, limit: int) -> None:
    problem = problem_of(listing(collection, limit=limit), 400)

    assert "limit" in problem["detail"]


def test_a_negative_offset_is_400(collection: str, listing: Listing) -> None:
    problem = problem_of(listing(collection, offset=-1), 400)

    assert "offset" in problem["detail"]


# -- selecting ---------------------------------------------------------------------------------


def test_ids_select_in_insertion_order(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, *(document(letter) for letter in "cab"))

    page = listing(collection, ids=["b", "c", "never-there", "b"]).json()

    assert [found["id"] for found in page["documents"]] == ["c", "b"]
    assert page["total"] == 2


@pytest.mark.parametrize("parameter", ["where", "where_document"])
def test_an_empty_filter_in_a_url_is_no_filter(http: httpx.Client, collection: str, parameter: str) -> None:
    add(http, collection, document("a"), document("b"))

    page = http.get(f"{documents_path(collection)}?{parameter}=").json()

    assert [found["id"] for found in page["documents"]] == ["a", "b"]
    assert page["total"] == 2


def test_where_document_selects_by_text(http: httpx.Client, collection: str, listing: Listing) -> None:
    add(http, collection, document("a", text="Logs are kept"), document("b", text="Keys rotate"))

    page = listing(collection, where_document={"$contains": "rotate"}).json()

    assert [found["id"] for found in page["documents"]] == ["b"]
    assert page["total"] == 1


@pytest.mark.parametrize(
    ("where_document", "selected"),
    [
        ({"$contains": "kept"}, "ab"),
        ({"$not_contains": "kept"}, "c"),
        ({"$contains": "KEPT"}, ""),
        ({"$regex": "^Logs"}, "a"),
        ({"$not_regex": "^Logs"}, "bc"),
        ({"$contains": "kept", "$not_contains": "Logs"}, "b"),
        ({"$and": [{"$contains": "kept"}, {"$contains": "Logs"}]}, "a"),
        ({"$or": [{"$contains": "Logs"}, {"$contains": "rotate"}]}, "ac"),
        ({"$and": [{"$contains": "rotate"}]}, "c"),
        ({}, "abc"),
    ],
    ids=json.dumps,
)
def test_where_document_language(
    http: httpx.Client, collection: str, where_document: dict[str, Any], selected: str
) -> None:
    texts = {"a": "Logs are kept", "b": "Copies are kept", "c": "Keys rotate"}
    add(http, collection, *(document(letter, text=text) for letter, text in texts.items()))

    response = http.get(documents_path(collection), params={"where_document": json.dumps(where_document)})

    assert ids_of(response) == list(selected)


def test_all_criteria_must_hold(http: httpx.Client, collection: str, listing: Listing) -> None:
    for letter, text, kind in [("a", "yes", 1), ("b", "yes", 2), ("c", "no", 1), ("d", "yes", 1)]:
        add(http, collection, document(letter, text=text, kind=kind))

    page = listing(collection, ids=["a", "b", "c"], where={"kind": 1}, where_document={"$contains": "yes"}).json()

    assert [found["id"] for found in page["documents"]] == ["a"]
    assert page["total"] == 1


def test_thousands_of_ids_fit_in_a_body(http: httpx.Client, collection: str) -> None:
    add(http, collection, *documents(3))
    ids = [f"doc-{number}" for number in range(10_000)]

    page = http.post(f"{documents_path(collection)}/filter", json={"ids": ids}).json()

    assert page["total"] == 3


# -- the where language ------------------------------------------------------------------------

ROWS: dict[str, dict[str, Any]] = {
    "a": {"n": 1, "s": "x", "b": True, "l": ["p", "q"]},
    "b": {"n": 2, "s": "y", "b": False, "l": ["q"]},
    "c": {"n": 3.5, "s": "x"},
    "d": {"other": 1},
}


@pytest.fixture(scope="module")
def rows(http: httpx.Client) -> Iterator[str]:
    """A collection with documents that have the metadata in `ROWS`. Tests only read it."""
    name = f"t-{uuid4().hex}"
    http.post("/collections", json={"name": name}).raise_for_status()
    add(http, name, *(document(letter, **metadata) for letter, metadata in ROWS.items()))
    yield name
    http.delete(f"/collections/{name}")


@pytest.mark.parametrize(
    ("where", "selected"),
    [
        ({}, "abcd"),
        ({"n": 1}, "a"),
        ({"n": 1.0}, "a"),
        ({"n": 3.5}, "c"),
        ({"b": True}, "a"),
        ({"s": "x", "n": 1}, "a"),
        ({"n": {"$eq": 2}}, "b"),
        ({"n": {"$ne": 2}}, "acd"),
        ({"n": {"$gt": 1}}, "bc"),
        ({"n": {"$gte": 2}}, "bc"),
        ({"n": {"$lt": 2}}, "a"),
        ({"n": {"$lte": 2}}, "ab"),
        ({"n": {"$gt": 1, "$lt": 3}}, "b"),
        ({"n": {"$gte": 1, "$lt": 9, "$ne": 2}}, "ac"),
        ({"s": {"$in": ["x", "z"]}}, "ac"),
        ({"s": {"$in": ["y"]}}, "b"),
        ({"n": {"$in": [1, 3.5]}}, "ac"),
        ({"s": {"$nin": ["x"]}}, "bd"),
        ({"l": {"$contains": "q"}}, "ab"),
        ({"l": {"$contains": "p"}}, "a"),
        ({"l": {"$not_contains": "p"}}, "bcd"),
        ({"$and": [{"s": "x"}, {"n": 1}]}, "a"),
        ({"$or": [{"n": 1}, {"n": 2}]}, "ab"),
        ({"$and": [{"s": "x"}]}, "ac"),
        ({"$or": [{"s": "x"}]}, "ac"),
        ({"$or": [{"s": "x", "n": 1}, {"s": "y", "b": False}]}, "ab"),
        ({"$and": [{"s": "x", "b": True}, {"n": {"$gte": 1, "$lt": 2}}]}, "a"),
        ({"s": "x", "$or": [{"n": 1}, {"n": 2}]}, "a"),
        ({"$and": [{}, {"s": "x"}]}, "ac"),
        ({"$or": [{}, {"s": "x"}]}, "abcd"),
        ({"$and": [{"$or": [{"n": 1}, {"$and": [{"s": "y"}, {"b": False}]}]}, {"l": {"$contains": "q"}}]}, "ab"),
        ({"n": "1"}, ""),
        ({"b": 1}, ""),
    ],
    ids=json.dumps,
)
def test_where_language(rows: str, listing: Listing, where: dict[str, Any], selected: str) -> None:
    page = listing(rows, where=where).json()

    assert [found["id"] for found in page["documents"]] == list(selected)
    assert page["total"] == len(selected)


@pytest.mark.parametrize("text", ["invalid-json-string", "{", "{'a': 1}", "{a: 1}", '{"a": 1} x', '{"a": NaN}'])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_malformed_where_is_400(http: httpx.Client, collection: str, method: str, text: str) -> None:
    problem = problem_of(http.request(method, documents_path(collection), params={"where": text}), 400)

    assert problem["detail"] == "Invalid 'where' filter: must be valid JSON"


def test_malformed_where_document_is_400(http: httpx.Client, collection: str) -> None:
    problem = problem_of(http.get(documents_path(collection), params={"where_document": "{"}), 400)

    assert problem["detail"] == "Invalid 'where_document' filter: must be valid JSON"


def test_an_invalid_where_is_reported_with_its_path(collection: str, listing: Listing) -> None:
    problem = problem_of(listing(collection, where={"$and": [{"a": 1}, {"b": {"$like": "x"}}]}), 400)

    assert problem["detail"].startswith("Invalid 'where' filter: ")
    assert "'$like'" in problem["detail"]
    assert "$.where.$and[1].b.$like" in problem["detail"]


# -- cursors ------------------------------------------------------------------------------------


def _pages(http: httpx.Client, collection: str, **filter_given: object) -> list[dict[str, Any]]:
    """All pages of a list, each after the previous page."""
    pages: list[dict[str, Any]] = []
    after = None
    while True:
        body = {**filter_given, "limit": 7, **({} if after is None else {"after": after})}
        page = http.post(f"/collections/{collection}/documents/filter", json=body).raise_for_status().json()
        pages.append(page)
        after = page.get("next")
        if after is None:
            return pages


def _put_numbers(http: httpx.Client, collection: str, numbers: range) -> None:
    added = [{"id": f"d{n}", "text": "t", "embedding": [1, n], "metadata": {"even": n % 2 == 0}} for n in numbers]
    http.put(f"/collections/{collection}/documents", json={"documents": added}).raise_for_status()


@pytest.mark.parametrize("where", [None, {"even": True}])
def test_pages_after_each_other_list_everything_once(
    http: httpx.Client, collection: str, where: dict[str, object] | None
) -> None:
    _put_numbers(http, collection, range(40))
    pages = _pages(http, collection, where=where or {})
    expected = [f"d{n}" for n in range(0, 40, 2 if where else 1)]
    assert [document["id"] for page in pages for document in page["documents"]] == expected
    assert {page["total"] for page in pages} == {len(expected)}
    assert [page["count"] for page in pages[:-1]] == [7] * (len(pages) - 1)


def test_documents_that_are_added_or_deleted_meanwhile_move_no_later_page(http: httpx.Client, collection: str) -> None:
    _put_numbers(http, collection, range(20))
    path = f"/collections/{collection}/documents"
    first = http.get(path, params={"limit": 5}).json()
    http.delete(path, params={"ids": ["d0", "d1", "d6"]}).raise_for_status()
    _put_numbers(http, collection, range(20, 22))
    second = http.get(path, params={"limit": 5, "after": first["next"]}).json()
    assert [document["id"] for document in second["documents"]] == ["d5", "d7", "d8", "d9", "d10"]
    rest = http.get(path, params={"limit": 100, "after": second["next"]}).json()
    assert rest["documents"][-1]["id"] == "d21"
    assert "next" not in rest


@pytest.mark.parametrize("after", ["", "x", "!!", "kwGhYcA", "lAEB", "kwChYcA"])
def test_a_text_that_is_no_cursor_is_rejected(http: httpx.Client, collection: str, after: str) -> None:
    _put_numbers(http, collection, range(3))
    path = f"/collections/{collection}/documents"
    response = http.get(path, params={"after": after})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor")


def test_a_cursor_whose_document_was_deleted_or_that_has_an_offset_is_rejected(
    http: httpx.Client, collection: str
) -> None:
    _put_numbers(http, collection, range(8))
    path = f"/collections/{collection}/documents"
    after = http.get(path, params={"limit": 2}).json()["next"]
    assert http.get(path, params={"after": after, "offset": 1}).status_code == 400
    http.delete(path, params={"ids": ["d1"]}).raise_for_status()
    response = http.get(path, params={"after": after})
    assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor")
