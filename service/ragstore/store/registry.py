"""`StoreRegistry`: the store that the request's key may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from litestar.types import Scope

from ragstore.kit.auth.keys import Key
from ragstore.store.collection_limit import CollectionLimitStore
from ragstore.store.key_scope import StoreScope
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore


class TenantDatabase(NamedTuple):
    """A Chroma tenant and one of its databases."""

    tenant: str
    database: str


class View(NamedTuple):
    """The collections that a key may see.

    Attributes:
        location: the tenant and database that they are in.
        patterns: the patterns of their names; None for all collections.
        max_collections: maximum number of them when it creates one; None for that of the service.
    """

    location: TenantDatabase
    patterns: Sequence[str] | None
    max_collections: int | None


class StoreRegistry:
    """One stack of stores for each Chroma tenant and database that a key names. Stacks live until the service stops.

    Args:
        create: makes the stack of a tenant and a database.
        default: the service's own tenant and database. A key that names them gets the service's stack: two stacks over
            one database would not share their locks.
    """

    def __init__(self, create: Callable[[str, str], Store], default: TenantDatabase) -> None:
        self._create = create
        self._default = default
        self._stacks = {default: create(*default)}
        self._views: dict[View, Store] = {}
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Start the service's own stack."""
        await self._stacks[self._default].start()

    async def close(self) -> None:
        """Close every stack."""
        await asyncio.gather(*(stack.close() for stack in self._stacks.values()))

    def default_store(self) -> Store:
        """Dependency `store` of a service without keys: the service's own stack."""
        return self._stacks[self._default]

    async def store_of_key(self, scope: Scope) -> Store:
        """Dependency `store` of a service with keys: the store that the request's key may see.

        A request without a key gets the service's own stack. Its route is public and returns nothing that is stored.
        """
        key: Key[StoreScope] | None = scope.get("user")
        if key is None or key.scope is None:
            return self.default_store()
        allowed = key.scope
        location = TenantDatabase(allowed.tenant or self._default.tenant, allowed.database or self._default.database)
        view = View(location, allowed.collections, allowed.max_collections)
        return self._views.get(view) or await self._open(view)

    async def _open(self, view: View) -> Store:
        location, patterns, max_collections = view
        async with self._opening:
            if location not in self._stacks:
                stack = self._create(*location)
                await stack.start()
                self._stacks[location] = stack
        stack = self._stacks[location]
        visible = stack if patterns is None else ScopedStore(stack, patterns)
        return self._views.setdefault(
            view, visible if max_collections is None else CollectionLimitStore(visible, max_collections)
        )
