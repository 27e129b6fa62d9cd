"""A key with patterns: for it, collections that match none of them do not exist."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.documents import document
from tests.support.keyed_services import send
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

QUERY = {"query_embedding": [1, 0]}

ON_COLLECTION: list[tuple[str, str, Any]] = [
    ("GET", "/collections/NAME", None),
    ("PUT", "/collections/NAME/metadata", {"metadata": {}}),
    ("DELETE", "/collections/NAME", None),
    ("GET", "/collections/NAME/metadata-values?field=about", None),
    ("GET", "/collections/NAME/documents", None),
    ("GET", "/collections/NAME/documents?total=false&ids=secret", None),
    ("POST", "/collections/NAME/documents/filter", {}),
    ("POST", "/collections/NAME/documents/filter", {"where": {"nothing": {"$ne": 1}}, "offset": 5}),
    ("GET", "/collections/NAME/documents/secret", None),
    ("POST", "/collections/NAME/documents", {"documents": [document("secret")]}),
    ("POST", "/collections/NAME/documents", {"documents": [document("secret", embedding=[1, 2, 3])]}),
    ("PUT", "/collections/NAME/documents", {"documents": [document("secret")]}),
    ("POST", "/collections/NAME/documents/stream", [document("secret")]),
    ("POST", "/collections/NAME/documents/stream?mode=upsert", [document("secret")]),
    ("DELETE", "/collections/NAME/documents?ids=secret", None),
    ("POST", "/collections/NAME/documents/delete", {"ids": ["secret"]}),
    ("DELETE", "/collections/NAME/documents/all", None),
    ("POST", "/collections/NAME/query", QUERY),
    ("POST", "/collections/NAME/query", {"query_embedding": [1, 2, 3]}),
    ("POST", "/collections/NAME/map", {"color": "about"}),
    ("POST", "/query", {"collection": "NAME", **QUERY}),
]


@pytest.mark.parametrize(("method", "path", "body"), ON_COLLECTION)
def test_the_response_for_a_hidden_collection_is_that_for_a_missing_one(
    team: httpx.Client, admin: httpx.Client, method: str, path: str, body: Any
) -> None:
    hidden = send(team, method, path, body, "secret")
    absent = send(team, method, path, body, "absent")

    assert problem_of(hidden, 404)["detail"] == "Collection 'secret' not found"
    assert hidden.text.replace("secret", "absent") == absent.text
    assert admin.get("/collections/secret").json()["count"] == 1


@pytest.mark.parametrize(
    "body",
    [
        {"name": "NAME"},
        {"name": "NAME", "get_or_create": True},
        {"name": "NAME", "metadata": {"about": "x"}, "distance": "l2"},
    ],
)
def test_a_creation_outside_the_patterns_is_403_whether_or_not_the_name_exists(
    team: httpx.Client, admin: httpx.Client, body: dict[str, Any]
) -> None:
    existing = team.post("/collections", json={**body, "name": "secret"})
    unused = team.post("/collections", json={**body, "name": "elsewhere"})

    assert problem_of(existing, 403) == problem_of(unused, 403)
    assert admin.get("/collections/elsewhere").status_code == 404


def test_a_creation_within_the_patterns_succeeds(team: httpx.Client) -> None:
    name = f"repo_{uuid4().hex}"
    assert team.post("/collections", json={"name": name}).status_code == 201
    assert team.delete(f"/collections/{name}").status_code == 200


def test_a_listing_contains_and_counts_visible_collections_only(guest: httpx.Client, team: httpx.Client) -> None:
    seen = {name: http.get("/collections").json() for name, http in (("guest", guest), ("team", team))}

    assert [found["name"] for found in seen["guest"]["collections"]] == ["repo_a"]
    assert (seen["guest"]["count"], seen["guest"]["total"]) == (1, 1)
    assert [found["name"] for found in seen["team"]["collections"]] == ["repo_a", "repo_b", "shared"]
    assert seen["team"]["total"] == 3


def test_pages_of_a_listing_contain_visible_collections_only(team: httpx.Client) -> None:
    pages = [team.get("/collections", params={"limit": 1, "offset": offset}).json() for offset in range(4)]

    assert [[found["name"] for found in page["collections"]] for page in pages] == [
        ["repo_a"],
        ["repo_b"],
        ["shared"],
        [],
    ]
    assert [page["total"] for page in pages] == [3] * 4


def test_health_counts_visible_collections_and_reports_no_bytes(guest: httpx.Client, admin: httpx.Client) -> None:
    assert guest.get("/health").json()["collections_count"] == 1
    assert guest.get("/health").json()["details"].get("storage_bytes") is None
    assert admin.get("/health").json()["collections_count"] >= 4


def test_a_query_over_several_collections_reports_hidden_ones_as_missing(guest: httpx.Client) -> None:
    response = guest.post("/query", json={"collections": ["repo_a", "secret", "repo_b", "absent"], **QUERY}).json()

    assert [hit["id"] for hit in response["results"]] == ["repo_a"]
    assert response["errors"] == [
        {"collection": name, "status": 404, "code": "collection_not_found", "detail": f"Collection '{name}' not found"}
        for name in ("secret", "repo_b", "absent")
    ]


def test_a_pattern_matches_whole_names_only(guest: httpx.Client) -> None:
    for name in ("xrepo_a", "REPO_A", "repo_b"):
        problem_of(guest.get(f"/collections/{name}"), 404)


def test_an_encoded_name_does_not_bypass_the_patterns(guest: httpx.Client) -> None:
    for name in ("%73ecret", "repo_a%2F..%2Fsecret", "repo_a%0Asecret", "repo_a/../secret"):
        assert guest.get(f"/collections/{name}").status_code == 404, name


def test_a_hidden_collection_is_not_looked_up_in_chroma(guest: httpx.Client) -> None:
    response = guest.get("/collections/secret")
    assert response.headers["server-timing"].startswith("store;dur=0.00")


def test_metrics_contain_no_collection_names(guest: httpx.Client) -> None:
    guest.get("/collections/secret")
    assert "secret" not in guest.get("/metrics").text


def test_visible_collections_are_served_as_usual(team: httpx.Client) -> None:
    assert team.get("/collections/repo_b/metadata-values", params={"field": "about"}).json()["values"] == ["repo_b"]
    assert team.get("/collections/shared/documents").json()["total"] == 1
    assert team.post("/collections/repo_a/query", json=QUERY).json()["count"] == 1
