"""The errors of tenants that have reached a limit."""

from __future__ import annotations

from typing import Final

from ragstore.kit.errors import ServiceError


class TenantLimitExceeded(ServiceError, abstract=True, status=403, title="Tenant limit exceeded"):
    """The tenant of a knowledge base has as much as its limit allows. Nothing was written.

    The status is 403, not 409 or 429: OpenAI's clients repeat a request after both, and it would fail again.
    """


class TenantBasesExceeded(TenantLimitExceeded):
    """The tenant has its maximum number of knowledge bases."""


class TenantDocumentsExceeded(TenantLimitExceeded):
    """The tenant has its maximum number of documents."""


class TenantBytesExceeded(TenantLimitExceeded):
    """The documents and files of the tenant would be larger together than its limit allows."""


TENANT_LIMITS: Final = (TenantBasesExceeded, TenantDocumentsExceeded, TenantBytesExceeded)


class TenantRateExceeded(ServiceError, abstract=True, status=429, title="Tenant rate exceeded"):
    """The tenant of a key has used what its limit allows for the current minute or day.

    Args:
        detail: one sentence for the caller.
        seconds: when the minute or the day ends.
    """

    def __init__(self, detail: str, seconds: int) -> None:
        super().__init__(detail)
        self.retry_after = seconds


class TenantRequestsExceeded(TenantRateExceeded):
    """The tenant has sent its maximum number of requests in this minute."""


class TenantTokensExceeded(TenantRateExceeded):
    """The tenant has used its tokens of this day."""
