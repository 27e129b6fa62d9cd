"""Parameters, error lists and body decoding of this API's routes."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from litestar import Request
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter, SkipValidation

from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.errors import (
    CollectionMissing,
    ConfigurationNotFound,
    DatabaseUnavailable,
    DocumentNotFound,
    DriverMissing,
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    FileNotFound,
    ModelUnavailable,
    RetrievalFailed,
    SecretUnavailable,
    StoreUnavailable,
)
from ragstore_gateway.ingestion.document_metadata import filled_attributes
from ragstore_gateway.keys import key_name_of, visible_bases
from ragstore_gateway.openai_vector_stores.assembly import VectorStoresApi
from ragstore_gateway.openai_vector_stores.files import VisibleFiles
from ragstore_gateway.openai_vector_stores.schemas import FileAttributes, NewFileBatch, NewVectorStoreFile, State

T = TypeVar("T", bound=msgspec.Struct)
B = TypeVar("B", NewVectorStoreFile, FileAttributes, NewFileBatch)

Api = SkipValidation[NamedDependency[VectorStoresApi]]
StoreId: TypeAlias = Annotated[str, PathParameter(description="Id of the vector store: that of the knowledge base.")]
FileId: TypeAlias = Annotated[str, PathParameter(description="Id of the file.")]
BatchId: TypeAlias = Annotated[str, PathParameter(description="Id of the batch.")]
StateFilter: TypeAlias = Annotated[State | None, QueryParameter(name="filter", description="State of the files.")]

STORE_ERRORS: Final = (ConfigurationNotFound, DatabaseUnavailable)
FILE_ERRORS: Final = (*STORE_ERRORS, FileNotFound)
CONTENT_ERRORS: Final = (*FILE_ERRORS, DocumentNotFound)
SEARCH_ERRORS: Final = (
    *STORE_ERRORS,
    CollectionMissing,
    DriverMissing,
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    ModelUnavailable,
    RetrievalFailed,
    SecretUnavailable,
    StoreUnavailable,
)


async def read_body(request: Request[Any, Any, Any], kind: type[T]) -> T:
    """The body of a request.

    Args:
        kind: the struct of the body.

    Raises:
        InvalidRequest: it is not valid.
    """
    return decode_configuration(kind, await request.body())


async def visible_files(request: Request[Any, Any, Any], api: VectorStoresApi) -> VisibleFiles | None:
    """The uploaded files that exist for the key of a request; None for all."""
    visible = visible_bases(request.scope)
    return (
        None if visible.matches_all else VisibleFiles(key_name_of(request.scope), await api.bases.visible_ids(visible))
    )


def filled(body: B, request: Request[Any, Any, Any], api: VectorStoresApi, path: str = "$.attributes") -> B:
    """A body whose attributes have the values of the request's variables.

    Args:
        path: JSON path of the attributes.

    Raises:
        InvalidRequest: the request lacks a variable.
    """
    if not body.attributes:
        return body
    variables = variables_of(request.scope, api.session_from)
    return msgspec.structs.replace(body, attributes=filled_attributes(body.attributes, variables, path))
