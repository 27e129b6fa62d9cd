"""Who may come in: the middleware that asks for a key, for the role that a route declares, and for the key's rate.

A route declares its role by `opt=READER` and so on. One that declares none needs an admin, so that a forgotten
declaration locks a door and opens none. It is a middleware and no guard: Litestar copies a route for each guard.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any, Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from ragstore.kit.auth.keys import ROLES, Key, KeyRing
from ragstore.kit.auth.local_access import check_local
from ragstore.kit.errors import Forbidden, RateLimited, Unauthorized

ROLE: Final = "role"
"""The name of the option that declares a route's role."""

PUBLIC: Final[dict[str, Any]] = {ROLE: None}
READER: Final[dict[str, Any]] = {ROLE: "reader"}
WRITER: Final[dict[str, Any]] = {ROLE: "writer"}
ADMIN: Final[dict[str, Any]] = {ROLE: "admin"}

_RANK: Final[dict[str, int]] = {role: rank for rank, role in enumerate(ROLES)}


class AuthMiddleware:
    """A middleware that lets requests pass that may. The key is then the `user` of the scope.

    It does without Litestar's `ASGIMiddleware`, which asks of every request whether to pass it by: that takes as long
    as all checks here.

    Args:
        keys: the keys in force; None lets everybody in, and the rate is that of all together.
        rate: requests a minute for each key; 0 sets no limit.
        local: whether nobody but this machine is to get in, web pages of other origins not included.
        origins: web origins that may call.
    """

    def __init__(self, keys: KeyRing | None, rate: int, *, local: bool, origins: Iterable[str]) -> None:
        self._keys = keys
        self._local = local
        self._origins = frozenset(origin.encode() for origin in origins)
        self._rates = Rates(rate) if rate else None

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Stand before an application."""

        async def admitting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == ScopeType.HTTP:
                self._admit(scope)
            await app(scope, receive, send)

        return admitting

    def _admit(self, scope: HTTPScope) -> None:
        """Check a request.

        Raises:
            Unauthorized: there is no key, or none that is known.
            Forbidden: the key's role is not enough, or a web page sent it.
            RateLimited: the key has asked too often.
        """
        role = scope["route_handler"].opt.get(ROLE, "admin")
        # OPTIONS tells the methods of a path, as the OpenAPI document does.
        if role is None or scope["method"] == "OPTIONS":
            return
        if self._local:
            check_local(scope["method"], scope["headers"], self._origins)
        key = None if self._keys is None else admitted(self._keys, scope, role)
        if self._rates is not None:
            self._rates.spend("" if key is None else key.name)


def admitted(keys: KeyRing, scope: Scope, role: str) -> Key:
    """The key of a request, which is noted in the scope.

    Args:
        keys: the keys in force.
        scope: the request.
        role: what it needs.

    Returns:
        The key.

    Raises:
        Unauthorized: there is no key, or none that is known.
        Forbidden: the key's role is not enough.
    """
    shown = shown_keys(scope["headers"])
    if not shown:
        raise Unauthorized("A key is required, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'")
    if len(shown) > 1:
        raise Unauthorized("The request shows more than one key")
    key = keys.find(shown.pop())
    if key is None:
        raise Unauthorized("The key is not valid")
    scope["user"] = key
    if _RANK[key.role] < _RANK[role]:
        raise Forbidden(f"The key's role is '{key.role}'; this needs '{role}'")
    return key


def shown_keys(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The keys that a request shows, by whichever header.

    Args:
        headers: the request's, with names in lower case.

    Returns:
        Keys; the same one in two headers counts once.
    """
    shown: set[bytes] = set()
    for name, value in headers:
        if name == b"x-api-key":
            shown.add(value)
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            shown.add(value[7:].strip())
    return shown


class Rates:
    """How often each key may still ask: a bucket that fills evenly and holds what a minute gives.

    Litestar's rate limiter keeps the time of each request of the window as JSON and rewrites it every time, under one
    lock, and tells no `Retry-After`; a bucket is two numbers.

    Args:
        rate: requests a minute.
    """

    def __init__(self, rate: int) -> None:
        self._most = float(rate)
        self._per_second = rate / 60.0
        self._buckets: dict[str, tuple[float, float]] = {}

    def spend(self, name: str) -> None:
        """Take one request out of a key's bucket.

        Args:
            name: the key's name. Only names of the file come here, so there are no more buckets than keys were in it.

        Raises:
            RateLimited: the bucket is empty.
        """
        now = time.monotonic()
        left, since = self._buckets.get(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        if left < 1.0:
            self._buckets[name] = (left, now)
            raise RateLimited(math.ceil((1.0 - left) / self._per_second))
        self._buckets[name] = (left - 1.0, now)
