"""A document's metadata has a limit, in every way of writing it; nothing is written beyond it."""

from __future__ import annotations

from typing import Any, Final

import httpx
import msgspec
import pytest

from tests.contract.conftest import SendInvalid
from tests.support.documents import NDJSON_HEADERS, add, document, document_path, documents_path, lines_of
from tests.support.malformed_json import WRITES
from tests.support.problems import Problem, paths_of, problem_of
from tests.support.streams import stream_path

pytestmark = pytest.mark.process

LIMIT: Final = 5_000


def keys(count: int, prefix: str = "key") -> dict[str, Any]:
    return {f"{prefix}-{number}": number for number in range(count)}


TOO_MUCH = {
    "keys": keys(LIMIT + 1),
    "members of a list": {"list": ["entity"] * (LIMIT + 1)},
    "members of two lists": {"one": [1] * 3_000, "other": [0.5] * 2_001},
    "keys and members": {**keys(2_000), "list": [True] * 3_001},
}
JUST_ENOUGH = {
    "keys": keys(LIMIT),
    "members of a list": {"list": ["entity"] * LIMIT},
    "keys and members": {**keys(2_000), "list": [True] * 3_000, "none": None},
}
OVER = pytest.mark.parametrize("metadata", TOO_MUCH.values(), ids=TOO_MUCH)


def assert_names_the_limit(problem: Problem, path: str) -> None:
    assert problem["title"] == "Invalid metadata"
    assert "at most 5000 metadata values" in problem["detail"]
    assert paths_of(problem) == [path]


@OVER
@pytest.mark.parametrize("method", WRITES)
def test_more_than_the_maximum_number_of_values_in_a_document(
    store_rejection: SendInvalid, method: str, metadata: dict[str, Any]
) -> None:
    body = msgspec.json.encode({"documents": [document("a"), document("b", **metadata)]})
    problem = store_rejection(method, "/collections/COLLECTION/documents", body)
    assert_names_the_limit(problem, "$.documents[1].metadata")


@OVER
def test_more_than_the_maximum_number_of_values_in_a_messagepack_document(
    store_rejection: SendInvalid, metadata: dict[str, Any]
) -> None:
    body = msgspec.msgpack.encode({"documents": [document("a"), document("b", **metadata)]})
    problem = store_rejection("PUT", "/collections/COLLECTION/documents", body, "application/msgpack")
    assert_names_the_limit(problem, "$.documents[1].metadata")


@OVER
@pytest.mark.parametrize("mode", ["add", "upsert"])
def test_a_line_with_more_than_the_maximum_number_of_values(
    http: httpx.Client, collection: str, mode: str, metadata: dict[str, Any]
) -> None:
    lines = lines_of(document("a"), document("b", **metadata))
    problem = problem_of(http.post(stream_path(collection, mode), content=lines, headers=NDJSON_HEADERS), 400)
    assert_names_the_limit(problem, "$.metadata")
    assert problem["errors"][0]["line"] == 2
    add(http, collection, document("c"))


@pytest.mark.parametrize("metadata", JUST_ENOUGH.values(), ids=JUST_ENOUGH)
def test_the_maximum_number_of_metadata_values_is_stored(
    http: httpx.Client, collection: str, metadata: dict[str, Any]
) -> None:
    add(http, collection, document("a", **metadata))
    stored = http.get(document_path(collection, "a")).json()["metadata"]
    assert stored == {key: value for key, value in metadata.items() if value is not None}


def test_a_document_with_the_maximum_number_of_keys_is_replaced_by_one_with_other_keys(
    http: httpx.Client, collection: str
) -> None:
    """Old keys are removed in the same write, and count in Chroma's statements, too."""
    add(http, collection, document("a", **keys(LIMIT)), document("b"))
    other = document("a", **keys(LIMIT, "other"))
    http.put(documents_path(collection), json={"documents": [other]}).raise_for_status()
    assert http.get(document_path(collection, "a")).json()["metadata"] == keys(LIMIT, "other")
    add(http, collection, document("c"))


def test_many_documents_with_the_maximum_number_of_values_are_one_write(http: httpx.Client, collection: str) -> None:
    add(http, collection, *(document(f"d{number}", **keys(LIMIT)) for number in range(20)))
    add(http, collection, document("after"))
    assert http.get(document_path(collection, "d19")).json()["metadata"] == keys(LIMIT)


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/collections"), ("PUT", "/collections/COLLECTION/metadata")], ids=["POST", "PUT"]
)
def test_more_than_the_maximum_number_of_keys_in_a_collection(rejection: SendInvalid, method: str, path: str) -> None:
    problem = rejection(method, path, msgspec.json.encode({"name": "too-much", "metadata": keys(LIMIT + 1)}))
    assert "at most 5000 keys" in problem["detail"]
    assert paths_of(problem) == ["$.metadata"]


def test_more_than_the_maximum_number_of_keys_after_a_merge(http: httpx.Client, collection: str) -> None:
    path = f"/collections/{collection}/metadata"
    http.put(path, json={"metadata": keys(LIMIT)}).raise_for_status()
    problem = problem_of(http.put(path, params={"merge": "true"}, json={"metadata": {"one": "more"}}), 400)
    assert paths_of(problem) == ["$.metadata"]
    assert http.get(f"/collections/{collection}").json()["metadata"] == keys(LIMIT)
    http.put(path, params={"merge": "true"}, json={"metadata": {"one": 1, "key-0": None}}).raise_for_status()


def test_the_name_of_an_embedding_model_counts_as_a_key(http: httpx.Client, new_name: str) -> None:
    body = {"name": new_name, "metadata": keys(LIMIT), "embedding_model": "model"}
    assert paths_of(problem_of(http.post("/collections", json=body), 400)) == ["$.metadata"]
