"""The mixed load: callers that write, read and ask, each with batches of its own, and note what they are told."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.soak.journal import BATCH, EMBEDDING_TAIL, Batch, Books, is_as_made

COLLECTIONS: Final = ("soak-one", "soak-two")
SCRATCH: Final = "scratch"
LARGE: Final = "soak-large"

KEPT: Final = 30
"""Batches that a caller keeps: then it deletes one for each that it adds, so that the data stays as large as it is."""

FAILED: Final = (502, 503, 504)
"""What a fault may cost a request. A defect (500), or no answer at all, is none of it."""

PAUSE_SECONDS: Final = 0.03
"""What a caller waits between two calls, so that the load leaves room for others."""

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
class Told:
    """What all callers were told.

    Attributes:
        statuses: how many requests were told what.
        wrong: answers that should not be; the first few are kept.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def expect(self, truth: object, what: str) -> None:
        """Note what is wrong unless something is true."""
        if not truth:
            self.wrong.append(what)


class Caller:
    """One of the callers, which all do the same with batches of their own.

    Args:
        number: which one.
        books: where it writes down what it wrote.
        told: where it writes down what it was told.
    """

    _client: httpx.AsyncClient

    def __init__(self, number: int, books: Books, told: Told) -> None:
        self._number = number
        self._books = books
        self._told = told
        self._chosen = random.Random(number)
        self._counted = itertools.count()
        self._collection = COLLECTIONS[number % len(COLLECTIONS)]
        self._kept: list[Batch] = []

    async def work(self, client: httpx.AsyncClient, stopped: asyncio.Event) -> None:
        """Call until told to stop.

        Args:
            client: on the service.
            stopped: set when it is enough.
        """
        self._client = client
        self._kept = [batch for batch in self._kept if batch.name in self._books.batches]
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
            call = self._chosen.choices([call for call, _ in calls], [weight for _, weight in calls])[0]
            await call()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(
        self, method: str, path: str, body: object = None, *, content: bytes | None = None, allowed: tuple[int, ...]
    ) -> httpx.Response | None:
        """One call.

        Returns:
            Its answer when it has one of the allowed statuses; None when a fault kept it from that.
        """
        try:
            if content is None:
                answer = await self._client.request(method, path, json=body)
            else:
                headers = {"Content-Type": "application/json"}
                answer = await self._client.request(method, path, content=content, headers=headers)
        except httpx.HTTPError as error:
            self._told.statuses[0] += 1
            self._told.wrong.append(f"{method} {path}: no answer: {type(error).__name__} {error}")
            return None
        self._told.statuses[answer.status_code] += 1
        if answer.status_code in allowed:
            return answer
        self._told.expect(answer.status_code in FAILED, f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return None

    async def _write(self, batch: Batch, method: str) -> None:
        self._books.sent += BATCH
        allowed = (201,) if method == "POST" else (200,)
        path = f"/collections/{batch.collection}/documents"
        answer = await self._ask(method, path, {"documents": batch.documents}, allowed=allowed)
        self._books.acknowledged += BATCH if answer else 0
        batch.written(batch.version, acknowledged=answer is not None)

    async def _add_or_delete(self) -> None:
        if len(self._kept) < KEPT:
            batch = Batch(f"{self._number}-{next(self._counted)}", self._collection)
            self._books.batches[batch.name] = batch
            self._kept.append(batch)
            await self._write(batch, self._chosen.choice(("POST", "PUT")))
            return
        batch = self._kept.pop(0)
        batch.kept = False
        body = self._chosen.choice(({"ids": batch.ids}, {"where": {"batch": batch.name}}))
        answer = await self._ask("POST", f"/collections/{batch.collection}/documents/delete", body, allowed=(200,))
        if answer and not batch.unsure:
            expected = 0 if batch.possible == {None} else BATCH
            self._told.expect(answer.json()["count"] == expected, f"deleting {batch.name}: {answer.text}")
        batch.written(None, acknowledged=answer is not None)

    def _sure(self) -> Batch | None:
        """A batch that is known to be there."""
        sure = [batch for batch in self._kept if not batch.unsure and None not in batch.possible]
        return self._chosen.choice(sure) if sure else None

    async def _rewrite(self) -> None:
        if batch := self._sure():
            batch.version += 1
            await self._write(batch, "PUT")

    async def _add_again(self) -> None:
        if batch := self._sure():
            path = f"/collections/{batch.collection}/documents"
            await self._ask("POST", path, {"documents": batch.documents}, allowed=(409,))

    async def _read_batch(self) -> None:
        if self._kept:
            batch = self._chosen.choice(self._kept)
            body = {"where": {"batch": batch.name}, "include": ["embedding"]}
            answer = await self._ask("POST", f"/collections/{batch.collection}/documents/filter", body, allowed=(200,))
            if answer:
                wrong = batch.wrong(answer.json()["documents"])
                self._told.expect(not wrong, f"reading {wrong}")

    async def _read_one(self) -> None:
        if batch := self._sure():
            answer = await self._ask("GET", f"/collections/{batch.collection}/documents/{batch.ids[1]}", allowed=(200,))
            self._told.expect(answer is None or is_as_made(answer.json()), f"{batch.ids[1]} is not as it was sent")

    async def _page(self) -> None:
        path = f"/collections/{self._collection}/documents?limit=50&offset={self._chosen.randrange(50)}"
        if answer := await self._ask("GET", path, allowed=(200,)):
            self._told.expect(all(map(is_as_made, answer.json()["documents"])), "a page is not as it was sent")

    async def _query(self) -> None:
        where = self._chosen.choice((None, {"place": 2}, {"version": {"$gte": 1}, "place": {"$in": [1, 2, 3]}}))
        body = {"query_embedding": [1.0, 2.0, *EMBEDDING_TAIL], "top_k": 10, "where": where}
        self._check_found(await self._ask("POST", f"/collections/{self._collection}/query", body, allowed=(200,)))

    async def _query_all(self) -> None:
        body = {"query_embedding": [0.0, 1.0, *EMBEDDING_TAIL], "top_k": 10, "collections": COLLECTIONS}
        self._check_found(await self._ask("POST", "/query", body, allowed=(200,)))

    def _check_found(self, answer: httpx.Response | None) -> None:
        if answer:
            results: list[dict[str, Any]] = answer.json()["results"]
            distances = [hit["distance"] for hit in results]
            self._told.expect(distances == sorted(distances), "what was found is not in order")
            self._told.expect(all(map(is_as_made, results)), "what was found is not as it was sent")

    async def _bad_input(self) -> None:
        method, path, content, status = self._chosen.choice(BAD)
        await self._ask(method, path, content=content, allowed=(status,))

    async def _scratch_collection(self) -> None:
        name = f"{SCRATCH}-{self._number}-{next(self._counted)}"
        if await self._ask("POST", "/collections", {"name": name, "distance": "l2"}, allowed=(201,)):
            documents = Batch(name, name).documents
            await self._ask("POST", f"/collections/{name}/documents", {"documents": documents}, allowed=(201,))
            await self._ask("DELETE", f"/collections/{name}", allowed=(200,))

    async def _describe(self) -> None:
        await self._ask("GET", self._chosen.choice(("/health/live", "/metrics", "/collections")), allowed=(200,))
