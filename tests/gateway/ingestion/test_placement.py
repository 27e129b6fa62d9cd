"""`Placement`: a new base that chooses no store is placed on the named engine with the fewest chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import make_url

from ragstore.kit.settings import SettingsError
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.acceptance import new_document
from ragstore_gateway.ingestion.collections import ACTIVE
from ragstore_gateway.ingestion.placement import Placement
from ragstore_gateway.ingestion.tables import CollectionDocumentRow, CollectionRow
from ragstore_gateway.settings import load

NOW: Final = datetime(2026, 11, 26, tzinfo=UTC)
ENGINES: Final = '{"a": {"storeType": "ragstore"}, "b": {"storeType": "chroma"}}'


class Placed:
    """A state with bases, of which new ones are placed on two engines."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._bases = Configurations(database, "rags", KnowledgeBase, place=Placement(database, ["a", "b"]).placed)

    async def base(self, **fields: object) -> str | None:
        """The engine of a new base."""
        body = KnowledgeBase(name=uuid4().hex, **fields)  # type: ignore[arg-type]  # its own types
        return (await self._bases.create(body)).body.engine

    async def add(self, chunks: int, **store_parameters: object) -> None:
        """Add a collection with a document of this many chunks."""
        row = new_document(str(uuid4()), "d", NOW)
        row.id = row.last_ingestion = str(uuid4())
        row.media_type, row.content_hash, row.bytes = "text/plain", "0", 1
        collection = CollectionRow(
            id=uuid4().hex,
            base_id=row.base_id,
            base_version=1,
            state=ACTIVE,
            fingerprint="",
            provider="local",
            embedding_parameters={},
            store_type="ragstore",
            store_parameters=store_parameters,
            chunking={},
            created_on=NOW,
        )
        async with self._database.session() as session:
            session.add_all((row, collection))
            await session.flush()
            session.add(
                CollectionDocumentRow(
                    collection_id=collection.id, document_id=row.id, revision=row.last_ingestion, chunks=chunks
                )
            )


@pytest.fixture
async def placed(database_url: str) -> AsyncIterator[Placed]:
    """An empty state, with each database."""
    database = Database(make_url(database_url))
    async with database.running():
        yield Placed(database)


async def test_a_new_base_is_on_the_engine_with_the_fewest_chunks_and_then_with_the_fewest_bases(
    placed: Placed,
) -> None:
    assert [await placed.base() for _ in range(3)] == ["a", "b", "a"]
    await placed.add(500)
    await placed.add(3, engine="b")
    assert [await placed.base() for _ in range(2)] == ["a", "a"]
    await placed.add(2, engine="a")
    await placed.add(2, engine="a")
    assert [await placed.base() for _ in range(2)] == ["b", "b"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"engine": "b"}, "b"),
        ({"engine": ""}, ""),
        ({"store_type": "chroma"}, None),
        ({"store_parameters": {"collection": "memory"}}, None),
    ],
)
async def test_a_base_that_chooses_its_store_is_not_placed(
    placed: Placed, fields: dict[str, object], expected: str | None
) -> None:
    assert await placed.base(**fields) == expected


def test_bases_are_placed_on_named_engines_only() -> None:
    given = {"RAGSTORE_GATEWAY_ENGINES": ENGINES, "RAGSTORE_GATEWAY_ENGINE_PLACEMENT": "b, a"}
    assert load(given).placement_engines == ["b", "a"]
    with pytest.raises(SettingsError, match="has no engine 'c'"):
        load({**given, "RAGSTORE_GATEWAY_ENGINE_PLACEMENT": "a,c"})
