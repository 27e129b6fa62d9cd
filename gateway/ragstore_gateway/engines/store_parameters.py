"""Parameters of each engine. Names and defaults are EDDI's, unless stated. No driver is imported here."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from msgspec import Meta, Struct

from ragstore_gateway.secrets.parameters import SecretReference, Url

Prefix = Annotated[
    str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$(?!\n)", description="1 to 40 lower-case letters, digits, _ and -")
]
"""The configured name of a table, a collection or an index. Each collection of the gateway has one of its own, whose
name begins with it: there are two while a base is ingested again."""

Host = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,253}$(?!\n)", description="a host")]
Port = Annotated[int, Meta(ge=1, le=65535)]
Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$(?!\n)", description="1 to 63 letters, digits and _.-")
]

LinkedName = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f/\x7f]{1,255}$(?!\n)", description="1 to 255 characters, without / and control characters"
    ),
]
FieldName = Annotated[str, Meta(max_length=255, description="name of a metadata field")]

DEFAULT_PREFIX: Final = "eddi_kb"


class Parameters(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parameters of a store.

    Attributes:
        of_collections: the parameters that do not concern the connection. Configurations that differ only in these
            share their connections.
    """

    of_collections: ClassVar[frozenset[str]] = frozenset()

    @property
    def problem(self) -> str:
        """Why the parameters cannot be used together; empty if they can be."""
        return ""


class LinkableParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of an engine whose existing collections a base can search. None of them is EDDI's.

    Attributes:
        collection: an existing collection that others fill; the base searches it. None for collections of the base.
        text_field: the field that has the text of a record; empty for the engine's own.
        title_field: the field that has the title.
        url_field: the field that has the URL.
    """

    of_collections: ClassVar[frozenset[str]] = frozenset({"collection", "textField", "titleField", "urlField"})
    collection: LinkedName | None = None
    text_field: FieldName = ""
    title_field: FieldName = "title"
    url_field: FieldName = "url"


class RagstoreParameters(LinkableParameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `ragstore`: the store of the gateway, or another one.

    Attributes:
        shared: whether the base stores its documents in `collection`, beside the records of others.
        base_url: address of another store than the gateway's; None for the gateway's.
        api_key: key for that store.
    """

    of_collections: ClassVar[frozenset[str]] = LinkableParameters.of_collections | {"shared"}
    shared: bool = False
    base_url: Url | None = None
    api_key: SecretReference | None = None

    @property
    def problem(self) -> str:
        """A shared collection without its name, a key without its store, or an existing collection of another store."""
        if self.shared and self.collection is None:
            return "shared needs collection"
        if self.base_url is None:
            return "" if self.api_key is None else "apiKey needs baseUrl"
        return "" if self.collection is None else "collection is one of the gateway's store, and has no baseUrl"


class InMemoryParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """`in-memory` has no parameters."""


class ChromaParameters(LinkableParameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `chroma`. `apiKey` is not EDDI's."""

    of_collections: ClassVar[frozenset[str]] = LinkableParameters.of_collections | {"collectionName"}
    base_url: Url = "http://localhost:8000"
    tenant_name: Annotated[Name, Meta(min_length=3)] = "default_tenant"
    database_name: Annotated[Name, Meta(min_length=3)] = "default_database"
    collection_name: Prefix = DEFAULT_PREFIX
    api_version: Literal["V2"] = "V2"
    api_key: SecretReference | None = None


class PgvectorParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `pgvector`. `index` and `sslMode` are not EDDI's; `dimension` defaults to the model's."""

    of_collections: ClassVar[frozenset[str]] = frozenset({"table", "dimension", "index"})
    host: Annotated[str, Meta(pattern=r"^(/\S{1,200}|[A-Za-z0-9._:-]{1,253})$(?!\n)", description="a host")] = (
        "localhost"
    )
    port: Port = 5432
    database: Name = "eddi"
    user: Name = "eddi"
    password: SecretReference
    table: Prefix = DEFAULT_PREFIX
    dimension: Annotated[int, Meta(ge=1, le=16_000)] | None = None
    index: Literal["exact", "hnsw"] = "exact"
    ssl_mode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"


class QdrantParameters(LinkableParameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `qdrant`. The port is the gRPC port. The text of a linked collection is in `text` by default."""

    of_collections: ClassVar[frozenset[str]] = LinkableParameters.of_collections | {"collectionName"}
    host: Host = "localhost"
    port: Port = 6334
    api_key: SecretReference | None = None
    use_tls: bool = False
    collection_name: Prefix = DEFAULT_PREFIX


class ElasticsearchParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `elasticsearch`: a key, or a user and a password, or neither."""

    of_collections: ClassVar[frozenset[str]] = frozenset({"indexName"})
    server_url: Url = "http://localhost:9200"
    api_key: SecretReference | None = None
    user_name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=1024,
                pattern=r"^[^\s:]+$(?!\n)",
                description="a name without spaces and colons",
            ),
        ]
        | None
    ) = None
    password: SecretReference | None = None
    index_name: Prefix = DEFAULT_PREFIX

    @property
    def problem(self) -> str:
        """A user without a password, or a password without a user."""
        return "" if (self.user_name is None) == (self.password is None) else "userName and password belong together"


class MongodbParameters(Parameters, frozen=True, kw_only=True, rename="camel"):
    """Parameters of `mongodb-atlas`. The connection string contains the password, so it is a secret."""

    of_collections: ClassVar[frozenset[str]] = frozenset({"databaseName", "collectionName", "indexName"})
    connection_string: SecretReference
    database_name: Name = "eddi"
    collection_name: Prefix = DEFAULT_PREFIX
    index_name: Prefix = "vector_index"
