"""The one place that wires things together."""

from __future__ import annotations

import os
import platform
import threading
from typing import TYPE_CHECKING, Final

import msgspec
from litestar import Litestar
from litestar.config.app import AppConfig
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.plugins.prometheus import PrometheusController
from litestar.types import ASGIApp
from prometheus_client import Info, disable_created_metrics

from ragstore import __version__
from ragstore.api import parameters
from ragstore.api.media_types import NegotiatedResponse
from ragstore.api.openapi import document as openapi
from ragstore.api.raw_paths import RawPathMiddleware
from ragstore.api.routes.collections import CollectionsController
from ragstore.api.routes.documents import DocumentsController
from ragstore.api.routes.query import query, query_collection
from ragstore.api.routes.service import describe, health, live, openapi_document, ready
from ragstore.api.routes.stream import stream_documents
from ragstore.chroma.backend import Backend
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.http.backend import HttpBackend
from ragstore.chroma.layers.circuit_breaker import CircuitBreakerBackend
from ragstore.chroma.layers.consistent_reads import ConsistentReadBackend
from ragstore.chroma.layers.metrics import MetricsBackend
from ragstore.chroma.layers.retries import RetryingBackend
from ragstore.errors import ChromaTimeout
from ragstore.kit.auth.keys import KeyRing
from ragstore.kit.auth.middleware import READER, AuthMiddleware
from ragstore.kit.middleware.allow_header import AllowHeaderMiddleware
from ragstore.kit.middleware.limits import LimitsMiddleware
from ragstore.kit.middleware.metrics import MetricsMiddleware
from ragstore.kit.middleware.request_context import RequestContextMiddleware
from ragstore.kit.problems import from_unhandled, problem_details
from ragstore.kit.tracing.configured import is_configured
from ragstore.operations.stream.session import Streaming
from ragstore.settings import Settings
from ragstore.store.audit import AuditStore
from ragstore.store.batching.store import BatchingStore
from ragstore.store.deadline import DeadlineStore
from ragstore.store.filter_planning import FilterPlanningStore
from ragstore.store.metrics import MetricsStore
from ragstore.store.protocol import Store
from ragstore.store.registry import StoreRegistry, TenantDatabase

if TYPE_CHECKING:
    from ragstore.kit.tracing.tracing import Tracing
    from ragstore.store.batching.tracer import BatchTracer as BatchTracer

BUILD: Final = Info("ragstore_build", "What runs: its version, which Chroma it uses, and Python's version.")


class Metrics(PrometheusController):
    """Prometheus metrics."""

    path = "/metrics"
    include_in_schema = False
    opt = READER


def create_backend(settings: Settings, tracing: Tracing | None = None) -> Backend:
    """Chroma as the settings say.

    Args:
        settings: the settings.
        tracing: says which request a call to Chroma's server is for, if anybody is to know.

    Returns:
        A backend that was not started yet.
    """
    if settings.store == "embedded":
        return EmbeddedBackend(
            settings.data_path,
            settings.chroma_tenant,
            settings.chroma_database,
            settings.chroma_timeout_seconds,
            settings.sync_threshold,
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


def create_store(settings: Settings, tracing: Tracing | None = None) -> Store:
    """The whole stack of stores.

    Args:
        settings: the settings.
        tracing: follows what is asked down to Chroma; None for no traces.

    Returns:
        A store that was not started yet.
    """
    backend: Backend = MetricsBackend(create_backend(settings, tracing))
    if tracing is not None:
        from ragstore.chroma.layers.tracing import TracingBackend

        backend = TracingBackend(backend, tracing.tracer)
    backend = CircuitBreakerBackend(RetryingBackend(backend, settings.chroma_timeout_seconds))
    if settings.store == "remote":
        # Embedded Chroma does one thing at a time, so a read has no writes beside it.
        backend = ConsistentReadBackend(backend)
    store: Store = ChromaStore(backend, settings.max_batch_size)
    if settings.planning:
        store = FilterPlanningStore(store)
    if settings.coalescing:
        store = BatchingStore(
            store,
            settings.max_batch_size,
            settings.queued_writes,
            settings.queued_bytes,
            _batch_tracer(tracing),
        )
    return MetricsStore(DeadlineStore(store))


def _batch_tracer(tracing: Tracing | None) -> BatchTracer | None:
    """Spans of merged calls, where traces are exported."""
    if tracing is None:
        return None
    from ragstore.store.batching.spans import SpanBatchTracer

    return SpanBatchTracer(tracing.tracer)


class UntracedLitestar(Litestar):
    """Litestar without its OpenTelemetry plugin, which it imports otherwise, and OpenTelemetry with it."""

    @staticmethod
    def _patch_opentelemetry_middleware(config: AppConfig) -> AppConfig:
        """Look for no middleware of the plugin: there is none."""
        return config


def create_litestar(
    settings: Settings, stopping: threading.Event | None = None, tracing: Tracing | None = None
) -> Litestar:
    """The Litestar application.

    Args:
        settings: the settings.
        stopping: set by the caller when streams are to end.
        tracing: makes traces; None for none.

    Returns:
        The application; its start and stop are the store's.

    Raises:
        KeysError: the file of keys cannot be used.
    """
    keys = KeyRing(settings.keys_file, own_places=settings.store == "remote") if settings.keys_file else None

    def create_stack(tenant: str, database: str) -> Store:
        placed = msgspec.structs.replace(settings, chroma_tenant=tenant, chroma_database=database)
        return AuditStore(create_store(placed, tracing))

    stores = StoreRegistry(create_stack, TenantDatabase(settings.chroma_tenant, settings.chroma_database))
    streaming = Streaming(settings.max_batch_size, settings.max_body_bytes, stopping or threading.Event())
    local = keys is None and not settings.allow_open
    guarded = local or keys is not None or settings.rate_limit
    access = [AuthMiddleware(keys, settings.rate_limit, local=local, origins=settings.origins)] if guarded else []
    kind = UntracedLitestar if tracing is None else Litestar
    return kind(
        route_handlers=[
            CollectionsController,
            DocumentsController,
            stream_documents,
            query_collection,
            query,
            describe,
            health,
            live,
            ready,
            openapi_document,
            Metrics,
        ],
        dependencies={
            "store": Provide(stores.default_store, sync_to_thread=False)
            if keys is None
            else Provide(stores.store_of_key),
            "store_kind": Provide(lambda: settings.store, sync_to_thread=False),
            "collection": Provide(parameters.collection, sync_to_thread=False),
            "streaming": Provide(lambda: streaming, sync_to_thread=False),
            "wanted_id": Provide(parameters.wanted_id, sync_to_thread=False),
        },
        on_startup=[stores.start],
        on_shutdown=[stores.close] if tracing is None else [stores.close, tracing.close],
        lifespan=[] if keys is None else [keys.watched],
        state=State({openapi.KEYS_REQUIRED: keys is not None}),
        plugins=[problem_details(), openapi.StructSchemas()],
        exception_handlers={Exception: from_unhandled},
        middleware=access if tracing is None else [tracing.middleware(), *access],
        cors_config=_cors(settings.origins) if settings.origins else None,
        response_class=NegotiatedResponse,
        request_max_body_size=settings.max_body_bytes,
        openapi_config=openapi.config(),
        logging_config=None,
    )


def _cors(origins: list[str]) -> CORSConfig:
    """Which web pages may call the service, and with what. Keys come in headers; cookies are never asked for."""
    return CORSConfig(
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "X-API-Key", "X-Request-ID"],
        expose_headers=["Location", "Retry-After", "Server-Timing", "X-Request-ID"],
    )


def create_app(settings: Settings, stopping: threading.Event | None = None) -> ASGIApp:
    """The service as an ASGI application.

    Args:
        settings: the settings.
        stopping: set by the caller when the service is to take no more work.

    Returns:
        The application.
    """
    stopping = stopping or threading.Event()
    # The time at which each series began would double their number, and nobody asks for it.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the client leaves it untyped
    BUILD.info({"version": __version__, "store": settings.store, "python": platform.python_version()})
    app = RawPathMiddleware(AllowHeaderMiddleware(create_litestar(settings, stopping, _tracing())))
    bounded = LimitsMiddleware(
        app,
        settings.max_requests,
        settings.request_timeout_seconds,
        stopping,
        ChromaTimeout("The request took too long"),
    )
    return RequestContextMiddleware(MetricsMiddleware(bounded, settings.max_requests))


def _tracing() -> Tracing | None:
    """Traces, when OpenTelemetry's variables say where to send them. Only then is OpenTelemetry loaded."""
    if not is_configured(os.environ):
        return None
    from ragstore.kit.tracing.tracing import Tracing

    return Tracing()
