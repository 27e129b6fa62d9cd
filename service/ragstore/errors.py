"""The errors of the store, each of which becomes a problem document (RFC 9457).

    ServiceError
    ├── InvalidRequest                  400
    │   ├── InvalidFilter               400
    │   ├── InvalidName                 400
    │   ├── InvalidMetadata             400
    │   ├── InvalidDocuments            400
    │   │   └── BatchTooLarge           400
    │   ├── InvalidCursor               400
    │   ├── TooManyMatches              400
    │   └── DimensionMismatch           400
    ├── InvalidHttp                     400
    ├── HeadTimeout                     408
    ├── BodyTimeout                     408
    ├── Unauthorized                    401
    ├── Forbidden                       403
    │   ├── TooManyCollections          403
    │   └── CollectionReserved          403
    ├── NotFound                        404
    │   ├── CollectionNotFound          404
    │   ├── DocumentNotFound            404
    │   ├── DocumentsNotFound           404
    │   └── RebuildNotFound             404
    ├── MethodNotAllowed                405
    ├── Conflict                        409
    │   ├── CollectionExists            409
    │   ├── DocumentsExist              409
    │   ├── RebuildRunning              409
    │   └── RebuildUnsupported          409
    ├── BodyTooLarge                    413
    │   └── LineTooLarge                413
    ├── UnsupportedMediaType            415
    ├── RateLimited                     429, with Retry-After
    ├── CallerGone                      499
    ├── Overloaded                      503, with Retry-After
    ├── Stopping                        503, with Retry-After
    ├── TooLargeForChroma               413
    │   └── ChromaQuotaExceeded         413
    └── ChromaError
        ├── ChromaFailed                502
        │   ├── ChromaOutOfFiles        502
        │   ├── ChromaDiskFull          503, with Retry-After
        │   └── CollectionDamaged       502
        ├── ChromaUnavailable           503, with Retry-After
        └── ChromaTimeout               504

Each class has a status, a title and a `code`: the class's name in snake case, by which clients decide. `detail` is for
people; `field_errors` names the fields to blame.
No error text repeats a document's text, a metadata value or an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from ragstore.filters import grammar
from ragstore.kit.errors import (
    BodyTooLarge,
    Conflict,
    FieldError,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServiceError,
    error_classes,
)


class InvalidName(InvalidRequest, title="Invalid collection name"):
    """A collection's name breaks Chroma's rules."""


class InvalidMetadata(InvalidRequest, title="Invalid metadata"):
    """Metadata that cannot be stored."""


class InvalidDocuments(InvalidRequest, title="Invalid documents"):
    """Documents that cannot be stored."""


class BatchTooLarge(InvalidDocuments, title="Invalid documents"):
    """More documents than one request may write.

    Args:
        limit: maximum number of documents.
        count: number of documents in the request; None if the rest was not counted.
    """

    def __init__(self, limit: int, count: int | None = None) -> None:
        message = f"At most {limit} documents fit in one request; this one has {'more' if count is None else count}"
        super().__init__(message, [FieldError("$.documents", message)])

    @classmethod
    def together(cls, limit: int, what: str) -> Self:
        """The error for documents that have too much of something together.

        Args:
            limit: its maximum.
            what: what they have, such as `metadata values`.
        """
        message = f"The documents of one request must not have more than {limit} {what} together"
        return cls(limit).with_detail(message, [FieldError("$.documents", message)])


class InvalidCursor(InvalidRequest, title="Invalid cursor"):
    """A cursor that is none of this service, or whose document is gone."""

    def __init__(self) -> None:
        message = "The cursor is not valid, or its document was deleted: list from the start"
        super().__init__(message, [FieldError("after", message)])


class TooManyMatches(InvalidRequest, title="Too many matches"):
    """More documents match a filter than are counted for a page by offset.

    Args:
        maximum: the maximum number.
    """

    def __init__(self, maximum: int) -> None:
        message = (
            f"More than {maximum:,} documents match: list the pages after the first with 'after', the 'next' of the "
            "previous page, or with 'total' false"
        )
        super().__init__(message, [FieldError("offset", message)])


class DimensionMismatch(InvalidRequest, title="Dimension mismatch"):
    """An embedding of another dimension than its collection's, or than its neighbours'."""


class TooManyCollections(Forbidden, title="Too many collections"):
    """The database, or the key, has as many collections as it may have.

    Args:
        limit: maximum number of collections.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"There are {limit} collections, which is the maximum; delete one first")


class CollectionReserved(Forbidden, title="Collection reserved"):
    """The collection belongs to the gateway, and the caller may only read it.

    Args:
        name: the collection's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The prefix of '{name}' is reserved for the gateway: only a key with a pattern that begins with the "
            "prefix, such as 'kb_*', may write such collections"
        )


class CollectionNotFound(NotFound, title="Collection not found"):
    """No collection of that name.

    Args:
        name: the collection's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"Collection '{name}' not found")
        self.name = name


class DocumentNotFound(NotFound, title="Document not found"):
    """No document of that id in the collection.

    Args:
        collection: the collection's name.
        document_id: the document's id.
    """

    def __init__(self, collection: str, document_id: str) -> None:
        super().__init__(f"Document '{document_id}' not found in collection '{collection}'")


class DocumentsNotFound(NotFound, title="Documents not found"):
    """Some ids of an update do not exist.

    Args:
        collection: the collection's name.
        ids: the ids that do not exist, in the order of the request.
        indexes: their indexes in the request.
    """

    def __init__(self, collection: str, ids: Sequence[str], indexes: Sequence[int]) -> None:
        super().__init__(
            f"Documents not found in collection '{collection}': {_named(ids)}",
            [FieldError(f"$.documents[{index}].id", "There is no document with this id") for index in indexes],
        )


class RebuildNotFound(NotFound, title="Rebuild not found"):
    """The index of the collection was not rebuilt since the process started.

    Args:
        name: the collection's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"The index of collection '{name}' was not rebuilt since the service started")


class CollectionExists(Conflict, title="Collection exists"):
    """A collection of that name exists.

    Args:
        name: the collection's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"Collection '{name}' already exists")


class DocumentsExist(Conflict, title="Documents exist"):
    """Some ids of an add are taken.

    Args:
        collection: the collection's name.
        ids: the ids that are taken, in the order of the request.
        indexes: where in the request they stand, if that is known.
    """

    def __init__(self, collection: str, ids: Sequence[str], indexes: Sequence[int] = ()) -> None:
        super().__init__(
            f"Documents already exist in collection '{collection}': {_named(ids)}",
            [FieldError(f"$.documents[{index}].id", "This id is taken") for index in indexes],
        )
        self.ids = tuple(ids)


_NAMED_IN_DETAIL: Final = 20


def _named(ids: Sequence[str]) -> str:
    named = ", ".join(f"'{each}'" for each in ids[:_NAMED_IN_DETAIL])
    rest = len(ids) - _NAMED_IN_DETAIL
    return f"{named} and {rest} more" if rest > 0 else named


class RebuildRunning(Conflict, title="Rebuild running"):
    """The index of the collection is being rebuilt.

    Args:
        name: the collection's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__(f"The index of collection '{name}' is being rebuilt")


class RebuildUnsupported(Conflict, title="Rebuild unsupported"):
    """Chroma is a server, to which other processes may write during a rebuild."""

    def __init__(self) -> None:
        super().__init__(
            "An index is rebuilt in place only with embedded Chroma: other clients of a Chroma server could write "
            "meanwhile, and their writes would be lost. `ragstore copy --into NAME` builds a new index there"
        )


class LineTooLarge(BodyTooLarge, title="Line too large"):
    """A line of a stream is larger than a body may be.

    Args:
        line: its number, counted from 1.
        max_bytes: maximum size of a line.
    """

    def __init__(self, line: int, max_bytes: int) -> None:
        message = f"A line must not be larger than {max_bytes} bytes"
        super().__init__(f"{message}: line {line}", [FieldError("$", message, line)])


class TooLargeForChroma(ServiceError, status=413, title="Too large for Chroma"):
    """The request to Chroma is larger than a Chroma server takes. Nothing was written."""


class ChromaQuotaExceeded(TooLargeForChroma, title="Chroma's quota exceeded"):
    """The request exceeds a quota of Chroma, and cannot be split so that it does not. Nothing was written.

    Args:
        what: what the quota limits.
        usage: how much of it the request has.
        limit: the quota.
        path: JSON path of the field to blame.
    """

    def __init__(self, what: str, usage: int, limit: int, path: str) -> None:
        message = f"Chroma's quota of {limit} {what} is exceeded: {usage}"
        super().__init__(message, [FieldError(path, message)])
        self.what = what
        self.limit = limit


class ChromaError(ServiceError, abstract=True, status=502, title="Chroma failed"):
    """A call to Chroma failed. The caller is not to blame."""


class ChromaFailed(ChromaError):
    """Chroma returned an error that says nothing about the request."""


class ChromaOutOfFiles(ChromaFailed, title="Chroma out of files"):
    """Chroma's process has as many open files as it may have. Each collection in use takes four."""


class ChromaDiskFull(ChromaFailed, status=503, title="Chroma's disk full", retry_after=1):
    """The disk of Chroma's data is full. A write may have been stored before Chroma noticed it."""


class CollectionDamaged(ChromaFailed, title="Collection damaged"):
    """Chroma can neither read nor write a collection, whatever the request is. It can delete it."""

    def __init__(self) -> None:
        super().__init__(
            "Chroma cannot apply its log to this collection, or cannot load its index. If that persists, delete the "
            "collection, or stop Chroma and run chroma-repair on its data"
        )


class ChromaUnavailable(ChromaError, status=503, title="Chroma unavailable", retry_after=1):
    """Chroma cannot be reached, or is overloaded."""


class ChromaTimeout(ChromaError, status=504, title="Chroma timed out"):
    """Chroma did not respond in time."""


MODULES: Final = (__name__, grammar.__name__)
"""The modules that define the errors of the store, beside the kit's."""

CODES: Final = tuple(sorted(kind.code for kind in error_classes(*MODULES) if not kind.abstract))
"""The codes of all problem documents of the store."""
