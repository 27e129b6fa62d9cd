"""`KnowledgeBase`: the configuration of a knowledge base, one version of it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from ragstore.kit.schema_marks import schema
from ragstore_gateway.configurations.name_characters import NEW_NAME
from ragstore_gateway.configurations.source import MAX_SOURCES, Source
from ragstore_gateway.embeddings.providers.declared import EmbeddingProvider
from ragstore_gateway.engines.engines import StoreType
from ragstore_gateway.engines.named_engines import ENGINE_KEY
from ragstore_gateway.splitting.chunk import Chunking, ChunkStrategy, ChunkUnit

DEFAULT_STORE: Final = "ragstore"

Parameters: TypeAlias = dict[str, Any]
"""Parameters whose names and types depend on another field; `ragstore_gateway.secrets.parameters` checks them."""

Retrieval: TypeAlias = Literal["hybrid", "vector", "keyword"]
ChunkSize: TypeAlias = Annotated[int, Meta(ge=1, le=100_000, description="Maximum size of a chunk, in units.")]
ChunkOverlap: TypeAlias = Annotated[
    int, Meta(ge=0, description="Maximum size of the part of a chunk that the next one repeats, in units.")
]
MaxResults: TypeAlias = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of passages of a query.")]
MinScore: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="Minimum relevance of a passage, (1 + cosine) / 2: 0.5 is unrelated.")
]
WhereTemplate: TypeAlias = Annotated[
    dict[str, Any],
    schema("Where"),
    Meta(
        description="Filter by metadata. A value may be `{session_id}`, `{conversation_id}`, `{user}` or `{key}`, "
        "of the request."
    ),
]
Name: TypeAlias = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=128,
        description="Name, unique among those not deleted.",
        # `check_characters` checks it when a name is written: names that are older than the rule stay readable.
        extra_json_schema={"pattern": NEW_NAME},
    ),
]


class KnowledgeBase(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A version of a knowledge base. Names and defaults are EDDI's, except for the provider and the store.

    Vectors belong to a base, its provider and model, its chunking, and its store. When one of these changes, the base
    is ingested again from the texts that the gateway keeps. A change of its sources alone is none of these.
    """

    name: Name
    description: Annotated[str, Meta(max_length=1024, description="Its subject, for people.")] = ""
    embedding_provider: Annotated[EmbeddingProvider, Meta(description="Provider of embeddings.")] = "local"
    embedding_parameters: Annotated[
        Parameters, Meta(description="Parameters of the provider. Secrets are references, such as `${env:NAME}`.")
    ] = {}
    store_type: Annotated[StoreType, Meta(description="Engine.")] = DEFAULT_STORE
    store_parameters: Annotated[
        Parameters, Meta(description="Parameters of the store. Secrets are references, such as `${env:NAME}`.")
    ] = {}
    engine: (
        Annotated[
            str,
            Meta(
                max_length=63,
                description="An engine that the settings of the gateway name, with its store type and its parameters. "
                "Empty for the engine of `storeType`. A new version that names no store has the engine of the version "
                "before.",
            ),
        ]
        | None
    ) = None
    chunk_strategy: Annotated[ChunkStrategy, Meta(description="Where a text may be split.")] = "recursive"
    chunk_size: ChunkSize = 512
    chunk_overlap: ChunkOverlap = 64
    chunk_unit: Annotated[ChunkUnit, Meta(description="Unit of size and overlap.")] = "characters"
    embed_headings: Annotated[
        bool | None,
        Meta(
            description="Whether the title and the headings precede a chunk where it is embedded and indexed. "
            "A new base that names nothing has true, and a new version what the version before has."
        ),
    ] = None
    max_results: MaxResults = 5
    min_score: MinScore = 0.0
    retrieval: Annotated[
        Retrieval,
        Meta(description="How passages are found: by their vectors, by the words of the question (BM25), or by both."),
    ] = "hybrid"
    keyword_weight: Annotated[
        float, Meta(ge=0, le=1, description="Weight of the words beside the vectors, with `hybrid`.")
    ] = 0.3
    where: WhereTemplate = {}
    sources: Annotated[
        list[Source], Meta(max_length=MAX_SOURCES, description="Websites and sets of files that it follows.")
    ] = []

    @property
    def collection(self) -> str:
        """The existing collection that it searches; empty for collections of its own."""
        return str(self.store_parameters.get("collection") or "")

    @property
    def has_default_store(self) -> bool:
        """Whether it chooses no store by `store_type` and `store_parameters`."""
        return self.store_type == DEFAULT_STORE and not self.store_parameters

    @property
    def engine_parameters(self) -> Parameters:
        """The parameters that collections of its own are opened with: the name of its engine, or `store_parameters`."""
        return {ENGINE_KEY: self.engine} if self.engine else self.store_parameters

    @property
    def is_shared(self) -> bool:
        """Whether its own documents are in that collection, beside the records of others."""
        return bool(self.collection) and str(self.store_parameters.get("shared", False)).lower() == "true"

    @property
    def is_linked(self) -> bool:
        """Whether it only searches that collection: it takes no documents."""
        return bool(self.collection) and not self.is_shared

    @property
    def chunking(self) -> Chunking:
        """How its texts are split."""
        return Chunking(
            self.chunk_strategy, self.chunk_size, self.chunk_overlap, self.chunk_unit, self.embed_headings is True
        )
