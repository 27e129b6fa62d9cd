"""The scenarios of the source specification, one test each, under the scenario's own title."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.support.documents import add, count_of, document, documents, documents_path, ids_of
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process


def where(condition: object) -> dict[str, str]:
    return {"where": json.dumps(condition)}


# -- RAG wrapper document storage with pre-computed embeddings ---------------------------------


def test_add_documents_with_precomputed_embeddings(http: httpx.Client, collection: str) -> None:
    """Add Documents with Pre-computed Embeddings."""
    sent = [
        {"text": "first", "metadata": {"page": 1}, "embedding": [0.1, 0.2, 0.3]},
        {"text": "second", "metadata": {"page": 2}, "embedding": [0.4, 0.5, 0.6]},
    ]

    response = http.post(documents_path(collection), json={"documents": sent})

    assert response.status_code == 201
    assert response.json()["count"] == 2
    stored = http.get(documents_path(collection), params={"include": "embedding"}).json()["documents"]
    assert [(found["text"], found["metadata"]) for found in stored] == [("first", {"page": 1}), ("second", {"page": 2})]
    assert [[round(number, 6) for number in found["embedding"]] for found in stored] == [
        [0.1, 0.2, 0.3],
        [0.4, 0.5, 0.6],
    ]


def test_add_documents_without_embeddings(http: httpx.Client, collection: str) -> None:
    """Add Documents Without Embeddings."""
    without = {"id": "b", "text": "no embedding", "metadata": {}}

    response = http.post(documents_path(collection), json={"documents": [document("a"), without]})

    problem = problem_of(response, 400)
    assert problem["detail"] == "All documents must include pre-computed embeddings"
    assert paths_of(problem) == ["$.documents[1].embedding"]
    assert count_of(http, collection) == 0


def test_add_documents_with_invalid_embedding_format(http: httpx.Client, collection: str) -> None:
    """Add Documents with Invalid Embedding Format."""
    wrong = {"id": "b", "text": "x", "embedding": ["one", "two"]}

    response = http.post(documents_path(collection), json={"documents": [document("a"), wrong]})

    problem = problem_of(response, 400)
    assert problem["detail"].startswith("Embedding must be an array of numbers")
    assert "$.documents[1].embedding[0]" in problem["detail"]
    assert count_of(http, collection) == 0


def test_add_documents_with_mismatched_embedding_dimensions(http: httpx.Client, collection: str) -> None:
    """Add Documents with Mismatched Embedding Dimensions."""
    sent = [document("a", embedding=[1, 2, 3]), document("b", embedding=[1, 2, 3, 4])]

    response = http.post(documents_path(collection), json={"documents": sent})

    problem = problem_of(response, 400)
    assert "$.documents[0].embedding has 3" in problem["detail"]
    assert "$.documents[1].embedding has 4" in problem["detail"]
    assert count_of(http, collection) == 0


def test_empty_documents_array(http: httpx.Client, collection: str) -> None:
    """Empty Documents Array."""
    response = http.post(documents_path(collection), json={"documents": []})

    assert problem_of(response, 400)["detail"] == "Documents array is required"


# -- collection metadata storage ---------------------------------------------------------------


def test_create_collection_with_metadata(http: httpx.Client, new_name: str) -> None:
    """Create Collection with Metadata."""
    response = http.post(
        "/collections",
        json={
            "name": new_name,
            "embedding_provider": "a provider nobody knows",
            "embedding_model": "model-7",
            "metadata": {"team": "docs", "revision": 3, "public": True},
        },
    )

    assert response.status_code == 201
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {
        "team": "docs",
        "revision": 3,
        "public": True,
        "embedding_provider": "a provider nobody knows",
        "embedding_model": "model-7",
    }


def test_retrieve_collection_with_metadata(http: httpx.Client, new_name: str) -> None:
    """Retrieve Collection with Metadata."""
    http.post("/collections", json={"name": new_name, "metadata": {"team": "docs"}})

    response = http.get(f"/collections/{new_name}")

    assert response.status_code == 200
    assert response.json()["name"] == new_name
    assert response.json()["metadata"] == {"team": "docs"}


def test_update_collection_metadata(http: httpx.Client, new_name: str) -> None:
    """Update Collection Metadata."""
    http.post("/collections", json={"name": new_name, "metadata": {"team": "docs"}})

    response = http.put(f"/collections/{new_name}/metadata", json={"metadata": {"team": "support", "revision": 2}})

    assert response.status_code == 200
    assert response.json()["status"] == "updated"
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {"team": "support", "revision": 2}


def test_retrieve_all_collections_with_metadata(http: httpx.Client, new_name: str, collection: str) -> None:
    """Retrieve All Collections with Metadata."""
    other = f"{new_name}-2"
    http.put(f"/collections/{collection}/metadata", json={"metadata": {"team": "docs"}})
    http.post("/collections", json={"name": other, "metadata": {"team": "support"}})

    response = http.get("/collections")
    http.delete(f"/collections/{other}")

    assert response.status_code == 200
    metadata = {found["name"]: found["metadata"] for found in response.json()["collections"]}
    assert metadata[collection] == {"team": "docs"}
    assert metadata[other] == {"team": "support"}


# -- metadata-based document querying ----------------------------------------------------------


def test_simple_equality_filter(http: httpx.Client, collection: str) -> None:
    """Simple equality filter."""
    add(
        http,
        collection,
        document("a", text="Welcome", section_id="intro"),
        document("b", text="Setting up", section_id="setup"),
        document("c", text="What this is", section_id="intro"),
    )

    response = http.get(documents_path(collection), params=where({"section_id": "intro"}))

    assert response.status_code == 200
    assert response.json() == {
        "documents": [
            {"id": "a", "text": "Welcome", "metadata": {"section_id": "intro"}},
            {"id": "c", "text": "What this is", "metadata": {"section_id": "intro"}},
        ],
        "count": 2,
        "total": 2,
    }


def test_multiple_field_filter_implicit_and(http: httpx.Client, collection: str) -> None:
    """Multiple field filter (implicit AND)."""
    add(
        http,
        collection,
        document("a", chapter_id="1", doc_type="paragraph"),
        document("b", chapter_id="1", doc_type="heading"),
        document("c", chapter_id="2", doc_type="paragraph"),
        document("d", chapter_id="1", doc_type="paragraph"),
    )

    response = http.get(documents_path(collection), params=where({"chapter_id": "1", "doc_type": "paragraph"}))

    assert ids_of(response) == ["a", "d"]
    for found in response.json()["documents"]:
        assert found["metadata"] == {"chapter_id": "1", "doc_type": "paragraph"}


def test_complex_filter_with_operators(http: httpx.Client, collection: str) -> None:
    """Complex filter with operators."""
    kinds = ["heading", "paragraph", "code", "list", "paragraph"]
    add(http, collection, *(document(f"{index}", doc_type=kind) for index, kind in enumerate(kinds)))

    response = http.get(documents_path(collection), params=where({"doc_type": {"$in": ["heading", "paragraph"]}}))

    assert ids_of(response) == ["0", "1", "4"]


def test_logical_or_operator(http: httpx.Client, collection: str) -> None:
    """Logical OR operator."""
    add(http, collection, *(document(f"chapter-{number}", chapter=f"{number}") for number in range(1, 5)))

    response = http.get(documents_path(collection), params=where({"$or": [{"chapter": "1"}, {"chapter": "3"}]}))

    assert ids_of(response) == ["chapter-1", "chapter-3"]


def test_no_filter_provided(http: httpx.Client, collection: str) -> None:
    """No filter provided."""
    add(http, collection, *documents(500))

    response = http.get(documents_path(collection))

    assert ids_of(response) == [f"doc-{number}" for number in range(100)]
    assert response.json()["count"] == 100


def test_pagination_with_limit_and_offset(http: httpx.Client, collection: str) -> None:
    """Pagination with limit and offset."""
    others = [document(f"other-{number}", kind="other") for number in range(50)]
    add(http, collection, *others, *documents(250, kind="wanted"))

    response = http.get(documents_path(collection), params={**where({"kind": "wanted"}), "limit": 50, "offset": 100})

    assert ids_of(response) == [f"doc-{number}" for number in range(100, 150)]
    assert response.json()["count"] == 50


def test_empty_results(http: httpx.Client, collection: str) -> None:
    """Empty results."""
    add(http, collection, document("a", section_id="intro"))

    response = http.get(documents_path(collection), params=where({"section_id": "nowhere"}))

    assert response.status_code == 200
    assert response.json() == {"documents": [], "count": 0, "total": 0}


def test_collection_not_found(http: httpx.Client) -> None:
    """Collection not found."""
    response = http.get("/collections/nonexistent/documents")

    assert problem_of(response, 404)["detail"] == "Collection 'nonexistent' not found"


def test_invalid_json_filter(http: httpx.Client, collection: str) -> None:
    """Invalid JSON filter."""
    response = http.get(documents_path(collection), params={"where": "invalid-json-string"})

    assert problem_of(response, 400)["detail"] == "Invalid 'where' filter: must be valid JSON"


def test_limit_enforcement(http: httpx.Client, collection: str) -> None:
    """Limit enforcement."""
    add(http, collection, *documents(1100))

    response = http.get(documents_path(collection), params={"limit": 5000})

    assert len(ids_of(response)) == 1000


def test_sibling_gathering_use_case(http: httpx.Client, collection: str) -> None:
    """Sibling gathering use case."""
    section = {"section_id": "retention-config"}
    add(
        http,
        collection,
        document("h", text="Retention", embedding=[0, 1], doc_type="1-heading", **section),
        document("x", text="Something else", embedding=[-1, 0], section_id="other", doc_type="2-paragraph"),
        document("c", text="retention: 30d", embedding=[0.2, 1], doc_type="3-code", **section),
        document("p", text="Logs are kept 30 days.", embedding=[1, 0], doc_type="2-paragraph", **section),
    )
    found = http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0], "top_k": 1}).json()
    section_id = found["results"][0]["metadata"]["section_id"]

    siblings = http.get(documents_path(collection), params=where({"section_id": section_id})).json()["documents"]

    in_order = sorted(siblings, key=lambda sibling: str(sibling["metadata"]["doc_type"]))
    assert [sibling["id"] for sibling in in_order] == ["h", "p", "c"]
