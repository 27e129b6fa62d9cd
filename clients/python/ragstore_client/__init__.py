"""A typed client for ragstore, and a retriever for agents.

    Client, AsyncClient           every call of the service's contract, with structs
    Retriever                     one query to several archives, one ranked result
    EmbeddingsClient, Embedder    embed queries
    registry, RetrievalProvider   everything that can be searched, by name
    ragstore_client.integrations.langgraph     a tool and a node for LangGraph (extra `langgraph`)

Modules that need asyncio are loaded on first use, so that a program that only stores documents starts fast.
"""

from typing import TYPE_CHECKING

from ragstore_client._batches import BatchLimits, Outcome
from ragstore_client._exceptions import (
    BadGateway,
    BadRequest,
    CallTimeout,
    CollectionMismatch,
    Conflict,
    ConnectFailed,
    ConnectionLost,
    EmbeddingFailed,
    EmbeddingTimeout,
    FieldError,
    Forbidden,
    GatewayTimeout,
    InvalidConfiguration,
    InvalidInput,
    NotFound,
    NotTried,
    PayloadTooLarge,
    ProblemError,
    ProviderError,
    ProviderExists,
    RagstoreError,
    RequestTimeout,
    ServerError,
    TooManyRequests,
    TransportError,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    UnknownProvider,
    UnsupportedMediaType,
    describe,
)
from ragstore_client._lazy import lazy_names
from ragstore_client._models import (
    JSON,
    Base64,
    Collection,
    CollectionCreated,
    CollectionDeleted,
    CollectionError,
    CollectionMap,
    CollectionPage,
    DeleteAllResult,
    DeleteResult,
    Distance,
    Document,
    DocumentPage,
    DocumentsUpdated,
    Embedding,
    Health,
    HealthDetails,
    HnswParameters,
    IndexCheck,
    Match,
    Metadata,
    MetadataUpdated,
    MetadataValues,
    MultiQueryResults,
    NewDocument,
    NewDocumentLike,
    Probe,
    QueryResults,
    Rebuild,
    RebuildError,
    Scalar,
    ServiceInfo,
    StoredMetadata,
    Strings,
    Where,
    WriteResult,
)
from ragstore_client._options import CallOptions
from ragstore_client._report import IngestionFailed, IngestionInterrupted, IngestionReport
from ragstore_client._retries import NO_RETRIES, RetryPolicy
from ragstore_client._sync.client import Client
from ragstore_client._sync.handle import CollectionHandle
from ragstore_client._sync.ingestion import Ingestion
from ragstore_client._vectors import to_base64, to_float32
from ragstore_client._version import __version__

if TYPE_CHECKING:
    from ragstore_client._async.client import AsyncClient
    from ragstore_client._async.handle import AsyncCollectionHandle
    from ragstore_client._async.ingestion import AsyncIngestion
    from ragstore_client._embedded import EmbeddedServiceFailed
    from ragstore_client._frames import frame_documents
    from ragstore_client.rag._config import RagArchiveConfig, RagConfig, RagSettings, extract_rag_config
    from ragstore_client.rag._connections import LoopThread
    from ragstore_client.rag._detection import BackendDetector
    from ragstore_client.rag._embedder import Embedder, EmbeddingsClient
    from ragstore_client.rag._embedding_cache import EmbeddingCache
    from ragstore_client.rag._expansion import ExpandedPassage
    from ragstore_client.rag._formatting import TEXTS, Texts, append_archive_prompt, format_context, format_passages
    from ragstore_client.rag._providers import (
        Capabilities,
        ProviderHealth,
        ProviderInfo,
        ProviderRegistry,
        RetrievalProvider,
        SearchOptions,
    )
    from ragstore_client.rag._ragstore_provider import RagstoreConnection, RagstoreProvider
    from ragstore_client.rag._registry import registry
    from ragstore_client.rag._results import RetrievedPassage, SearchResults, SkippedArchive, SkipReason
    from ragstore_client.rag._retriever import ALL_LAYERS, Retriever
    from ragstore_client.rag._strategy import QueryChoice, choose_query
    from ragstore_client.rag.chroma._provider import ChromaConnection, ChromaProvider

__all__ = [
    "ALL_LAYERS",
    "JSON",
    "NO_RETRIES",
    "TEXTS",
    "AsyncClient",
    "AsyncCollectionHandle",
    "AsyncIngestion",
    "BackendDetector",
    "BadGateway",
    "BadRequest",
    "Base64",
    "BatchLimits",
    "CallOptions",
    "CallTimeout",
    "Capabilities",
    "ChromaConnection",
    "ChromaProvider",
    "Client",
    "Collection",
    "CollectionCreated",
    "CollectionDeleted",
    "CollectionError",
    "CollectionHandle",
    "CollectionMap",
    "CollectionMismatch",
    "CollectionPage",
    "Conflict",
    "ConnectFailed",
    "ConnectionLost",
    "DeleteAllResult",
    "DeleteResult",
    "Distance",
    "Document",
    "DocumentPage",
    "DocumentsUpdated",
    "EmbeddedServiceFailed",
    "Embedder",
    "Embedding",
    "EmbeddingCache",
    "EmbeddingFailed",
    "EmbeddingTimeout",
    "EmbeddingsClient",
    "ExpandedPassage",
    "FieldError",
    "Forbidden",
    "GatewayTimeout",
    "Health",
    "HealthDetails",
    "HnswParameters",
    "IndexCheck",
    "Ingestion",
    "IngestionFailed",
    "IngestionInterrupted",
    "IngestionReport",
    "InvalidConfiguration",
    "InvalidInput",
    "LoopThread",
    "Match",
    "Metadata",
    "MetadataUpdated",
    "MetadataValues",
    "MultiQueryResults",
    "NewDocument",
    "NewDocumentLike",
    "NotFound",
    "NotTried",
    "Outcome",
    "PayloadTooLarge",
    "Probe",
    "ProblemError",
    "ProviderError",
    "ProviderExists",
    "ProviderHealth",
    "ProviderInfo",
    "ProviderRegistry",
    "QueryChoice",
    "QueryResults",
    "RagArchiveConfig",
    "RagConfig",
    "RagSettings",
    "RagstoreConnection",
    "RagstoreError",
    "RagstoreProvider",
    "Rebuild",
    "RebuildError",
    "RequestTimeout",
    "RetrievalProvider",
    "RetrievedPassage",
    "Retriever",
    "RetryPolicy",
    "Scalar",
    "SearchOptions",
    "SearchResults",
    "ServerError",
    "ServiceInfo",
    "SkipReason",
    "SkippedArchive",
    "StoredMetadata",
    "Strings",
    "Texts",
    "TooManyRequests",
    "TransportError",
    "Unauthorized",
    "Unavailable",
    "UnexpectedResponse",
    "UnknownProvider",
    "UnsupportedMediaType",
    "Where",
    "WriteResult",
    "__version__",
    "append_archive_prompt",
    "choose_query",
    "describe",
    "extract_rag_config",
    "format_context",
    "format_passages",
    "frame_documents",
    "registry",
    "to_base64",
    "to_float32",
]


if not TYPE_CHECKING:  # with it, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "ragstore_client._async.client": "AsyncClient",
            "ragstore_client._async.handle": "AsyncCollectionHandle",
            "ragstore_client._async.ingestion": "AsyncIngestion",
            "ragstore_client._embedded": "EmbeddedServiceFailed",
            "ragstore_client._frames": "frame_documents",
            "ragstore_client.rag.chroma._provider": "ChromaConnection ChromaProvider",
            "ragstore_client.rag._config": "RagArchiveConfig RagConfig RagSettings extract_rag_config",
            "ragstore_client.rag._connections": "LoopThread",
            "ragstore_client.rag._detection": "BackendDetector",
            "ragstore_client.rag._embedder": "Embedder EmbeddingsClient",
            "ragstore_client.rag._embedding_cache": "EmbeddingCache",
            "ragstore_client.rag._formatting": "TEXTS Texts append_archive_prompt format_context format_passages",
            "ragstore_client.rag._providers": (
                "Capabilities ProviderHealth ProviderInfo ProviderRegistry RetrievalProvider SearchOptions"
            ),
            "ragstore_client.rag._ragstore_provider": "RagstoreConnection RagstoreProvider",
            "ragstore_client.rag._registry": "registry",
            "ragstore_client.rag._results": "RetrievedPassage SearchResults SkippedArchive SkipReason",
            "ragstore_client.rag._retriever": "ALL_LAYERS Retriever",
            "ragstore_client.rag._expansion": "ExpandedPassage",
            "ragstore_client.rag._strategy": "QueryChoice choose_query",
        },
    )
