"""Authentication and authorization: the key, the role that a route requires, and the key's rate.

A route declares its role by `opt=requires(...)`. A route without a declaration requires the highest role, so that a
forgotten declaration denies access. This is a middleware and not a guard: Litestar copies a route for each guard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from ragstore.kit.auth.keys import Key, KeyRing
from ragstore.kit.auth.local_access import check_local
from ragstore.kit.auth.roles import IDENTIFIES, ROLE
from ragstore.kit.auth.token_bucket import TokenBuckets
from ragstore.kit.context import set_caller
from ragstore.kit.errors import Forbidden, Unauthorized

TRUSTED: Final = "ragstore.trusted"
"""Key of the scope of a request that the service's own process makes. A request from the network cannot set it."""

CALLER: Final = "ragstore.caller"
"""Key of the scope of a request that the service's own process makes for a caller: the caller's key, None for none.
Roles apply as to a request from the network; the process has identified the caller and counted the request."""


class AuthMiddleware:
    """Admits requests by their key, role and rate. The key becomes the `user` of the scope.

    It does not use Litestar's `ASGIMiddleware`, which checks for each request whether to skip it: that takes as long as
    all checks here.

    Args:
        keys: the keys in force; without keys, every caller is admitted, with one rate for all of them.
        roles: the service's roles, each of which includes those before it.
        rate: requests per minute of each key; 0 sets no limit.
        local: whether only this machine may call, web pages of other origins excluded.
        origins: web origins that may call.
        realm: name of the service in `WWW-Authenticate`.
        variables: prefix of the service's environment variables, for errors.
    """

    def __init__(
        self,
        keys: KeyRing[Any] | None,
        roles: tuple[str, ...],
        *,
        rate: int,
        local: bool,
        origins: Iterable[str],
        realm: str,
        variables: str,
    ) -> None:
        self._keys = keys
        self._roles = roles
        self._rank = {role: rank for rank, role in enumerate(roles)}
        self._local = local
        self._origins = frozenset(origin.encode() for origin in origins)
        self._buckets = TokenBuckets(rate) if rate else None
        self._realm = realm
        self._variables = variables

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application."""

        async def admitting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == ScopeType.HTTP and TRUSTED not in scope:
                self._admit(scope)
            await app(scope, receive, send)

        return admitting

    def _admit(self, scope: HTTPScope) -> None:
        """Check a request.

        Raises:
            Unauthorized: there is no key, or an unknown one.
            Forbidden: the key's role is not enough, or a web page sent the request.
            RateLimited: the key exceeds its rate.
        """
        options = scope["route_handler"].opt
        role = options.get(ROLE, self._roles[-1])
        # The response to OPTIONS lists the methods of a path, which the OpenAPI document does, too.
        if scope["method"] == "OPTIONS":
            return
        if role is None:
            if IDENTIFIES in options and self._keys is not None and sent_keys(scope["headers"]):
                identified = scope["user"] = self._identified(self._keys, scope)
                set_caller(identified.name)
            return
        if self._local:
            check_local(scope["method"], scope["headers"], self._origins, self._variables)
        key = None if self._keys is None else self._authorized(self._keys, scope, role)
        if key is not None:
            set_caller(key.name)
        if self._buckets is not None:
            self._buckets.take("" if key is None else key.name)

    def _authorized(self, keys: KeyRing[Any], scope: Scope, role: str) -> Key[Any]:
        """The key of a request, if it may do what the route requires.

        Raises:
            Unauthorized: there is no key, or an unknown one.
            Forbidden: the key's role is not enough.
        """
        key = self._identified(keys, scope)
        self._check_role(scope, key, role)
        return key

    def _identified(self, keys: KeyRing[Any], scope: Scope) -> Key[Any]:
        """The key of a request, whatever it may do.

        Raises:
            Unauthorized: there is no key, or an unknown one.
        """
        sent = sent_keys(scope["headers"])
        if not sent:
            raise Unauthorized("A key is required, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'", self._realm)
        if len(sent) > 1:
            raise Unauthorized("The request shows more than one key", self._realm)
        key = keys.find(sent.pop())
        if key is None:
            raise Unauthorized("The key is not valid", self._realm)
        return key

    def _check_role(self, scope: Scope, key: Key[Any] | None, role: str) -> None:
        """Check that a key may do what a route requires. It becomes the `user` of the scope.

        Raises:
            Forbidden: the key's role is not enough, or it has no rights in this service.
        """
        scope["user"] = key
        if key is None or key.scope is None:
            raise Forbidden("The key is not for this service")
        if self._rank[key.scope.role] < self._rank[role]:
            raise Forbidden(f"The key's role is '{key.scope.role}'; this needs '{role}'")


def sent_keys(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The keys that a request has, in whichever header.

    Args:
        headers: the request's, with names in lower case.

    Returns:
        Keys; the same one in two headers counts once. `api-key`, as clients of Azure's API send it, counts only if no
        other header has a key: it may be a key for another server.
    """
    sent: set[bytes] = set()
    azure: set[bytes] = set()
    for name, value in headers:
        if name == b"x-api-key":
            sent.add(value)
        elif name == b"authorization" and value[:7].lower() == b"bearer ":
            sent.add(value[7:].strip())
        elif name == b"api-key":
            azure.add(value)
    return sent or azure
