"""`StoreRegistry`: the store that the request's caller may see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from litestar.types import Scope

from ragstore.kit.auth.keys import Key
from ragstore.kit.auth.middleware import TRUSTED
from ragstore.store.collection_limit import CollectionLimitStore
from ragstore.store.key_scope import ADMIN, StoreScope
from ragstore.store.name_scope import NameScope
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore


class TenantDatabase(NamedTuple):
    """A Chroma tenant and one of its databases."""

    tenant: str
    database: str


class View(NamedTuple):
    """The collections that a caller may see.

    Attributes:
        location: the tenant and database that they are in.
        patterns: the patterns of their names; None for all collections.
        reads_reserved: whether they include collections of reserved prefixes that no pattern names.
        max_collections: maximum number of them when it creates one; None for the service's maximum.
    """

    location: TenantDatabase
    patterns: Sequence[str] | None
    reads_reserved: bool
    max_collections: int | None


class StoreRegistry:
    """One stack of stores for each Chroma tenant and database that a key names. Stacks live until the service stops.

    Args:
        create: makes the stack of a tenant and a database.
        default: the service's own tenant and database. A key that names them gets the service's stack: two stacks over
            one database would not share their locks.
        reserved: the reserved prefixes of names.
    """

    def __init__(
        self, create: Callable[[str, str], Store], default: TenantDatabase, reserved: Sequence[str] = ()
    ) -> None:
        self._reserved = tuple(reserved)
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
        """The service's own stack, with all collections."""
        return self._stacks[self._default]

    async def store_of_request(self, scope: Scope) -> Store:
        """Dependency `store`: the store as the request's caller may see it.

        A caller of a service without keys sees all collections, and may not change collections of reserved prefixes.
        With keys, a request without one gets the same: its route is public and returns nothing that is stored.
        """
        if TRUSTED in scope:
            return self.default_store()
        key: Key[StoreScope] | None = scope.get("user")
        allowed = None if key is None else key.scope
        if allowed is None:
            view = View(self._default, None, reads_reserved=True, max_collections=None)
        else:
            location = TenantDatabase(
                allowed.tenant or self._default.tenant, allowed.database or self._default.database
            )
            view = View(location, allowed.collections, allowed.role == ADMIN, allowed.max_collections)
        return self._views.get(view) or await self._open(view)

    def writable_prefixes(self, scope: Scope) -> dict[str, bool]:
        """The reserved prefixes, and whether the request's caller may change their collections."""
        key: Key[StoreScope] | None = scope.get("user")
        patterns = None if key is None or key.scope is None else key.scope.collections
        names = NameScope(patterns, self._reserved)
        return {prefix: TRUSTED in scope or names.may_write_prefix(prefix) for prefix in self._reserved}

    async def _open(self, view: View) -> Store:
        location, patterns, reads_reserved, max_collections = view
        async with self._opening:
            if location not in self._stacks:
                stack = self._create(*location)
                await stack.start()
                self._stacks[location] = stack
        stack = self._stacks[location]
        names = NameScope(patterns, self._reserved, reads_reserved=reads_reserved)
        has_all = patterns is None and not self._reserved
        visible = stack if has_all else ScopedStore(stack, names)
        return self._views.setdefault(
            view, visible if max_collections is None else CollectionLimitStore(visible, max_collections)
        )
