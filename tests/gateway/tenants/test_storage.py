"""Knowledge bases, documents and bytes of tenants, in gateways over one database. No job engine runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from ragstore.kit.errors import ServiceError
from ragstore_client import AsyncClient
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tenant_bases import TenantBases
from ragstore_gateway.database.database import Database
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.tenant_usage import TenantUsage
from ragstore_gateway.settings import Settings
from ragstore_gateway.tenants.errors import TenantBasesExceeded, TenantBytesExceeded, TenantDocumentsExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant
from ragstore_gateway.tenants.metrics import LIMIT, USAGE
from tests.support.knowledge import Knowledge

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
        )
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
    assert caught.value.detail == "The documents of the tenant 'acme' may have at most 100 bytes (maxBytes)"
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


async def test_the_metrics_have_usage_and_limits_of_each_tenant(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    base = await gateway.create("tea")
    await gateway.accept(base, "a", 60)
    usage = TenantUsage(gateway.database, LimitsByTenant(LIMITS))
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
