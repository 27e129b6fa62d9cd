"""`Placement`: chooses the engine of a new knowledge base that names none."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.engines.named_engines import ENGINE_KEY
from ragstore_gateway.ingestion.tables import CollectionDocumentRow, CollectionRow


class Placement:
    """Places new bases on the named engine with the fewest chunks.

    Args:
        engines: the names of the engines that bases are placed on; none if empty.
    """

    def __init__(self, database: Database, engines: Sequence[str]) -> None:
        self._database = database
        self._engines = engines

    async def placed(self, body: KnowledgeBase) -> KnowledgeBase:
        """A new base with its engine, if it chooses neither an engine nor a store.

        Of engines with equally many chunks, the engine with the fewest bases is chosen: bases that are created together
        have no chunks yet.

        Args:
            body: the base as it is written.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if not self._engines or body.engine is not None or not body.has_default_store:
            return body
        async with self._database.reading() as session:
            chunks = await _chunks(session)
            bases = await _bases(session)
        chosen = min(self._engines, key=lambda name: (chunks.get(name, 0), bases.get(name, 0)))
        return msgspec.structs.replace(body, engine=chosen)


async def _chunks(session: AsyncSession) -> dict[str, int]:
    """The number of chunks in each named engine."""
    # Grouped outside: PostgreSQL does not see that an expression with arguments is the same in both places.
    name = CollectionRow.store_parameters[ENGINE_KEY].as_string().label("name")
    placed = sa.select(CollectionRow.id, name).subquery()
    query = (
        sa.select(placed.c.name, sa.func.sum(CollectionDocumentRow.chunks))
        .join(CollectionDocumentRow, CollectionDocumentRow.collection_id == placed.c.id)
        .where(placed.c.name.is_not(None))
        .group_by(placed.c.name)
    )
    return {str(name): int(count) for name, count in await session.execute(query)}


async def _bases(session: AsyncSession) -> dict[str, int]:
    """The number of bases that name each engine."""
    placed = (
        sa.select(ConfigurationVersionRow.body["engine"].as_string().label("name"))
        .join(
            ConfigurationRow,
            sa.and_(
                ConfigurationRow.id == ConfigurationVersionRow.configuration_id,
                ConfigurationRow.current_version == ConfigurationVersionRow.version,
            ),
        )
        .where(ConfigurationRow.kind == "rags", ConfigurationRow.deleted.is_(False))
        .subquery()
    )
    query = sa.select(placed.c.name, sa.func.count()).where(placed.c.name.is_not(None)).group_by(placed.c.name)
    return {str(name): count for name, count in await session.execute(query)}
