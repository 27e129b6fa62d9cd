"""The one place that wires things together."""

from __future__ import annotations

import threading

import msgspec
from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.datastructures import State
from litestar.di import Provide
from litestar.plugins.prometheus import PrometheusConfig, PrometheusController
from litestar.types import ASGIApp

from ragstore.asgi import AllowedMethods, Observed, RawPaths
from ragstore.limits import Bounded
from ragstore.negotiation import NegotiatedResponse
from ragstore.openapi import document as openapi
from ragstore.problems import of_defect, problem_details
from ragstore.routes import parameters
from ragstore.routes.collections import CollectionsController
from ragstore.routes.documents import DocumentsController
from ragstore.routes.query import query, query_collection
from ragstore.routes.service import describe, health, live, openapi_document, ready
from ragstore.routes.streaming import stream_documents
from ragstore.security.access import READER, Access
from ragstore.security.keys import KeyRing
from ragstore.security.stores import StorePool
from ragstore.settings import Settings
from ragstore.store.audited import AuditedStore
from ragstore.store.backend import Backend
from ragstore.store.base import Store
from ragstore.store.breaking import BreakingBackend
from ragstore.store.coalescing import CoalescingStore
from ragstore.store.deadlines import DeadlineStore
from ragstore.store.embedded import EmbeddedBackend
from ragstore.store.exact import ExactStore
from ragstore.store.http import HttpBackend
from ragstore.store.measured import MeasuredStore
from ragstore.store.planning import PlanningStore
from ragstore.store.retrying import RetryingBackend
from ragstore.streaming import Streaming


class Metrics(PrometheusController):
    """Prometheus metrics."""

    path = "/metrics"
    include_in_schema = False
    opt = READER


def create_backend(settings: Settings) -> Backend:
    """Chroma as the settings say.

    Args:
        settings: the settings.

    Returns:
        A backend that was not started yet.
    """
    if settings.store == "embedded":
        return EmbeddedBackend(
            settings.data_path, settings.chroma_tenant, settings.chroma_database, settings.chroma_timeout_seconds
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
    )


def create_store(settings: Settings) -> Store:
    """The whole stack of stores.

    Args:
        settings: the settings.

    Returns:
        A store that was not started yet.
    """
    backend = BreakingBackend(RetryingBackend(create_backend(settings), settings.chroma_timeout_seconds))
    store: Store = MeasuredStore(ExactStore(backend, settings.max_batch_size), "planned")
    if settings.planning:
        store = PlanningStore(store)
    store = MeasuredStore(store, "merged")
    if settings.coalescing:
        store = CoalescingStore(store, settings.max_batch_size, settings.queued_writes, settings.queued_bytes)
    return MeasuredStore(DeadlineStore(store), "asked")


def create_litestar(settings: Settings, stopping: threading.Event | None = None) -> Litestar:
    """The Litestar application.

    Args:
        settings: the settings.
        stopping: set by the caller when streams are to end.

    Returns:
        The application; its start and stop are the store's.

    Raises:
        KeysError: the file of keys cannot be used.
    """
    keys = KeyRing(settings.keys_file, own_places=settings.store == "remote") if settings.keys_file else None

    def create_stack(tenant: str, database: str) -> Store:
        placed = msgspec.structs.replace(settings, chroma_tenant=tenant, chroma_database=database)
        return AuditedStore(create_store(placed))

    stores = StorePool(create_stack, (settings.chroma_tenant, settings.chroma_database))
    metrics = PrometheusConfig(app_name="ragstore", prefix="ragstore", group_path=True).middleware
    streaming = Streaming(settings.max_batch_size, settings.max_body_bytes, stopping or threading.Event())
    local = keys is None and not settings.allow_open
    access = Access(keys, settings.rate_limit, local=local, origins=settings.origins)
    return Litestar(
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
            "store": Provide(stores.own, sync_to_thread=False) if keys is None else Provide(stores.seen),
            "store_kind": Provide(lambda: settings.store, sync_to_thread=False),
            "collection": Provide(parameters.collection, sync_to_thread=False),
            "streaming": Provide(lambda: streaming, sync_to_thread=False),
            "wanted_id": Provide(parameters.wanted_id, sync_to_thread=False),
        },
        on_startup=[stores.start],
        on_shutdown=[stores.close],
        lifespan=[] if keys is None else [keys.watched],
        state=State({openapi.KEYS_REQUIRED: keys is not None}),
        plugins=[problem_details(), openapi.StructSchemas()],
        exception_handlers={Exception: of_defect},
        middleware=[metrics, access] if local or keys is not None or settings.rate_limit else [metrics],
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
    app = RawPaths(AllowedMethods(create_litestar(settings, stopping)))
    return Observed(Bounded(app, settings.max_requests, settings.request_timeout_seconds, stopping))
