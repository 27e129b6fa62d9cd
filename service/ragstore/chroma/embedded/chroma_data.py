"""Embedded Chroma's data in its process: repaired, opened, and reopened when Chroma cannot use it any more."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import UUID

from chroma_repair.data_lock import lock_data
from chroma_repair.orphans import remove_orphans
from chroma_repair.unclean_shutdown import DirtyMarker
from ragstore.chroma.collection_config import distance_of, hnsw_of
from ragstore.chroma.embedded import collection_table, legacy_collections
from ragstore.chroma.embedded.api import ChromaApi, ChromaCollection, GetResult, Scope, open_api
from ragstore.chroma.embedded.name_exchange import restore_names
from ragstore.chroma.embedded.process_files import FileWatch
from ragstore.chroma.errors import DISK_FULL
from ragstore.model.collections import Collection

DATABASE_FAILED: Final = (*DISK_FULL, "disk I/O error", "Failed to apply logs to the metadata segment")
"""Parts of Chroma's messages when SQLite could not write. SQLite has then ended the transaction itself
(https://www.sqlite.org/lang_transaction.html#response_to_errors_within_a_transaction), and Chroma uses the
connection again: it acknowledges writes that it never commits, and then hangs (measured with 1.5.9). Only reopening
helps."""


class ChromaData:
    """The data of this process, which it has opened.

    Args:
        path: its folder.
        tenant: Chroma tenant; created when it does not exist.
        database: Chroma database; created when it does not exist.
        sync_threshold: writes to a new collection after which Chroma saves its index.
    """

    def __init__(self, path: str, tenant: str, database: str, sync_threshold: int) -> None:
        self.lock = lock_data(Path(path))
        self.path = path
        self.scope: Scope = {"tenant": tenant, "database": database}
        self.sync_threshold = sync_threshold
        marker = DirtyMarker(Path(path))
        self.was_unclean = marker.found
        self.repaired = marker.repair()
        marker.write()
        remove_orphans(Path(path))
        self._files = FileWatch()
        self._must_reopen = False
        self.api: ChromaApi = open_api(path)
        self.record_counts = collection_table.RecordCounts(Path(path))
        self.legacy_distances = legacy_collections.distances(Path(path))
        _ensure(lambda: self.api.get_tenant(tenant), lambda: self.api.create_tenant(tenant))
        _ensure(lambda: self.api.get_database(database, tenant), lambda: self.api.create_database(database, tenant))
        restore_names(self.api, self.scope, self.collections())
        if marker.found:
            self._try_collections(marker)
        atexit.register(marker.remove)

    def reopen(self) -> None:
        """Close all indexes and the database, and open the data again. It takes 25 ms (1.5.9)."""
        self._must_reopen = True
        # A reopening that failed has closed the data.
        with suppress(AttributeError):
            self.api.stop()
        self.api.start()
        self._must_reopen = False

    def reopen_if_needed(self) -> None:
        """Reopen the data if its database failed, or if the next call might not be able to open a file."""
        if self._must_reopen or self._files.is_exceeded():
            self.reopen()

    def note_failure(self, text: str) -> None:
        """Have the data reopened before the next call, if its database failed.

        Args:
            text: Chroma's message.
        """
        if any(sign in text for sign in DATABASE_FAILED):
            self._must_reopen = True

    def collection_of(self, found: ChromaCollection) -> Collection:
        """A collection that Chroma has returned, with the distance and the index that it has."""
        legacy = self.legacy_distances.get(str(found.id))
        distance = legacy or distance_of(found.configuration_json)
        hnsw = hnsw_of(found.configuration_json)
        metadata = found.metadata or {}
        return Collection(str(found.id), found.name, metadata, found.dimension, distance, legacy is not None, hnsw)

    def collections(self) -> list[Collection]:
        """All collections, read from Chroma's tables where they are as expected."""
        tenant, database = self.scope["tenant"], self.scope["database"]
        listed = collection_table.list_collections(Path(self.path), tenant, database, self.legacy_distances)
        if listed is not None:
            return listed
        return [self.collection_of(found) for found in self.api.list_collections(None, 0, **self.scope)]

    def read(
        self,
        collection_id: str,
        include: tuple[str, ...],
        *,
        ids: list[str] | None = None,
        where: dict[str, object] | None = None,
        where_document: dict[str, object] | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> GetResult:
        """Read records of a collection. Chroma's client documents the arguments."""
        return self.api._get(
            UUID(collection_id),
            ids=ids,
            where=where,
            limit=limit,
            offset=offset,
            where_document=where_document,
            include=list(include),
            **self.scope,
        )

    def _try_collections(self, marker: DirtyMarker) -> None:
        """After an unclean shutdown, have Chroma open every index.

        It rebuilds the repaired ones, which would take longer than the timeout of a call. Some indexes are damaged in a
        way that their files do not show, and Chroma fails or crashes on them: this process then ends, and the next one
        rebuilds the index that the marker names.
        """
        from chromadb.errors import ChromaError

        for collection in self.api.list_collections(None, 0, **self.scope):
            was_suspected = collection.name in marker.suspect_collections
            marker.write("" if was_suspected else collection.name)
            self.reopen_if_needed()
            try:
                self.read(str(collection.id), ("embeddings",), limit=1)
            except ChromaError:
                if not was_suspected:
                    os._exit(1)
        marker.write()


def _ensure(look_up: Callable[[], object], create: Callable[[], object]) -> None:
    from chromadb.errors import NotFoundError

    try:
        look_up()
    except NotFoundError:
        create()
