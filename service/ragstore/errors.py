"""What can go wrong, and the problem document (RFC 9457) that tells it.

    RagstoreError
    ├── InvalidRequest                  400
    │   ├── InvalidName                 400
    │   ├── InvalidMetadata             400
    │   ├── InvalidDocuments            400
    │   ├── InvalidFilter               400
    │   └── DimensionMismatch           400
    ├── BodyTimeout                     408
    ├── Unauthorized                    401
    ├── Forbidden                       403
    ├── NotFound                        404
    │   ├── CollectionNotFound          404
    │   └── DocumentNotFound            404
    ├── Conflict                        409
    │   ├── CollectionExists            409
    │   └── DocumentsExist              409
    ├── LineTooLarge                    413
    ├── TooLargeForChroma               413
    ├── UnsupportedMediaType            415
    ├── RateLimited                     429, with Retry-After
    ├── Overloaded                      503, with Retry-After
    ├── Stopping                        503, with Retry-After
    └── ChromaError
        ├── ChromaFailed                502
        ├── ChromaUnavailable           503, with Retry-After
        └── ChromaTimeout               504

Each class carries its status and title. `detail` is the sentence a caller reads; `problems` names the fields to blame.
No error text repeats a document's text, a metadata value or an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import msgspec


class FieldProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One field that is to blame."""

    path: Annotated[str, msgspec.Meta(description="Its place in the request, such as `$.documents[3].embedding`.")]
    message: Annotated[str, msgspec.Meta(description="What is wrong with it.")]
    line: Annotated[
        int | msgspec.UnsetType,
        msgspec.Meta(description="In a stream: the line, counted from 1. `path` is then a place in its document."),
    ] = msgspec.UNSET


def without_value(message: str) -> str:
    """What msgspec says is wrong, without the value that it repeats when it is none of a few words.

    Args:
        message: such as "Invalid enum value 'euclid'".

    Returns:
        Such as "Invalid enum value".
    """
    return "Invalid enum value" if message.startswith("Invalid enum value") else message


class RagstoreError(Exception):
    """Base of every error that a caller is told about.

    Args:
        detail: one sentence or two for the caller.
        problems: the fields to blame, if any.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal error"
    retry_after: int | None = None
    """Seconds after which trying again makes sense."""

    def __init__(self, detail: str, problems: Sequence[FieldProblem] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.problems = tuple(problems)

    def retold(self, detail: str, problems: Sequence[FieldProblem]) -> Self:
        """The same error in other words. Several callers may have been told of one error, so it stays as it is.

        Args:
            detail: one sentence or two for the caller.
            problems: the fields to blame, if any.

        Returns:
            A copy.
        """
        copy = type(self).__new__(type(self), detail)
        vars(copy).update(vars(self), detail=detail, problems=tuple(problems))
        return copy


class InvalidRequest(RagstoreError):
    """The request is malformed, or means something that is not allowed. Nothing was written."""

    status = 400
    title = "Invalid request"

    @classmethod
    def at(cls, path: str, message: str) -> Self:
        """Blame one field.

        Args:
            path: the field's JSON path.
            message: what is wrong, without the path.

        Returns:
            An error whose detail is the message and the path.
        """
        return cls(f"{message}: {path}", [FieldProblem(path, message)])


class InvalidName(InvalidRequest):
    """A collection's name breaks Chroma's rules."""

    title = "Invalid collection name"


class InvalidMetadata(InvalidRequest):
    """Metadata that cannot be stored."""

    title = "Invalid metadata"


class InvalidDocuments(InvalidRequest):
    """Documents that cannot be stored."""

    title = "Invalid documents"


class InvalidFilter(InvalidRequest):
    """A `where` or `where_document` that is not of the filter language."""

    title = "Invalid filter"


class DimensionMismatch(InvalidRequest):
    """An embedding of another dimension than its collection's, or than its neighbours'."""

    title = "Dimension mismatch"


class BodyTimeout(RagstoreError):
    """The request's body did not come in time. Nothing was written."""

    status = 408
    title = "Request timed out"


class Unauthorized(RagstoreError):
    """The request shows no key, or none that is known."""

    status = 401
    title = "Unauthorized"

    CHALLENGE: ClassVar[str] = 'Bearer realm="ragstore"'
    """What `WWW-Authenticate` says of the way to show a key."""


class Forbidden(RagstoreError):
    """The key may not do this. It says nothing about what is there."""

    status = 403
    title = "Forbidden"


class NotFound(RagstoreError):
    """What was asked for is not there."""

    status = 404
    title = "Not found"


class CollectionNotFound(NotFound):
    """No collection of that name.

    Args:
        name: the collection's name.
    """

    title = "Collection not found"

    def __init__(self, name: str) -> None:
        super().__init__(f"Collection '{name}' not found")
        self.name = name


class DocumentNotFound(NotFound):
    """No document of that id in the collection.

    Args:
        collection: the collection's name.
        document_id: the document's id.
    """

    title = "Document not found"

    def __init__(self, collection: str, document_id: str) -> None:
        super().__init__(f"Document '{document_id}' not found in collection '{collection}'")


class Conflict(RagstoreError):
    """What was to be created is there already. Nothing was written."""

    status = 409
    title = "Conflict"


class CollectionExists(Conflict):
    """A collection of that name exists.

    Args:
        name: the collection's name.
    """

    title = "Collection exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"Collection '{name}' already exists")


class DocumentsExist(Conflict):
    """Some ids of an add are taken.

    Args:
        collection: the collection's name.
        ids: the ids that are taken, in the order of the request.
        places: where in the request they stand, if that is known.
    """

    title = "Documents exist"

    NAMED_IN_DETAIL: ClassVar[int] = 20

    def __init__(self, collection: str, ids: Sequence[str], places: Sequence[int] = ()) -> None:
        named = ", ".join(f"'{taken}'" for taken in ids[: self.NAMED_IN_DETAIL])
        rest = len(ids) - self.NAMED_IN_DETAIL
        more = f" and {rest} more" if rest > 0 else ""
        super().__init__(
            f"Documents already exist in collection '{collection}': {named}{more}",
            [FieldProblem(f"$.documents[{place}].id", "This id is taken") for place in places],
        )
        self.ids = tuple(ids)


class LineTooLarge(RagstoreError):
    """A line of a stream is larger than a body may be.

    Args:
        line: its number, counted from 1.
        most: most bytes of a line.
    """

    status = 413
    title = "Line too large"

    def __init__(self, line: int, most: int) -> None:
        message = f"A line must not be larger than {most} bytes"
        super().__init__(f"{message}: line {line}", [FieldProblem("$", message, line)])


class TooLargeForChroma(RagstoreError):
    """The request to Chroma is larger than a Chroma server takes. Nothing was written."""

    status = 413
    title = "Too large for Chroma"


class UnsupportedMediaType(RagstoreError):
    """A body of a media type that is not read here."""

    status = 415
    title = "Unsupported media type"


class RateLimited(RagstoreError):
    """The key has asked too often.

    Args:
        seconds: until it may ask again.
    """

    status = 429
    title = "Too many requests"
    retry_after = 1

    def __init__(self, seconds: int) -> None:
        super().__init__("Too many requests")
        self.retry_after = seconds


class Overloaded(RagstoreError):
    """The service has as much to do as it takes on."""

    status = 503
    title = "Service full"
    retry_after = 1


class Stopping(RagstoreError):
    """The service is stopping. Another replica, or the next one, takes the request."""

    status = 503
    title = "Service stopping"
    retry_after = 1


class ChromaError(RagstoreError):
    """Chroma did not do what it was asked. The caller is not to blame."""

    status = 502
    title = "Chroma failed"


class ChromaFailed(ChromaError):
    """Chroma answered with an error that says nothing about the request."""


class ChromaUnavailable(ChromaError):
    """Chroma cannot be reached, or is too busy to answer."""

    status = 503
    title = "Chroma unavailable"
    retry_after = 1


class ChromaTimeout(ChromaError):
    """Chroma did not answer in time."""

    status = 504
    title = "Chroma timed out"
