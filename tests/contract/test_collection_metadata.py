"""The contract's section "Collections": changing metadata, and the values of documents' metadata."""

from __future__ import annotations

import httpx
import pytest

from tests.support.documents import add, document, documents, documents_path
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

DISTANCES = ["cosine", "l2", "ip"]


def create(http: httpx.Client, name: str, **body: object) -> httpx.Response:
    return http.post("/collections", json={"name": name, **body})


def distance_of(http: httpx.Client, name: str) -> str:
    return str(http.get(f"/collections/{name}").json()["distance"])


def update(http: httpx.Client, name: str, metadata: object, merge: str | None = None) -> httpx.Response:
    parameters = {} if merge is None else {"merge": merge}
    return http.put(f"/collections/{name}/metadata", json={"metadata": metadata}, params=parameters)


# -- updating metadata --------------------------------------------------------------------------


def test_updating_replaces_all_metadata(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1, "b": 2})

    response = update(http, new_name, {"b": 3})

    assert response.status_code == 200
    assert response.json() == {"status": "updated", "name": new_name, "metadata": {"b": 3}, "merge": False}
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {"b": 3}


def test_updating_with_nothing_removes_all_metadata(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1})

    assert update(http, new_name, {}).json()["metadata"] == {}
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {}


def test_null_in_a_replacement_means_absent(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1})

    assert update(http, new_name, {"a": None, "b": 2}).json()["metadata"] == {"b": 2}


def test_merge_false_is_the_default(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1})

    assert update(http, new_name, {"b": 2}, merge="false").json()["metadata"] == {"b": 2}


def test_merging_keeps_other_keys(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1, "b": 2})

    response = update(http, new_name, {"b": "two", "c": 3}, merge="true")

    assert response.json() == {
        "status": "updated",
        "name": new_name,
        "metadata": {"a": 1, "b": "two", "c": 3},
        "merge": True,
    }


def test_merging_null_removes_a_key(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1, "b": 2})

    assert update(http, new_name, {"a": None, "never-there": None}, merge="true").json()["metadata"] == {"b": 2}
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {"b": 2}


def test_merging_nothing_changes_nothing(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1})

    assert update(http, new_name, {}, merge="true").json()["metadata"] == {"a": 1}


def test_merging_can_remove_the_last_key(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"a": 1})

    assert update(http, new_name, {"a": None}, merge="true").json()["metadata"] == {}


@pytest.mark.parametrize("merge", ["false", "true"])
def test_an_update_that_would_change_the_distance_is_400(http: httpx.Client, new_name: str, merge: str) -> None:
    create(http, new_name, distance="ip", metadata={"a": 1})

    problem = problem_of(update(http, new_name, {"hnsw:space": "l2", "a": 2}, merge), 400)

    assert paths_of(problem) == ["$.metadata.hnsw:space"]
    assert "'ip'" in problem["detail"]
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {"a": 1}


@pytest.mark.parametrize("merge", ["false", "true"])
def test_an_update_may_repeat_the_distance(http: httpx.Client, new_name: str, merge: str) -> None:
    create(http, new_name, distance="l2")

    assert update(http, new_name, {"hnsw:space": "l2"}, merge).json()["metadata"] == {"hnsw:space": "l2"}


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("chosen", ["by distance", "by metadata"])
@pytest.mark.parametrize(
    ("metadata", "merge"),
    [({}, "false"), ({"a": 1}, "false"), ({"hnsw:space": None}, "true"), ({"a": 1}, "true")],
)
def test_an_update_never_loses_the_distance(
    http: httpx.Client, new_name: str, distance: str, chosen: str, metadata: dict[str, object], merge: str
) -> None:
    if chosen == "by distance":
        create(http, new_name, distance=distance)
    else:
        create(http, new_name, metadata={"hnsw:space": distance})
    add(http, new_name, document("a", embedding=[3, 4]))
    before = http.post(f"/collections/{new_name}/query", json={"query_embedding": [1, 2]}).json()["results"]

    assert update(http, new_name, metadata, merge).status_code == 200

    assert distance_of(http, new_name) == distance
    assert http.post(f"/collections/{new_name}/query", json={"query_embedding": [1, 2]}).json()["results"] == before


def test_updating_metadata_does_not_change_the_documents(http: httpx.Client, collection: str) -> None:
    add(http, collection, *documents(3))
    before = http.get(documents_path(collection)).json()

    update(http, collection, {"a": 1})

    assert http.get(documents_path(collection)).json() == before


# -- metadata values ----------------------------------------------------------------------------


def values(http: httpx.Client, name: str, **parameters: str | int) -> httpx.Response:
    return http.get(f"/collections/{name}/metadata-values", params=parameters)


def test_metadata_values_are_distinct_and_sorted(http: httpx.Client, collection: str) -> None:
    kinds = ["table", "code", "table", "heading", "Über", "code"]
    add(http, collection, *(document(f"{index}", kind=kind) for index, kind in enumerate(kinds)))

    response = values(http, collection, field="kind")

    assert response.status_code == 200
    assert response.json() == {"field": "kind", "values": ["code", "heading", "table", "Über"], "count": 4}


def test_metadata_values_are_strings(http: httpx.Client, collection: str) -> None:
    mixed = [1, 2.5, True, "text", ["in", "list"]]
    add(http, collection, *(document(f"{index}", field=value) for index, value in enumerate(mixed)))

    assert values(http, collection, field="field").json()["values"] == ["1", "2.5", "in", "list", "text", "true"]


def test_typed_metadata_values_have_their_types_beside_the_texts(http: httpx.Client, collection: str) -> None:
    mixed = [10, 9, 2.5, True, "9", ["in", "list"]]
    add(http, collection, *(document(f"{index}", field=value) for index, value in enumerate(mixed)))

    found = values(http, collection, field="field", typed="true")

    assert found.text.endswith(
        '"values":["10","2.5","9","in","list","true"],"count":6,"typed_values":[true,2.5,9,10,"9","in","list"]}'
    )
    limited = values(http, collection, field="field", typed="true", limit=2).json()
    assert (limited["values"], limited["typed_values"]) == (["10", "2.5"], [True, 2.5])


def test_metadata_values_can_be_limited(http: httpx.Client, collection: str) -> None:
    add(http, collection, *(document(letter, letter=letter) for letter in "dcba"))

    assert values(http, collection, field="letter", limit=2).json() == {
        "field": "letter",
        "values": ["a", "b"],
        "count": 2,
    }


def test_a_field_that_no_document_has_has_no_values(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", other=1))

    assert values(http, collection, field="kind").json() == {"field": "kind", "values": [], "count": 0}


def test_metadata_values_of_no_field_are_400(http: httpx.Client, collection: str) -> None:
    problem = problem_of(values(http, collection), 400)

    assert "field" in problem["detail"]
