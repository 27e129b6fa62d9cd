"""The gateway's store: a remote one, or one in this process, behind the same client."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from ragstore.kit.context import current_caller
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore.kit.settings import SettingsError
from ragstore.settings import KEY_VARIABLE, URL_VARIABLE
from ragstore_client import AsyncClient
from ragstore_gateway.settings import Settings, load_store
from ragstore_gateway.store.access import StoreAccess
from ragstore_gateway.store.in_process_client import InProcessClient
from ragstore_gateway.store.propagation import add_ids
from ragstore_gateway.store.store_queries import StoreQueries

if TYPE_CHECKING:
    from ragstore.app import StoreRights

_PATHS: Final = ("/collections", "/query")
"""First segments of the store's own contract, which are served on the gateway's port."""


class Store:
    """The store that the gateway uses.

    Args:
        settings: the gateway's settings.
        stopping: set by the caller when the process shuts down.
        url: address of a remote store; empty for a store in this process.
        api_key: key for a remote store.

    Raises:
        SettingsError: the store in this process needs an extra that is not installed, or a setting of it is not valid.

    Attributes:
        client: calls the store. It works while the block of `running` runs.
        in_process: whether the store runs in this process.
        queries: the queries of a remote store; None for a store in this process.
        access: whether the gateway may write the collections of knowledge bases; None for a store in this process.
        mismatch: why this is not the store of the gateway's state; empty if it is, or if that is not known.
    """

    def __init__(self, settings: Settings, stopping: threading.Event, url: str, api_key: str = "") -> None:
        self.in_process = not url
        self.access: StoreAccess | None = None
        self.queries: StoreQueries | None = None
        self.mismatch = ""
        self._app: ASGIApp | None = None
        self._http: httpx.AsyncClient
        if url:
            self.queries = StoreQueries()
            self._http = httpx.AsyncClient(event_hooks={"request": [add_ids], "response": [self.queries.note]})
            self.client = AsyncClient(url, api_key=api_key or None, http=self._http)
            self.access = StoreAccess(self.client, settings.collection_prefix, has_key=bool(api_key))
            return
        # Only now: embedded Chroma is not needed beside a remote store.
        from ragstore.app import in_process

        own = load_store(settings)
        if own.store == "embedded":
            try:
                require_extra(
                    "ragstore-gateway[embedded]", f"A store of its own ({URL_VARIABLE} is not set)", "chromadb"
                )
            except MissingExtra as error:
                raise SettingsError(str(error)) from None
        self._local = in_process(own, stopping)
        self._app = self._local.app
        self._http = InProcessClient(self._local.trusted)
        self.client = AsyncClient("http://127.0.0.1", api_key=None, http=self._http)

    @classmethod
    def from_env(cls, settings: Settings, stopping: threading.Event) -> Store:
        """The store that `RAGSTORE_URL` and `RAGSTORE_API_KEY` choose."""
        return cls(settings, stopping, os.environ.get(URL_VARIABLE, ""), os.environ.get(KEY_VARIABLE, ""))

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Start a store of this process, and stop it at the end."""
        async with self._http, self.client:
            if self.access is not None:
                async with self.access.checked():
                    yield
            else:
                async with self._local.lifespan():
                    yield

    @property
    def problem(self) -> str:
        """Why knowledge bases cannot use the store; empty if they can."""
        return (self.access.problem if self.access is not None else "") or self.mismatch

    def permits(self, collection: str, *, writes: bool) -> bool:
        """Whether the caller of the current request may use a collection of a store in this process.

        A remote store has keys of its own, which the gateway does not know: all collections are permitted there. So are
        they to work outside of requests.

        Args:
            collection: name of the collection.
            writes: whether it is written.
        """
        caller = current_caller()
        return not self.in_process or caller is None or self._local.permits(caller, collection, writes)

    def rights_of(self, key_name: str) -> StoreRights | None:
        """The rights of a key in a store of this process; None if it has none, or if the store is a remote one.

        Args:
            key_name: the name of the key in the file of keys.
        """
        return self._local.rights_of(key_name) if self.in_process else None

    def mounted(self, gateway: ASGIApp) -> ASGIApp:
        """The gateway's application, with the contract of a store in this process under the store's own paths.

        Args:
            gateway: the application of all other paths.
        """
        store = self._app
        if store is None:
            return gateway

        async def routed(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope["path"] if scope["type"] == ScopeType.HTTP else ""
            first = "/" + path[1:].partition("/")[0]
            await (store if first in _PATHS else gateway)(scope, receive, send)

        return routed
