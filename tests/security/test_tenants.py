"""Keys with a Chroma tenant and database of their own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.documents import add, document
from tests.support.keyed_services import KeyedService, keyed_service
from tests.support.problems import problem_of
from tests.support.servers import Served

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def multi_tenant(chroma: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedService]:
    """A service over a Chroma server, with keys for several tenants and databases."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "security_tests"}
    with keyed_service(
        tmp_path_factory.mktemp("tenants"),
        {
            "home": {"role": "admin"},
            "acme": {"role": "admin", "tenant": "acme_tests", "database": "books"},
            "acme-guest": {
                "role": "reader",
                "tenant": "acme_tests",
                "database": "books",
                "collections": ("repo_*",),
            },
            "other": {"role": "admin", "database": "other_tests"},
        },
        environ,
    ) as started:
        for name in ("home", "acme", "other"):
            with started.client(name) as http:
                for collection in (f"repo_{name}", "common"):
                    http.post("/collections", json={"name": collection, "get_or_create": True}).raise_for_status()
                add(http, "common", document(name, text=name))
        yield started


def names(http: httpx.Client) -> list[str]:
    """The collections that a client sees."""
    return [found["name"] for found in http.get("/collections").json()["collections"]]


@pytest.mark.parametrize("name", ["home", "acme", "other"])
def test_a_key_sees_the_collections_of_its_own_database_only(multi_tenant: KeyedService, name: str) -> None:
    with multi_tenant.client(name) as http:
        assert names(http) == ["common", f"repo_{name}"]
        assert [hit["id"] for hit in http.get("/collections/common/documents").json()["documents"]] == [name]
        assert http.get("/health").json()["collections_count"] == 2


def test_a_collection_of_another_tenant_is_404(multi_tenant: KeyedService) -> None:
    with multi_tenant.client("acme") as http:
        problem_of(http.get("/collections/repo_home"), 404)


def test_patterns_apply_within_the_database_of_a_key(multi_tenant: KeyedService) -> None:
    with multi_tenant.client("acme-guest") as http:
        assert names(http) == ["repo_acme"]
        problem_of(http.get("/collections/common"), 404)
