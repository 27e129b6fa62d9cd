"""The contract's maps of collections."""

from __future__ import annotations

import re
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

from tests.support.documents import add, document
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process


def map_of(http: httpx.Client, collection: str, **body: object) -> dict[str, Any]:
    """A map of a collection."""
    response = http.post(f"/collections/{collection}/map", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def filled(http: httpx.Client, collection: str, count: int, dimension: int = 8) -> np.ndarray[Any, Any]:
    """Add documents d0, d1, ... with the metadata `even`, and return their embeddings."""
    embeddings = np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)
    added = [document(f"d{index}", embedding=row.tolist()) for index, row in enumerate(embeddings)]
    for even in added[::2]:
        even["metadata"] = {"even": True}
    add(http, collection, *added)
    return embeddings


def test_a_map_has_each_document_with_its_position_and_neighbours(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 40)

    found = map_of(http, collection)

    assert found["ids"] == [f"d{index}" for index in range(40)]
    assert len(found["x"]) == len(found["y"]) == len(found["neighbours"]) == len(found["distances"]) == 40
    assert {len(row) for row in found["neighbours"]} == {len(row) for row in found["distances"]} == {15}
    assert all(index not in row and len(set(row)) == 15 for index, row in enumerate(found["neighbours"]))
    assert found["total"] == 40
    assert found["color"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found["as_of"])


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
def test_neighbours_are_the_nearest_matches_of_a_query(http: httpx.Client, name: str, distance: str) -> None:
    http.post("/collections", json={"name": name, "distance": distance}).raise_for_status()
    embeddings = filled(http, name, 30)

    found = map_of(http, name)

    for index in (0, 13, 29):
        query = {"query_embedding": [float(number) for number in embeddings[index]], "top_k": 30}
        matches = http.post(f"/collections/{name}/query", json=query).json()["results"]
        others = [match for match in matches if match["id"] != f"d{index}"][:15]
        assert [found["ids"][other] for other in found["neighbours"][index]] == [match["id"] for match in others]
        assert found["distances"][index] == pytest.approx([match["distance"] for match in others], abs=1e-5)


def test_a_filter_chooses_the_documents_and_a_field_colours_them(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 9)
    add(http, collection, document("listed", embedding=[1.0] * 8, tags=["a", "b"]))

    found = map_of(http, collection, where={"even": True}, color="even")

    assert found["ids"] == ["d0", "d2", "d4", "d6", "d8"]
    assert found["color"] == [True] * 5
    assert found["total"] == 5
    assert map_of(http, collection, color="tags")["color"] == [None] * 9 + [["a", "b"]]
    assert map_of(http, collection, where={"even": "none"})["ids"] == []


def test_long_values_are_cut_where_they_colour_a_map(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", long="x" * 1000), document("b", long=["y" * 300] * 100))

    assert map_of(http, collection, color="long")["color"] == ["x" * 200, ["y" * 200] * 20]


def test_a_sample_is_spread_evenly_over_the_collection(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 100)

    found = map_of(http, collection, points=20)

    assert found["total"] == 100
    assert found["ids"] == [f"d{first + more}" for first in range(4, 100, 10) for more in (0, 1)]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_map_of_few_documents_has_as_many_points(http: httpx.Client, collection: str, count: int) -> None:
    if count:
        filled(http, collection, count)

    found = map_of(http, collection, color="even")

    assert len(found["ids"]) == len(found["x"]) == len(found["y"]) == len(found["color"]) == found["total"] == count
    assert [sorted(row) for row in found["neighbours"]] == [
        [other for other in range(count) if other != index] for index in range(count)
    ]


def test_documents_with_equal_embeddings_are_at_one_place(http: httpx.Client, collection: str) -> None:
    add(http, collection, *(document(f"d{index}", embedding=[0.3, 0.4]) for index in range(20)))

    found = map_of(http, collection)

    assert set(found["x"]) == set(found["y"]) == {0.0}
    assert {distance for row in found["distances"] for distance in row} == {0.0}
    assert found["neighbours"][0] == sorted(found["neighbours"][0])


def test_a_map_is_cached_until_the_collection_changes(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 5)
    first = map_of(http, collection)

    assert map_of(http, collection) == first
    assert map_of(http, collection, points=3)["ids"] != first["ids"]

    add(http, collection, document("new", embedding=[0.5] * 8))
    assert map_of(http, collection)["ids"] == [*first["ids"], "new"]

    http.delete(f"/collections/{collection}/documents", params={"ids": "d0"}).raise_for_status()
    assert map_of(http, collection)["ids"] == ["d1", "d2", "d3", "d4", "new"]


def test_a_collection_that_is_created_again_has_a_new_map(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 5)
    map_of(http, collection)

    http.delete(f"/collections/{collection}").raise_for_status()
    assert problem_of(http.post(f"/collections/{collection}/map", json={}), 404)["code"] == "collection_not_found"

    http.post("/collections", json={"name": collection}).raise_for_status()
    assert map_of(http, collection)["ids"] == []


def test_a_map_is_encoded_as_messagepack_if_the_client_prefers_it(http: httpx.Client, collection: str) -> None:
    filled(http, collection, 5)

    response = http.post(
        f"/collections/{collection}/map",
        content=msgspec.msgpack.encode({"points": 5}),
        headers={"Content-Type": "application/msgpack", "Accept": "application/msgpack"},
    )

    assert msgspec.msgpack.decode(response.content) == map_of(http, collection, points=5)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"points": 0}, "$.points"),
        ({"points": 10_001}, "$.points"),
        ({"points": 1.5}, "$.points"),
        ({"points": "20"}, "$.points"),
        ({"color": ""}, "$.color"),
        ({"color": 3}, "$.color"),
        ({"where": {"a": {"$like": 1}}}, "$.where.a"),
        ({"where": []}, "$.where"),
        ([], "$"),
    ],
)
def test_an_invalid_map_is_400_with_its_path(http: httpx.Client, untouched: str, body: object, path: str) -> None:
    problem = problem_of(http.post(f"/collections/{untouched}/map", json=body), 400)

    assert any(found.startswith(path) for found in paths_of(problem))
