"""What can go wrong, and the problem document (RFC 9457) that tells it.

    ServiceError
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
    ├── UnsupportedMediaType            415
    ├── RateLimited                     429, with Retry-After
    ├── Overloaded                      503, with Retry-After
    ├── Stopping                        503, with Retry-After
    ├── TooLargeForChroma               413
    └── ChromaError
        ├── ChromaFailed                502
        ├── ChromaUnavailable           503, with Retry-After
        └── ChromaTimeout               504

Each class carries its status and title. `detail` is the sentence a caller reads; `problems` names the fields to blame.
No error text repeats a document's text, a metadata value or an embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ragstore.kit.errors import (
    Conflict,
    FieldProblem,
    InvalidRequest,
    NotFound,
    ServiceError,
)


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


class TooLargeForChroma(ServiceError):
    """The request to Chroma is larger than a Chroma server takes. Nothing was written."""

    status = 413
    title = "Too large for Chroma"


class ChromaError(ServiceError):
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
