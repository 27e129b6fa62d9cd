"""`LinkCheck`: which existing collections of the store a caller may make searchable by a knowledge base."""

from __future__ import annotations

from typing import Final

from ragstore.kit.errors import FieldError
from ragstore_client import BadRequest, NotFound, RagstoreError
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import StoreUnavailable
from ragstore_gateway.settings import Settings, variable
from ragstore_gateway.store.store import Store

PATH: Final = "$.storeParameters.collection"


class LinkCheck:
    """Checks the collection that a base names, with the rights of the caller's key in a store of this process.

    The key of a remote store is the gateway's, so there the settings name the collections.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def faults(self, body: KnowledgeBase) -> list[FieldError]:
        """The faults of a base that names a collection.

        Args:
            body: the base.

        Raises:
            StoreUnavailable: the store failed.
        """
        if not body.collection:
            return []
        found: list[FieldError] = []
        if body.is_linked and body.sources:
            found.append(FieldError("$.sources", "A base that is linked to a collection takes no documents"))
        if body.is_linked and body.retrieval == "keyword":
            found.append(FieldError("$.retrieval", "A collection of others is searched by vectors"))
        if body.store_type != "ragstore":
            return found
        if body.collection.startswith(self._settings.collection_prefix):
            found.append(FieldError(PATH, "The collection belongs to a knowledge base"))
        elif not self._store.in_process:
            if body.collection not in self._settings.allowed_linked_collections:
                found.append(FieldError(PATH, f"The collection is none of {variable('linked_collections')}"))
        elif problem := await self._problem(body):
            found.append(FieldError(PATH, problem))
        return found

    async def _problem(self, body: KnowledgeBase) -> str:
        """Why the caller may not use a collection; empty if it may."""
        if not self._store.permits(body.collection, writes=body.is_shared):
            return "There is no collection of this name that the key may use"
        try:
            await self._store.client.get_collection(body.collection)
        except NotFound:
            is_default = body.is_shared and body.collection in self._settings.collections
            return "" if is_default else "There is no collection of this name"
        except BadRequest:
            return "No collection can have this name"
        except RagstoreError as error:
            raise StoreUnavailable(f"The collection cannot be checked: {type(error).__name__}") from error
        return ""
