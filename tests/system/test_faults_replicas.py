"""Races between two replicas on one Chroma: the guarantees of docs/reliability.md across replicas."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from tests.support.ledger import Figures, all_documents, document
from tests.support.recreation import recreate_under_load
from tests.support.servers import Served, running, start_service
from tests.system.conftest import Report

RACES: Final = 60


@dataclass(frozen=True)
class Replicas:
    """Two services, and a client on each."""

    urls: tuple[str, str]
    clients: tuple[httpx.AsyncClient, httpx.AsyncClient]

    async def race(self, method: str, path: str, *bodies: dict[str, Any]) -> list[httpx.Response]:
        """Send a request with each body concurrently, alternately to the two services."""
        return list(
            await asyncio.gather(
                *(self.clients[index % 2].request(method, path, json=body) for index, body in enumerate(bodies))
            )
        )


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory, chroma: Served) -> Iterator[tuple[str, str]]:
    """URLs of two services on one Chroma."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "replicas"}
    with (
        running(start_service(tmp_path_factory.mktemp("one"), environ)) as one,
        running(start_service(tmp_path_factory.mktemp("two"), environ)) as two,
    ):
        yield one.url, two.url


@pytest.fixture
async def replicas(urls: tuple[str, str]) -> AsyncIterator[Replicas]:
    """Two replicas."""
    async with (
        httpx.AsyncClient(base_url=urls[0], timeout=60) as one,
        httpx.AsyncClient(base_url=urls[1], timeout=60) as other,
    ):
        yield Replicas(urls, (one, other))


@pytest.fixture
async def shared_collection(replicas: Replicas, name: str) -> str:
    """A new collection that both replicas know."""
    created = await replicas.clients[0].post("/collections", json={"name": name, "distance": "l2"})
    assert created.status_code == 201
    return name


def statuses_of(responses: list[httpx.Response]) -> list[int]:
    """The statuses of the responses."""
    return [response.status_code for response in responses]


async def test_one_of_several_concurrent_creations_of_a_collection_succeeds(replicas: Replicas, name: str) -> None:
    for number in range(RACES):
        body = {"name": f"{name}-{number}"}
        responses = await replicas.race("POST", "/collections", body, body, body, body)
        assert sorted(statuses_of(responses)) == [201, 409, 409, 409]


async def test_one_of_several_concurrent_adds_of_one_id_succeeds_and_its_content_is_stored(
    replicas: Replicas, shared_collection: str, report: Report
) -> None:
    winners: dict[str, dict[str, Any]] = {}
    statuses: Counter[int] = Counter()
    for number in range(RACES):
        rivals = [document(f"one-{number}", rival) for rival in range(4)]
        bodies = [{"documents": [rival]} for rival in rivals]
        responses = await replicas.race("POST", f"/collections/{shared_collection}/documents", *bodies)
        assert sorted(statuses_of(responses)) == [201, 409, 409, 409]
        statuses.update(statuses_of(responses))
        winners[f"one-{number}"] = rivals[statuses_of(responses).index(201)]
    found = all_documents(replicas.urls[0], shared_collection)
    assert {one["id"]: one for one in found} == winners
    report("two replicas, four adds of one id", Figures(RACES * 4, RACES, len(found), dict(statuses)))


async def test_one_of_several_concurrent_adds_of_one_document_succeeds(
    replicas: Replicas, shared_collection: str
) -> None:
    for number in range(RACES):
        body = {"documents": [document(f"same-{number}", 1)]}
        responses = await replicas.race("POST", f"/collections/{shared_collection}/documents", body, body, body, body)
        assert sorted(statuses_of(responses)) == [201, 409, 409, 409]
    assert len(all_documents(replicas.urls[1], shared_collection)) == RACES


async def test_batches_that_share_ids_are_stored_as_a_whole_or_not_at_all(
    replicas: Replicas, shared_collection: str, report: Report
) -> None:
    """Each of three batches shares an id with the next, so that one or two of them can be added, never all."""
    statuses: Counter[int] = Counter()
    acknowledged: dict[str, dict[str, Any]] = {}
    for number in range(RACES):
        keys = [f"{letter}-{number}" for letter in "abcde"]
        parts = [keys[0:3], keys[2:4], keys[3:5]]
        batches = [[document(key, rival) for key in part] for rival, part in enumerate(parts)]
        responses = await replicas.race(
            "POST", f"/collections/{shared_collection}/documents", *({"documents": batch} for batch in batches)
        )
        statuses.update(statuses_of(responses))
        assert set(statuses_of(responses)) <= {201, 409}
        accepted = [
            one for batch, status in zip(batches, statuses_of(responses), strict=True) if status == 201 for one in batch
        ]
        assert len({one["id"] for one in accepted}) == len(accepted), (
            "two batches that exclude each other were acknowledged"
        )
        acknowledged |= {one["id"]: one for one in accepted}
    found = all_documents(replicas.urls[0], shared_collection)
    assert {one["id"]: one for one in found} == acknowledged
    report("two replicas, batches that share ids", Figures(RACES * 7, len(acknowledged), len(found), dict(statuses)))


async def test_a_collection_that_is_recreated_under_load_contains_whole_writes_only(
    replicas: Replicas, shared_collection: str
) -> None:
    await recreate_under_load(replicas.clients, shared_collection)
