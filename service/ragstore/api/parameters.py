"""Parameters that several routes take, and the dependencies that read them."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias
from urllib.parse import unquote_to_bytes

from litestar import Request
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter, SkipValidation

from ragstore.api.schemas import Included
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.model.names import NAME_PATTERN, checked_name
from ragstore.model.numbers import MAX_WHOLE
from ragstore.store.protocol import Store

MAX_URL_IDS: Final = 1000
"""Ids in a URL, which must stay below 64 KiB; a body takes more."""

MAX_PAGE: Final = 1000
MAX_OFFSET: Final = 2**31 - 1
"""Chroma counts offsets in 32 bits. No collection of one machine is longer."""

StoreDependency: TypeAlias = SkipValidation[NamedDependency[Store]]
"""The store, as every route gets it."""

CollectionName: TypeAlias = NamedDependency[str]
"""The collection that the path names, decoded."""

PathName: TypeAlias = Annotated[
    str,
    PathParameter(
        description="The collection's name.",
        schema_extra={"pattern": NAME_PATTERN, "min_length": 3, "max_length": 512},
    ),
]
Where: TypeAlias = Annotated[
    str | None, QueryParameter(description="Only documents whose metadata this filter selects.")
]
WhereDocument: TypeAlias = Annotated[
    str | None, QueryParameter(description="Only documents whose text this filter selects.")
]
Ids: TypeAlias = Annotated[
    list[str] | None,
    QueryParameter(description="Only these ids; give the parameter several times.", min_items=1, max_items=MAX_URL_IDS),
]
Limit: TypeAlias = Annotated[
    int, QueryParameter(ge=1, le=MAX_WHOLE, description="Most documents in the page; more than 1000 counts as 1000.")
]
Offset: TypeAlias = Annotated[int, QueryParameter(ge=0, le=MAX_WHOLE, description="How many to pass over.")]
Include: TypeAlias = Annotated[
    list[Included] | None, QueryParameter(description="`embedding`: documents carry their embeddings.")
]
Total: TypeAlias = Annotated[bool, QueryParameter(description="Whether to count all matches.")]


def from_path(text: str, parameter: str) -> str:
    """A path parameter's text. Routing leaves it percent-encoded, so that it can hold a slash.

    Args:
        text: the parameter as it stands in the path.
        parameter: its name, for errors.

    Returns:
        The decoded text.

    Raises:
        InvalidRequest: it is not UTF-8.
    """
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        message = "A path must be UTF-8, percent-encoded"
        raise InvalidRequest(message, [FieldError(f"$.{parameter}", message)]) from None


async def checked_query_string(request: Request[Any, Any, Any]) -> None:
    """Before a request: Litestar replaces what is not UTF-8 in a query string, and would then look for something else.

    It waits for nothing, but Litestar would send each request to a thread and back for it were it not a coroutine.

    Raises:
        InvalidRequest: it is not UTF-8.
    """
    try:
        unquote_to_bytes(request.scope["query_string"]).decode()
    except UnicodeDecodeError:
        raise InvalidRequest("A query string must be UTF-8, percent-encoded") from None


def collection(store: StoreDependency, collection_name: PathName) -> str:
    """Dependency: the collection that the path names.

    It takes the store only to come after it. Litestar resolves dependencies that need nothing of each other in a task
    group, which costs more than all of ours together.

    Raises:
        CollectionNotFound: no collection can have this name.
    """
    return checked_name(from_path(collection_name, "collection_name"))


def wanted_id(collection: CollectionName, request: Request[Any, Any, Any]) -> str:
    """Dependency: the document id that ends the path, whatever slashes it holds. It comes after the collection's."""
    _, _, rest = request.scope["raw_path"].decode("latin-1").partition("/documents/")
    return from_path(rest, "document_id")


def checked_ids(ids: list[str] | None) -> tuple[str, ...] | None:
    """Ids without repetitions, in their order.

    Raises:
        InvalidRequest: one is empty.
    """
    if ids is None:
        return None
    if "" in ids:
        raise InvalidRequest.at(f"$.ids[{ids.index('')}]", "An id must not be empty")
    return tuple(dict.fromkeys(ids))
