"""Knowledge bases, documents and bytes of tenants, in gateways over one database. No job engine runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from ragstore.kit.errors import ServiceError
from ragstore_client import AsyncClient
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.source import UploadSource
from ragstore_gateway.configurations.tenant_bases import TenantBases
from ragstore_gateway.database.database import Database
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.tenant_usage import TenantUsage
from ragstore_gateway.openai_vector_stores.files import SIZES as UPLOADED_SIZES
from ragstore_gateway.openai_vector_stores.files import Files, NewFile
from ragstore_gateway.openai_vector_stores.schemas import NewUpload, UploadCompletion
from ragstore_gateway.openai_vector_stores.uploads import LIFETIME, Uploads
from ragstore_gateway.settings import Settings
from ragstore_gateway.sources.files import SIZES as SOURCE_FILE_SIZES
from ragstore_gateway.sources.files import NewFile as NewSourceFile
from ragstore_gateway.sources.files import SourceFiles
from ragstore_gateway.sources.runs import SourceRuns
from ragstore_gateway.tenants.errors import TenantBasesExceeded, TenantBytesExceeded, TenantDocumentsExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant
from ragstore_gateway.tenants.metrics import LIMIT, USAGE
from tests.support.knowledge import Knowledge

pytestmark = pytest.mark.process

LIMITS = {"acme": {"maxBases": 3, "maxDocuments": 4, "maxBytes": 100}}


class Gateway:
    """One of several gateways over a database."""

    def __init__(self, database: Database, store: AsyncClient) -> None:
        knowledge = Knowledge(database, store)
        settings = Settings(tenants=LIMITS)
        self.ingestion = Ingestion(
            settings,
            database,
            knowledge.bases,
            knowledge.embeddings,
            knowledge.engines,
            Extractor.from_settings(settings),
            files=(*UPLOADED_SIZES, SOURCE_FILE_SIZES),
        )
        self.files = Files(database, 1000, self.ingestion.acceptance.storage)
        self.uploads = Uploads(database, self.files, 1000)
        runs = SourceRuns(database, self.ingestion.leases)
        self.source_files = SourceFiles(database, self.ingestion, runs, 1000)
        self.database = database
        self.bases = knowledge.bases
        self.bases.add_listener(TenantBases(LimitsByTenant(LIMITS)))

    async def create(self, name: str, tenant: str = "acme") -> Configuration[KnowledgeBase]:
        """Create a base."""
        return await self.bases.create(KnowledgeBase(name=name), tenant=tenant)

    async def accept(self, base: Configuration[KnowledgeBase], name: str, size: int) -> str:
        """Accept a document; the id of its ingestion."""
        content = NewContent(name, "text/plain", b"x" * size, "")
        return (await self.ingestion.documents.accept(base.id, content)).id

    async def upload(self, size: int, tenant: str = "acme") -> str:
        """Store a file; its id."""
        return (await self.files.create(NewFile("a.txt", "assistants", "text/plain", b"x" * size), "", tenant)).id

    async def used_bytes(self) -> int:
        """The bytes of `acme`."""
        async with self.database.reading() as session:
            return (await self.ingestion.acceptance.storage.used(session)).get("acme", (0, 0))[1]


@pytest.fixture
async def gateways(database_url: str) -> AsyncIterator[list[Gateway]]:
    """Two gateways over one database."""
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(AsyncClient("http://127.0.0.1:9"))
        databases = [Database(make_url(database_url)) for _ in range(2)]
        for each in databases:
            await stack.enter_async_context(each.running())
        yield [Gateway(each, store) for each in databases]


def codes(results: Sequence[object]) -> list[str]:
    """The codes of the errors among results, sorted. Other exceptions are raised."""
    for each in results:
        if isinstance(each, BaseException) and not isinstance(each, ServiceError):
            raise each
    return sorted(each.code for each in results if isinstance(each, ServiceError))


async def test_a_tenant_has_a_maximum_of_bases_over_two_gateways_and_deletion_frees(gateways: list[Gateway]) -> None:
    created = [gateways[number % 2].create(f"tea-{number}") for number in range(8)]
    results = await asyncio.gather(*created, return_exceptions=True)
    assert codes(results) == ["tenant_bases_exceeded"] * 5
    with pytest.raises(TenantBasesExceeded) as caught:
        await gateways[0].create("more")
    assert caught.value.status == 403
    assert caught.value.detail == "The tenant 'acme' may have at most 3 knowledge bases (maxBases); delete one first"
    first = next(each for each in results if isinstance(each, Configuration))
    with pytest.raises(TenantBasesExceeded):
        await gateways[0].bases.duplicate(first.id, tenant="acme")
    # Bases of others do not count, and a refused base was not stored.
    await gateways[0].create("more", "other")
    await gateways[0].create("even-more", "")
    await gateways[0].bases.delete(first.id)
    await gateways[1].create("again")


async def test_documents_and_bytes_are_counted_over_all_bases_of_a_tenant(gateways: list[Gateway]) -> None:
    bases = [await gateways[0].create(name) for name in ("tea", "coffee", "milk")]
    accepted = [gateways[number % 2].accept(bases[number % 3], str(number), 1) for number in range(8)]
    results = await asyncio.gather(*accepted, return_exceptions=True)
    assert codes(results) == ["tenant_documents_exceeded"] * 4
    with pytest.raises(TenantDocumentsExceeded) as caught:
        await gateways[0].accept(bases[0], "more", 1)
    assert caught.value.status == 403
    assert caught.value.detail == "The tenant 'acme' may have at most 4 documents (maxDocuments)"
    other = await gateways[0].create("other", "other")
    await gateways[0].accept(other, "a", 500)
    # A document that exists may be replaced.
    stored = next(number for number, each in enumerate(results) if isinstance(each, str))
    await gateways[1].accept(bases[stored % 3], str(stored), 90)
    await gateways[0].ingestion.documents.delete(bases[stored % 3].id, str(stored))
    await gateways[0].accept(bases[0], "more", 1)


async def test_a_replacement_counts_the_difference_and_a_refused_document_changes_nothing(
    gateways: list[Gateway],
) -> None:
    gateway = gateways[0]
    base = await gateway.create("tea")
    await gateway.accept(base, "a", 60)
    await gateway.accept(base, "b", 40)
    with pytest.raises(TenantBytesExceeded) as caught:
        await gateway.accept(base, "a", 61)
    assert caught.value.detail == "The documents and files of the tenant 'acme' may have at most 100 bytes (maxBytes)"
    async with gateway.database.reading() as session:
        assert await session.scalar(sa.select(sa.func.count()).select_from(IngestionRow)) == 2
    await gateway.accept(base, "a", 60)
    await gateway.ingestion.documents.delete(base.id, "b")
    await gateway.accept(base, "a", 100)
    # While both contents wait, the larger one counts.
    await gateway.accept(base, "a", 1)
    with pytest.raises(TenantBytesExceeded):
        await gateway.accept(base, "c", 1)


async def test_a_batch_is_accepted_item_by_item(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    base = await gateway.create("tea")
    batch = [NewContent(name, "text/plain", b"x" * size, "") for name, size in (("a", 60), ("b", 50), ("c", 40))]
    outcomes = await gateway.ingestion.documents.accept_many(base.id, batch)
    assert codes(outcomes) == ["tenant_bytes_exceeded"]
    assert isinstance(outcomes[1], TenantBytesExceeded)
    # Of two contents of one name in a batch, the second one replaces the first one.
    again = [NewContent("a", "text/plain", b"x" * size, "") for size in (30, 60)]
    assert codes(await gateway.ingestion.documents.accept_many(base.id, again)) == []


async def test_uploaded_files_count_with_the_documents_over_two_gateways_and_deletion_frees(
    gateways: list[Gateway],
) -> None:
    base = await gateways[0].create("tea")
    await gateways[0].accept(base, "a", 10)
    uploads = [gateways[number % 2].upload(30) for number in range(8)]
    results = await asyncio.gather(*uploads, return_exceptions=True)
    assert codes(results) == ["tenant_bytes_exceeded"] * 5
    assert await gateways[1].used_bytes() == 100
    with pytest.raises(TenantBytesExceeded) as caught:
        await gateways[1].accept(base, "b", 1)
    assert caught.value.detail == "The documents and files of the tenant 'acme' may have at most 100 bytes (maxBytes)"
    # Files of others do not count. A refused file was not stored.
    await gateways[0].upload(300, "")
    await gateways[0].upload(300, "other")
    await gateways[0].files.delete(next(each for each in results if isinstance(each, str)))
    await gateways[1].accept(base, "b", 30)
    assert await gateways[0].used_bytes() == 100


async def test_files_and_documents_that_are_sent_concurrently_do_not_exceed_the_maximum(
    gateways: list[Gateway],
) -> None:
    base = await gateways[0].create("tea")
    documents = [gateways[number % 2].accept(base, str(number), 30) for number in range(4)]
    files = [gateways[number % 2].upload(30) for number in range(4)]
    results = await asyncio.gather(*documents, *files, return_exceptions=True)
    assert codes(results) == ["tenant_bytes_exceeded"] * 5
    assert await gateways[0].used_bytes() == 90


async def test_parts_of_an_upload_count_until_it_is_cancelled_or_a_file(gateways: list[Gateway]) -> None:
    first, second = gateways

    async def begin(size: int) -> str:
        body = NewUpload(filename="a.txt", purpose="assistants", bytes=size, mime_type="text/plain")
        return (await first.uploads.create(body, "", "acme")).id

    with pytest.raises(TenantBytesExceeded):
        await begin(101)
    # An announced size takes no room: parts do.
    one, other = await begin(80), await begin(80)
    parts = [(await second.uploads.add_part(one, b"x" * 40, None)).id for _ in range(2)]
    assert await first.used_bytes() == 80
    with pytest.raises(TenantBytesExceeded):
        await first.uploads.add_part(other, b"x" * 40, None)
    await first.uploads.cancel(other, None)
    # The completion needs no further room.
    await second.uploads.complete(one, UploadCompletion(part_ids=parts), None)
    assert await first.used_bytes() == 80
    abandoned = await begin(20)
    await first.uploads.add_part(abandoned, b"x" * 20, None)
    assert await first.used_bytes() == 100
    await first.uploads.forget(datetime.now(UTC) + LIFETIME)
    assert await first.used_bytes() == 80


async def test_files_of_sources_count_for_the_tenant_of_the_base(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    base = await gateway.create("tea")
    await gateway.upload(40)

    async def store(**sizes: int) -> list[str]:
        files = [NewSourceFile(f"{name}.txt", "text/plain", b"x" * size) for name, size in sizes.items()]
        stored, rejected = await gateway.source_files.store(base.id, "docs", UploadSource(), files)
        assert len(stored) + len(rejected) == len(files)
        return [each.reason for each in rejected]

    full = "The documents and files of the tenant 'acme' may have at most 100 bytes (maxBytes)"
    assert await store(a=40, b=30, c=20) == [full]
    assert await gateway.used_bytes() == 100
    # Of a file that exists, the difference counts.
    assert await store(a=41) == [full]
    assert await store(a=39) == []
    await gateway.source_files.delete(base.id, "docs", "c.txt")
    assert await gateway.used_bytes() == 79


async def test_the_metrics_have_usage_and_limits_of_each_tenant(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    base = await gateway.create("tea")
    await gateway.accept(base, "a", 60)
    usage = TenantUsage(gateway.database, gateway.ingestion.acceptance.storage)
    await usage.measure()

    def value(limit: str) -> tuple[float, float]:
        return tuple(each.labels("acme", limit)._value.get() for each in (USAGE, LIMIT))

    assert [value(limit) for limit in LIMITS["acme"]] == [(1, 3), (1, 4), (60, 100)]
    # A tenant that the settings do not name has no limits, and is measured until it uses nothing any more.
    other = await gateway.create("other", "other")
    await usage.measure()
    assert USAGE.labels("other", "maxBases")._value.get() == 1
    await gateway.bases.delete(other.id)
    await usage.measure()
    assert USAGE.labels("other", "maxBases")._value.get() == 0
