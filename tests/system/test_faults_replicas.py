"""Two replicas on one Chroma that race: what docs/reliability.md promises across replicas."""

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
        """The same call through both at once, each with a body of its own; from each twice, in turn."""
        return list(
            await asyncio.gather(
                *(self.clients[place % 2].request(method, path, json=body) for place, body in enumerate(bodies))
            )
        )


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, chroma: Served) -> Iterator[tuple[str, str]]:
    """Addresses of two services on one Chroma."""
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": "replicas"}
    with (
        running(start_service(tmp_path_factory.mktemp("one"), environ)) as one,
        running(start_service(tmp_path_factory.mktemp("two"), environ)) as two,
    ):
        yield one.url, two.url


@pytest.fixture
async def replicas(two: tuple[str, str]) -> AsyncIterator[Replicas]:
    """Two replicas."""
    async with (
        httpx.AsyncClient(base_url=two[0], timeout=60) as one,
        httpx.AsyncClient(base_url=two[1], timeout=60) as other,
    ):
        yield Replicas(two, (one, other))


@pytest.fixture
async def collection(replicas: Replicas, name: str) -> str:
    """A new collection that both replicas know."""
    created = await replicas.clients[0].post("/collections", json={"name": name, "distance": "l2"})
    assert created.status_code == 201
    return name


def told(answers: list[httpx.Response]) -> list[int]:
    """The statuses of answers."""
    return [answer.status_code for answer in answers]


async def test_of_several_that_create_one_collection_exactly_one_is_told_201(replicas: Replicas, name: str) -> None:
    for number in range(RACES):
        body = {"name": f"{name}-{number}"}
        answers = await replicas.race("POST", "/collections", body, body, body, body)
        assert sorted(told(answers)) == [201, 409, 409, 409]


async def test_of_several_that_add_one_id_with_different_content_one_is_told_201_and_its_content_is_there(
    replicas: Replicas, collection: str, report: Report
) -> None:
    winners: dict[str, dict[str, Any]] = {}
    statuses: Counter[int] = Counter()
    for number in range(RACES):
        rivals = [document(f"one-{number}", rival) for rival in range(4)]
        bodies = [{"documents": [rival]} for rival in rivals]
        answers = await replicas.race("POST", f"/collections/{collection}/documents", *bodies)
        assert sorted(told(answers)) == [201, 409, 409, 409]
        statuses.update(told(answers))
        winners[f"one-{number}"] = rivals[told(answers).index(201)]
    found = all_documents(replicas.urls[0], collection)
    assert {one["id"]: one for one in found} == winners
    report("two replicas, four adds of one id", Figures(RACES * 4, RACES, len(found), dict(statuses)))


async def test_of_several_that_add_the_same_document_one_is_told_201(replicas: Replicas, collection: str) -> None:
    for number in range(RACES):
        body = {"documents": [document(f"same-{number}", 1)]}
        answers = await replicas.race("POST", f"/collections/{collection}/documents", body, body, body, body)
        assert sorted(told(answers)) == [201, 409, 409, 409]
    assert len(all_documents(replicas.urls[1], collection)) == RACES


async def test_batches_that_share_ids_are_there_whole_or_not_at_all(
    replicas: Replicas, collection: str, report: Report
) -> None:
    """Each of three batches shares an id with the next, so that one or two of them can be added, never all."""
    statuses: Counter[int] = Counter()
    acknowledged: dict[str, dict[str, Any]] = {}
    for number in range(RACES):
        keys = [f"{letter}-{number}" for letter in "abcde"]
        parts = [keys[0:3], keys[2:4], keys[3:5]]
        batches = [[document(key, rival) for key in part] for rival, part in enumerate(parts)]
        answers = await replicas.race(
            "POST", f"/collections/{collection}/documents", *({"documents": batch} for batch in batches)
        )
        statuses.update(told(answers))
        assert set(told(answers)) <= {201, 409}
        kept = [one for batch, status in zip(batches, told(answers), strict=True) if status == 201 for one in batch]
        assert len({one["id"] for one in kept}) == len(kept), "two were acknowledged that exclude each other"
        acknowledged |= {one["id"]: one for one in kept}
    found = all_documents(replicas.urls[0], collection)
    assert {one["id"]: one for one in found} == acknowledged
    report("two replicas, batches that share ids", Figures(RACES * 7, len(acknowledged), len(found), dict(statuses)))


async def test_a_collection_deleted_and_made_again_under_load_holds_whole_writes_and_the_services_go_on(
    replicas: Replicas, collection: str
) -> None:
    await recreate_under_load(replicas.clients, collection)
