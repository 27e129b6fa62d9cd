"""The state of files and vector stores without a gateway: limits of size, and creation as one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import pytest
import sqlalchemy as sa
from prometheus_client import REGISTRY
from sqlalchemy import make_url
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.errors import ServiceError
from ragstore_client import AsyncClient
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import FileNotFound, FileStorageFull, QueueFull
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentRow, IngestionPayloadRow, IngestionRow
from ragstore_gateway.openai_vector_stores.batches import Batches
from ragstore_gateway.openai_vector_stores.files import Files, NewFile
from ragstore_gateway.openai_vector_stores.schemas import NewVectorStore, VectorStoreUpdate
from ragstore_gateway.openai_vector_stores.store_files import StoreFiles
from ragstore_gateway.openai_vector_stores.stores import Stores
from ragstore_gateway.openai_vector_stores.tables import (
    FileBatchFileRow,
    FileBatchRow,
    FileRow,
    UploadPartRow,
    UploadRow,
    VectorStoreFileRow,
    VectorStoreRow,
)
from ragstore_gateway.settings import Settings
from tests.support.knowledge import Knowledge
from tests.support.postgres import Postgres
from tests.support.process_fixtures import starts_process

MAX_BYTES: Final = 10
"""The limit of all files together, and of the documents that wait."""

CONCURRENT: Final = 8

MADE_BY_A_STORE: Final = (
    ConfigurationRow,
    ConfigurationVersionRow,
    CollectionRow,
    DocumentRow,
    IngestionRow,
    IngestionPayloadRow,
    VectorStoreRow,
    VectorStoreFileRow,
    FileBatchRow,
    FileBatchFileRow,
)
"""The tables that the creation of a vector store with files writes to."""


class AnyConfiguration:
    """Accepts every knowledge base."""

    async def validate(self, body: KnowledgeBase, visible: NamePatterns = ALL_NAMES) -> None:
        """Nothing is checked."""


class Gateway:
    """One of several gateways over a database. No job engine runs."""

    def __init__(self, database: Database, store: AsyncClient) -> None:
        knowledge = Knowledge(database, store)
        settings = Settings(max_files_bytes=MAX_BYTES, ingestion_max_waiting_bytes=MAX_BYTES)
        extractor = Extractor.from_settings(settings)
        self.ingestion = Ingestion(
            settings, database, knowledge.bases, knowledge.embeddings, knowledge.engines, extractor
        )
        self.database = database
        self.bases = knowledge.bases
        self.files = Files(database, MAX_BYTES, self.ingestion.acceptance.storage)
        store_files = StoreFiles(database, self.bases, self.ingestion, self.files)
        self.batches = Batches(database, self.bases, self.ingestion, self.files, store_files)
        self.stores = Stores(database, self.bases, AnyConfiguration())

    async def upload(self, size: int, media_type: str = "text/plain") -> str:
        """Store a file; its id."""
        return (await self.files.create(NewFile("tea.txt", "assistants", media_type, b"x" * size), "")).id

    async def accept(self, base_id: str, name: str, size: int) -> str:
        """Accept a document; the id of its ingestion."""
        return (await self.ingestion.documents.accept(base_id, NewContent(name, "text/plain", b"x" * size, ""))).id

    async def counts(self) -> dict[str, int]:
        """The numbers of rows."""
        async with self.database.reading() as session:
            return {
                each.__tablename__: await session.scalar(sa.select(sa.func.count()).select_from(each)) or 0
                for each in MADE_BY_A_STORE
            }


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
@starts_process
async def file_gateways(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[Gateway]]:
    """Two gateways over one database."""
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite+aiosqlite:///{tmp_path_factory.mktemp('storage') / 'gateway.db'}"
        else:
            postgres: Postgres = request.getfixturevalue("postgres")
            created = postgres.create_database()
            stack.callback(postgres.drop_database, created)
            url = created.replace("postgresql://", "postgresql+psycopg://")
        store = await stack.enter_async_context(AsyncClient("http://127.0.0.1:9"))
        databases = [Database(make_url(url)) for _ in range(2)]
        for each in databases:
            await stack.enter_async_context(each.running())
            # Concurrent transactions begin together only if there are connections for them.
            await asyncio.gather(*(each.ping() for _ in range(CONCURRENT // 2)))
        yield [Gateway(each, store) for each in databases]


@pytest.fixture
async def gateways(file_gateways: list[Gateway]) -> list[Gateway]:
    """The gateways, without files and vector stores."""
    async with file_gateways[0].database.session() as session:
        for each in (UploadPartRow, UploadRow, FileRow, *reversed(MADE_BY_A_STORE)):
            await session.execute(sa.delete(each))
    return file_gateways


def refused(results: Sequence[object]) -> list[str]:
    """The codes of the errors among results. Other exceptions are raised."""
    for each in results:
        if isinstance(each, BaseException) and not isinstance(each, ServiceError):
            raise each
    return [each.code for each in results if isinstance(each, ServiceError)]


async def test_all_files_together_have_a_maximum_size(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    first = await gateway.upload(6)
    await gateway.upload(4)
    with pytest.raises(FileStorageFull) as caught:
        await gateway.upload(1)
    assert (caught.value.status, caught.value.code) == (413, "file_storage_full")
    await gateway.files.delete(first)
    await gateway.upload(6)


async def test_each_gateway_measures_the_files_and_the_parts_of_uploads_of_all(gateways: list[Gateway]) -> None:
    first, second = gateways
    await first.upload(6)
    async with first.database.session() as session:
        about = {"filename": "a", "purpose": "assistants", "media_type": "", "created_by": "", "state": "pending"}
        await session.execute(sa.insert(UploadRow).values(id="u", size=3, created_on=datetime.now(UTC), **about))
        await session.execute(sa.insert(UploadPartRow).values(id="p", upload_id="u", size=3, content=b"xxx"))
    await second.files.measure()
    found = [REGISTRY.get_sample_value(f"ragstore_gateway_files{each}_bytes") for each in ("", "_limit")]
    assert found == [9, MAX_BYTES]


async def test_concurrent_uploads_to_two_gateways_do_not_exceed_the_maximum(gateways: list[Gateway]) -> None:
    uploads = [gateways[index % 2].upload(3) for index in range(CONCURRENT)]
    results = await asyncio.gather(*uploads, return_exceptions=True)
    assert refused(results) == ["file_storage_full"] * (CONCURRENT - MAX_BYTES // 3)


async def test_the_documents_that_wait_have_a_maximum_size(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    base = await gateway.bases.create(KnowledgeBase(name="tea"))
    # A document alone is accepted, whatever its size.
    first = await gateway.accept(base.id, "a", MAX_BYTES + 2)
    with pytest.raises(QueueFull) as caught:
        await gateway.accept(base.id, "b", 1)
    assert (caught.value.status, caught.value.code) == (503, "queue_full")
    await gateway.ingestion.documents.cancel(base.id, first)
    await gateway.accept(base.id, "b", 6)
    await gateway.accept(base.id, "c", 4)
    with pytest.raises(QueueFull):
        await gateway.accept(base.id, "d", 1)


async def test_documents_accepted_concurrently_by_two_gateways_do_not_exceed_the_maximum(
    gateways: list[Gateway],
) -> None:
    # Each base has a lock of its own.
    bases = [await gateways[0].bases.create(KnowledgeBase(name=str(index))) for index in range(CONCURRENT)]
    accepted = [gateways[index % 2].accept(base.id, "a", 3) for index, base in enumerate(bases)]
    results = await asyncio.gather(*accepted, return_exceptions=True)
    assert refused(results) == ["queue_full"] * (CONCURRENT - MAX_BYTES // 3)


async def test_a_vector_store_with_files_is_made_by_one_transaction(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    files = [await gateway.upload(2), await gateway.upload(2), await gateway.upload(2, "image/png")]
    body = NewVectorStore(name="tea", metadata={"team": "housing"}, file_ids=files)
    before = await gateway.counts()

    async def fail(session: AsyncSession, base: Configuration[KnowledgeBase], /) -> None:
        await gateway.batches.attach_to_new(session, base, files)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await gateway.stores.create(body, "", fail)
    assert await gateway.counts() == before

    attach: Any = partial(gateway.batches.attach_to_new, file_ids=files)
    stored = await gateway.stores.create(body, "", attach)
    found = await gateway.stores.read(stored.id)
    assert (found.metadata, found.file_counts.in_progress) == ({"team": "housing"}, 2)
    added = {name: count - before[name] for name, count in (await gateway.counts()).items()}
    # Two files of one name are two documents; the file that cannot be ingested is a failed one of the batch.
    assert (added["document"], added["ingestion_payload"], added["file_batch_file"]) == (2, 2, 3)


async def test_a_vector_store_with_a_file_that_is_gone_is_not_made(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    files = [await gateway.upload(2), "file-nowhere"]
    before = await gateway.counts()
    attach: Any = partial(gateway.batches.attach_to_new, file_ids=files)
    with pytest.raises(FileNotFound):
        await gateway.stores.create(NewVectorStore(name="tea"), "", attach)
    assert await gateway.counts() == before


async def test_name_and_metadata_of_a_vector_store_are_changed_by_one_transaction(gateways: list[Gateway]) -> None:
    gateway = gateways[0]
    stored = await gateway.stores.create(NewVectorStore(name="tea", metadata={"team": "housing"}), "")
    # The second step fails: the value has no form in JSON.
    impossible: Any = {"team": object()}
    with pytest.raises((TypeError, StatementError)):
        await gateway.stores.update(stored.id, VectorStoreUpdate(name="coffee", metadata=impossible), "")
    found = await gateway.stores.read(stored.id)
    assert (found.name, found.metadata) == ("tea", {"team": "housing"})
