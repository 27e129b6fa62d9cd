"""A collection that is deleted and made again under load."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import httpx

from tests.support.ledger import document, everything_in, until

REPLACEMENTS: Final = 8


async def replaced_under_load(clients: tuple[httpx.AsyncClient, httpx.AsyncClient], collection: str) -> None:
    """Delete a collection and make it again, many times, while callers write to it; then check what it holds.

    Every write that was acknowledged after the last time is there, every other whole or not at all.

    Args:
        clients: on two services, or twice on one.
        collection: the collection, which is there.
    """
    statuses: Counter[int] = Counter()
    batches: dict[str, list[dict[str, Any]]] = {}
    last: set[str] = set()
    done, latest = asyncio.Event(), asyncio.Event()

    async def ingest(caller: int) -> None:
        number = 0
        while not done.is_set():
            number += 1
            batch = [document(f"{caller}-{number}-{place}", number) for place in range(3)]
            batches[f"{caller}-{number}"] = batch
            method = "POST" if number % 2 else "PUT"
            sent_to_the_last = latest.is_set()
            answer = await clients[caller % 2].request(
                method, f"/collections/{collection}/documents", json={"documents": batch}
            )
            statuses[answer.status_code] += 1
            if sent_to_the_last:
                assert answer.is_success
                last.add(f"{caller}-{number}")

    async def replace() -> None:
        for turn in range(REPLACEMENTS):
            one, other = clients[turn % 2], clients[1 - turn % 2]
            assert (await one.delete(f"/collections/{collection}")).status_code == 200
            assert (await other.post("/collections", json={"name": collection, "distance": "l2"})).status_code == 201
            if turn == REPLACEMENTS - 1:
                latest.set()
            wanted = statuses[200] + statuses[201] + 8
            await until(lambda: statuses[200] + statuses[201] >= wanted)  # noqa: B023  # waited for within the loop
        done.set()

    async with asyncio.timeout(60):
        await asyncio.gather(replace(), *(ingest(caller) for caller in range(4)))
    assert set(statuses) <= {200, 201, 404}
    found = {one["id"]: one for one in everything_in(str(clients[0].base_url), collection)}
    assert last
    for key, batch in batches.items():
        present = [one for one in batch if one["id"] in found]
        assert len(present) == len(batch) or (not present and key not in last)
        assert all(found[one["id"]] == one for one in present)
