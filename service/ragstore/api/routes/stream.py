"""The route that takes a stream of documents."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from litestar.types import ASGIApp

from ragstore.api.decode_documents import DocumentsDecoder
from ragstore.api.parameters import CollectionName, StoreDependency
from ragstore.api.roles import WRITER
from ragstore.api.route_options import store_errors
from ragstore.errors import CollectionNotFound, DocumentsExist
from ragstore.kit.auth.keys import KeyRing
from ragstore.kit.decoding import NDJSON, check_ndjson
from ragstore.kit.middleware.bodies import STREAMED_BODY
from ragstore.operations.stream.session import DocumentStream, Mode, StreamConfig


class StreamResponse(Response[None]):
    """A response that is sent while the request's body is still received."""

    def __init__(self, stream: DocumentStream) -> None:
        super().__init__(None)
        self._stream = stream

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> ASGIApp:  # type: ignore[override]  # as good to Litestar
        """The stream, which sends its own response."""
        return self._stream


@post(
    "/collections/{collection_name:str}/documents/stream",
    status_code=200,
    media_type=NDJSON,
    request_max_body_size=None,
    opt={**WRITER, **STREAMED_BODY, **store_errors(CollectionNotFound, DocumentsExist)},
    operation_id="streamDocuments",
    summary="Store a stream of documents",
    tags=["documents"],
)
async def stream_documents(
    request: Request[Any, Any, Any],
    store: StoreDependency,
    collection: CollectionName,
    decoder: SkipValidation[NamedDependency[DocumentsDecoder]],
    stream_config: SkipValidation[NamedDependency[StreamConfig]],
    key_ring: SkipValidation[NamedDependency[KeyRing[Any] | None]],
    mode: Annotated[
        Mode,
        QueryParameter(description="`add`: an existing id ends the stream. `upsert`: existing documents are replaced."),
    ] = "add",
) -> StreamResponse:
    """Store any number of documents, sent as one JSON document per line (`application/x-ndjson`).

    Documents are stored in batches, each of them completely or not at all. The response acknowledges a batch with one
    line as soon as it is stored, while the request is still being sent. The last line is `done`, or `failed` with the
    problem. All lines up to the last acknowledged `last_line` are stored. An error before the first batch is stored is
    returned as a problem document with its status.
    """
    check_ndjson(request.headers.get("content-type", ""))
    await store.get_collection(collection)
    key, keys = request.scope.get("user"), key_ring
    config = replace(
        stream_config,
        max_batch_documents=await store.max_batch_size(),
        is_authorized=lambda: keys is None or key is None or keys.is_current(key),
    )
    return StreamResponse(DocumentStream(store, collection, mode, config, decoder.decode_lines))
