"""Ingestion that writes down what it sent and what it was told, and compares that with what is there afterwards."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from tests.support.servers import Served

CALLERS: Final = 4
BATCH: Final = 5
PATIENCE: Final = 60.0
"""Longest wait for anything that is to happen, in seconds."""

ALLOWED_FAILURES: Final = {502, 503, 504}
"""What a fault may cost a request. A defect (500), or a conflict with itself (409), is none of it."""


def document(document_id: str, number: int) -> dict[str, Any]:
    """A document whose every part tells its number."""
    return {
        "id": document_id,
        "text": f"{document_id} in version {number} äöü 文",
        "metadata": {"number": number, "of": document_id},
        "embedding": [float(number), 1.0, float(len(document_id)), 0.5],
    }


@dataclass
class Sent:
    """One request, and what it was told.

    Attributes:
        documents: what it held, by id.
        status: the answer's status; 0 when there was none.
    """

    documents: dict[str, dict[str, Any]]
    status: int = 0

    @property
    def acknowledged(self) -> bool:
        """Whether it was told that it is done."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Figures:
    """What came of it, in documents.

    Attributes:
        sent: documents sent, each write of one.
        acknowledged: those that were acknowledged.
        found: those that are there.
        statuses: how many requests were told what.
    """

    sent: int
    acknowledged: int
    found: int
    statuses: dict[int, int]


@dataclass
class Ledger:
    """What was sent to a collection, and what is there.

    Attributes:
        url: address of the service; may change when it is started elsewhere.
        collection: the collection.
    """

    url: str
    collection: str
    sent: list[Sent] = field(default_factory=list)
    versions: dict[str, list[Sent]] = field(default_factory=dict)
    _stopped: bool = False

    @property
    def _everything(self) -> list[Sent]:
        return [*self.sent, *itertools.chain.from_iterable(self.versions.values())]

    @property
    def acknowledgements(self) -> int:
        """Requests that were acknowledged so far."""
        return sum(sent.acknowledged for sent in self._everything)

    @property
    def failures(self) -> int:
        """Requests that failed so far, and are no longer under way."""
        return len(self._everything) - self.acknowledgements

    async def more(self, acknowledged: int) -> None:
        """Wait until so many further requests were acknowledged."""
        wanted = self.acknowledgements + acknowledged
        await until(lambda: self.acknowledgements >= wanted)

    async def send(self, client: httpx.AsyncClient, method: str, documents: list[dict[str, Any]], sent: Sent) -> None:
        """Send documents and write down what is told."""
        try:
            answer = await client.request(
                method, f"{self.url}/collections/{self.collection}/documents", json={"documents": documents}
            )
        except httpx.HTTPError:
            await asyncio.sleep(0.01)  # nobody there: let others have the processor
            return
        sent.status = answer.status_code

    async def ingest(self, caller: int) -> None:
        """Send batches of new documents, by POST and PUT in turn, and new versions of one document."""
        async with httpx.AsyncClient(timeout=20) as client:
            for number in itertools.count():
                if self._stopped:
                    return
                if number % 3 == 2:
                    latest = document(f"latest-{caller}", number)
                    sent = Sent({latest["id"]: latest})
                    self.versions.setdefault(latest["id"], []).append(sent)
                    await self.send(client, "PUT", [latest], sent)
                    continue
                batch = [document(f"{caller}-{number}-{place}", number) for place in range(BATCH)]
                sent = Sent({one["id"]: one for one in batch})
                self.sent.append(sent)
                await self.send(client, "POST" if number % 3 else "PUT", batch, sent)

    def stop(self) -> None:
        """Let the callers finish what they do."""
        self._stopped = True

    def check(self) -> Figures:
        """Compare what is there with what was sent.

        Every acknowledged document is there once, as sent; what failed left all of it or nothing; nothing else is
        there.
        """
        there = everything_in(self.url, self.collection)
        found = {one["id"]: one for one in there}
        assert len(found) == len(there), "an id is there twice"
        known: set[str] = set()
        for sent in self.sent:
            known |= sent.documents.keys()
            present = [key for key in sent.documents if key in found]
            assert len(present) == len(sent.documents) or (not present and not sent.acknowledged), (sent, present)
            for key in present:
                assert found[key] == sent.documents[key]
        for key, versions in self.versions.items():
            known.add(key)
            self._check_latest(key, versions, found.get(key))
        assert not found.keys() - known
        statuses = Counter(sent.status for sent in self._everything)
        wrong = [status for status in statuses if status >= 300 and status not in ALLOWED_FAILURES]
        assert not wrong, statuses
        return Figures(
            sum(len(sent.documents) for sent in self._everything),
            sum(len(sent.documents) for sent in self._everything if sent.acknowledged),
            len(found),
            dict(statuses),
        )

    @staticmethod
    def _check_latest(key: str, versions: list[Sent], found: dict[str, Any] | None) -> None:
        """A document that one caller wrote again and again holds its last acknowledged version, or one tried since."""
        last = max((place for place, sent in enumerate(versions) if sent.acknowledged), default=-1)
        possible = [sent.documents[key] for sent in versions[max(last, 0) :]]
        assert found in possible or (last < 0 and found is None), (key, found, possible)


async def until(reached: Any, seconds: float = PATIENCE) -> None:
    """Wait until something is so.

    Args:
        reached: tells whether it is.
        seconds: longest wait.
    """
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def everything_in(url: str, collection: str) -> list[dict[str, Any]]:
    """All documents of a collection, with their embeddings, page by page."""
    found: list[dict[str, Any]] = []
    with httpx.Client(base_url=url, timeout=30) as client:
        while True:
            answer = client.get(
                f"/collections/{collection}/documents",
                params={"limit": 1000, "offset": len(found), "include": "embedding"},
            )
            answer.raise_for_status()
            found += answer.json()["documents"]
            if len(found) >= answer.json()["total"]:
                return found


def wait_for_writes(url: str, seconds: float = PATIENCE) -> None:
    """Wait until the service, left alone, takes a write again: a probe collection and a document in it."""
    deadline = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=10) as client:
        while True:
            try:
                client.post("/collections", json={"name": "probe", "get_or_create": True}).raise_for_status()
                body = {"documents": [document("probe", 1)]}
                client.put("/collections/probe/documents", json=body).raise_for_status()
            except httpx.HTTPError:
                assert time.monotonic() < deadline, "the service did not come back"
                time.sleep(0.05)
            else:
                return


@asynccontextmanager
async def ingesting(service: Served, collection: str = "ledger") -> AsyncIterator[Ledger]:
    """Callers that ingest at the same time, until the block ends; then wait for their last answers."""
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as client:
        (await client.post("/collections", json={"name": collection, "distance": "l2"})).raise_for_status()
    ledger = Ledger(service.url, collection)
    callers = [asyncio.create_task(ledger.ingest(number)) for number in range(CALLERS)]
    try:
        await ledger.more(CALLERS * 3)
        yield ledger
    finally:
        ledger.stop()
        await asyncio.gather(*callers)
