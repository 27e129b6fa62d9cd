"""The one place that wires things together."""

from __future__ import annotations

from litestar import Litestar
from litestar.di import Provide
from litestar.plugins.prometheus import PrometheusConfig, PrometheusController
from litestar.types import ASGIApp

from ragstore.asgi import AllowedMethods, Observed, RawPaths
from ragstore.negotiation import NegotiatedResponse
from ragstore.openapi import document as openapi
from ragstore.problems import of_defect, problem_details
from ragstore.routes import parameters
from ragstore.routes.collections import CollectionsController
from ragstore.routes.documents import DocumentsController
from ragstore.routes.query import query, query_collection
from ragstore.routes.service import describe, health, live, openapi_document, ready
from ragstore.settings import Settings
from ragstore.store.backend import Backend
from ragstore.store.base import Store
from ragstore.store.coalescing import CoalescingStore
from ragstore.store.embedded import EmbeddedBackend
from ragstore.store.exact import ExactStore
from ragstore.store.http import HttpBackend
from ragstore.store.planning import PlanningStore


class Metrics(PrometheusController):
    """Prometheus metrics."""

    path = "/metrics"
    include_in_schema = False


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
    store: Store = ExactStore(create_backend(settings), settings.max_batch_size)
    if settings.planning:
        store = PlanningStore(store)
    if settings.coalescing:
        store = CoalescingStore(store, settings.max_batch_size, settings.queued_writes, settings.queued_bytes)
    return store


def create_litestar(settings: Settings) -> Litestar:
    """The Litestar application.

    Args:
        settings: the settings.

    Returns:
        The application; its start and stop are the store's.
    """
    store = create_store(settings)
    return Litestar(
        route_handlers=[
            CollectionsController,
            DocumentsController,
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
            "store": Provide(lambda: store, sync_to_thread=False),
            "store_kind": Provide(lambda: settings.store, sync_to_thread=False),
            "collection": Provide(parameters.collection, sync_to_thread=False),
            "wanted_id": Provide(parameters.wanted_id, sync_to_thread=False),
        },
        on_startup=[store.start],
        on_shutdown=[store.close],
        plugins=[problem_details(), openapi.StructSchemas()],
        exception_handlers={Exception: of_defect},
        middleware=[PrometheusConfig(app_name="ragstore", prefix="ragstore", group_path=True).middleware],
        response_class=NegotiatedResponse,
        request_max_body_size=settings.max_body_bytes,
        openapi_config=openapi.config(),
        logging_config=None,
    )


def create_app(settings: Settings) -> ASGIApp:
    """The service as an ASGI application.

    Args:
        settings: the settings.

    Returns:
        The application.
    """
    return Observed(RawPaths(AllowedMethods(create_litestar(settings))))
