"""The store that each key sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from litestar.types import Scope

from ragstore.kit.auth.keys import Key
from ragstore.store.key_scope import StoreScope
from ragstore.store.protocol import Store
from ragstore.store.scope import ScopedStore

Place: TypeAlias = tuple[str, str]
"""A Chroma tenant and database."""

View: TypeAlias = tuple[Place, Sequence[str] | None]


class StoreRegistry:
    """One stack of stores for each Chroma tenant and database that a key names. All live until the service stops.

    Args:
        create: makes the stack of a tenant and a database.
        own: the service's own tenant and database. A key that names them gets the service's stack: two stacks over one
            place would not see each other's locks.
    """

    def __init__(self, create: Callable[[str, str], Store], own: Place) -> None:
        self._create = create
        self._own = own
        self._stacks = {own: create(*own)}
        self._views: dict[View, Store] = {}
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        """Start the service's own stack."""
        await self._stacks[self._own].start()

    async def close(self) -> None:
        """Close every stack."""
        await asyncio.gather(*(stack.close() for stack in self._stacks.values()))

    def own(self) -> Store:
        """Dependency `store` of a service without keys: everything there is."""
        return self._stacks[self._own]

    async def seen(self, scope: Scope) -> Store:
        """Dependency `store` of a service with keys: what the request's key may see.

        A request without a key sees everything. It got here by a route that tells nothing of what is stored.
        """
        key: Key[StoreScope] | None = scope.get("user")
        if key is None or key.scope is None:
            return self.own()
        allowed = key.scope
        view = ((allowed.tenant or self._own[0], allowed.database or self._own[1]), allowed.collections)
        return self._views.get(view) or await self._opened(view)

    async def _opened(self, view: View) -> Store:
        place, patterns = view
        async with self._opening:
            if place not in self._stacks:
                stack = self._create(*place)
                await stack.start()
                self._stacks[place] = stack
        stack = self._stacks[place]
        return self._views.setdefault(view, stack if patterns is None else ScopedStore(stack, patterns))
