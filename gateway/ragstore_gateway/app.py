"""The composition root: assembles the gateway from its parts."""

from __future__ import annotations

import threading
from typing import Final

from litestar import Litestar
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import ASGIApp

from ragstore.kit.auth.keys import KeyRing
from ragstore.kit.metrics import request_metrics
from ragstore.kit.middleware.allow_header import AllowHeaderMiddleware
from ragstore.kit.service import Service
from ragstore_gateway import __version__, openapi
from ragstore_gateway.embeddings.builtin import BuiltinEmbedder
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.health import health, live, ready
from ragstore_gateway.keys import GATEWAY_KEYS, GatewayScope
from ragstore_gateway.settings import PREFIX, Settings
from ragstore_gateway.store import Store

SERVICE: Final = Service("ragstore_gateway", __version__, PREFIX, backend="upstream")
METRICS: Final = request_metrics(SERVICE.name)


def create_embedder(settings: Settings) -> Embedder:
    """The embedder that the settings choose.

    Args:
        settings: the settings.

    Raises:
        ModelDamaged: the files of the built-in model cannot be used.
    """
    return BuiltinEmbedder()


def key_ring(settings: Settings) -> KeyRing[GatewayScope] | None:
    """The keys in force, if the settings name a file of keys.

    Args:
        settings: the settings.

    Raises:
        KeysError: the file cannot be used.
    """
    return KeyRing(settings.keys_file, GATEWAY_KEYS) if settings.keys_file else None


def create_litestar(settings: Settings, store: Store, embedder: Embedder) -> Litestar:
    """The Litestar application, without the contract of a store in this process.

    Args:
        settings: the settings.
        store: the store, which the application starts and stops.
        embedder: embeds questions and documents.

    Raises:
        KeysError: the file of keys cannot be used.
    """
    keys = key_ring(settings)
    return SERVICE.litestar(
        [health, live, ready, openapi.openapi_document],
        settings,
        GATEWAY_KEYS.roles,
        keys=keys,
        tracing=SERVICE.tracing(),
        lifespan=[store.running],
        dependencies={
            "settings": Provide(lambda: settings, sync_to_thread=False),
            "store": Provide(lambda: store, sync_to_thread=False),
            "embedder": Provide(lambda: embedder, sync_to_thread=False),
        },
        state=State({openapi.KEYS_REQUIRED: keys is not None}),
        plugins=[openapi.RecordedStructs()],
        openapi_config=openapi.config(),
    )


def create_app(settings: Settings, stopping: threading.Event | None = None) -> ASGIApp:
    """The gateway as an ASGI application.

    Args:
        settings: the settings.
        stopping: set by the caller when the process shuts down.

    Returns:
        The application.

    Raises:
        KeysError: the file of keys cannot be used.
        ModelDamaged: the files of the built-in model cannot be used.
        SettingsError: a setting of the store in this process is not valid.
    """
    stopping = stopping or threading.Event()
    store = Store.from_env(settings, stopping)
    litestar = create_litestar(settings, store, create_embedder(settings))
    return store.mounted(SERVICE.wrapped(AllowHeaderMiddleware(litestar), settings, stopping))
