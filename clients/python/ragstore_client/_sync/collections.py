"""The calls of `Client` that concern collections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._sync.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import Distance, Metadata


class CollectionCalls(CallSender):
    """Create, look at, change and delete collections."""

    def create_collection(
        self,
        name: str,
        *,
        metadata: Metadata | None = None,
        embedding_provider: str | None = None,
        embedding_model: str | None = None,
        distance: Distance | None = None,
        get_or_create: bool = False,
    ) -> models.CollectionCreated:
        """Create a collection.

        Args:
            name: 3 to 512 of `[a-zA-Z0-9._-]`, first and last alphanumeric.
            metadata: what to remember of it; no lists.
            embedding_provider: kept as metadata; wins over the same key in `metadata`.
            embedding_model: kept as metadata; wins over the same key in `metadata`.
            distance: how it measures; `cosine` when None.
            get_or_create: take the one that exists, instead of failing.

        Returns:
            The collection.

        Raises:
            Conflict: it exists, and `get_or_create` is false.
            BadRequest: the name breaks Chroma's rules.
        """
        return self._send(
            calls.create_collection(
                name,
                metadata=metadata,
                embedding_provider=embedding_provider,
                embedding_model=embedding_model,
                distance=distance,
                get_or_create=get_or_create,
            )
        )

    def list_collections(self, *, limit: int | None = None, offset: int | None = None) -> models.CollectionPage:
        """List collections.

        Args:
            limit: most to return; all when None.
            offset: how many to pass over.

        Returns:
            One page.
        """
        return self._send(calls.list_collections(limit=limit, offset=offset))

    def iter_collections(self, *, page_size: int = 100) -> Iterator[models.Collection]:
        """Go through all collections.

        Args:
            page_size: how many to fetch at a time.

        Yields:
            Each collection. One that is created or deleted meanwhile may shift the pages.
        """
        offset = 0
        while page := self.list_collections(limit=page_size, offset=offset).collections:
            yield from page
            offset += len(page)

    def get_collection(self, name: str) -> models.Collection:
        """Look at a collection.

        Args:
            name: which.

        Returns:
            The collection.

        Raises:
            NotFound: there is none of that name.
        """
        return self._send(calls.get_collection(name))

    def update_collection_metadata(
        self, name: str, metadata: Metadata, *, merge: bool = False
    ) -> models.MetadataUpdated:
        """Change a collection's metadata.

        Args:
            name: which.
            metadata: the new metadata.
            merge: keep the keys that are not named; None as a value then removes a key (RFC 7396).

        Returns:
            All of its metadata now.

        Raises:
            NotFound: there is none of that name.
            BadRequest: it would change the distance.
        """
        return self._send(calls.update_metadata(name, metadata, merge=merge))

    def delete_collection(self, name: str) -> models.CollectionDeleted:
        """Delete a collection and all that is in it.

        Args:
            name: which.

        Returns:
            What was deleted.

        Raises:
            NotFound: there is none of that name.
        """
        return self._send(calls.delete_collection(name))

    def metadata_values(self, collection: str, field: str, *, limit: int | None = None) -> models.MetadataValues:
        """List the distinct values of a metadata field.

        Args:
            collection: where.
            field: which field.
            limit: most values to return.

        Returns:
            The values, sorted, as strings.

        Raises:
            NotFound: there is no such collection.
        """
        return self._send(calls.metadata_values(collection, field, limit=limit))
