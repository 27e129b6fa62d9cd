"""Two replicas on one Chroma that race: what docs/reliability.md promises across replicas."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from serving import Served, running, start_service
from system.conftest import Report
from system.ledger import Figures, document, everything_in, until

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
    found = everything_in(replicas.urls[0], collection)
    assert {one["id"]: one for one in found} == winners
    report("two replicas, four adds of one id", Figures(RACES * 4, RACES, len(found), dict(statuses)))


async def test_of_several_that_add_the_same_document_one_is_told_201(replicas: Replicas, collection: str) -> None:
    for number in range(RACES):
        body = {"documents": [document(f"same-{number}", 1)]}
        answers = await replicas.race("POST", f"/collections/{collection}/documents", body, body, body, body)
        assert sorted(told(answers)) == [201, 409, 409, 409]
    assert len(everything_in(replicas.urls[1], collection)) == RACES


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
    found = everything_in(replicas.urls[0], collection)
    assert {one["id"]: one for one in found} == acknowledged
    report("two replicas, batches that share ids", Figures(RACES * 7, len(acknowledged), len(found), dict(statuses)))


async def test_a_collection_deleted_and_made_again_under_load_holds_whole_writes_and_the_services_go_on(
    replicas: Replicas, collection: str
) -> None:
    statuses: Counter[int] = Counter()
    batches: dict[str, list[dict[str, Any]]] = {}
    done = asyncio.Event()

    async def ingest(caller: int) -> None:
        number = 0
        while not done.is_set():
            number += 1
            batch = [document(f"{caller}-{number}-{place}", number) for place in range(3)]
            batches[f"{caller}-{number}"] = batch
            method = "POST" if number % 2 else "PUT"
            answer = await replicas.clients[caller % 2].request(
                method, f"/collections/{collection}/documents", json={"documents": batch}
            )
            statuses[answer.status_code] += 1

    async def replace() -> None:
        for turn in range(8):
            one, other = replicas.clients[turn % 2], replicas.clients[1 - turn % 2]
            assert (await one.delete(f"/collections/{collection}")).status_code == 200
            assert (await other.post("/collections", json={"name": collection, "distance": "l2"})).status_code == 201
            wanted = statuses[200] + statuses[201] + 8
            await until(lambda: statuses[200] + statuses[201] >= wanted)  # noqa: B023
        done.set()

    async with asyncio.timeout(60):
        await asyncio.gather(replace(), *(ingest(caller) for caller in range(4)))
    assert set(statuses) <= {200, 201, 404}
    found = {one["id"]: one for one in everything_in(replicas.urls[0], collection)}
    for batch in batches.values():
        present = [one for one in batch if one["id"] in found]
        assert len(present) in (0, len(batch))
        assert all(found[one["id"]] == one for one in present)
