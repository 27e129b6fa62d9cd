"""Retrieval providers: one interface for everything that can be searched, and a registry to select them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Literal, Protocol, Self, TypeVar

import msgspec

from ragstore_client._exceptions import InvalidConfiguration, ProviderExists, UnknownProvider
from ragstore_client._models import Document, Embedding, MultiQueryResults, Where

T = TypeVar("T")


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of a provider, so that a user interface shows nothing else.

    Attributes:
        collections: it lists collections.
        search: it searches by similarity.
        embeddings: it embeds texts itself.
        metadata_filtering: it filters by metadata.
    """

    collections: bool
    search: bool
    embeddings: bool
    metadata_filtering: bool


class ProviderHealth(msgspec.Struct, frozen=True, kw_only=True):
    """The health of a provider's service.

    Attributes:
        status: `healthy` or `unhealthy`.
        timestamp: time of the check, with time zone.
        error: why the service is unhealthy.
        version: the service's version; None when unknown.
        collection_count: number of collections; None when unknown.
        storage_bytes: size of the stored data; None when unknown.
    """

    status: Literal["healthy", "unhealthy"]
    timestamp: datetime
    error: str | None = None
    version: str | None = None
    collection_count: int | None = None
    storage_bytes: int | None = None


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one search of the providers `ragstore` and `chroma`.

    Attributes:
        min_score: omit matches with a lower score.
        include_embeddings: return the vectors as well.
        headers: sent with every request, such as `x-request-id` and `traceparent`.
    """

    min_score: float | None = None
    include_embeddings: bool = False
    headers: Mapping[str, str] = {}


NO_OPTIONS = SearchOptions()


class RetrievalProvider(Protocol):
    """A service that can be searched.

    A class is registered. An instance is one connection, and owns nothing that has to be closed.
    """

    name: ClassVar[str]
    """The name by which it is selected."""

    title: ClassVar[str]
    """Its display name."""

    capabilities: ClassVar[Capabilities]
    """Its capabilities."""

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        """The JSON Schema of a configuration; secrets are marked `writeOnly`."""
        ...

    @classmethod
    def connect(cls, configuration: Mapping[str, object]) -> Self:
        """Make an instance. No connection is opened yet.

        Args:
            configuration: a configuration that matches `connection_schema`.

        Returns:
            The instance.

        Raises:
            InvalidConfiguration: the configuration is not valid; the text names the path, and no value.
        """
        ...

    async def health(self) -> ProviderHealth:
        """Get the service's health. A service that cannot be reached is unhealthy; nothing is raised."""
        ...

    async def collections(self) -> list[str]:
        """List the names of the collections.

        Raises:
            RagstoreError: they could not be listed.
        """
        ...

    async def search(
        self, collections: Sequence[str], embedding: Embedding, *, top_k: int, where: Where | None = None
    ) -> MultiQueryResults:
        """Search several collections by similarity.

        Args:
            collections: names of the collections.
            embedding: the query vector.
            top_k: maximum number of matches, per collection or over all of them.
            where: a filter on metadata, in the contract's language.

        Returns:
            The matches, each with its collection, and the collections that failed or were too slow, within the
            configured time limit.

        Raises:
            RagstoreError: no collection could be searched, for one reason.
        """
        ...

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        """Read documents by their metadata.

        Args:
            collection: name of the collection.
            where: a filter on metadata, in the contract's language.
            limit: maximum number of documents.

        Returns:
            The documents, in the order of the store.

        Raises:
            RagstoreError: the documents could not be read.
        """
        ...


class ProviderInfo(msgspec.Struct, frozen=True):
    """A registered provider.

    Attributes:
        name: the name by which it is selected.
        title: its display name.
        connection_schema: the JSON Schema of its configuration.
    """

    name: str
    title: str
    capabilities: Capabilities
    connection_schema: dict[str, object]


P = TypeVar("P", bound=type[RetrievalProvider])


class ProviderRegistry:
    """Registered providers, by name."""

    def __init__(self) -> None:
        self._providers: dict[str, type[RetrievalProvider]] = {}

    def register(self, provider: P) -> P:
        """Register a provider. Can be used as a decorator.

        Args:
            provider: the class.

        Returns:
            The class.

        Raises:
            ProviderExists: another provider of that name is registered.
        """
        known = self._providers.setdefault(provider.name, provider)
        if known is not provider:
            raise ProviderExists(f"a retrieval provider {provider.name!r} is registered already: {known.__qualname__}")
        return provider

    def discover(self) -> list[ProviderInfo]:
        """List the registered providers, in the order of registration."""
        return [
            ProviderInfo(known.name, known.title, known.capabilities, known.connection_schema())
            for known in self._providers.values()
        ]

    def select(self, name: str, configuration: Mapping[str, object]) -> RetrievalProvider:
        """Make an instance of a provider.

        Args:
            name: name of the provider.
            configuration: a configuration that matches its `connection_schema`.

        Returns:
            The instance.

        Raises:
            UnknownProvider: no provider of that name is registered; the text lists the registered ones.
            InvalidConfiguration: the configuration does not match the provider's schema.
        """
        if name not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise UnknownProvider(f"no retrieval provider {name!r}; registered: {known}")
        return self._providers[name].connect(configuration)


def connection_json_schema(connection: type) -> dict[str, object]:
    """The JSON Schema of a connection struct, without references.

    Args:
        connection: a struct without nested structs.

    Returns:
        An object schema.
    """
    _, components = msgspec.json.schema_components([connection])
    return dict(components[connection.__name__])


def validate_configuration(configuration: Mapping[str, object], connection: type[T], provider: str) -> T:
    """Validate a configuration.

    Args:
        connection: the struct to convert it to.
        provider: name of the provider, for the error.

    Returns:
        The struct.

    Raises:
        InvalidConfiguration: the configuration does not match the schema.
    """
    try:
        return msgspec.convert(dict(configuration), connection)
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"configuration of {provider!r}: {error}") from None
