"""The contract's section "Documents": changing metadata alone, and responses without texts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx
import msgspec
import pytest

from ragstore.model.metadata import MAX_VALUES
from tests.support.documents import documents_path
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

STORED = {"page": 3, "layer": "chunk", "tags": ["a", "b"], "live": True}


@pytest.fixture
def stored(http: httpx.Client, collection: str) -> str:
    """A collection with the documents a, b and c."""
    documents = [
        {"id": name, "text": f"text of {name}", "embedding": [1.0, index], "metadata": STORED}
        for index, name in enumerate("abc")
    ]
    http.post(documents_path(collection), json={"documents": documents}).raise_for_status()
    return collection


def update(http: httpx.Client, collection: str, mode: str = "merge", **metadata: object) -> httpx.Response:
    documents = [{"id": name, "metadata": values} for name, values in metadata.items()]
    return http.patch(documents_path(collection), json={"documents": documents, "mode": mode})


def metadata_of(http: httpx.Client, collection: str, document_id: str) -> dict[str, object]:
    found: dict[str, object] = http.get(f"{documents_path(collection)}/{document_id}").json()["metadata"]
    return found


def test_a_merge_keeps_other_keys_and_null_removes_one(http: httpx.Client, stored: str) -> None:
    response = update(http, stored, a={"page": 4, "layer": None, "new": 0.5, "tags": ["c"], "absent": None})
    assert response.status_code == 200
    assert response.json() == {"status": "updated", "collection": stored, "count": 1, "mode": "merge"}
    assert metadata_of(http, stored, "a") == {"page": 4, "new": 0.5, "tags": ["c"], "live": True}
    assert metadata_of(http, stored, "b") == STORED


def test_a_replacement_removes_other_keys(http: httpx.Client, stored: str) -> None:
    assert update(http, stored, "replace", a={"page": 4, "layer": None}, b={}).json()["count"] == 2
    assert metadata_of(http, stored, "a") == {"page": 4}
    assert metadata_of(http, stored, "b") == {}


def test_text_and_embedding_stay_and_filters_see_the_change(http: httpx.Client, stored: str) -> None:
    before = http.get(f"{documents_path(stored)}/b?include=embedding").json()
    update(http, stored, "replace", b={"page": 9, "tags": ["z"]}).raise_for_status()
    after = http.get(f"{documents_path(stored)}/b?include=embedding").json()
    assert after == {**before, "metadata": {"page": 9, "tags": ["z"]}}
    for where in ({"page": 9}, {"tags": {"$contains": "z"}}):
        found = http.post(f"{documents_path(stored)}/filter", json={"where": where}).json()
        assert [each["id"] for each in found["documents"]] == ["b"]
        body = {"query_embedding": [1.0, 1.0], "where": where}
        assert [each["id"] for each in http.post(f"/collections/{stored}/query", json=body).json()["results"]] == ["b"]
    listed = http.post(f"{documents_path(stored)}/filter", json={"where": {"tags": {"$contains": "a"}}}).json()
    assert [each["id"] for each in listed["documents"]] == ["a", "c"]


@pytest.mark.parametrize("value", [1, 1.0, True, "1", [1], [1.0], [True]])
def test_a_value_may_change_its_type_only(http: httpx.Client, stored: str, value: object) -> None:
    update(http, stored, a={"page": True, "tags": [1, 2]}).raise_for_status()
    update(http, stored, a={"page": value}).raise_for_status()
    found = metadata_of(http, stored, "a")["page"]
    assert (type(found), found) == (type(value), value)
    if isinstance(value, list) and isinstance(found, list):
        assert type(found[0]) is type(value[0])


def test_a_document_that_does_not_exist_changes_nothing(http: httpx.Client, stored: str) -> None:
    response = update(http, stored, a={"page": 4}, nowhere={"page": 4}, either={"page": 4})
    problem = problem_of(response, 404)
    assert problem["code"] == "documents_not_found"
    assert problem["detail"] == f"Documents not found in collection '{stored}': 'nowhere', 'either'"
    assert paths_of(problem) == ["$.documents[1].id", "$.documents[2].id"]
    assert metadata_of(http, stored, "a") == STORED


def test_an_unknown_collection_is_not_found(http: httpx.Client, name: str) -> None:
    assert problem_of(update(http, name, a={"page": 4}), 404)["code"] == "collection_not_found"


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"nested": {"a": 1}}, "$.documents[1].metadata"),
        ({"$page": 1}, "$.documents[1].metadata.$page"),
        ({"$page": None}, "$.documents[1].metadata.$page"),
        ({"": None}, "$.documents[1].metadata"),
        ({"mixed": [1, "x"]}, "$.documents[1].metadata.mixed"),
        ({"empty": []}, "$.documents[1].metadata.empty"),
        ({"large": 2**63}, "$.documents[1].metadata.large"),
        (None, "$.documents[1].metadata"),
        ("text", "$.documents[1].metadata"),
    ],
)
@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_metadata_that_cannot_be_stored_changes_nothing(
    http: httpx.Client, stored: str, metadata: object, path: str, mode: str
) -> None:
    problem = problem_of(update(http, stored, mode, a={"page": 4}, b=metadata), 400)
    assert paths_of(problem)[0].startswith(path)
    assert metadata_of(http, stored, "a") == STORED


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"documents": [], "mode": "merge"},
        {"documents": [{"id": "a", "metadata": {"page": 1}}]},
        {"documents": [{"id": "a", "metadata": {"page": 1}}], "mode": "update"},
        {"documents": [{"id": "a", "metadata": {"page": 1}}], "mode": "merge", "merge": True},
        {"documents": [{"id": "a", "metadata": {"page": 1}, "text": "new"}], "mode": "merge"},
        {"documents": [{"id": "a", "metadata": {"page": 1}, "embedding": [1.0, 2.0]}], "mode": "merge"},
        {"documents": [{"id": "", "metadata": {"page": 1}}], "mode": "merge"},
        {"documents": [{"metadata": {"page": 1}}], "mode": "merge"},
        {"documents": [{"id": "a", "metadata": {}}, {"id": "a", "metadata": {"page": 1}}], "mode": "merge"},
    ],
    ids=str,
)
def test_a_request_that_is_not_exact_changes_nothing(http: httpx.Client, stored: str, body: object) -> None:
    problem_of(http.patch(documents_path(stored), json=body), 400)
    assert metadata_of(http, stored, "a") == STORED


def test_all_invalid_documents_are_named(http: httpx.Client, stored: str) -> None:
    problem = problem_of(update(http, stored, a={"x": []}, b={"page": 4}, c={"y": [1, "2"]}), 400)
    assert paths_of(problem) == ["$.documents[0].metadata.x", "$.documents[2].metadata.y"]


def test_a_merge_cannot_exceed_the_number_of_values(http: httpx.Client, stored: str) -> None:
    many = {f"key{number}": number for number in range(MAX_VALUES - 5)}
    assert update(http, stored, a=many).status_code == 200
    assert paths_of(problem_of(update(http, stored, a={"one": 1}), 400)) == ["$.documents[0].metadata"]
    assert update(http, stored, "replace", a={"one": 1}).status_code == 200
    assert metadata_of(http, stored, "a") == {"one": 1}


def test_messagepack_works_too(http: httpx.Client, stored: str) -> None:
    body = msgspec.msgpack.encode({"documents": [{"id": "a", "metadata": {"page": None}}], "mode": "merge"})
    headers = {"content-type": "application/msgpack", "accept": "application/msgpack"}
    response = http.patch(documents_path(stored), content=body, headers=headers)
    assert msgspec.msgpack.decode(response.content)["count"] == 1
    assert "page" not in metadata_of(http, stored, "a")


def test_concurrent_updates_of_one_document_are_all_applied(http: httpx.Client, stored: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda key: update(http, stored, a={f"key{key}": key}), range(24)))
    assert {response.status_code for response in responses} == {200}
    assert metadata_of(http, stored, "a") == {**STORED, **{f"key{key}": key for key in range(24)}}


def test_updates_beside_one_that_fails_are_applied(http: httpx.Client, stored: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        names = ["a", "nowhere"] * 8

        def update_one(job: tuple[int, str]) -> httpx.Response:
            number, name = job
            body = {"documents": [{"id": name, "metadata": {f"k{number}": 1}}], "mode": "merge"}
            return http.patch(documents_path(stored), json=body)

        responses = list(threads.map(update_one, enumerate(names)))
    assert [response.status_code for response in responses] == [200, 404] * 8
    assert metadata_of(http, stored, "a") == {**STORED, **{f"k{number}": 1 for number in range(0, 16, 2)}}


def test_an_added_document_can_be_updated_and_its_id_stays_taken(http: httpx.Client, stored: str) -> None:
    update(http, stored, "replace", a={}).raise_for_status()
    document = {"id": "a", "text": "x", "embedding": [1.0, 1.0]}
    assert http.post(documents_path(stored), json={"documents": [document]}).status_code == 409


def test_texts_are_empty_on_request(http: httpx.Client, stored: str) -> None:
    page = http.get(documents_path(stored), params={"exclude": "text"}).json()
    filtered = http.post(f"{documents_path(stored)}/filter", json={"ids": ["a"], "exclude": ["text"]}).json()
    body = {"query_embedding": [1.0, 1.0], "exclude": ["text"]}
    found = http.post(f"/collections/{stored}/query", json=body).json()
    several = http.post("/query", json={**body, "collections": [stored]}).json()
    for each in (*page["documents"], *filtered["documents"], *found["results"], *several["results"]):
        assert each["text"] == ""
        assert each["metadata"] == STORED
    problem_of(http.get(documents_path(stored), params={"exclude": "metadata"}), 400)
    problem_of(http.post(f"/collections/{stored}/query", json={**body, "exclude": ["id"]}), 400)
