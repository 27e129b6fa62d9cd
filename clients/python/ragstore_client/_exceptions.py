"""The exceptions of this package, as one tree.

    RagstoreError
    ├── InvalidInput                the arguments cannot be sent (also a ValueError)
    ├── InvalidConfiguration        a URL, a setting or a rag_config is wrong (also a ValueError)
    ├── CollectionMismatch          get_or_create found a collection with other settings
    ├── IngestionFailed             documents of an ingestion were not stored
    ├── NotTried                    a document of an ingestion was not sent
    ├── TransportError              no complete response
    │   ├── ConnectFailed           no connection: nothing was sent
    │   ├── ConnectionLost          the connection was lost: the request may have been applied
    │   └── CallTimeout             no response in time (also a TimeoutError)
    ├── UnexpectedResponse          a response that does not match the contract
    ├── ProblemError                an error response, with a problem document
    │   ├── BadRequest              400
    │   ├── Unauthorized            401
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── RequestTimeout          408
    │   ├── Conflict                409
    │   ├── PayloadTooLarge         413
    │   ├── UnsupportedMediaType    415
    │   ├── TooManyRequests         429
    │   └── ServerError             5xx
    │       ├── BadGateway          502
    │       ├── Unavailable         503
    │       └── GatewayTimeout      504
    ├── EmbeddingFailed             the embeddings endpoint returned no usable vector
    │   └── EmbeddingTimeout        it returned none in time (also a TimeoutError)
    └── ProviderError
        ├── UnknownProvider         no provider of that name is registered (also a LookupError)
        └── ProviderExists          the name is taken

`ProblemError` carries the members of the problem document: `status`, `code`, `title`, `detail`, `errors`. Match on
`code`, not on texts: it is stable. The errors of a call have its `method` and `url`; a `TransportError` has the number
of `attempts`, the time that they took, and the error of httpx as `__cause__`. For logs use `describe`: the other texts
may repeat what a server sent, and a server that is not ragstore may send anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """An invalid field of a request.

    Attributes:
        path: path of the field in the request, such as `$.documents[3].embedding`.
        message: the reason.
    """

    path: str = ""
    message: str = ""


class RagstoreError(Exception):
    """Base class of the errors of this package.

    Attributes:
        method: the HTTP method of the call that failed; empty when no call was made.
        url: its URL, without the query string.
    """

    method: str = ""
    url: str = ""


class InvalidInput(RagstoreError, ValueError):
    """The arguments of a call cannot be sent: the contract has no representation for them. Nothing was sent."""


class InvalidConfiguration(RagstoreError, ValueError):
    """A URL, an environment variable, a `rag_config` or a provider's configuration is invalid."""


class CollectionMismatch(RagstoreError):
    """`get_or_create` found a collection with another distance function or embedding model than the arguments say."""


class NotTried(RagstoreError):
    """A document was not sent, because `BatchLimits.requests` requests had been sent for its batch."""


class TransportError(RagstoreError):
    """No complete response was received.

    Attributes:
        attempts: number of attempts.
        elapsed_seconds: time from the start of the first attempt to the end of the last one.
    """

    attempts: int = 1
    elapsed_seconds: float = 0.0

    def __str__(self) -> str:
        """The call, what happened, and after how many attempts."""
        call = f"{self.method} {self.url}: " if self.url else ""
        tries = f" ({self.attempts} attempts in {self.elapsed_seconds:.1f} s)" if self.attempts > 1 else ""
        return f"{call}{self.args[0] if self.args else type(self).__name__}{tries}"


class ConnectFailed(TransportError):
    """No connection could be made: refused, unknown host, TLS. Nothing was sent."""


class ConnectionLost(TransportError):
    """The connection was lost. The request may or may not have been applied."""


class CallTimeout(TransportError, TimeoutError):
    """No response was received in time. The request may or may not have been applied."""


class UnexpectedResponse(RagstoreError):
    """The response does not match the contract.

    Attributes:
        status: the HTTP status; 0 when the body could not be decompressed.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    def __str__(self) -> str:
        """The call, and what is wrong with the response."""
        return f"{self.method} {self.url}: {self.args[0]}" if self.url else str(self.args[0])


class ProblemError(RagstoreError):
    """The service responded with an error.

    Args:
        status: the HTTP status.
        title: the kind of problem, in a few words.
        detail: the explanation, for people to read.
        errors: the invalid fields, if any; the service lists up to 100.
        errors_omitted: number of invalid fields that are not listed.
        code: the stable, machine-readable kind of problem, such as `collection_not_found`; None when the server sent
            none, as a service before version 0.2 does.
        type: a URI that identifies the kind of problem.
        request_id: the id under which the service logged the request.
        retry_after: seconds after which to retry; None when the service sent no `Retry-After`.
    """

    expected_status: ClassVar[int | None] = None
    _by_status: ClassVar[dict[int, type[ProblemError]]] = {}

    def __init_subclass__(cls, *, status: int | None = None) -> None:
        """Use the class for a status.

        Args:
            status: the HTTP status; None for no status of its own.
        """
        super().__init_subclass__()
        if status is not None:
            cls.expected_status = status
            ProblemError._by_status[status] = cls

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        errors: Sequence[FieldError] = (),
        *,
        errors_omitted: int = 0,
        code: str | None = None,
        type: str = "about:blank",
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or title or f"HTTP {status}")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.errors_omitted = errors_omitted
        self.code = code
        self.type = type
        self.request_id = request_id
        self.retry_after = retry_after

    @staticmethod
    def class_for(status: int) -> type[ProblemError]:
        """The exception class for an HTTP status.

        Args:
            status: an HTTP status, 300 or above.

        Returns:
            The most specific class: `NotFound` for 404, `ServerError` for an unlisted 5xx, `ProblemError` otherwise.
        """
        return ProblemError._by_status.get(status, ServerError if status >= 500 else ProblemError)


class BadRequest(ProblemError, status=400):
    """400: the request is malformed or invalid. Nothing was written."""


class Unauthorized(ProblemError, status=401):
    """401: a key is required, and none or an unknown one was sent."""


class Forbidden(ProblemError, status=403):
    """403: the key does not permit this call."""


class NotFound(ProblemError, status=404):
    """404: the collection or document does not exist, or the key has no access to it."""


class RequestTimeout(ProblemError, status=408):
    """408: the request did not arrive completely within the time limit. Nothing was changed."""


class Conflict(ProblemError, status=409):
    """409: the collection, or a document with the same id, exists. Nothing was written."""


class PayloadTooLarge(ProblemError, status=413):
    """413: the body exceeds the service's limit."""


class UnsupportedMediaType(ProblemError, status=415):
    """415: the service does not support the body's media type."""


class TooManyRequests(ProblemError, status=429):
    """429: the key has exceeded its rate limit."""


class ServerError(ProblemError):
    """5xx: the service, or Chroma behind it, failed."""


class BadGateway(ServerError, status=502):
    """502: Chroma sent the service a response that it cannot use."""


class Unavailable(ServerError, status=503):
    """503: Chroma is unavailable, or the service is overloaded. `retry_after` says when to retry."""


class GatewayTimeout(ServerError, status=504):
    """504: Chroma did not respond to the service in time."""


class EmbeddingFailed(RagstoreError):
    """The embeddings endpoint returned no usable vector."""


class EmbeddingTimeout(EmbeddingFailed, TimeoutError):
    """The embeddings endpoint returned no vector in time."""


class ProviderError(RagstoreError):
    """A retrieval provider cannot be registered or selected."""


class UnknownProvider(ProviderError, LookupError):
    """No provider of that name is registered."""


class ProviderExists(ProviderError):
    """A provider of that name is registered already."""


def describe(error: BaseException) -> str:
    """Describe an error for a log line.

    Args:
        error: any exception.

    Returns:
        The class, with the HTTP status where there is one. Never a text from a server: a server may repeat what it was
        sent.
    """
    status = getattr(error, "status", None)
    return f"{type(error).__name__} ({status})" if isinstance(status, int) else type(error).__name__
