"""Messages about invalid input name the field, and what it accepts."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from tests.support.problems import problem_of

pytestmark = pytest.mark.process

CHOICES = "Invalid enum value: expected"


def first_error(response: httpx.Response) -> tuple[str, str]:
    error = problem_of(response, 400)["errors"][0]
    return error["path"], error["message"]


@pytest.mark.parametrize("top_k", [0, 0.5])
def test_the_bound_of_a_number_is_written_as_json_writes_it(http: httpx.Client, collection: str, top_k: float) -> None:
    response = http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0], "top_k": top_k})
    assert first_error(response) == ("$.top_k", "Expected a number >= 1")


def test_a_value_that_is_no_choice_gets_the_choices(http: httpx.Client) -> None:
    response = http.post("/collections", json={"name": "abc", "distance": "euclid"})
    path, message = first_error(response)
    assert path == "$.distance"
    assert message.startswith(CHOICES)
    assert all(f"'{distance}'" in message for distance in ("cosine", "ip", "l2"))
    assert "euclid" not in response.text


def test_a_parameter_that_is_no_choice_gets_the_choices(http: httpx.Client, collection: str) -> None:
    response = http.get(f"/collections/{collection}/documents", params={"include": "metadata"})
    assert first_error(response) == ("$.include", f"{CHOICES} 'embedding'")


@pytest.mark.parametrize(
    ("metadata", "path"),
    [
        ({"good": 1, "page": {"a": 1}}, "$.documents[1].metadata.page"),
        ({"good": [1], "page": [[1]]}, "$.documents[1].metadata.page[0]"),
    ],
)
@pytest.mark.parametrize("media_type", ["application/json", "application/msgpack"])
def test_the_path_of_a_metadata_value_has_its_key(
    http: httpx.Client, collection: str, metadata: dict[str, Any], path: str, media_type: str
) -> None:
    encode = msgspec.json.encode if media_type.endswith("json") else msgspec.msgpack.encode
    documents = [
        {"id": "a", "text": "t", "embedding": [1.0, 0.0], "metadata": {"page": 1}},
        {"id": "b", "text": "t", "embedding": [1.0, 0.0], "metadata": metadata},
    ]
    response = http.post(
        f"/collections/{collection}/documents",
        content=encode({"documents": documents}),
        headers={"Content-Type": media_type},
    )
    assert first_error(response)[0] == path


def test_the_path_of_a_value_of_collection_metadata_has_its_key(http: httpx.Client) -> None:
    response = http.post("/collections", json={"name": "abc", "metadata": {"good": 1, "tags": ["a"]}})
    assert first_error(response)[0] == "$.metadata.tags"
