"""`Round`: the operations of a seed, many in flight, on new bases of a gateway and on their model."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import httpx

from tests.oracle.bases.comparison import ALL, Comparison, Difference, expect, history, known_of, path_of
from tests.oracle.bases.foreign import write_foreign_chunks
from tests.oracle.bases.gateway_process import Gateway, Interrupted
from tests.oracle.bases.model import Base, Configuration, Content, Ingestion
from tests.oracle.bases.plan import BASES, KEYS, LARGE, SIZES, WORDS, Operation, line

CONCURRENCY: Final = 16
"""Maximum number of operations in flight."""

QUIET_SECONDS: Final = 120.0
"""Maximum wait for the end of all ingestions."""

LARGE_NAME: Final = "large"
"""Name of the large document of a base."""

CONFIGURATIONS: Final = (Configuration(1, 256), Configuration(2, 256), Configuration(1, 64), Configuration(2, 128))

MODEL: Final = "builtin/wordllama"
"""It embeds 170 times as many chunks a second as the default model."""

RETRIEVALS: Final = ("hybrid", "vector")
"""Each key has a base of each. A search by words would also find a chunk that Chroma's index has lost."""


class NothingToDo(Exception):
    """There is no document yet that an operation could choose."""


class Round:
    """Runs operations.

    Args:
        seed: the seed of the operations, for the names of bases.
    """

    def __init__(self, gateway: Gateway, seed: int, operations: Sequence[Operation]) -> None:
        self.done: Counter[str] = Counter()
        self._comparison = Comparison(gateway, self.done, lambda base, name: self._lock(base, name).locked())
        self._gateway = gateway
        self._seed = seed
        self._operations = operations
        self._bases: list[Base] = []
        self._locks: dict[tuple[int, str], asyncio.Lock] = {}
        self._killing = asyncio.Lock()

    async def run(self) -> None:
        """Run all operations, wait for the end of all ingestions, and compare everything.

        Raises:
            Difference: the gateway and the model differ.
        """
        for index in range(BASES):
            await self._create_base(index)
        queue = iter(self._operations)

        async def work() -> None:
            for operation in queue:
                await self._run(operation)

        workers = [asyncio.create_task(work()) for _ in range(CONCURRENCY)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        await self._wait_until_quiet()
        for base in self._bases:
            await self._comparison.compare(base)
        await asyncio.gather(*(self._delete_base(base) for base in self._bases))

    async def _run(self, operation: Operation) -> None:
        methods = {
            "upload": self._upload,
            "upload again": self._upload_again,
            "large upload": self._upload_large,
            "deletion": self._delete,
            "cancellation": self._cancel,
            "re-indexing": self._configure,
            "foreign write": self._write_foreign,
            "forbidden call": self._call_forbidden,
            "status": self._read_status,
            "list": self._list,
            "search": self._search,
            "search for all": self._search_all,
            "search by own text": self._search_own,
        }
        try:
            if operation.kind == "kill":
                async with self._killing:
                    await self._gateway.restart_after_kill()
            else:
                await methods[operation.kind](operation, self._bases[operation.base])
        except Interrupted:
            self.done["interrupted"] += 1
        except NothingToDo:
            self.done["without a document to choose"] += 1
            return
        except Difference as error:
            raise Difference(f"operation {operation}: {error}") from None
        except httpx.TransportError as error:
            raise Difference(f"operation {operation}: no response, {type(error).__name__}") from None
        self.done[operation.kind] += 1

    # -- bases --------------------------------------------------------------------------------

    async def _create_base(self, index: int) -> None:
        configuration = CONFIGURATIONS[0]
        name = f"{self._seed}-{index}-{random.getrandbits(40):x}"
        response = await self._gateway.repeat("admin", "POST", "/ragstore/rags", json=_body(index, name, configuration))
        expect(response, 201)
        id = response.headers["Location"].rpartition("/")[2].partition("?")[0]
        self._bases.append(Base(index, id, name, KEYS[index % len(KEYS)], configuration))

    async def _delete_base(self, base: Base) -> None:
        expect(await self._gateway.repeat("admin", "DELETE", f"{path_of(base)}?permanent=true"), 200, 404)

    async def _configure(self, operation: Operation, base: Base) -> None:
        async with self._lock(base, ""):
            others = [each for each in CONFIGURATIONS if each != base.configuration]
            configuration = operation.random.choice(others)
            read = await self._gateway.call("admin", "GET", path_of(base))
            version = int(read.headers["X-Resource-URI"].rpartition("=")[2])
            base.configured(configuration)
            body = _body(base.index, base.name, configuration)
            try:
                response = await self._gateway.call("admin", "PUT", f"{path_of(base)}?version={version}", json=body)
            except Interrupted:
                read = await self._gateway.read("admin", path_of(base))
                if int(read.headers["X-Resource-URI"].rpartition("=")[2]) == version:
                    raise
            else:
                expect(response, 200)
            base.configuration = configuration

    # -- documents ----------------------------------------------------------------------------

    def _lock(self, base: Base, name: str) -> asyncio.Lock:
        """Changes of one document run one after the other, so that their order is known."""
        return self._locks.setdefault((base.index, name), asyncio.Lock())

    def _content(self, operation: Operation, base: Base, lines: int, like: str = "") -> Content:
        choices = operation.random
        begin = f"{base.name} {operation.name} {operation.number}"
        if like:
            return Content(tuple(f"{like[:80]} near {index}".ljust(99, ".") for index in range(lines)))
        return Content(tuple(line(choices, f"{begin} {index}") for index in range(lines)))

    async def _upload(self, operation: Operation, base: Base) -> None:
        content = self._content(operation, base, operation.random.choice(SIZES))
        await self._send(operation, base, operation.name, content)

    async def _upload_again(self, operation: Operation, base: Base) -> None:
        """Send a content that the document has, or had."""
        known = base.document(operation.name).ingestions
        if not known:
            raise NothingToDo
        await self._send(operation, base, operation.name, operation.random.choice(known).content)

    async def _upload_large(self, operation: Operation, base: Base) -> None:
        """Search for other documents by their own texts, while a large one that is near to them is written."""
        target = await self._target(operation, base)
        content = self._content(operation, base, LARGE, target[1].lines[0])
        ingestion = await self._send(operation, base, LARGE_NAME, content)
        state = "open"
        while state == "open":
            await self._comparison.search_text(base, operation.key, *target, operation.random)
            self.done["search during a large upload"] += 1
            state = await self._read_state(base, LARGE_NAME, ingestion)

    async def _send(self, operation: Operation, base: Base, name: str, content: Content) -> Ingestion:
        async with self._lock(base, name):
            document = base.document(name)
            ingestion = Ingestion(content)
            document.ingestions.append(ingestion)
            base.changed(name, f"{operation.number}: {len(content.lines)} lines are sent: {content.lines[0][:40]}")
            try:
                response = await self._gateway.call(
                    operation.key,
                    "POST",
                    f"{path_of(base)}/ingest",
                    params={"documentName": name},
                    content=content.text,
                    headers={"Content-Type": "text/plain"},
                )
            except Interrupted:
                read = await self._gateway.read("reader", path_of(base, name))
                earlier = {each.id for each in document.ingestions}
                id = "" if read.status_code == 404 else str(read.json()["ingestionId"])
                if not id or id in earlier:
                    document.ingestions.remove(ingestion)
                    base.changed(name, f"{operation.number}: not accepted")
                    raise
                ingestion.id = id
            else:
                expect(response, 202)
                ingestion.id = str(response.json()["ingestionId"])
            base.changed(name, f"{operation.number}: accepted as {ingestion.id}")
            return ingestion

    async def _delete(self, operation: Operation, base: Base) -> None:
        name = operation.name
        async with self._lock(base, name):
            document = base.document(name)
            document.is_deleting = True
            base.changed(name, f"{operation.number}: deletion")
            try:
                response = await self._gateway.call(operation.key, "DELETE", path_of(base, name))
            except Interrupted:
                if (await self._gateway.read("reader", path_of(base, name))).status_code != 404:
                    document.is_deleting = False
                    base.changed(name, f"{operation.number}: not deleted")
                    raise
            else:
                expect(response, 204 if document.ingestions else 404)
            document.ingestions.clear()
            document.is_deleting = False
            base.changed(name, f"{operation.number}: deleted")

    async def _cancel(self, operation: Operation, base: Base) -> None:
        name = operation.name
        async with self._lock(base, name):
            open_ = base.document(name).open
            if not open_:
                raise NothingToDo
            ingestion = operation.random.choice(open_)
            path = f"{path_of(base)}/ingestion/{ingestion.id}"
            response = await self._gateway.repeat(operation.key, "DELETE", path)
            expect(response, 204, 409)
            if response.status_code == 204:
                if ingestion.state == "completed":
                    raise Difference(f"an ingestion that was completed was cancelled: {ingestion.id}")
                ingestion.state = "ended"
                base.changed(name, f"{operation.number}: cancelled {ingestion.id}")

    async def _read_status(self, operation: Operation, base: Base) -> None:
        open_ = base.document(operation.name).open
        if not open_:
            raise NothingToDo
        await self._read_state(base, operation.name, operation.random.choice(open_))

    async def _read_state(self, base: Base, name: str, ingestion: Ingestion) -> str:
        """Read the state of an ingestion into the model."""
        document = base.document(name)
        response = await self._gateway.read("reader", f"{path_of(base)}/ingestion/{ingestion.id}/status")
        expect(response, 200)
        status = str(response.json()["status"])
        if ingestion not in document.ingestions or ingestion.state != "open":
            return "ended"  # deleted or cancelled meanwhile
        if status == "completed":
            ingestion.state = "completed"
        elif status.startswith("failed") and not document.is_deleting and not self._lock(base, name).locked():
            raise Difference(f"{name}: {status}{history(document)}")
        return ingestion.state

    async def _list(self, operation: Operation, base: Base) -> None:
        before = known_of(base)
        response = await self._gateway.call("reader", "GET", f"{path_of(base)}/documents", params={"limit": 1000})
        expect(response, 200)
        listed = {each["name"]: each for each in response.json()["documents"]}
        self._comparison.compare_list(base, listed, before)

    # -- searches -----------------------------------------------------------------------------

    async def _search(self, operation: Operation, base: Base) -> None:
        question = " ".join(operation.random.choices(WORDS, k=6))
        with base.searching() as allowed:
            found = await self._comparison.query(base, operation.key, question, 10)
        self._comparison.check(base, allowed, found, is_complete=False)

    async def _search_all(self, operation: Operation, base: Base) -> None:
        with base.searching() as allowed:
            found = await self._comparison.query(base, operation.key, "document", ALL)
        self._comparison.check(base, allowed, found, is_complete=True)

    async def _search_own(self, operation: Operation, base: Base) -> None:
        target = await self._target(operation, base)
        await self._comparison.search_text(base, operation.key, *target, operation.random)

    async def _target(self, operation: Operation, base: Base) -> tuple[str, Content]:
        """A document with exactly one content that searches may find. Sends one, or waits for one, if there is none."""
        deadline = time.monotonic() + QUIET_SECONDS
        while not (found := self._settled(base)):
            if time.monotonic() > deadline:
                raise NothingToDo
            if not any(document.ingestions for document in base.documents.values()):
                await self._upload(operation, base)
                self.done["upload for a search"] += 1
            for name, document in list(base.documents.items()):
                for ingestion in document.open[-1:]:
                    await self._read_state(base, name, ingestion)
            await asyncio.sleep(0.05)
        return operation.random.choice(found)

    def _settled(self, base: Base) -> list[tuple[str, Content]]:
        return [
            (name, content)
            for name, document in base.documents.items()
            if name != LARGE_NAME and len(document.visible) == 1
            for content in document.visible
            if content is not None
        ]

    # -- other callers ------------------------------------------------------------------------

    async def _write_foreign(self, operation: Operation, base: Base) -> None:
        """Write foreign chunks that are nearest to a document, which stays found by its own text."""
        target = await self._target(operation, base)
        self.done["foreign chunks"] += await write_foreign_chunks(self._gateway, base, target[1], operation.random)
        for _ in range(3):
            await self._comparison.search_text(base, operation.key, *target, operation.random)

    async def _call_forbidden(self, operation: Operation, base: Base) -> None:
        """Call what a key may not, which changes nothing. The comparisons with the model show the latter."""
        document = path_of(base, operation.name)
        collections = await asyncio.to_thread(self._gateway.state.collections, base.id)
        collection = f"/collections/{collections[0].id}" if collections else "/collections/kb_none"
        calls: list[tuple[str, str, str, bool, set[int]]] = [
            ("reader", "DELETE", document, False, {403}),
            ("reader", "POST", f"{path_of(base)}/ingest?documentName={operation.name}", False, {403}),
            (operation.key, "DELETE", f"{path_of(base)}?permanent=true", False, {403}),
            ("first", "GET", f"{collection}/documents", True, {404}),
            ("first", "DELETE", collection, True, {403, 404}),
            ("second", "GET", f"{collection}/documents", True, {401, 403, 404}),
        ]
        key, method, path, in_store, expected = operation.random.choice(calls)
        options: dict[str, Any] = {"content": "forbidden"} if method == "POST" else {}
        expect(await self._gateway.call(key, method, path, store=in_store, **options), *expected)

    # -- the end ------------------------------------------------------------------------------

    async def _wait_until_quiet(self) -> None:
        """Wait until all ingestions and re-indexings have ended, and read their states."""
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            for base in self._bases:
                for name, document in base.documents.items():
                    for ingestion in document.open:
                        await self._read_state(base, name, ingestion)
            steps = [step for step in await asyncio.to_thread(self._gateway.state.steps) if step != "clean up"]
            rows = [row for base in self._bases for row in self._gateway.state.collections(base.id)]
            building = [row.id for row in rows if row.state == "building"]
            open_ = [each.id for base in self._bases for document in base.documents.values() for each in document.open]
            if not (steps or building or open_):
                return
            if time.monotonic() > deadline:
                raise Difference(f"not ended: steps {steps}, collections {building}, ingestions {open_}")
            await asyncio.sleep(0.1)


def _body(index: int, name: str, configuration: Configuration) -> dict[str, object]:
    return {
        "name": name,
        "retrieval": RETRIEVALS[index // len(KEYS) % len(RETRIEVALS)],
        "chunkSize": 100 * configuration.lines,
        "chunkOverlap": 0,
        "minScore": 0.0,
        "embeddingParameters": {"model": MODEL, "dimensions": configuration.dimensions},
    }
