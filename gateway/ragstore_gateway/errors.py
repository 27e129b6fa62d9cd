"""The gateway's errors, below those of the kit."""

from __future__ import annotations

from typing import ClassVar

from ragstore.kit.errors import ServiceError


class NotConfigured(ServiceError):
    """A function needs a setting that is not set."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Not configured"


class StoreUnavailable(ServiceError):
    """The store does not respond, or responds with an error."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Store unavailable"


class ModelNotFound(ServiceError):
    """No configured model has the requested name."""

    status: ClassVar[int] = 404
    title: ClassVar[str] = "Model not found"


class ModelUnavailable(ServiceError):
    """A configured model cannot be used: it is not installed, or the provider does not have it."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Model unavailable"


class EmbeddingFailed(ServiceError):
    """The embedding provider cannot be reached, rejected the request, or returned no usable vectors."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Embedding failed"


class EmbeddingRateLimited(ServiceError):
    """The embedding provider is at its rate limit.

    Args:
        detail: one sentence for the caller.
        seconds: when the provider accepts requests again, where it says so.
    """

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Embedding provider busy"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = seconds


class EmbeddingTimeout(ServiceError):
    """The embedding provider did not respond in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Embedding timed out"


class SecretUnavailable(ServiceError):
    """A secret that a configuration refers to cannot be read."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Secret unavailable"
