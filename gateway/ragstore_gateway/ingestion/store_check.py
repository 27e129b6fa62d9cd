"""`StoreCheck`: whether the store has the collections of the gateway's state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import sqlalchemy as sa
import structlog

from ragstore.kit.background import attempted
from ragstore.settings import URL_VARIABLE
from ragstore_client import NotFound, RagstoreError
from ragstore_gateway.database.database import Database
from ragstore_gateway.engines.named_engines import ENGINE_KEY
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.ingestion.collections import ACTIVE
from ragstore_gateway.ingestion.tables import CollectionDocumentRow, CollectionRow
from ragstore_gateway.settings import variable
from ragstore_gateway.store.store import Store

START_SECONDS: Final = 5.0
"""How long the start waits for the check. It is repeated in the background if the store does not respond."""

RETRY_SECONDS: Final = 10.0

SAMPLE: Final = 5
"""Maximum number of collections that are looked up, the newest ones: one that exists ends the check."""

_log = structlog.get_logger(__name__)


class StoreCheck:
    """Checks that the store has the collections of documents in the state, and sets `mismatch` of the store if not.

    A gateway with the state of one store and the address of another one would find nothing, and would ingest new
    documents there. A store that has one of the collections is the right one: others may have been deleted.

    Args:
        database: the state.
        store: the store that the gateway uses.
    """

    def __init__(self, database: Database, store: Store) -> None:
        self._database = database
        self._store = store

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Check the store, and again in the background until it has responded and has the collections."""
        async with attempted(self._is_right, every=RETRY_SECONDS, start_seconds=START_SECONDS):
            yield

    async def check(self) -> bool:
        """Compare the store with the state.

        Returns:
            Whether the result is known: the database and the store have responded.
        """
        try:
            names = await self._names()
            found = [await self._exists(names[0])] if names else [True]
            for name in names[1:]:
                if not any(found):
                    found.append(await self._exists(name))
        except (DatabaseUnavailable, RagstoreError):
            return False
        before, self._store.mismatch = self._store.mismatch, "" if any(found) else _problem(names[0])
        if self._store.mismatch and not before:
            _log.error("the store is another one", reason=self._store.mismatch)
        elif before and not self._store.mismatch:
            _log.info("the store has the collections of the state")
        return True

    async def _is_right(self) -> bool:
        return await self.check() and not self._store.mismatch

    async def _names(self) -> list[str]:
        """The newest collections of the store that have chunks of documents, according to the state."""
        has_chunks = sa.exists().where(
            CollectionDocumentRow.collection_id == CollectionRow.id, CollectionDocumentRow.chunks > 0
        )
        query = (
            sa.select(CollectionRow.id, CollectionRow.store_parameters)
            .where(CollectionRow.store_type == "ragstore", CollectionRow.state == ACTIVE, has_chunks)
            # Collections of other stores, and of named engines, which may be other stores.
            .where(*(CollectionRow.store_parameters[name].as_string().is_(None) for name in (ENGINE_KEY, "baseUrl")))
            .order_by(CollectionRow.created_on.desc())
            .limit(SAMPLE)
        )
        async with self._database.reading() as session:
            return [str(parameters.get("collection") or id) for id, parameters in await session.execute(query)]

    async def _exists(self, name: str) -> bool:
        try:
            await self._store.client.get_collection(name, retries=0)
        except NotFound as error:
            if error.code != "collection_not_found":
                # No store responds here.
                raise
            return False
        return True


def _problem(name: str) -> str:
    return (
        f"The store has none of the collections of the gateway's documents, such as '{name}': it is another store, or "
        f"it has lost its data. Use the store with the documents ({URL_VARIABLE}), restore its data, or set "
        f"{variable('check_store')}=false to continue with this one"
    )
