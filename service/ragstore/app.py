"""The composition root: assembles the service from its layers."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ASGIApp, Receive, Scope, Send
from prometheus_client import Info

from ragstore import __version__
from ragstore.api import parameters
from ragstore.api.access import AccessLimits
from ragstore.api.access import StoreRights as StoreRights
from ragstore.api.decode_documents import DocumentsDecoder
from ragstore.api.media_types import NegotiatedResponse
from ragstore.api.openapi import document as openapi
from ragstore.api.raw_paths import RawPathMiddleware
from ragstore.api.routes.access import access
from ragstore.api.routes.collections import CollectionsController
from ragstore.api.routes.documents import DocumentsController
from ragstore.api.routes.map import map_collection
from ragstore.api.routes.query import query, query_collection
from ragstore.api.routes.service import describe, health, openapi_document
from ragstore.api.routes.stream import stream_documents
from ragstore.chroma.backend import Backend
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.embedded.process_memory import MemoryWatch
from ragstore.chroma.http.backend import HttpBackend
from ragstore.chroma.layers.circuit_breaker import CircuitBreakerLayer
from ragstore.chroma.layers.consistent_reads import ConsistentReadLayer
from ragstore.chroma.layers.layered_backend import BackendLayer, LayeredBackend
from ragstore.chroma.layers.metrics import MetricsLayer
from ragstore.chroma.layers.quotas import QuotaLayer
from ragstore.chroma.layers.retries import RetryLayer
from ragstore.chroma.quotas import Quotas
from ragstore.errors import ChromaTimeout
from ragstore.kit.auth.keys import KeyRing
from ragstore.kit.auth.middleware import TRUSTED
from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.context import inner_request
from ragstore.kit.health import health_routes
from ragstore.kit.metrics import request_metrics
from ragstore.kit.middleware.allow_header import AllowHeaderMiddleware
from ragstore.kit.openapi import KEYS_REQUIRED, StructSchemas
from ragstore.kit.page.routes import page_router
from ragstore.kit.query_parameters import QueryGuard
from ragstore.kit.service import Service
from ragstore.kit.settings import SettingsError
from ragstore.model.large_bodies.split_documents import MAX_DOCUMENT_BYTES
from ragstore.operations.stream.session import StreamConfig
from ragstore.settings import PREFIX, Settings
from ragstore.store.audit import AuditStore
from ragstore.store.batching.store import BatchingStore
from ragstore.store.collection_limit import CollectionLimitStore
from ragstore.store.deadline import DeadlineStore
from ragstore.store.embedding_memory import EmbeddingMemory
from ragstore.store.filter_planning import FilterPlanningStore
from ragstore.store.index_sampling import IndexSamplingStore
from ragstore.store.key_scope import STORE_KEYS, StoreScope, embedded_objection
from ragstore.store.listing_cache import ListingCacheStore
from ragstore.store.map_cache import MapCacheStore, Maps
from ragstore.store.metrics import MetricsStore
from ragstore.store.protocol import Store
from ragstore.store.query_age import QueryAgeStore
from ragstore.store.registry import StoreRegistry, TenantDatabase

if TYPE_CHECKING:
    from ragstore.kit.tracing.tracing import Tracing
    from ragstore.store.batching.tracer import BatchTracer as BatchTracer

BUILD: Final = Info("ragstore_build", "Version of the service, kind of Chroma, version of Python.")


SERVICE: Final = Service("ragstore", __version__, PREFIX, backend="store", resource="collection")
METRICS: Final = request_metrics(SERVICE.name)


def create_backend(settings: Settings, tracing: Tracing | None = None) -> Backend:
    """The backend that the settings choose.

    Args:
        tracing: adds headers that continue a trace to calls of a Chroma server; None for none.

    Returns:
        The backend, not started yet.
    """
    if settings.store == "embedded":
        return EmbeddedBackend(
            settings.data_path,
            settings.chroma_tenant,
            settings.chroma_database,
            settings.chroma_timeout_seconds,
            settings.sync_threshold,
            MemoryWatch(settings.embedded_memory_bytes),
        )
    headers = dict(settings.chroma_headers)
    if settings.chroma_token:
        headers |= {"Authorization": f"Bearer {settings.chroma_token}", "X-Chroma-Token": settings.chroma_token}
    return HttpBackend(
        settings.chroma_url,
        settings.chroma_tenant,
        settings.chroma_database,
        headers=headers,
        timeout=settings.chroma_timeout_seconds,
        connections=settings.chroma_connections,
        ca_file=settings.chroma_ca_file,
        sync_threshold=settings.sync_threshold,
        headers_of_call=None if tracing is None else tracing.headers,
    )


def create_store(settings: Settings, tracing: Tracing | None = None, maps: Maps | None = None) -> Store:
    """The store with all its layers.

    Args:
        tracing: makes traces; None for none.
        maps: the cached maps, of several stores together; None for maps of its own.

    Returns:
        The store, not started yet.
    """
    # Embedded Chroma executes one call at a time, so no write overlaps a read.
    layers: list[BackendLayer] = []
    quotas = Quotas.of(settings.chroma_quotas)
    if settings.store == "remote":
        layers = [QuotaLayer(quotas), ConsistentReadLayer()]
    layers += [CircuitBreakerLayer(), RetryLayer(settings.chroma_timeout_seconds)]
    if tracing is not None:
        from ragstore.chroma.layers.tracing import TracingLayer

        layers.append(TracingLayer(tracing.tracer))
    layers.append(MetricsLayer())
    backend = LayeredBackend(create_backend(settings, tracing), layers)
    store: Store = ChromaStore(backend, settings.max_batch_size)
    store = ListingCacheStore(store, is_exclusive=settings.store == "embedded")
    store = MapCacheStore(store, Maps() if maps is None else maps, is_exclusive=settings.store == "embedded")
    store = EmbeddingMemory(store)
    if settings.index_sample_every:
        store = IndexSamplingStore(store, settings.index_sample_every)
    if settings.planning:
        store = FilterPlanningStore(store, max_ids=lambda: quotas.ids_of_get)
    if settings.coalescing:
        store = BatchingStore(
            store,
            settings.max_batch_size,
            settings.queued_writes,
            settings.queued_bytes,
            _batch_tracer(tracing),
        )
    return QueryAgeStore(MetricsStore(DeadlineStore(CollectionLimitStore(store, settings.max_collections))))


def _batch_tracer(tracing: Tracing | None) -> BatchTracer | None:
    """Makes spans of batches, if traces are exported."""
    if tracing is None:
        return None
    from ragstore.store.batching.spans import SpanBatchTracer

    return SpanBatchTracer(tracing.tracer)


def create_litestar(
    settings: Settings,
    stopping: threading.Event | None = None,
    tracing: Tracing | None = None,
    keys: KeyRing[StoreScope] | None = None,
) -> Litestar:
    """The Litestar application.

    Args:
        stopping: set by the caller when streams are to end.
        tracing: makes traces; None for none.
        keys: the keys in force; None to read them from the file that the settings name.

    Returns:
        The application, which starts and stops the store.

    Raises:
        KeysError: the file of keys cannot be used.
    """
    keys = key_ring(settings) if keys is None else keys

    maps = Maps()

    def create_stack(tenant: str, database: str) -> Store:
        placed = msgspec.structs.replace(settings, chroma_tenant=tenant, chroma_database=database)
        return AuditStore(create_store(placed, tracing, maps))

    default = TenantDatabase(settings.chroma_tenant, settings.chroma_database)
    stores = StoreRegistry(create_stack, default, settings.reserved)
    decoder = DocumentsDecoder(settings.max_batch_size)
    limits = AccessLimits(settings.max_body_bytes, settings.max_small_body_bytes, settings.max_batch_size)
    max_line_bytes = min(settings.max_body_bytes, MAX_DOCUMENT_BYTES)
    stream_config = StreamConfig(settings.max_batch_size, max_line_bytes, stopping or threading.Event())
    return SERVICE.litestar(
        [
            CollectionsController,
            DocumentsController,
            stream_documents,
            query_collection,
            map_collection,
            query,
            describe,
            access,
            health,
            *health_routes(lambda: stores.default_store().status(with_count=False), backend="Chroma", tags=["service"]),
            openapi_document,
            *([page_router()] if settings.ui else []),
        ],
        settings,
        STORE_KEYS.roles,
        keys=keys,
        tracing=tracing,
        dependencies={
            "store": Provide(stores.store_of_request),
            "writable_prefixes": Provide(stores.writable_prefixes, sync_to_thread=False),
            "store_kind": Provide(lambda: settings.store, sync_to_thread=False),
            "has_page": Provide(lambda: settings.ui, sync_to_thread=False),
            "limits": Provide(lambda: limits, sync_to_thread=False),
            "collection": Provide(parameters.collection, sync_to_thread=False),
            "decoder": Provide(lambda: decoder, sync_to_thread=False),
            "key_ring": Provide(lambda: keys, sync_to_thread=False),
            "stream_config": Provide(lambda: stream_config, sync_to_thread=False),
            "requested_id": Provide(parameters.requested_id, sync_to_thread=False),
        },
        on_startup=[stores.start],
        on_shutdown=[stores.close],
        state=State({KEYS_REQUIRED: keys is not None}),
        # Unknown query parameters are ignored on every path, as unknown fields of bodies are.
        guards=[QueryGuard("/")],
        plugins=[StructSchemas()],
        response_class=NegotiatedResponse,
        openapi_config=openapi.config(),
    )


def key_ring(settings: Settings) -> KeyRing[StoreScope] | None:
    """The keys in force, if the settings name a file of keys.

    Raises:
        KeysError: the file cannot be used.
    """
    if not settings.keys_file:
        return None
    if settings.store == "embedded":
        return KeyRing(settings.keys_file, STORE_KEYS, embedded_objection)
    return KeyRing(settings.keys_file, STORE_KEYS)


def check_data(settings: Settings) -> None:
    """Check that no other process uses the data of embedded Chroma: Chroma itself would admit both, and lose data.

    Raises:
        SettingsError: another process does, or the folder cannot be used. The text is the reason.
    """
    if settings.store != "embedded":
        return
    from chroma_repair.data_lock import DataInUse, lock_data

    try:
        lock_data(Path(settings.data_path)).release()
    except DataInUse as error:
        raise SettingsError(str(error)) from None
    except OSError as error:
        raise SettingsError(error.strerror or type(error).__name__) from None


@dataclass(frozen=True)
class InProcessStore:
    """The store for a process that is another service.

    Attributes:
        app: for requests from the network.
        trusted: for requests of the process itself: no key, no limits, no log line of its own.
        permits: whether a caller's key may use a collection. Its arguments are the name of the key, the name of the
            collection, and whether it is written.
        rights_of: the rights of a caller's key, by its name; None if it has none.
        lifespan: starts the store, and stops it at the end.
    """

    app: ASGIApp
    trusted: ASGIApp
    permits: Callable[[str, str, bool], bool]
    rights_of: Callable[[str], StoreRights | None]
    lifespan: Callable[[], AbstractAsyncContextManager[None]]


def in_process(settings: Settings, stopping: threading.Event) -> InProcessStore:
    """The store within the process of another service.

    Args:
        settings: the store's settings.
        stopping: set by the caller when the process shuts down.

    Returns:
        The store, not started.

    Raises:
        KeysError: the file of keys cannot be used.
    """
    keys = key_ring(settings)
    litestar = create_litestar(settings, stopping, SERVICE.tracing(), keys)
    routed = RawPathMiddleware(AllowHeaderMiddleware(litestar))

    def permits(key_name: str, collection: str, writes: bool) -> bool:  # a positional callback
        if keys is None:
            return True
        key = keys.find_by_name(key_name)
        if key is None or key.scope is None:
            return False
        # The process uses the store's own tenant and database.
        scope = key.scope
        is_own = not scope.tenant and not scope.database
        return is_own and (not writes or scope.role != "reader") and NamePatterns(scope.collections).matches(collection)

    def rights_of(key_name: str) -> StoreRights | None:
        key = None if keys is None else keys.find_by_name(key_name)
        return None if key is None or key.scope is None else StoreRights.of(key.scope)

    async def trusted(scope: Scope, receive: Receive, send: Send) -> None:
        scope[TRUSTED] = True  # type: ignore[typeddict-unknown-key]  # not of ASGI
        with inner_request():
            await routed(scope, receive, send)

    return InProcessStore(_wrapped(routed, settings, stopping), trusted, permits, rights_of, litestar.lifespan)


def create_app(settings: Settings, stopping: threading.Event | None = None) -> ASGIApp:
    """The service as an ASGI application.

    Args:
        stopping: set by the caller when the service shuts down.

    Returns:
        The application.
    """
    stopping = stopping or threading.Event()
    BUILD.info({"version": __version__, "store": settings.store, "python": platform.python_version()})
    app = RawPathMiddleware(AllowHeaderMiddleware(create_litestar(settings, stopping, SERVICE.tracing())))
    return _wrapped(app, settings, stopping)


def _wrapped(app: ASGIApp, settings: Settings, stopping: threading.Event) -> ASGIApp:
    return SERVICE.wrapped(app, settings, stopping, ChromaTimeout("The request took too long"))
