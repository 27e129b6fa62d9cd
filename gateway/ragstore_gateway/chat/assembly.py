"""`Chat`: what the routes under /v1 use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ragstore.kit.auth.keys import Key, KeyRing
from ragstore.kit.time_slices import TimeSlices
from ragstore_gateway.chat.models import Models
from ragstore_gateway.chat.quotas import StreamQuota, TokenQuota
from ragstore_gateway.chat.rag_models import NoRagModels, PlainModels, RagModels
from ragstore_gateway.chat.request_cost import RequestCost
from ragstore_gateway.chat.upstream import CONNECT_SECONDS, Upstream
from ragstore_gateway.keys import GatewayScope
from ragstore_gateway.settings import Settings
from ragstore_gateway.tenants.shared_quota import SharedQuota, TenantRate

MARGIN_SECONDS: Final = 5.0
"""Time beyond all limits of a call. With it, each limit ends its own step before the whole request is ended."""


class Chat:
    """The parts that the calls under `/v1` use. It works while the block of `running` runs.

    Args:
        plain: makes `rag/` models that are no assistants.
        assistants: named models with retrieval; none when None.
        keys: the keys in force; None without keys.
        tenant_tokens: the tokens of the day of all tenants; None without limits.

    Attributes:
        budget_seconds: maximum time until the first byte of a response, and between two chunks.
        slices: runs the work on large responses, so that other requests do not wait for it.
        limits_streams: whether concurrent streams have a limit.
    """

    def __init__(
        self,
        settings: Settings,
        plain: PlainModels,
        assistants: RagModels | None = None,
        keys: KeyRing[GatewayScope] | None = None,
        tenant_tokens: SharedQuota | None = None,
    ) -> None:
        self._keys = keys
        self._tenant_tokens = tenant_tokens
        self.settings = settings
        self.upstream = Upstream(settings)
        self.models = Models(self.upstream, assistants or NoRagModels(), plain, settings.model)
        self.tokens = TokenQuota(settings.chat_tokens_per_minute)
        self.streams = StreamQuota(settings.chat_max_streams)
        self.limits_streams = bool(settings.chat_max_streams)
        self.slices = TimeSlices()
        self.budget_seconds = (
            settings.upstream_timeout_seconds + settings.rag_timeout_seconds + 3 * CONNECT_SECONDS + MARGIN_SECONDS
        )

    def is_authorized(self, key: Key[GatewayScope] | None) -> bool:
        """Whether a request may continue: a chat outlives the check of its key.

        Args:
            key: its key; None without keys.
        """
        return self._keys is None or key is None or self._keys.is_current(key)

    def cost(self, key_name: str, body: bytes, *, generates: bool = True) -> RequestCost:
        """The cost of a request.

        Args:
            key_name: name of the caller's key; empty without keys.
            body: the request's body.
            generates: whether it makes a model work.
        """
        day = self._day_of(key_name)
        return RequestCost(self.tokens, self.streams, key_name, len(body), generates=generates, day=day)

    def _day_of(self, key_name: str) -> TenantRate | None:
        """The tokens of the day of a key's tenant; None without a limit."""
        if self._tenant_tokens is None or self._keys is None:
            return None
        key = self._keys.find_by_name(key_name)
        return None if key is None or key.scope is None else self._tenant_tokens.of(key.scope.tenant)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections to the upstream; close them at the end."""
        async with self.upstream.running():
            yield
