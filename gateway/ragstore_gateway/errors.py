"""The gateway's errors, below those of the kit."""

from __future__ import annotations

from typing import ClassVar

from ragstore.kit.errors import NotFound, ServiceError


class NotConfigured(ServiceError):
    """A function needs a setting that is not set."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Not configured"


class StoreUnavailable(ServiceError):
    """The store does not respond, or responds with an error."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Store unavailable"


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


class UpstreamUnreachable(ServiceError):
    """No connection to the upstream could be made, or it ended before the response."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Upstream unreachable"


class UpstreamTimeout(ServiceError):
    """The upstream did not respond in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Upstream timed out"


class UpstreamFailed(ServiceError):
    """The upstream's response is not one of HTTP, or breaks off, or is too large."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Upstream failed"


class ModelNotFound(NotFound):
    """There is no model of the requested name."""


class RetrievalFailed(ServiceError):
    """Retrieval failed, and the settings do not allow a chat without context."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Retrieval failed"
    retry_after = 1


class TokenRateExceeded(ServiceError):
    """The key has used its tokens of this minute.

    Args:
        seconds: when a request is allowed again.
    """

    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many tokens"

    def __init__(self, seconds: int) -> None:
        super().__init__("The key has used its tokens of this minute")
        self.retry_after = seconds


class TooManyStreams(ServiceError):
    """The key has its maximum number of concurrent streams."""

    status: ClassVar[int] = 429
    title: ClassVar[str] = "Too many streams"
    retry_after = 1


class CallerGone(ServiceError):
    """The caller disconnected before its response began. Nobody reads this; the access log and the metrics show it."""

    status: ClassVar[int] = 499
    title: ClassVar[str] = "Caller disconnected"


class ExtractionFailed(ServiceError):
    """A document is damaged, or is not what it is declared to be, or its parser failed on it."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Extraction failed"


class ExtractionTimeout(ServiceError):
    """The extraction of a document's text took longer than the settings allow."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Extraction timed out"


class ExtractionUnavailable(ServiceError):
    """No process for the extraction could be started."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Extraction unavailable"
    retry_after = 1


class DocumentTooLarge(ServiceError):
    """A document, its unpacked content or its text is larger than the settings allow, or needs more memory."""

    status: ClassVar[int] = 413
    title: ClassVar[str] = "Document too large"


class EncryptedDocument(ServiceError):
    """A document can be read only with a password."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Encrypted document"


class NoText(ServiceError):
    """A document has no text, such as a scan without a text layer."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "No text"
