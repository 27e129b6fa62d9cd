"""What can go wrong, as one tree.

    RagstoreError
    ├── InvalidInput                the arguments cannot be sent (also a ValueError)
    ├── InvalidConfiguration        a URL, a setting or a rag_config is wrong (also a ValueError)
    ├── TransportError              no whole answer came
    │   ├── ConnectFailed           no connection: nothing was sent
    │   ├── ConnectionLost          the connection broke: what was sent may have arrived
    │   └── CallTimeout             no answer in time (also a TimeoutError)
    ├── UnexpectedResponse          an answer came, but not one of the contract
    ├── ProblemError                the service said no, in a problem document
    │   ├── BadRequest              400
    │   ├── Unauthorized            401
    │   ├── Forbidden               403
    │   ├── NotFound                404
    │   ├── Conflict                409
    │   ├── PayloadTooLarge         413
    │   ├── UnsupportedMediaType    415
    │   ├── TooManyRequests         429
    │   └── ServerError             5xx
    │       ├── BadGateway          502
    │       ├── Unavailable         503
    │       └── GatewayTimeout      504
    ├── EmbeddingFailed             the embeddings endpoint gave no vector
    └── ProviderError
        ├── UnknownProvider         no provider of that name is registered (also a LookupError)
        └── ProviderExists          the name is taken

`ProblemError` carries what the document says: `status`, `title`, `detail`, `errors`. Only `describe` makes a text that
is fit for a log: the others may repeat what a server wrote, and a foreign server may write anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec


class FieldError(msgspec.Struct, frozen=True):
    """One field that a problem document blames.

    Attributes:
        path: where it stands in the request, such as `$.documents[3].embedding`.
        message: what is wrong with it.
    """

    path: str = ""
    message: str = ""


class RagstoreError(Exception):
    """Base of every error that this package raises on purpose."""


class InvalidInput(RagstoreError, ValueError):
    """The arguments of a call cannot be put into words of the contract. Nothing was sent."""


class InvalidConfiguration(RagstoreError, ValueError):
    """A URL, an environment variable, a `rag_config` or a provider's configuration is wrong."""


class TransportError(RagstoreError):
    """No whole answer came from the server."""


class ConnectFailed(TransportError):
    """No connection could be made, so nothing was sent."""


class ConnectionLost(TransportError):
    """The connection broke. What was sent may or may not have taken effect."""


class CallTimeout(TransportError, TimeoutError):
    """No answer came in time. What was sent may or may not have taken effect."""


class UnexpectedResponse(RagstoreError):
    """The server answered with something that the contract does not know.

    Attributes:
        status: the HTTP status of the answer.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ProblemError(RagstoreError):
    """The service refused or failed, and said so.

    Args:
        status: the HTTP status.
        title: the kind of problem, in a few words.
        detail: what is wrong, for the caller to read.
        errors: the fields to blame, if any.
        type: a URI that names the kind of problem.
        request_id: the id under which the service logged the request.
        retry_after: seconds after which trying again makes sense; None when the service did not say.
    """

    expected_status: ClassVar[int | None] = None

    def __init__(
        self,
        status: int,
        title: str = "",
        detail: str = "",
        errors: Sequence[FieldError] = (),
        *,
        type: str = "about:blank",
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or title or f"HTTP {status}")
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = tuple(errors)
        self.type = type
        self.request_id = request_id
        self.retry_after = retry_after

    @staticmethod
    def class_for(status: int) -> type[ProblemError]:
        """The class that stands for an HTTP status.

        Args:
            status: an HTTP status, 300 or above.

        Returns:
            The narrowest class: `NotFound` for 404, `ServerError` for an unlisted 5xx, `ProblemError` for the rest.
        """
        return _BY_STATUS.get(status, ServerError if status >= 500 else ProblemError)


class BadRequest(ProblemError):
    """400: the request is malformed, or means something that is not allowed. Nothing was written."""

    expected_status = 400


class Unauthorized(ProblemError):
    """401: a key is needed, and none or an unknown one was sent."""

    expected_status = 401


class Forbidden(ProblemError):
    """403: the key does not allow this."""

    expected_status = 403


class NotFound(ProblemError):
    """404: the collection or document does not exist, or the key may not see it."""

    expected_status = 404


class Conflict(ProblemError):
    """409: the collection, or an id among the documents, exists already. Nothing was written."""

    expected_status = 409


class PayloadTooLarge(ProblemError):
    """413: the body is larger than the service takes."""

    expected_status = 413


class UnsupportedMediaType(ProblemError):
    """415: the body is of a type that the service does not read."""

    expected_status = 415


class TooManyRequests(ProblemError):
    """429: this key has used up its rate."""

    expected_status = 429


class ServerError(ProblemError):
    """5xx: the service, or Chroma behind it, failed."""


class BadGateway(ServerError):
    """502: Chroma answered the service with something it could not use."""

    expected_status = 502


class Unavailable(ServerError):
    """503: Chroma is away, or the service is full. `retry_after` says when to come back."""

    expected_status = 503


class GatewayTimeout(ServerError):
    """504: Chroma did not answer the service in time."""

    expected_status = 504


class EmbeddingFailed(RagstoreError):
    """The embeddings endpoint gave no usable vector."""


class ProviderError(RagstoreError):
    """A retrieval provider cannot be registered or selected."""


class UnknownProvider(ProviderError, LookupError):
    """No provider of that name is registered."""


class ProviderExists(ProviderError):
    """A provider of that name is registered already."""


_BY_STATUS: dict[int, type[ProblemError]] = {
    subclass.expected_status: subclass
    for subclass in (*ProblemError.__subclasses__(), *ServerError.__subclasses__())
    if subclass.expected_status is not None
}


def describe(error: BaseException) -> str:
    """Say what went wrong in words that are fit for a log.

    Args:
        error: any exception.

    Returns:
        The class, with the HTTP status where there is one. Never a text that came from a server: a server may repeat
        what it was sent.
    """
    status = getattr(error, "status", None)
    return f"{type(error).__name__} ({status})" if isinstance(status, int) else type(error).__name__
