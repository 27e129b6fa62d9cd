"""The contract on deleting documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

import httpx
import pytest

from tests.support.documents import add, count_of, document, documents, documents_path, ids_of
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

Deleting: TypeAlias = Callable[..., httpx.Response]


@pytest.fixture(params=["DELETE", "POST"])
def deleting(request: pytest.FixtureRequest, http: httpx.Client) -> Deleting:
    """Deletes documents, with the parameters of DELETE or with the body of POST."""

    def by_parameters(collection: str, **fields: object) -> httpx.Response:
        parameters = {key: json.dumps(value) if key == "where" else value for key, value in fields.items()}
        return http.delete(documents_path(collection), params=parameters)  # type: ignore[arg-type]

    def by_body(collection: str, **fields: object) -> httpx.Response:
        return http.post(f"{documents_path(collection)}/delete", json=fields)

    return by_parameters if request.param == "DELETE" else by_body


@pytest.fixture
def filled(http: httpx.Client, collection: str) -> str:
    """A collection with documents a, b, c, d of kinds 1, 2, 1, 2."""
    add(http, collection, *(document(letter, kind=1 + index % 2) for index, letter in enumerate("abcd")))
    return collection


def remaining(http: httpx.Client, collection: str) -> str:
    return "".join(ids_of(http.get(documents_path(collection))))


def test_deleting_by_ids_returns_200_and_the_count(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    response = deleting(filled, ids=["a", "d"])

    assert response.status_code == 200
    assert response.json() == {"status": "deleted", "collection": filled, "count": 2}
    assert remaining(http, filled) == "bc"


def test_deleting_by_where(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    response = deleting(filled, where={"kind": 1})

    assert response.json() == {"status": "deleted", "collection": filled, "count": 2}
    assert remaining(http, filled) == "bd"


def test_deleting_by_ids_and_where_deletes_where_both_hold(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    response = deleting(filled, ids=["a", "b"], where={"kind": 1})

    assert response.json()["count"] == 1
    assert remaining(http, filled) == "bcd"


def test_only_documents_really_deleted_are_counted(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    response = deleting(filled, ids=["a", "never-there", "a"])

    assert response.json()["count"] == 1
    assert remaining(http, filled) == "bcd"


def test_deleting_missing_documents_counts_nothing(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    assert deleting(filled, ids=["never-there"]).json()["count"] == 0
    assert deleting(filled, where={"kind": 9}).json()["count"] == 0
    assert remaining(http, filled) == "abcd"


def test_deleting_again_counts_nothing(filled: str, deleting: Deleting) -> None:
    assert deleting(filled, where={"kind": 1}).json()["count"] == 2
    assert deleting(filled, where={"kind": 1}).json()["count"] == 0


def test_deleting_without_ids_and_where_is_400(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    problem = problem_of(deleting(filled), 400)

    assert "'ids'" in problem["detail"]
    assert "'where'" in problem["detail"]
    assert remaining(http, filled) == "abcd"


@pytest.mark.parametrize("where", [{}, {"$and": [{}]}], ids=json.dumps)
def test_deleting_by_a_filter_that_selects_everything_is_400(
    http: httpx.Client, filled: str, deleting: Deleting, where: object
) -> None:
    problem_of(deleting(filled, where=where), 400)

    assert remaining(http, filled) == "abcd"


def test_deleting_by_an_empty_where_in_the_url_alone_is_400(http: httpx.Client, filled: str) -> None:
    problem = problem_of(http.delete(f"{documents_path(filled)}?where="), 400)

    assert "'where'" in problem["detail"]
    assert remaining(http, filled) == "abcd"


def test_an_empty_where_in_the_url_does_not_restrict_ids(http: httpx.Client, filled: str) -> None:
    assert http.delete(f"{documents_path(filled)}?where=&ids=a").json()["count"] == 1
    assert remaining(http, filled) == "bcd"


@pytest.mark.parametrize("body", [{"ids": None}, {"where": None}, {"ids": []}], ids=json.dumps)
def test_deleting_by_nothing_is_400(http: httpx.Client, filled: str, body: object) -> None:
    problem_of(http.post(f"{documents_path(filled)}/delete", json=body), 400)

    assert remaining(http, filled) == "abcd"


def test_deleting_by_a_wrong_filter_deletes_nothing(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    problem = problem_of(deleting(filled, where={"kind": {"$like": 1}}), 400)

    assert problem["detail"].startswith("Invalid 'where' filter: ")
    assert remaining(http, filled) == "abcd"


def test_many_documents_are_deleted_by_one_request(http: httpx.Client, collection: str, deleting: Deleting) -> None:
    add(http, collection, *documents(2500, kind="old"), document("kept", kind="new"))

    assert deleting(collection, where={"kind": "old"}).json()["count"] == 2500
    assert remaining(http, collection) == "kept"


def test_a_deleted_id_can_be_added_again(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    deleting(filled, ids=["a"])

    add(http, filled, document("a", kind=7))

    assert remaining(http, filled) == "bcda"


def test_a_deleted_document_is_not_found_by_a_query(http: httpx.Client, filled: str, deleting: Deleting) -> None:
    deleting(filled, ids=["a"])

    found = http.post(f"/collections/{filled}/query", json={"query_embedding": [1, 0], "top_k": 10})

    assert sorted(ids_of(found, "results")) == ["b", "c", "d"]


# -- deleting all ------------------------------------------------------------------------------


def test_deleting_all_returns_200_and_the_count(http: httpx.Client, filled: str) -> None:
    response = http.delete(f"{documents_path(filled)}/all")

    assert response.status_code == 200
    assert response.json() == {"status": "emptied", "collection": filled, "count_deleted": 4}
    assert count_of(http, filled) == 0


def test_deleting_all_of_an_empty_collection_counts_nothing(http: httpx.Client, collection: str) -> None:
    assert http.delete(f"{documents_path(collection)}/all").json()["count_deleted"] == 0


def test_deleting_all_is_not_limited_to_a_page(http: httpx.Client, collection: str) -> None:
    add(http, collection, *documents(2500))

    assert http.delete(f"{documents_path(collection)}/all").json()["count_deleted"] == 2500
    assert count_of(http, collection) == 0


def test_deleting_all_keeps_metadata_dimension_and_distance(http: httpx.Client, new_name: str) -> None:
    http.post("/collections", json={"name": new_name, "distance": "ip", "metadata": {"team": "docs"}})
    add(http, new_name, *documents(3))
    before = http.get(f"/collections/{new_name}").json()

    http.delete(f"{documents_path(new_name)}/all")

    assert http.get(f"/collections/{new_name}").json() == {**before, "count": 0}


def test_the_dimension_remains_after_deleting_all(http: httpx.Client, filled: str) -> None:
    http.delete(f"{documents_path(filled)}/all")

    problem_of(http.post(documents_path(filled), json={"documents": [document("x", embedding=[1, 2, 3])]}), 400)
    add(http, filled, document("y", embedding=[1, 2]))

    assert remaining(http, filled) == "y"
