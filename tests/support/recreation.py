"""A collection that is deleted and created again under load."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

import httpx

from tests.support.ledger import all_documents, document, wait_until

RECREATIONS: Final = 8


async def recreate_under_load(clients: tuple[httpx.AsyncClient, httpx.AsyncClient], collection: str) -> None:
    """Delete a collection and create it again, repeatedly, while clients write to it; then check its documents.

    Each write that was acknowledged after the last creation must be there; each other write as a whole or not at all.

    Args:
        clients: two clients, of two services or of one.
        collection: the collection, which exists.
    """
    statuses: Counter[int] = Counter()
    batches: dict[str, list[dict[str, Any]]] = {}
    final: set[str] = set()
    done, is_final = asyncio.Event(), asyncio.Event()

    async def ingest(client_number: int) -> None:
        number = 0
        while not done.is_set():
            number += 1
            batch = [document(f"{client_number}-{number}-{index}", number) for index in range(3)]
            batches[f"{client_number}-{number}"] = batch
            method = "POST" if number % 2 else "PUT"
            sent_to_final = is_final.is_set()
            response = await clients[client_number % 2].request(
                method, f"/collections/{collection}/documents", json={"documents": batch}
            )
            statuses[response.status_code] += 1
            if sent_to_final:
                assert response.is_success
                final.add(f"{client_number}-{number}")

    async def recreate() -> None:
        for round_number in range(RECREATIONS):
            one, other = clients[round_number % 2], clients[1 - round_number % 2]
            assert (await one.delete(f"/collections/{collection}")).status_code == 200
            assert (await other.post("/collections", json={"name": collection, "distance": "l2"})).status_code == 201
            if round_number == RECREATIONS - 1:
                is_final.set()
            wanted = statuses[200] + statuses[201] + 8
            await wait_until(lambda: statuses[200] + statuses[201] >= wanted)  # noqa: B023  # waited for within the loop
        done.set()

    async with asyncio.timeout(60):
        await asyncio.gather(recreate(), *(ingest(client_number) for client_number in range(4)))
    assert set(statuses) <= {200, 201, 404}
    found = {one["id"]: one for one in all_documents(str(clients[0].base_url), collection)}
    assert final
    for key, batch in batches.items():
        present = [one for one in batch if one["id"] in found]
        assert len(present) == len(batch) or (not present and key not in final)
        assert all(found[one["id"]] == one for one in present)
