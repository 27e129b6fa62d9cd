"""`Reindexing`: the effects of a change of a knowledge base's configuration on its vectors."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.ingestion.collections import ACTIVE, BUILDING, Collections, live_collections
from ragstore_gateway.ingestion.deletions import cancel_all
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentRow
from ragstore_gateway.ingestion.transactions import (
    BASE_DELETED,
    activate_if_complete,
    add_reindexing,
    reset_reindexing,
    retire,
)


class Reindexing(ConfigurationListener[KnowledgeBase]):
    """Follows the configurations of knowledge bases, in the transactions of their changes.

    When the model, the chunking or the store of a base changes, a new collection is built from the texts that are kept.
    Searches use the old one until the new one has every document. A further change replaces the collection that is
    being built.

    Args:
        collections: the collections of all bases.
        wake: called when there may be work.
    """

    def __init__(self, collections: Collections, wake: Callable[[], None]) -> None:
        self._collections = collections
        self._wake = wake

    async def changed(
        self, session: AsyncSession, before: Configuration[KnowledgeBase], after: Configuration[KnowledgeBase]
    ) -> None:
        """Build a new collection if the vectors depend on what has changed."""
        if (before.body.collection, before.body.is_shared) != (after.body.collection, after.body.is_shared):
            raise InvalidRequest.at("$.storeParameters.collection", "Cannot be changed: create another knowledge base")
        fingerprint = self._collections.fingerprint(after.body)
        await reset_reindexing(session, after.id)
        live = await live_collections(session, after.id)
        active = next((row for row in live if row.state == ACTIVE), None)
        building = next((row for row in live if row.state == BUILDING), None)
        if active is None:
            return
        for row in live:
            if row.fingerprint == fingerprint:
                _refresh(row, after)
        if building is not None and building.fingerprint != fingerprint:
            await retire(session, building)
            await session.flush()
            building = None
        if active.fingerprint == fingerprint:
            return
        if building is None:
            building = self._collections.new_row(after.id, after.version, after.body, BUILDING)
            session.add(building)
            await session.flush()
        await add_reindexing(session, after.id, after.body.name, building)
        await session.flush()
        await activate_if_complete(session, after.id)

    async def deleted(self, session: AsyncSession, before: Configuration[KnowledgeBase], *, permanent: bool) -> None:
        """Cancel the ingestions of a base; if it is removed permanently, remove all that it contains."""
        await cancel_all(session, before.id, BASE_DELETED)
        if not permanent:
            return
        for row in await live_collections(session, before.id):
            await retire(session, row)
        await session.flush()
        await session.execute(sa.delete(DocumentRow).where(DocumentRow.base_id == before.id))

    async def committed(self, id: str) -> None:
        """Begin the work that a change has made."""
        self._wake()


def _refresh(row: CollectionRow, after: Configuration[KnowledgeBase]) -> None:
    """Use the parameters of the newest version, such as another reference to a secret."""
    row.base_version = after.version
    if after.body.is_shared:
        # The model is that of the collection.
        row.chunking = msgspec.to_builtins(after.body.chunking)
        return
    row.embedding_parameters = after.body.embedding_parameters
    row.store_parameters = after.body.engine_parameters
