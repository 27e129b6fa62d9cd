"""Names that look like parts of paths."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.documents import NDJSON_HEADERS, add, count_of, document, documents_path, ids_of, lines_of
from tests.support.streams import response_lines


@pytest.fixture(params=["documents", "collections", "all", "stream"])
def named(request: pytest.FixtureRequest, http: httpx.Client) -> Iterator[str]:
    """A collection with the name of a part of a path, and three documents."""
    name = str(request.param)
    http.post("/collections", json={"name": name}).raise_for_status()
    add(http, name, document("a"), document("documents"), document("x/documents/y"))
    yield name
    http.delete(f"/collections/{name}")


def test_such_a_collection_has_all_routes(http: httpx.Client, named: str) -> None:
    path = documents_path(named)
    for document_id in ("a", "documents", "x/documents/y", "x%2Fdocuments%2Fy"):
        found = http.get(f"{path}/{document_id}")
        assert found.status_code == 200, found.text
        assert found.json()["id"] == document_id.replace("%2F", "/")
    assert ids_of(http.post(f"{path}/filter", json={"ids": ["a"]})) == ["a"]
    assert http.post(f"{path}/delete", json={"ids": ["a"]}).json()["count"] == 1
    streamed = http.post(f"{path}/stream", content=lines_of(document("b")), headers=NDJSON_HEADERS)
    assert response_lines(streamed)[-1]["count"] == 1
    assert http.get(f"/collections/{named}/metadata-values", params={"field": "a"}).status_code == 200
    assert http.post(f"/collections/{named}/query", json={"query_embedding": [1, 0]}).json()["count"] == 3
    assert http.delete(f"{path}/all").json()["count_deleted"] == 3
    assert count_of(http, named) == 0
