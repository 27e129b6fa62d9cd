"""Ingestion that keeps a ledger of its writes and their statuses, and compares it with the stored documents."""

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

CLIENTS: Final = 4
BATCH_SIZE: Final = 5
TIMEOUT_SECONDS: Final = 60.0
"""Maximum wait for an expected event."""

ALLOWED_FAILURES: Final = {502, 503, 504}
"""Statuses that a fault may cause. An internal error (500) or a conflict with an own write (409) is not among them."""


def document(document_id: str, number: int) -> dict[str, Any]:
    """A document whose parts all contain its number."""
    return {
        "id": document_id,
        "text": f"{document_id} in version {number} äöü 文",
        "metadata": {"number": number, "of": document_id},
        "embedding": [float(number), 1.0, float(len(document_id)), 0.5],
    }


@dataclass
class SentWrite:
    """A write request and its status.

    Attributes:
        documents: the documents that it wrote, by id.
        status: the status of the response; 0 if there was none.
    """

    documents: dict[str, dict[str, Any]]
    status: int = 0

    @property
    def acknowledged(self) -> bool:
        """Whether the response was a success."""
        return 200 <= self.status < 300


@dataclass(frozen=True)
class Figures:
    """The figures of a run, in documents.

    Attributes:
        sent: documents sent, once for each write of a document.
        acknowledged: documents whose write was acknowledged.
        found: documents that are stored in the end.
        statuses: number of requests by status.
    """

    sent: int
    acknowledged: int
    found: int
    statuses: dict[int, int]


@dataclass
class Ledger:
    """The writes to a collection.

    Attributes:
        url: URL of the service; may change when the service is started again.
        collection: the collection's name.
        sent: writes of new documents.
        versions: writes of new versions, by document id.
    """

    url: str
    collection: str
    sent: list[SentWrite] = field(default_factory=list)
    versions: dict[str, list[SentWrite]] = field(default_factory=dict)
    _stopped: bool = False

    @property
    def _everything(self) -> list[SentWrite]:
        return [*self.sent, *itertools.chain.from_iterable(self.versions.values())]

    @property
    def acknowledgements(self) -> int:
        """Number of requests that were acknowledged so far."""
        return sum(sent.acknowledged for sent in self._everything)

    @property
    def failures(self) -> int:
        """Number of requests without an acknowledgement so far: failed, or in flight."""
        return len(self._everything) - self.acknowledgements

    async def wait_for_more(self, acknowledged: int) -> None:
        """Wait until `acknowledged` further requests have been acknowledged."""
        wanted = self.acknowledgements + acknowledged
        await wait_until(lambda: self.acknowledgements >= wanted)

    async def send(
        self, client: httpx.AsyncClient, method: str, documents: list[dict[str, Any]], sent: SentWrite
    ) -> None:
        """Send documents and record the status."""
        try:
            response = await client.request(
                method, f"{self.url}/collections/{self.collection}/documents", json={"documents": documents}
            )
        except httpx.HTTPError:
            await asyncio.sleep(0.01)  # the service does not listen: leave the processor to other processes
            return
        sent.status = response.status_code

    async def ingest(self, client_number: int) -> None:
        """Send batches of new documents, by POST and PUT in turn, and new versions of one document."""
        async with httpx.AsyncClient(timeout=20) as client:
            for number in itertools.count():
                if self._stopped:
                    return
                if number % 3 == 2:
                    latest = document(f"latest-{client_number}", number)
                    sent = SentWrite({latest["id"]: latest})
                    self.versions.setdefault(latest["id"], []).append(sent)
                    await self.send(client, "PUT", [latest], sent)
                    continue
                batch = [document(f"{client_number}-{number}-{index}", number) for index in range(BATCH_SIZE)]
                sent = SentWrite({one["id"]: one for one in batch})
                self.sent.append(sent)
                await self.send(client, "POST" if number % 3 else "PUT", batch, sent)

    def stop(self) -> None:
        """End ingestion after the requests in flight."""
        self._stopped = True

    def check(self) -> Figures:
        """Compare the stored documents with the ledger.

        Each acknowledged document must be stored once, as sent. A failed write must be stored as a whole or not at
        all. Nothing else may be stored.
        """
        stored = all_documents(self.url, self.collection)
        found = {one["id"]: one for one in stored}
        assert len(found) == len(stored), "an id is stored twice"
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
    def _check_latest(key: str, versions: list[SentWrite], found: dict[str, Any] | None) -> None:
        """Assert that a document has its last acknowledged version, or one that was sent later."""
        last = max((index for index, sent in enumerate(versions) if sent.acknowledged), default=-1)
        possible = [sent.documents[key] for sent in versions[max(last, 0) :]]
        assert found in possible or (last < 0 and found is None), (key, found, possible)


async def wait_until(condition: Any, seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait until a condition holds.

    Args:
        condition: returns whether it holds.
        seconds: maximum wait.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {seconds} s"
        await asyncio.sleep(0.01)


def all_documents(url: str, collection: str) -> list[dict[str, Any]]:
    """All documents of a collection, with their embeddings, page by page."""
    found: list[dict[str, Any]] = []
    with httpx.Client(base_url=url, timeout=30) as client:
        while True:
            response = client.get(
                f"/collections/{collection}/documents",
                params={"limit": 1000, "offset": len(found), "include": "embedding"},
            )
            response.raise_for_status()
            found += response.json()["documents"]
            if len(found) >= response.json()["total"]:
                return found


def wait_for_writes(url: str, seconds: float = TIMEOUT_SECONDS) -> None:
    """Wait until the service accepts writes again, of a collection and of a document in it."""
    deadline = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=10) as client:
        while True:
            try:
                client.post("/collections", json={"name": "probe", "get_or_create": True}).raise_for_status()
                body = {"documents": [document("probe", 1)]}
                client.put("/collections/probe/documents", json=body).raise_for_status()
            except httpx.HTTPError:
                assert time.monotonic() < deadline, "the service did not recover"
                time.sleep(0.05)
            else:
                return


@asynccontextmanager
async def concurrent_ingestion(service: Served, collection: str = "ledger") -> AsyncIterator[Ledger]:
    """Ingest with several clients while the block runs; then wait for their last responses."""
    async with httpx.AsyncClient(base_url=service.url, timeout=30) as client:
        (await client.post("/collections", json={"name": collection, "distance": "l2"})).raise_for_status()
    ledger = Ledger(service.url, collection)
    clients = [asyncio.create_task(ledger.ingest(number)) for number in range(CLIENTS)]
    try:
        await ledger.wait_for_more(CLIENTS * 3)
        yield ledger
    finally:
        ledger.stop()
        await asyncio.gather(*clients)
