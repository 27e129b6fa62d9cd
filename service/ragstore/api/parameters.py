"""Parameters that several routes have, and the dependencies that read them."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter, SkipValidation

from ragstore.api.raw_paths import split_document_path
from ragstore.api.schemas import Excluded, Included
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.numbers import MAX_WHOLE
from ragstore.model.names import NAME_PATTERN, validate_name
from ragstore.store.protocol import Store

MAX_URL_IDS: Final = 1000
"""Maximum number of ids in a URL, which must stay below 64 KiB. A body may have more."""

MAX_PAGE: Final = 1000
MAX_OFFSET: Final = 2**31 - 1
"""Chroma stores offsets in 32 bits. No collection on one machine is longer."""

StoreDependency: TypeAlias = SkipValidation[NamedDependency[Store]]
"""The store of the request."""

CollectionName: TypeAlias = NamedDependency[str]
"""The collection in the path, decoded."""

PathName: TypeAlias = Annotated[
    str,
    PathParameter(
        description="The collection's name.",
        schema_extra={"pattern": NAME_PATTERN, "min_length": 3, "max_length": 512},
    ),
]
Where: TypeAlias = Annotated[str | None, QueryParameter(description="Filter over metadata.")]
WhereDocument: TypeAlias = Annotated[str | None, QueryParameter(description="Filter over text.")]
Ids: TypeAlias = Annotated[
    list[str] | None,
    QueryParameter(
        description="Restrict to these ids. Repeat the parameter for each id.", min_items=1, max_items=MAX_URL_IDS
    ),
]
Limit: TypeAlias = Annotated[
    int,
    QueryParameter(
        ge=1, le=MAX_WHOLE, description="Maximum number of documents on the page. Values above 1000 mean 1000."
    ),
]
Offset: TypeAlias = Annotated[int, QueryParameter(ge=0, le=MAX_WHOLE, description="Number of matches to skip.")]
Include: TypeAlias = Annotated[
    list[Included] | None, QueryParameter(description="`embedding`: return the documents' embeddings.")
]
Exclude: TypeAlias = Annotated[list[Excluded] | None, QueryParameter(description="`text`: return empty texts.")]
After: TypeAlias = Annotated[
    str | None,
    QueryParameter(description="`next` of the previous page, to list the one that follows. `total` is that page's."),
]
Total: TypeAlias = Annotated[bool, QueryParameter(description="Whether to count all matches.")]


def decode_path_parameter(text: str, parameter: str) -> str:
    """Decode a path parameter. Routing leaves it percent-encoded, so that it can contain a slash.

    Args:
        text: the percent-encoded value.
        parameter: its name, for errors.

    Raises:
        InvalidRequest: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        message = "A path must be UTF-8, percent-encoded"
        raise InvalidRequest(message, [FieldError(f"$.{parameter}", message)]) from None


def collection(store: StoreDependency, collection_name: PathName) -> str:
    """Dependency: the collection in the path.

    It depends on the store only to run after it. Litestar resolves independent dependencies in a task group, which
    costs more than all of ours together.

    Raises:
        CollectionNotFound: no collection can have this name.
    """
    return validate_name(decode_path_parameter(collection_name, "collection_name"))


def requested_id(collection: CollectionName, request: Request[Any, Any, Any]) -> str:
    """Dependency: the document id at the end of the path, slashes included. It runs after the collection's."""
    document_id = split_document_path(request.scope["raw_path"].decode("latin-1"))[1]
    return decode_path_parameter(document_id, "document_id")


def distinct_ids(ids: list[str] | None) -> tuple[str, ...] | None:
    """Ids without duplicates, in order.

    Raises:
        InvalidRequest: an id is empty.
    """
    if ids is None:
        return None
    if "" in ids:
        raise InvalidRequest.at(f"$.ids[{ids.index('')}]", "An id must not be empty")
    return tuple(dict.fromkeys(ids))
