"""A collection that Chroma cannot read harms no other one, and can be seen and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from ragstore.chroma.backend import Backend
from tests.support.documents import add, document
from tests.support.factories import add_documents, batch
from tests.support.poisoning import POISON, poison
from tests.support.problems import problem_of
from tests.support.servers import running, start_chroma, start_service
from tests.support.stores import TENANT, embedded_backend, exact, http_backend

pytestmark = pytest.mark.process

BAD = "poisoned"
GOOD = ("a-good-one", "the-good-one")


async def _fill(backend: Backend) -> None:
    store = exact(backend)
    await store.start()
    await poison(backend, BAD, POISON["list members"])
    for name in GOOD:
        await store.create_collection(name, {}, "l2")
        await add_documents(store, name, batch("one", "two"))
    await store.close()


@pytest.fixture(scope="module", params=("embedded", "remote"))
def beside_poison(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service that starts over good collections and a poisoned one, with a Chroma that has been started again."""
    folder = tmp_path_factory.mktemp("poisoned")
    environ = {"RAGSTORE_CHROMA_TENANT": TENANT, "RAGSTORE_CHROMA_DATABASE": "store_tests"}
    with ExitStack() as stack:
        if request.param == "embedded":
            asyncio.run(_fill(embedded_backend(folder / "data")))
        else:
            with running(start_chroma(folder)) as chroma:
                asyncio.run(_fill(http_backend(chroma.url, "store_tests")))
            environ["RAGSTORE_CHROMA_URL"] = stack.enter_context(running(start_chroma(folder))).url
        service = stack.enter_context(running(start_service(folder, environ)))
        yield stack.enter_context(httpx.Client(base_url=service.url, timeout=30))


def test_it_is_listed_without_a_count_beside_the_others(beside_poison: httpx.Client) -> None:
    listed = beside_poison.get("/collections").raise_for_status().json()
    assert {each["name"]: each["count"] for each in listed["collections"]} == {GOOD[0]: 2, BAD: None, GOOD[1]: 2}
    assert (listed["count"], listed["total"]) == (3, 3)


def test_it_is_described_without_a_count(beside_poison: httpx.Client) -> None:
    found = beside_poison.get(f"/collections/{BAD}").raise_for_status().json()
    assert found == {"name": BAD, "metadata": {}, "count": None, "dimension": 2, "distance": "l2"}


def test_others_are_read_and_written(beside_poison: httpx.Client) -> None:
    add(beside_poison, GOOD[0], document("three"))
    assert beside_poison.get(f"/collections/{GOOD[0]}/documents").json()["total"] == 3
    beside_poison.delete(f"/collections/{GOOD[0]}/documents", params={"ids": "three"}).raise_for_status()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/documents/all", None),
        ("DELETE", "/documents?ids=one", None),
        ("POST", "/documents/delete", {"where": {"page": 1}}),
        ("PUT", "/documents", {"documents": [document("one")]}),
        ("GET", "/documents", None),
        ("POST", "/query", {"query_embedding": [1, 0]}),
    ],
)
def test_what_it_cannot_do_is_an_error_with_the_remedy(
    beside_poison: httpx.Client, method: str, path: str, body: object
) -> None:
    problem = problem_of(beside_poison.request(method, f"/collections/{BAD}{path}", json=body), 502)
    assert problem["code"] == "collection_damaged"
    assert "delete the collection" in problem["detail"]
    assert "chroma-repair" in problem["detail"]


def test_its_name_is_free_after_its_deletion(beside_poison: httpx.Client) -> None:
    assert beside_poison.get(f"/collections/{BAD}/documents").status_code == 502
    beside_poison.delete(f"/collections/{BAD}").raise_for_status()
    assert beside_poison.get(f"/collections/{BAD}").status_code == 404
    beside_poison.post("/collections", json={"name": BAD}).raise_for_status()
    add(beside_poison, BAD, document("again"))
    assert beside_poison.get(f"/collections/{BAD}").json()["count"] == 1
