"""`LinkedCollections`: the existing collections that knowledge bases search, and that shared bases also write to."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import structlog

from ragstore.kit.errors import Forbidden
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.linked_collection import CollectionInfo, read_only
from ragstore_gateway.engines.linked_store import SharedStore
from ragstore_gateway.errors import OtherEmbeddingModel
from ragstore_gateway.ingestion.collections import ACTIVE, Collection, Collections, live_collections
from ragstore_gateway.ingestion.transactions import lock_base

FRESH_SECONDS: Final = 10.0
"""Age of a description up to which it is used. A collection that is removed and made again may have another model."""

MAX_KNOWN: Final = 10_000
"""Maximum number of bases of which something is kept."""

_log = structlog.get_logger(__name__)


class LinkedCollections:
    """Finds the collections of bases that name one.

    Such a base uses the model that its collection records, if this gateway has it. For a collection without a recorded
    model, a base may name its provider.

    Args:
        bases: the configurations of all bases.
        embeddings: knows the models.
        engines: opens collections.
        collections: the collections of all bases.
        may_write: whether the caller of the current request may write an existing collection of the store.
    """

    def __init__(
        self,
        database: Database,
        bases: Configurations[KnowledgeBase],
        embeddings: Embeddings,
        engines: Engines,
        collections: Collections,
        may_write: Callable[[str], bool],
    ) -> None:
        self._may_write = may_write
        self._database = database
        self._bases = bases
        self._embeddings = embeddings
        self._engines = engines
        self._collections = collections
        self._found: OrderedDict[tuple[str, int], tuple[float, Collection]] = OrderedDict()
        self._ready: OrderedDict[str, str] = OrderedDict()

    async def find(self, base: Configuration[KnowledgeBase]) -> Collection | None:
        """The collection that searches of a base use.

        Args:
            base: a base that names a collection.

        Returns:
            The collection; None if it does not exist, or has no vectors yet.

        Raises:
            OtherEmbeddingModel: its vectors are of a model that the base does not use.
            ServiceError: its engine failed.
        """
        if base.body.is_shared and (own := await self._collections.active(base.id)) is not None:
            return own
        key = base.id, base.version
        known = self._found.get(key)
        if known is not None and time.monotonic() - known[0] < FRESH_SECONDS:
            return known[1]
        store = self._engines.open_linked(base.body.store_type, base.body.store_parameters, base.id)
        info = await store.describe()
        if info is None or info.dimension is None:
            return None
        found = self._collection(base, info)
        self._found[key] = time.monotonic(), found
        self._found.move_to_end(key)
        if len(self._found) > MAX_KNOWN:
            self._found.popitem(last=False)
        return found

    async def prepare(self, base_id: str) -> None:
        """Prepare a base for a document: the first one of a shared base fixes the model of its collection.

        Args:
            base_id: the knowledge base.

        Raises:
            CollectionReadOnly: the base takes no documents.
            ConfigurationNotFound: there is no such base.
            Forbidden: the caller's key may not write the collection of a shared base.
            OtherEmbeddingModel: the vectors of its collection are of a model that the base does not use.
            ServiceError: the engine of its collection failed.
        """
        if base_id not in self._ready:
            base = await self._bases.read(base_id)
            if base.body.is_linked:
                raise read_only()
            self._check(base.body.collection)
            if base.body.is_shared:
                await self._adopt(base)
            self._keep_ready(base_id, base.body.collection)
        self._check(self._ready[base_id])

    def _check(self, collection: str) -> None:
        """Check that the caller may write a collection; empty for collections of a base's own."""
        if collection and not self._may_write(collection):
            raise Forbidden(
                "The key may not write the collection of this knowledge base in the store: it needs a role there, "
                "'keys new --store-role writer'"
            )

    def _keep_ready(self, base_id: str, collection: str) -> None:
        """Keep that a base is ready, and its collection. Neither changes later."""
        self._ready[base_id] = collection
        if len(self._ready) > MAX_KNOWN:
            self._ready.popitem(last=False)

    async def _adopt(self, base: Configuration[KnowledgeBase]) -> None:
        """Make a shared collection the active collection of a base."""
        store = self._engines.open_linked(base.body.store_type, base.body.store_parameters, base.id)
        info = await store.describe()
        if info is None:
            provider, parameters = self._of_new_collection(base.body)
            if isinstance(store, SharedStore):
                await store.found(self._embeddings.of(provider, parameters).name)
        else:
            provider, parameters = self._model(base.body, info)
        body = msgspec.structs.replace(base.body, embedding_provider=provider, embedding_parameters=dict(parameters))
        async with self._database.session() as session:
            if await lock_base(session, base.id) is None or await live_collections(session, base.id):
                return
            row = self._collections.new_row(base.id, base.version, body, ACTIVE)
            row.dimension = None if info is None else info.dimension
            session.add(row)
        _log.info("collection shared", base=base.id, collection=base.body.collection, model=info and info.model)

    def _collection(self, base: Configuration[KnowledgeBase], info: CollectionInfo) -> Collection:
        provider, parameters = self._model(base.body, info)
        return Collection(
            base.id,
            base.id,
            ACTIVE,
            provider,
            parameters,
            base.body.store_type,
            base.body.store_parameters,
            base.body.chunking,
            info.dimension,
        )

    def _model(self, body: KnowledgeBase, info: CollectionInfo) -> tuple[str, Mapping[str, object]]:
        """The provider of a collection's model, and its parameters.

        Raises:
            OtherEmbeddingModel: it is not the base's, or this gateway does not have it.
        """
        if _names_model(body):
            chosen = body.embedding_provider, body.embedding_parameters
            own = self._embeddings.of(*chosen).name
            if info.model and self._embeddings.configuration_of(info.model) not in (None, chosen) and own != info.model:
                raise OtherEmbeddingModel(f"The collection has vectors of the model {info.model}, and the base {own}")
            return chosen
        found = self._embeddings.configuration_of(info.model)
        if found is None:
            raise OtherEmbeddingModel(
                f"The collection has vectors of the model {info.model}, which is none of this gateway: "
                "set embeddingProvider and embeddingParameters of the base"
            )
        return found

    def _of_new_collection(self, body: KnowledgeBase) -> tuple[str, Mapping[str, object]]:
        if _names_model(body):
            return body.embedding_provider, body.embedding_parameters
        return self._embeddings.of_new_base


def _names_model(body: KnowledgeBase) -> bool:
    return body.embedding_provider != "local" or bool(body.embedding_parameters)
