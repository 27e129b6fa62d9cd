"""`TenantRequestsMiddleware`: the requests of tenants in a minute."""

from __future__ import annotations

from litestar.enums import ScopeType
from litestar.types import ASGIApp, Receive, Scope, Send

from ragstore.kit.auth.middleware import CALLER, TRUSTED
from ragstore_gateway.keys import tenant_of
from ragstore_gateway.tenants.shared_quota import SharedQuota


class TenantRequestsMiddleware:
    """Counts each request with a key that has a tenant. It runs after authentication, which sets the key.

    A request that the gateway makes for a caller was counted when it came from the network.

    Args:
        requests: the requests of all tenants.
    """

    def __init__(self, requests: SharedQuota) -> None:
        self._requests = requests

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application."""

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == ScopeType.HTTP and TRUSTED not in scope and CALLER not in scope:
                await self._requests.take(tenant_of(scope))
            await app(scope, receive, send)

        return counting
