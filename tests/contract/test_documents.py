"""The contract's section "Documents": adding, upserting, and reading one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import add, count_of, document, document_path, documents, documents_path, ids_of
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

Writing: TypeAlias = Callable[[list[Any]], httpx.Response]

UNUSUAL_IDS = [
    "handbook:chunk:7",
    "a/b/c",
    "a//b",
    "/leading",
    "trailing/",
    "//",
    "/",
    ".",
    "..",
    "../a",
    "a b+c",
    "100%",
    "%2F",
    "a%20b",
    "?x=1&y=2",
    "#fragment",
    "a;b,c",
    "Überblick",
    "文档/一",
    "🙂",
    "e\u0301",
    "\u00e9",
    "line\nbreak",
    "\u0000",
    "'; drop table embeddings; --",
    '"quoted"',
    "back\\slash",
    "all",
    "filter",
    "delete",
    "stream",
    "documents",
    "all/",
    "/all",
    "ids/documents/a",
    "x" * 1000,
]


def put(http: httpx.Client, collection: str, *sent: Any) -> httpx.Response:
    return http.put(documents_path(collection), json={"documents": sent})


def read(http: httpx.Client, collection: str, document_id: str = "a", **parameters: str) -> Any:
    response = http.get(document_path(collection, document_id), params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(params=["POST", "PUT"])
def writing(request: pytest.FixtureRequest, http: httpx.Client, collection: str) -> Writing:
    """Adds or upserts documents."""

    def write(sent: list[Any]) -> httpx.Response:
        return http.request(request.param, documents_path(collection), json={"documents": sent})

    return write


# -- adding ------------------------------------------------------------------------------------


def test_adding_returns_201_and_the_ids_in_the_order_of_the_request(http: httpx.Client, collection: str) -> None:
    response = http.post(documents_path(collection), json={"documents": [document(letter) for letter in "cab"]})

    assert response.status_code == 201
    assert response.json() == {"status": "added", "collection": collection, "count": 3, "ids": ["c", "a", "b"]}


def test_documents_without_an_id_get_a_generated_one(http: httpx.Client, collection: str) -> None:
    sent = [{"text": "first", "embedding": [1, 0]}, {"id": None, "text": "second", "embedding": [0, 1]}]

    ids = http.post(documents_path(collection), json={"documents": sent}).json()["ids"]

    assert len(set(ids)) == 2
    assert [read(http, collection, made)["text"] for made in ids] == ["first", "second"]


def test_a_document_is_read_back_as_id_text_and_metadata(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", text="Grüße 🙂\n", page=1))

    assert read(http, collection) == {"id": "a", "text": "Grüße 🙂\n", "metadata": {"page": 1}}


@pytest.mark.parametrize(
    "text",
    ["", " ", "\u0000", "a\u0000b", "\u2028", "x" * 100_000, "\ufeff", "{}"],
    ids=lambda text: ascii(text[:9]),
)
def test_any_text_is_stored_as_it_is(http: httpx.Client, collection: str, text: str) -> None:
    add(http, collection, document("a", text=text))

    assert read(http, collection)["text"] == text


def test_adding_an_existing_id_is_409_with_the_id(http: httpx.Client, collection: str) -> None:
    add(http, collection, *documents(5))

    sent = [document("doc-3"), document("x"), document("doc-1")]
    problem = problem_of(http.post(documents_path(collection), json={"documents": sent}), 409)

    assert "'doc-3', 'doc-1'" in problem["detail"]
    assert "'x'" not in problem["detail"]


def test_a_409_writes_nothing_of_the_request(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("taken", text="old", version=1))

    sent = [document("new-1"), document("taken", text="new", version=2), document("new-2")]
    http.post(documents_path(collection), json={"documents": sent})

    assert ids_of(http.get(documents_path(collection))) == ["taken"]
    assert read(http, collection, "taken") == {"id": "taken", "text": "old", "metadata": {"version": 1}}


def test_a_409_for_many_ids_stays_readable(http: httpx.Client, collection: str) -> None:
    add(http, collection, *documents(500))

    problem = problem_of(http.post(documents_path(collection), json={"documents": documents(500)}), 409)

    assert "'doc-0'" in problem["detail"]
    assert len(problem["detail"]) < 1000


# -- upserting ---------------------------------------------------------------------------------


def test_upserting_returns_200_and_the_ids(http: httpx.Client, collection: str) -> None:
    response = put(http, collection, document("b"), document("a"))

    assert response.status_code == 200
    assert response.json() == {"status": "upserted", "collection": collection, "count": 2, "ids": ["b", "a"]}


def test_upserting_adds_missing_documents(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a"))

    put(http, collection, document("a"), document("b"))

    assert ids_of(http.get(documents_path(collection))) == ["a", "b"]


def test_upserting_replaces_the_text(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", text="old words"))

    put(http, collection, document("a", text="new words"))

    assert read(http, collection)["text"] == "new words"
    by_text = http.get(documents_path(collection), params={"where_document": json.dumps({"$contains": "old"})})
    assert ids_of(by_text) == []


def test_upserting_replaces_the_embedding(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", embedding=[1, 0]), document("b", embedding=[0.6, 0.8]))

    put(http, collection, document("a", embedding=[0, 1]))

    assert read(http, collection, include="embedding")["embedding"] == pytest.approx([0, 1])
    nearest = http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0], "top_k": 1})
    assert ids_of(nearest, "results") == ["b"]


@pytest.mark.parametrize("after", [{"c": 3}, {"a": "one"}, {"a": ["x"]}, {}], ids=repr)
def test_upserting_replaces_metadata_and_does_not_merge(
    http: httpx.Client, collection: str, after: dict[str, Any]
) -> None:
    add(http, collection, document("a", a=1, b="two", parts=["x", "y"], numbers=[1, 2]))

    put(http, collection, document("a", **after))

    assert read(http, collection)["metadata"] == after
    by_old_key = http.get(documents_path(collection), params={"where": json.dumps({"b": "two"})})
    assert ids_of(by_old_key) == []


def test_upserting_a_document_without_metadata_leaves_none(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", a=1))

    put(http, collection, {"id": "a", "text": "x", "embedding": [1, 0]})

    assert read(http, collection)["metadata"] == {}


def test_upserting_again_changes_nothing_more(http: httpx.Client, collection: str) -> None:
    sent = [document("a", embedding=[1, 2], n=1, parts=["x"]), document("b", n=2)]
    first = put(http, collection, *sent).json()
    after_first = http.get(documents_path(collection), params={"include": "embedding"}).json()

    second = put(http, collection, *sent).json()

    assert second == first
    assert http.get(documents_path(collection), params={"include": "embedding"}).json() == after_first


def test_upserting_keeps_the_insertion_order(http: httpx.Client, collection: str) -> None:
    add(http, collection, *(document(letter) for letter in "cab"))

    put(http, collection, document("d"), document("a", text="replaced"), document("c", text="replaced"))

    assert ids_of(http.get(documents_path(collection))) == ["c", "a", "b", "d"]


# -- rejected by both ---------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["{}", *(f'{{"documents": {given}}}' for given in ("[]", "null", "{}", '"x"'))])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_an_empty_list_of_documents_is_rejected(http: httpx.Client, collection: str, method: str, body: str) -> None:
    problem = problem_of(http.request(method, documents_path(collection), content=body), 400)

    assert problem["detail"] == "Documents array is required"
    assert paths_of(problem) == ["$.documents"]


@pytest.mark.parametrize("without", [{"id": "b", "text": "x"}, {"id": "b", "text": "x", "embedding": None}])
def test_documents_without_embedding_are_rejected(
    http: httpx.Client, collection: str, writing: Writing, without: object
) -> None:
    problem = problem_of(writing([document("a"), without, document("c"), without]), 400)

    assert problem["detail"] == "All documents must include pre-computed embeddings"
    assert paths_of(problem) == ["$.documents[1].embedding", "$.documents[3].embedding"]
    assert count_of(http, collection) == 0


def test_different_dimensions_in_a_request_are_rejected_with_both(
    http: httpx.Client, collection: str, writing: Writing
) -> None:
    problem = problem_of(writing([document("a"), document("b"), document("c", embedding=[1, 2, 3])]), 400)

    assert "has 2" in problem["detail"]
    assert "$.documents[2].embedding has 3" in problem["detail"]
    assert paths_of(problem) == ["$.documents[2].embedding"]
    assert count_of(http, collection) == 0


def test_another_dimension_than_the_collections_is_rejected_with_both(
    http: httpx.Client, collection: str, writing: Writing
) -> None:
    add(http, collection, document("a", embedding=[1, 2, 3, 4]))

    problem = problem_of(writing([document("b", embedding=[1, 2, 3, 4, 5, 6, 7])]), 400)

    assert "4" in problem["detail"]
    assert "7" in problem["detail"]
    assert paths_of(problem)[0].startswith("$.documents")
    assert ids_of(http.get(documents_path(collection))) == ["a"]


def test_a_duplicate_id_in_a_request_is_rejected_with_the_id(
    http: httpx.Client, collection: str, writing: Writing
) -> None:
    problem = problem_of(writing([document("one"), document("twice"), document("twice")]), 400)

    assert "'twice'" in problem["detail"]
    assert paths_of(problem) == ["$.documents[2].id"]
    assert count_of(http, collection) == 0


@pytest.mark.parametrize("given", ["", 7, True, ["a"], {}], ids=repr)
def test_an_id_is_a_non_empty_string(http: httpx.Client, collection: str, writing: Writing, given: object) -> None:
    problem = problem_of(writing([document("a"), {**document(), "id": given}]), 400)

    assert paths_of(problem) == ["$.documents[1].id"]
    assert count_of(http, collection) == 0


@pytest.mark.parametrize("given", [None, 7, True, ["a"], {}], ids=repr)
def test_a_text_is_a_string(http: httpx.Client, collection: str, writing: Writing, given: object) -> None:
    problem = problem_of(writing([document("a"), {**document("b"), "text": given}]), 400)

    assert paths_of(problem) == ["$.documents[1].text"]
    assert count_of(http, collection) == 0


def test_a_text_is_required(http: httpx.Client, collection: str, writing: Writing) -> None:
    problem = problem_of(writing([{"id": "a", "embedding": [1, 0]}]), 400)

    assert "text" in problem["detail"]
    assert paths_of(problem) == ["$.documents[0].text"]
    assert count_of(http, collection) == 0


def test_a_rejected_upsert_replaces_nothing(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", text="old"))

    problem_of(put(http, collection, document("a", text="new"), {"id": "b", "text": "x"}), 400)

    assert read(http, collection)["text"] == "old"


def test_a_rejected_first_request_does_not_set_the_dimension(
    http: httpx.Client, collection: str, writing: Writing
) -> None:
    problem_of(writing([document("a", embedding=[1, 2, 3]), {"id": "b", "text": "x"}]), 400)

    assert writing([document("a", embedding=[1, 2])]).is_success


# -- reading one -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(http: httpx.Client) -> Iterator[str]:
    """A collection for documents with unusual ids."""
    name = f"t-{uuid4().hex}"
    http.post("/collections", json={"name": name}).raise_for_status()
    yield name
    http.delete(f"/collections/{name}")


@pytest.mark.parametrize("document_id", UNUSUAL_IDS, ids=lambda text: ascii(text[:20]))
def test_an_id_may_be_any_text(http: httpx.Client, shared: str, document_id: str) -> None:
    add(http, shared, document(document_id, text="wanted"))

    assert read(http, shared, document_id) == {"id": document_id, "text": "wanted", "metadata": {}}


@pytest.mark.parametrize("document_id", UNUSUAL_IDS, ids=lambda text: ascii(text[:20]))
def test_documents_of_any_id_are_selected_and_deleted(http: httpx.Client, shared: str, document_id: str) -> None:
    http.put(documents_path(shared), json={"documents": [document(document_id)]}).raise_for_status()

    selected = http.get(documents_path(shared), params={"ids": document_id})
    deleted = http.delete(documents_path(shared), params={"ids": document_id})

    assert ids_of(selected) == [document_id]
    assert deleted.json()["count"] == 1
    problem_of(http.get(document_path(shared, document_id)), 404)


@pytest.mark.parametrize("document_id", ["a:b", "a/b", "a//b", "a/b/", "//a", "a:/b", "filter/"])
def test_colons_and_slashes_in_a_path_need_no_encoding(http: httpx.Client, collection: str, document_id: str) -> None:
    add(http, collection, document(document_id), document("a"))

    response = http.get(f"{documents_path(collection)}/{document_id}")

    assert response.status_code == 200, response.text
    assert response.json()["id"] == document_id


def test_ids_that_differ_in_unicode_form_are_different(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("e\u0301", text="decomposed"), document("\u00e9", text="composed"))

    assert read(http, collection, "e\u0301")["text"] == "decomposed"
    assert read(http, collection, "\u00e9")["text"] == "composed"


def test_reading_includes_the_embedding_on_request(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", embedding=[3, 4]))

    assert "embedding" not in read(http, collection)
    assert read(http, collection, include="embedding")["embedding"] == pytest.approx([3, 4])


@pytest.mark.parametrize("document_id", ["never-there", "all", "filter", "delete", "stream", "a/b", "Ü"])
def test_an_unknown_document_is_404(http: httpx.Client, collection: str, document_id: str) -> None:
    problem = problem_of(http.get(document_path(collection, document_id)), 404)

    assert f"'{document_id}'" in problem["detail"]
