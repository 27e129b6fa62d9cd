"""The composition root: assembles the gateway from its parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import structlog
from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ASGIApp

from ragstore.kit.auth.keys import KeyRing
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.metrics import request_metrics
from ragstore.kit.middleware.allow_header import AllowHeaderMiddleware
from ragstore.kit.openapi import KEYS_REQUIRED, StructSchemas
from ragstore.kit.page.routes import page_router
from ragstore.kit.query_parameters import QueryGuard
from ragstore.kit.service import MEMORY_SHARE, Service
from ragstore.kit.settings import SettingsError
from ragstore.kit.tracing.spans import make_spans_by
from ragstore.settings import URL_VARIABLE as STORE_URL_VARIABLE
from ragstore_gateway import __version__
from ragstore_gateway.api import openapi
from ragstore_gateway.assembly import KnowledgeServices
from ragstore_gateway.chat.assembly import Chat
from ragstore_gateway.chat.error_format import OpenAIErrorsMiddleware
from ragstore_gateway.chat.forwarding import UpstreamForwarder
from ragstore_gateway.chat.routes import chat_routes
from ragstore_gateway.configurations.hidden_bases import HiddenBasesMiddleware
from ragstore_gateway.embeddings import builtin
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.embeddings.model_folders import ModelFolders
from ragstore_gateway.embeddings.routes import create_embeddings as create_embeddings_route
from ragstore_gateway.embeddings.routes import embed
from ragstore_gateway.errors import ModelUnavailable
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.health.readiness import readiness_routes
from ragstore_gateway.health.routes import health, probe_routes
from ragstore_gateway.ingestion.workload import Workload
from ragstore_gateway.keys import GATEWAY_KEYS, GatewayScope
from ragstore_gateway.mcp.assembly import create_mcp
from ragstore_gateway.mcp.authentication import ResourceMetadataMiddleware
from ragstore_gateway.mcp.routes import ROUTES as MCP_ROUTES
from ragstore_gateway.page.access import access
from ragstore_gateway.page.description import describe
from ragstore_gateway.responses.file_search import FileSearch
from ragstore_gateway.responses.routes import RESPONSE_ROUTES
from ragstore_gateway.responses.stored_responses import StoredResponses
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.secrets.secret_references import EnvironmentSource, FileSource, SecretReferences, SecretSource
from ragstore_gateway.secrets.vault import VaultSource
from ragstore_gateway.settings import PREFIX, Settings, variable
from ragstore_gateway.store.store import Store
from ragstore_gateway.tenants.requests import TenantRequestsMiddleware
from ragstore_gateway.web.assembly import Web
from ragstore_gateway.web.routes import WEB_ROUTES
from ragstore_gateway.web.stored_sources import StoredSources

if TYPE_CHECKING:
    from ragstore.kit.tracing.tracing import Tracing

BUDGET_SHARE: Final = 2 * MEMORY_SHARE
"""Half of the memory is for bodies and responses by default, and half for the processes that extract and split texts,
the models, and documents that are ingested. With a quarter of 1 GiB as the budget, large requests ended the gateway."""

IDLE_BYTES: Final = 640 * 1024**2
"""Memory of a process without bodies: 215 MiB when it starts, 256 MiB of the model `builtin/minilm`, 64 MiB of cached
embeddings, and documents that are ingested. With an eighth of 1 GiB as the budget, 80 callers that read slowly ended
the gateway."""

SERVICE: Final = Service(
    "ragstore_gateway",
    __version__,
    PREFIX,
    backend="upstream",
    budget_share=BUDGET_SHARE,
    idle_bytes=IDLE_BYTES,
    audits_changes=True,
)
METRICS: Final = request_metrics(SERVICE.name)

_log = structlog.get_logger(__name__)


def create_secrets(settings: Settings, connections: Connections) -> SecretReferences:
    """The resolver of references to secrets.

    Args:
        connections: the pool for a Vault server.
    """
    variables = tuple(each.strip() for each in settings.secret_variables.split(",") if each.strip())
    sources: dict[str, SecretSource] = {"env": EnvironmentSource(variables)}
    if settings.secrets_path:
        sources["file"] = FileSource(settings.secrets_path)
    if settings.vault_url:
        vault = VaultSource(connections, settings.vault_url, settings.vault_token, settings.vault_mount)
        sources |= {"vault": vault, "eddivault": vault}
    return SecretReferences(sources, allow_literals=settings.allow_literal_secrets)


def create_embeddings(settings: Settings) -> Embeddings:
    """The factory of embedders, with the default that the settings choose.

    Raises:
        ModelDamaged: the files of the built-in model cannot be used.
        SettingsError: the provider's parameters are not valid, or a local model cannot be loaded.
    """
    connections = Connections()
    limits = EmbeddingLimits(
        settings.embedding_concurrency,
        settings.embedding_timeout_seconds,
        settings.embedding_cache_bytes,
        settings.embedding_max_waiting,
    )
    folders = ModelFolders(settings.models_path)
    embeddings = Embeddings(create_secrets(settings, connections), connections, limits, folders)
    own = {"model": settings.embedding_model, "baseUrl": settings.embedding_url}
    given = {name: value for name, value in own.items() if value}
    try:
        embeddings.set_default(settings.provider, {**given, **settings.embedding_parameters})
    except (InvalidRequest, ModelUnavailable) as error:
        raise SettingsError(
            f"The provider of embeddings, {settings.provider}, cannot be used: {error.detail}"
        ) from None
    return embeddings


def key_ring(settings: Settings) -> KeyRing[GatewayScope] | None:
    """The keys in force, if the settings name a file of keys.

    Raises:
        KeysError: the file cannot be used.
    """
    return KeyRing(settings.keys_file, GATEWAY_KEYS) if settings.keys_file else None


def provided(embeddings: Embeddings, values: Mapping[str, Any]) -> dict[str, Provide]:
    """The dependencies of routes: the default embedder, and values by name."""

    def constant(value: Any) -> Provide:
        return Provide(lambda: value, sync_to_thread=False)

    return {
        "embedder": Provide(lambda: embeddings.default, sync_to_thread=False),
        **{name: constant(value) for name, value in values.items()},
    }


def traced() -> Tracing | None:
    """Traces, if OpenTelemetry's variables set a destination. All parts of the process make their spans by them."""
    tracing = SERVICE.tracing()
    make_spans_by(tracing)
    return tracing


def create_litestar(settings: Settings, store: Store, embeddings: Embeddings) -> Litestar:
    """The Litestar application, without the contract of a store in this process.

    Args:
        store: the store, which the application starts and stops.
        embeddings: embeds questions and documents.

    Raises:
        KeysError: the file of keys cannot be used.
        SettingsError: a host or a port of the settings is not valid.
    """
    keys = key_ring(settings)
    extractor = Extractor.from_settings(settings)
    workload = Workload.IN_MEMORY if settings.ingestion_workers else Workload.ALL
    knowledge = KnowledgeServices(settings, store, embeddings, extractor, workload)
    tenants = knowledge.tenants
    chat = Chat(
        settings,
        knowledge.retrieval.plain_models,
        knowledge.retrieval.models,
        keys,
        tenants.tokens if tenants.limits else None,
    )
    mcp = create_mcp(settings, chat, knowledge.knowledge_bases, knowledge.ingestion, knowledge.retrieval.retriever)
    web = Web(settings, chat, extractor, embeddings.default)
    responses = StoredResponses(
        knowledge.database, timedelta(days=settings.response_retention_days), settings.chat_max_body_bytes
    )
    forwarder = UpstreamForwarder(chat) if settings.upstream_url else None
    dependencies = {
        "settings": settings,
        "store": store,
        "embeddings": embeddings,
        "embeddings_upstream": forwarder,
        "extractor": extractor,
        "chat": chat,
        "web": web,
        "mcp": mcp,
        "file_search": FileSearch(
            knowledge.knowledge_bases, knowledge.vector_stores_api.search, settings.rag_token_budget
        ),
        "stored_responses": responses,
        "stored_sources": StoredSources(knowledge.knowledge_bases, knowledge.ingestion),
        **knowledge.dependencies,
    }
    return SERVICE.litestar(
        [
            describe,
            access,
            health,
            *readiness_routes(settings, store, knowledge.database),
            openapi.openapi_document,
            embed,
            *WEB_ROUTES,
            *MCP_ROUTES,
            chat_routes(settings, create_embeddings_route, *RESPONSE_ROUTES),
            *knowledge.routes,
            *([page_router()] if settings.ui else []),
        ],
        settings,
        GATEWAY_KEYS.roles,
        keys=keys,
        middleware=_key_middleware(knowledge) if keys is not None else [],
        tracing=traced(),
        lifespan=[
            store.running,
            embeddings.running,
            extractor.running,
            knowledge.running,
            chat.running,
            web.running,
            mcp.running,
            responses.running,
        ],
        dependencies=provided(embeddings, dependencies),
        state=State({KEYS_REQUIRED: keys is not None}),
        guards=[QueryGuard(openapi.OPENAI_PATHS, "/health", "/metrics")],
        plugins=[StructSchemas()],
        openapi_config=openapi.config(),
    )


def _key_middleware(knowledge: KnowledgeServices) -> list[Callable[[ASGIApp], ASGIApp]]:
    """The middleware for requests with keys, after authentication."""
    hidden = HiddenBasesMiddleware(knowledge.knowledge_bases, knowledge.question_sets)
    tenants = knowledge.tenants
    return [TenantRequestsMiddleware(tenants.requests), hidden] if tenants.limits else [hidden]


def create_app(settings: Settings, stopping: threading.Event | None = None) -> ASGIApp:
    """The gateway as an ASGI application.

    Args:
        stopping: set by the caller when the process shuts down.

    Returns:
        The application.

    Raises:
        KeysError: the file of keys cannot be used.
        ModelDamaged: the files of the built-in model cannot be used.
        SettingsError: a setting of the store in this process, or of the provider of embeddings, is not valid, or
            there are to be workers beside a store in this process.
    """
    stopping = stopping or threading.Event()
    store = Store.from_env(settings, stopping)
    if store.in_process and settings.ingestion_workers:
        raise SettingsError(
            f"{variable('ingestion_workers')} is wrong: workers need a store that is not in the process of the "
            f"gateway, and {STORE_URL_VARIABLE} is not set"
        )
    embeddings = create_embeddings(settings)
    default = embeddings.default
    own = builtin.MODELS.get(default.name)
    limits = None if own is None else own.limits
    _log.info("embedding model", model=default.name, dimension=default.dimension, limits=limits)
    litestar = create_litestar(settings, store, embeddings)
    wrapped = SERVICE.wrapped(AllowHeaderMiddleware(litestar), settings, stopping)
    return store.mounted(ResourceMetadataMiddleware(OpenAIErrorsMiddleware(wrapped), settings))


def create_worker(settings: Settings, stopping: threading.Event) -> ASGIApp:
    """A worker as an ASGI application: it runs jobs, and serves its health and its metrics only.

    Args:
        stopping: set by the caller when the process shuts down.

    Returns:
        The application.

    Raises:
        KeysError: the file of keys cannot be used.
        ModelDamaged: the files of the built-in model cannot be used.
        SettingsError: the settings choose a database or a store that one process has for itself, or a setting of the
            provider of embeddings is not valid.
    """
    store = Store.from_env(settings, stopping)
    if store.in_process:
        raise SettingsError(f"A worker needs a store that it shares with the gateways: set {STORE_URL_VARIABLE}")
    if not settings.database_url:
        raise SettingsError(
            f"A worker needs a database that it shares with the gateways: set {variable('database_url')}"
        )
    embeddings = create_embeddings(settings)
    keys = key_ring(settings)
    extractor = Extractor.from_settings(settings)
    knowledge = KnowledgeServices(settings, store, embeddings, extractor, Workload.OTHERS)
    litestar = SERVICE.litestar(
        [health, *probe_routes(store, knowledge.database)],
        settings,
        GATEWAY_KEYS.roles,
        keys=keys,
        tracing=traced(),
        lifespan=[store.running, embeddings.running, extractor.running, knowledge.running],
        dependencies=provided(embeddings, {"settings": settings, "store": store, "database": knowledge.database}),
        openapi_config=None,
    )
    return SERVICE.wrapped(AllowHeaderMiddleware(litestar), settings, stopping)
