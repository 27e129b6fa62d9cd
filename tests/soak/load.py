"""The mixed load: clients that write, read and query, each with batches of its own, and record the responses."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.soak.journal import BATCH_SIZE, EMBEDDING_TAIL, Batch, Journal, is_unchanged

COLLECTIONS: Final = ("soak-one", "soak-two")
SCRATCH: Final = "scratch"
LARGE: Final = "soak-large"

MAX_BATCHES: Final = 30
"""Maximum number of batches of a client. Beyond it, the client deletes one for each that it adds, so that the amount
of data stays constant."""

FAILED: Final = (502, 503, 504)
"""Statuses that a fault may cause. An internal error (500) or no response is not among them."""

PAUSE_SECONDS: Final = 0.03
"""Pause of a client between two requests, which leaves capacity for the other clients."""

BAD: Final[tuple[tuple[str, str, bytes, int], ...]] = (
    ("POST", "/collections", b"{", 400),
    ("POST", "/collections", b'{"name": "a"}', 400),
    ("PUT", f"/collections/{COLLECTIONS[0]}/documents", b'{"documents": []}', 400),
    ("PUT", f"/collections/{COLLECTIONS[0]}/documents", b'{"documents": [{"text": "no embedding"}]}', 400),
    ("PUT", f"/collections/{COLLECTIONS[0]}/documents", b"\xff\xfe", 400),
    ("PUT", f"/collections/{COLLECTIONS[0]}/documents", b'{"documents": [{"text": "", "embedding": [1]}]}', 400),
    ("GET", f"/collections/{COLLECTIONS[0]}/documents?where=no", b"", 400),
    ("POST", f"/collections/{COLLECTIONS[0]}/query", b'{"query_embedding": [1, 2], "top_k": 0}', 400),
    ("POST", "/collections/nowhere/query", b'{"query_embedding": [1, 2]}', 404),
    ("DELETE", "/collections/nowhere", b"", 404),
    ("PATCH", "/collections", b"", 405),
)


@dataclass
class Responses:
    """The responses to all clients.

    Attributes:
        statuses: number of requests by status.
        wrong: a sentence for each unexpected response.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def expect(self, condition: object, what: str) -> None:
        """Record an error unless a condition is true."""
        if not condition:
            self.wrong.append(what)


class LoadClient:
    """A client that sends a random mix of requests on batches of its own.

    Args:
        journal: records its writes.
        responses: records its responses.
    """

    _client: httpx.AsyncClient

    def __init__(self, number: int, journal: Journal, responses: Responses) -> None:
        self._number = number
        self._journal = journal
        self._responses = responses
        self._random = random.Random(number)
        self._numbers = itertools.count()
        self._collection = COLLECTIONS[number % len(COLLECTIONS)]
        self._batches: list[Batch] = []

    async def work(self, client: httpx.AsyncClient, stopped: asyncio.Event) -> None:
        """Send requests until `stopped` is set.

        Args:
            client: an HTTP client of the service.
            stopped: ends the work.
        """
        self._client = client
        self._batches = [batch for batch in self._batches if batch.name in self._journal.batches]
        calls: tuple[tuple[Callable[[], Awaitable[None]], int], ...] = (
            (self._add_or_delete, 6),
            (self._rewrite, 3),
            (self._read_batch, 3),
            (self._read_one, 2),
            (self._page, 2),
            (self._query, 4),
            (self._query_all, 2),
            (self._add_again, 1),
            (self._bad_input, 2),
            (self._scratch_collection, 1),
            (self._describe, 1),
        )
        while not stopped.is_set():
            call = self._random.choices([call for call, _ in calls], [weight for _, weight in calls])[0]
            await call()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(
        self, method: str, path: str, body: object = None, *, content: bytes | None = None, allowed: tuple[int, ...]
    ) -> httpx.Response | None:
        """Send one request.

        Returns:
            The response if it has one of the allowed statuses; None if a fault prevented it.
        """
        try:
            if content is None:
                response = await self._client.request(method, path, json=body)
            else:
                headers = {"Content-Type": "application/json"}
                response = await self._client.request(method, path, content=content, headers=headers)
        except httpx.HTTPError as error:
            self._responses.statuses[0] += 1
            self._responses.wrong.append(f"{method} {path}: no response: {type(error).__name__} {error}")
            return None
        self._responses.statuses[response.status_code] += 1
        if response.status_code in allowed:
            return response
        self._responses.expect(
            response.status_code in FAILED, f"{method} {path}: {response.status_code} {response.text[:300]}"
        )
        return None

    async def _write(self, batch: Batch, method: str) -> None:
        self._journal.sent += BATCH_SIZE
        allowed = (201,) if method == "POST" else (200,)
        path = f"/collections/{batch.collection}/documents"
        response = await self._send(method, path, {"documents": batch.documents}, allowed=allowed)
        self._journal.acknowledged += BATCH_SIZE if response else 0
        batch.written(batch.version, acknowledged=response is not None)

    async def _add_or_delete(self) -> None:
        if len(self._batches) < MAX_BATCHES:
            batch = Batch(f"{self._number}-{next(self._numbers)}", self._collection)
            self._journal.batches[batch.name] = batch
            self._batches.append(batch)
            await self._write(batch, self._random.choice(("POST", "PUT")))
            return
        batch = self._batches.pop(0)
        batch.kept = False
        body = self._random.choice(({"ids": batch.ids}, {"where": {"batch": batch.name}}))
        response = await self._send("POST", f"/collections/{batch.collection}/documents/delete", body, allowed=(200,))
        if response and not batch.unsure:
            expected = 0 if batch.possible == {None} else BATCH_SIZE
            self._responses.expect(response.json()["count"] == expected, f"deleting {batch.name}: {response.text}")
        batch.written(None, acknowledged=response is not None)

    def _sure(self) -> Batch | None:
        """A batch that is known to be stored."""
        sure = [batch for batch in self._batches if not batch.unsure and None not in batch.possible]
        return self._random.choice(sure) if sure else None

    async def _rewrite(self) -> None:
        if batch := self._sure():
            batch.version += 1
            await self._write(batch, "PUT")

    async def _add_again(self) -> None:
        if batch := self._sure():
            path = f"/collections/{batch.collection}/documents"
            await self._send("POST", path, {"documents": batch.documents}, allowed=(409,))

    async def _read_batch(self) -> None:
        if self._batches:
            batch = self._random.choice(self._batches)
            body = {"where": {"batch": batch.name}, "include": ["embedding"]}
            response = await self._send(
                "POST", f"/collections/{batch.collection}/documents/filter", body, allowed=(200,)
            )
            if response:
                wrong = batch.wrong(response.json()["documents"])
                self._responses.expect(not wrong, f"reading {wrong}")

    async def _read_one(self) -> None:
        if batch := self._sure():
            response = await self._send(
                "GET", f"/collections/{batch.collection}/documents/{batch.ids[1]}", allowed=(200,)
            )
            self._responses.expect(
                response is None or is_unchanged(response.json()), f"{batch.ids[1]} is not as it was sent"
            )

    async def _page(self) -> None:
        path = f"/collections/{self._collection}/documents?limit=50&offset={self._random.randrange(50)}"
        if response := await self._send("GET", path, allowed=(200,)):
            self._responses.expect(all(map(is_unchanged, response.json()["documents"])), "a page is not as it was sent")

    async def _query(self) -> None:
        where = self._random.choice((None, {"index": 2}, {"version": {"$gte": 1}, "index": {"$in": [1, 2, 3]}}))
        body = {"query_embedding": [1.0, 2.0, *EMBEDDING_TAIL], "top_k": 10, "where": where}
        self._check_found(await self._send("POST", f"/collections/{self._collection}/query", body, allowed=(200,)))

    async def _query_all(self) -> None:
        body = {"query_embedding": [0.0, 1.0, *EMBEDDING_TAIL], "top_k": 10, "collections": COLLECTIONS}
        self._check_found(await self._send("POST", "/query", body, allowed=(200,)))

    def _check_found(self, response: httpx.Response | None) -> None:
        if response:
            results: list[dict[str, Any]] = response.json()["results"]
            distances = [hit["distance"] for hit in results]
            self._responses.expect(distances == sorted(distances), "hits are not sorted")
            self._responses.expect(all(map(is_unchanged, results)), "hits are not as they were sent")

    async def _bad_input(self) -> None:
        method, path, content, status = self._random.choice(BAD)
        await self._send(method, path, content=content, allowed=(status,))

    async def _scratch_collection(self) -> None:
        name = f"{SCRATCH}-{self._number}-{next(self._numbers)}"
        if await self._send("POST", "/collections", {"name": name, "distance": "l2"}, allowed=(201,)):
            documents = Batch(name, name).documents
            await self._send("POST", f"/collections/{name}/documents", {"documents": documents}, allowed=(201,))
            await self._send("DELETE", f"/collections/{name}", allowed=(200,))

    async def _describe(self) -> None:
        await self._send("GET", self._random.choice(("/health/live", "/metrics", "/collections")), allowed=(200,))
