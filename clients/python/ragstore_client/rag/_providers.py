"""Retrieval providers: one face for whatever can be searched, and a registry to choose by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, TypeVar

import msgspec

from ragstore_client._exceptions import InvalidConfiguration, ProviderExists, UnknownProvider

if TYPE_CHECKING:
    from ragstore_client._models import Document, Embedding, MultiQueryResults, Where

T = TypeVar("T")


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider can do, so that a user interface shows no more than that.

    Attributes:
        collections: it can tell which collections there are.
        search: it finds documents by similarity.
        embeddings: it makes vectors itself.
        metadata_filtering: it filters by metadata.
    """

    collections: bool
    search: bool
    embeddings: bool
    metadata_filtering: bool


class ProviderHealth(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider's service is.

    Attributes:
        status: `healthy` or `unhealthy`.
        timestamp: when it was asked, with its time zone.
        error: what is wrong; None when nothing is.
        version: the service's version; None when it did not say.
        collection_count: how many collections it has; None when it did not say.
        storage_bytes: how much it stores; None when it did not say.
    """

    status: Literal["healthy", "unhealthy"]
    timestamp: datetime
    error: str | None = None
    version: str | None = None
    collection_count: int | None = None
    storage_bytes: int | None = None


class RetrievalProvider(Protocol):
    """A service that can be searched.

    A class is registered; an instance is one connection, and holds nothing that has to be closed.
    """

    name: ClassVar[str]
    """What it is selected by."""

    title: ClassVar[str]
    """What people call it."""

    capabilities: ClassVar[Capabilities]
    """What it can do."""

    @classmethod
    def connection_schema(cls) -> dict[str, object]:
        """What a configuration must look like, as a JSON Schema; secrets are marked `writeOnly`."""
        ...

    @classmethod
    def connect(cls, configuration: Mapping[str, object]) -> Self:
        """Make an instance; no connection is opened yet.

        Args:
            configuration: what `connection_schema` describes.

        Returns:
            The instance.

        Raises:
            InvalidConfiguration: the configuration breaks the schema; the text says where, and repeats no value.
        """
        ...

    async def health(self) -> ProviderHealth:
        """Ask the service how it is. One that cannot be reached is unhealthy; nothing is raised."""
        ...

    async def collections(self) -> list[str]:
        """The names of its collections.

        Raises:
            RagstoreError: it did not tell.
        """
        ...

    async def search(
        self, collections: Sequence[str], embedding: Embedding, *, top_k: int, where: Where | None = None
    ) -> MultiQueryResults:
        """Find what is near to a vector, in several collections.

        Args:
            collections: where.
            embedding: the vector.
            top_k: most matches, at least of all collections together.
            where: a filter on metadata, in the contract's language.

        Returns:
            The matches, each naming its collection, and the collections that failed or were too slow. It comes within
            the configured time.

        Raises:
            RagstoreError: none of the collections could be searched, for one reason.
        """
        ...

    async def documents(self, collection: str, *, where: Where | None = None, limit: int = 1000) -> list[Document]:
        """Read documents by their metadata alone.

        Args:
            collection: where.
            where: a filter on metadata, in the contract's language.
            limit: most documents.

        Returns:
            The documents, in the order of the store.

        Raises:
            RagstoreError: they could not be read.
        """
        ...


class ProviderInfo(msgspec.Struct, frozen=True):
    """A provider that can be selected.

    Attributes:
        name: what to select it by.
        title: what people call it.
        capabilities: what it can do.
        connection_schema: what its configuration must look like, as a JSON Schema.
    """

    name: str
    title: str
    capabilities: Capabilities
    connection_schema: dict[str, object]


P = TypeVar("P", bound=type[RetrievalProvider])


class ProviderRegistry:
    """The providers that are known, by name."""

    def __init__(self) -> None:
        self._providers: dict[str, type[RetrievalProvider]] = {}

    def register(self, provider: P) -> P:
        """Make a provider known. Works as a decorator.

        Args:
            provider: the class.

        Returns:
            The class.

        Raises:
            ProviderExists: another provider has its name.
        """
        known = self._providers.setdefault(provider.name, provider)
        if known is not provider:
            raise ProviderExists(f"a retrieval provider {provider.name!r} is registered already: {known.__qualname__}")
        return provider

    def discover(self) -> list[ProviderInfo]:
        """List the known providers, in the order of their registration."""
        return [
            ProviderInfo(known.name, known.title, known.capabilities, known.connection_schema())
            for known in self._providers.values()
        ]

    def select(self, name: str, configuration: Mapping[str, object]) -> RetrievalProvider:
        """Make an instance of a provider.

        Args:
            name: which.
            configuration: what its `connection_schema` describes.

        Returns:
            The instance.

        Raises:
            UnknownProvider: none has that name; the text lists those that there are.
            InvalidConfiguration: the configuration breaks the provider's schema.
        """
        if name not in self._providers:
            known = ", ".join(sorted(self._providers)) or "none"
            raise UnknownProvider(f"no retrieval provider {name!r}; registered: {known}")
        return self._providers[name].connect(configuration)


def connection_json_schema(connection: type) -> dict[str, object]:
    """The JSON Schema of a connection struct, without references.

    Args:
        connection: a struct without structs inside.

    Returns:
        An object schema.
    """
    _, components = msgspec.json.schema_components([connection])
    return dict(components[connection.__name__])


def validate_configuration(configuration: Mapping[str, object], connection: type[T], provider: str) -> T:
    """Validate a configuration.

    Args:
        configuration: what a user gave.
        connection: the struct to read it into.
        provider: who wants it, for the error.

    Returns:
        The struct.

    Raises:
        InvalidConfiguration: it breaks the schema.
    """
    try:
        return msgspec.convert(dict(configuration), connection)
    except msgspec.ValidationError as error:
        raise InvalidConfiguration(f"configuration of {provider!r}: {error}") from None
