"""The contract's section "Similarity"."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import httpx
import pytest

from tests.support.documents import add, document, documents, ids_of
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

Querying: TypeAlias = Callable[..., httpx.Response]


@pytest.fixture(params=["/collections/{}/query", "/query"])
def querying(request: pytest.FixtureRequest, http: httpx.Client) -> Querying:
    """Queries one collection, by its path or by its name on `/query`."""

    def on_its_path(collection: str, **body: object) -> httpx.Response:
        return http.post(f"/collections/{collection}/query", json=body)

    def by_name(collection: str, **body: object) -> httpx.Response:
        return http.post("/query", json={"collection": collection, **body})

    return by_name if request.param == "/query" else on_its_path


def created(http: httpx.Client, name: str, distance: str, *vectors: tuple[float, ...]) -> str:
    """Create a collection with documents a, b, c, ... with these embeddings."""
    http.post("/collections", json={"name": name, "distance": distance}).raise_for_status()
    if vectors:
        add(http, name, *(document(chr(97 + index), embedding=vector) for index, vector in enumerate(vectors)))
    return name


@pytest.fixture
def compass(http: httpx.Client, collection: str) -> str:
    """Documents at 0, 30, 60 and 90 degrees, of kinds 1, 2, 1, 2."""
    for index, degrees in enumerate((90, 0, 60, 30)):
        angle = math.radians(degrees)
        vector = (math.cos(angle), math.sin(angle))
        add(http, collection, document(f"{degrees}", text=f"at {degrees}", embedding=vector, kind=1 + index % 2))
    return collection


# -- one collection ----------------------------------------------------------------------------


def test_results_come_nearest_first(compass: str, querying: Querying) -> None:
    response = querying(compass, query_embedding=[1, 0])

    assert ids_of(response, "results") == ["0", "30", "60", "90"]
    distances = [hit["distance"] for hit in response.json()["results"]]
    assert distances == pytest.approx([0, 1 - math.sqrt(3) / 2, 0.5, 1], abs=1e-6)


def test_a_response_has_results_count_and_collection_metadata(http: httpx.Client, collection: str) -> None:
    http.put(f"/collections/{collection}/metadata", json={"metadata": {"embedding_model": "m"}})
    add(http, collection, document("a", text="words", page=1))

    response = http.post(f"/collections/{collection}/query", json={"query_embedding": [2, 0]})

    assert response.status_code == 200
    assert response.json() == {
        "results": [
            {
                "id": "a",
                "text": "words",
                "metadata": {"page": 1},
                "distance": pytest.approx(0, abs=1e-6),
                "score": pytest.approx(1),
            }
        ],
        "count": 1,
        "collection_metadata": {"embedding_model": "m"},
    }


def test_a_query_on_one_collection_by_name_returns_the_same_matches_with_its_name(
    http: httpx.Client, compass: str
) -> None:
    on_its_path = http.post(f"/collections/{compass}/query", json={"query_embedding": [1, 0]}).json()

    by_name = http.post("/query", json={"collection": compass, "query_embedding": [1, 0]}).json()

    assert by_name["results"] == [{**hit, "collection": compass} for hit in on_its_path["results"]]
    assert by_name["count"] == on_its_path["count"]
    assert by_name["collection_metadata"] == on_its_path["collection_metadata"]


def test_top_k_is_5_by_default(http: httpx.Client, collection: str, querying: Querying) -> None:
    add(http, collection, *documents(8))

    assert querying(collection, query_embedding=[1, 0]).json()["count"] == 5


@pytest.mark.parametrize("top_k", [1, 3, 8, 1000])
def test_top_k_bounds_the_results(http: httpx.Client, collection: str, querying: Querying, top_k: int) -> None:
    add(http, collection, *documents(8))

    response = querying(collection, query_embedding=[1, 0], top_k=top_k).json()

    assert response["count"] == len(response["results"]) == min(top_k, 8)


@pytest.mark.parametrize("top_k", [0, -1, 1001, 2**70, 1.5, "5", None, True], ids=repr)
def test_top_k_is_from_1_to_1000(compass: str, querying: Querying, top_k: object) -> None:
    problem = problem_of(querying(compass, query_embedding=[1, 0], top_k=top_k), 400)

    assert "top_k" in problem["detail"]


def test_where_selects(compass: str, querying: Querying) -> None:
    assert ids_of(querying(compass, query_embedding=[1, 0], where={"kind": 1}), "results") == ["60", "90"]


def test_where_document_selects(compass: str, querying: Querying) -> None:
    response = querying(compass, query_embedding=[1, 0], where_document={"$contains": "0"}, where={"kind": 2})

    assert ids_of(response, "results") == ["0", "30"]


def test_a_rare_match_is_found_at_any_distance(http: httpx.Client, collection: str, querying: Querying) -> None:
    near = [document(f"near-{number}", embedding=(1, number / 1000), kind="common") for number in range(500)]
    add(http, collection, *near, document("far", embedding=(-1, 0), kind="rare"))

    assert ids_of(querying(collection, query_embedding=[1, 0], where={"kind": "rare"}), "results") == ["far"]


def test_max_distance_excludes_farther_documents(compass: str, querying: Querying) -> None:
    assert ids_of(querying(compass, query_embedding=[1, 0], max_distance=0.3), "results") == ["0", "30"]


def test_min_score_excludes_lower_scores(compass: str, querying: Querying) -> None:
    assert ids_of(querying(compass, query_embedding=[1, 0], min_score=0.4), "results") == ["0", "30", "60"]


def test_both_bounds_hold(compass: str, querying: Querying) -> None:
    response = querying(compass, query_embedding=[1, 0], max_distance=0.6, min_score=0.8)

    assert ids_of(response, "results") == ["0", "30"]
    assert response.json()["count"] == 2


def test_results_carry_embeddings_on_request(compass: str, querying: Querying) -> None:
    without, with_them = (
        querying(compass, query_embedding=[1, 0], top_k=1, **fields).json()["results"][0]
        for fields in ({}, {"include": ["embedding"]})
    )

    assert "embedding" not in without
    assert with_them["embedding"] == pytest.approx([1, 0], abs=1e-6)


def test_an_empty_collection_returns_an_empty_list(collection: str, querying: Querying) -> None:
    response = querying(collection, query_embedding=[1, 2, 3])

    assert response.status_code == 200
    assert response.json()["results"] == []
    assert response.json()["count"] == 0


def test_a_filter_that_nothing_matches_gives_an_empty_list(compass: str, querying: Querying) -> None:
    assert querying(compass, query_embedding=[1, 0], where={"kind": 9}).json()["results"] == []


def test_a_query_of_the_wrong_dimension_is_400_with_both(compass: str, querying: Querying) -> None:
    problem = problem_of(querying(compass, query_embedding=[1, 2, 3, 4, 5]), 400)

    assert "2" in problem["detail"]
    assert "5" in problem["detail"]
    assert paths_of(problem) == ["$.query_embedding"]


def test_an_unknown_collection_is_404(new_name: str, querying: Querying) -> None:
    problem = problem_of(querying(new_name, query_embedding=[1, 0]), 404)

    assert problem["detail"] == f"Collection '{new_name}' not found"


# -- scores ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("distance", "distances", "scores"),
    [
        ("cosine", [0, 0.2, 1], [1, 0.8, 0]),
        ("ip", [-3, -2, 1], [4, 3, 0]),
        ("l2", [1, 2, 5], [1 / 2, 1 / 3, 1 / 6]),
    ],
)
def test_scores_follow_the_distance(
    http: httpx.Client, new_name: str, querying: Querying, distance: str, distances: list[float], scores: list[float]
) -> None:
    vectors = {"cosine": [(2, 0), (4, 3), (0, 5)], "ip": [(4, 0), (3, 7), (0, 5)], "l2": [(2, 0), (2, 1), (3, 1)]}
    created(http, new_name, distance, *vectors[distance])

    results = querying(new_name, query_embedding=[1, 0]).json()["results"]

    assert [hit["id"] for hit in results] == ["a", "b", "c"]
    assert [hit["distance"] for hit in results] == pytest.approx(distances, abs=1e-5)
    assert [hit["score"] for hit in results] == pytest.approx(scores, abs=1e-5)


@pytest.mark.parametrize("distance", ["l2", "ip"])
def test_distances_beyond_float32_are_still_numbers(http: httpx.Client, new_name: str, distance: str) -> None:
    created(http, new_name, distance, (3e38, -3e38))

    response = http.post(f"/collections/{new_name}/query", json={"query_embedding": [-3e38, 3e38]})

    assert response.status_code == 200
    assert all(math.isfinite(response.json()["results"][0][key]) for key in ("distance", "score"))


# -- several collections -----------------------------------------------------------------------


@pytest.fixture
def pair(http: httpx.Client, new_name: str) -> Iterator[tuple[str, str]]:
    """Two collections whose documents alternate in distance from (1, 0)."""
    names = (f"{new_name}-1", f"{new_name}-2")
    created(http, names[0], "l2", (1, 0), (1, 2))
    created(http, names[1], "l2", (1, 1), (1, 3))
    yield names
    for one in names:
        http.delete(f"/collections/{one}")


def query(http: httpx.Client, *names: str, **body: object) -> httpx.Response:
    return http.post("/query", json={"collections": names, "query_embedding": [1, 0], **body})


def test_several_collections_are_merged_by_distance(http: httpx.Client, pair: tuple[str, str]) -> None:
    response = query(http, *pair).json()

    found = [(hit["collection"], hit["id"], round(hit["distance"], 5)) for hit in response["results"]]
    assert found == [(pair[0], "a", 0), (pair[1], "a", 1), (pair[0], "b", 4), (pair[1], "b", 9)]
    assert response["count"] == 4


def test_several_collections_give_top_k_together(http: httpx.Client, pair: tuple[str, str]) -> None:
    assert [hit["collection"] for hit in query(http, *pair, top_k=2).json()["results"]] == list(pair)


def test_bounds_and_filters_apply_to_several_collections(http: httpx.Client, pair: tuple[str, str]) -> None:
    assert query(http, *pair, max_distance=1.5).json()["count"] == 2
    assert query(http, *pair, where={"kind": "none"}).json()["count"] == 0


def test_errors_are_absent_without_failures(http: httpx.Client, pair: tuple[str, str]) -> None:
    assert query(http, *pair).json()["errors"] == []


def test_an_unknown_collection_is_reported_and_the_others_return_matches(
    http: httpx.Client, pair: tuple[str, str]
) -> None:
    response = query(http, pair[0], "never-there", pair[1])

    assert response.status_code == 200
    assert response.json()["count"] == 4
    assert response.json()["errors"] == [
        {
            "collection": "never-there",
            "status": 404,
            "code": "collection_not_found",
            "detail": "Collection 'never-there' not found",
        }
    ]


def test_a_collection_of_another_dimension_is_reported_and_the_others_return_matches(
    http: httpx.Client, pair: tuple[str, str], collection: str
) -> None:
    add(http, collection, document("a", embedding=[1, 2, 3]))

    response = query(http, *pair, collection).json()

    assert response["count"] == 4
    [error] = response["errors"]
    assert (error["collection"], error["status"]) == (collection, 400)
    assert "3" in error["detail"]


def test_a_collection_named_twice_counts_once(http: httpx.Client, pair: tuple[str, str]) -> None:
    assert query(http, pair[0], pair[0]).json()["count"] == 2


def test_when_all_collections_fail_each_is_reported(http: httpx.Client) -> None:
    response = query(http, "never-there", "nor-here").json()

    assert response["results"] == []
    assert [error["collection"] for error in response["errors"]] == ["never-there", "nor-here"]


@pytest.mark.parametrize(
    "body",
    [{}, {"collection": "abc", "collections": ["abc"]}, {"collections": []}, {"collection": None}],
    ids=json.dumps,
)
def test_exactly_one_of_collection_and_collections_is_required(http: httpx.Client, body: dict[str, Any]) -> None:
    problem = problem_of(http.post("/query", json={"query_embedding": [1, 0], **body}), 400)

    assert "collection" in problem["detail"]
