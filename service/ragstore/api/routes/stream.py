"""The route that takes a stream of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter, SkipValidation
from litestar.types import ASGIApp

from ragstore.api.decode_documents import decode_batch
from ragstore.api.parameters import CollectionName, StoreDependency, checked_query_string
from ragstore.kit.auth.middleware import WRITER
from ragstore.kit.decoding import JSON, NDJSON, check_ndjson
from ragstore.model.documents import Batch
from ragstore.operations.stream.session import DocumentStream, Mode, Streaming


class Streamed(Response[None]):
    """An answer that is given while the request still comes.

    Args:
        stream: what gives it.
    """

    def __init__(self, stream: DocumentStream) -> None:
        super().__init__(None)
        self._stream = stream

    def to_asgi_response(self, *args: Any, **kwargs: Any) -> ASGIApp:  # type: ignore[override]  # as good to Litestar
        """The stream, which answers by itself."""
        return self._stream


@post(
    "/collections/{collection_name:str}/documents/stream",
    status_code=200,
    media_type=NDJSON,
    request_max_body_size=None,
    before_request=checked_query_string,
    opt=WRITER,
    operation_id="streamDocuments",
    summary="Write a stream of documents",
    tags=["documents"],
)
async def stream_documents(
    request: Request[Any, Any, Any],
    store: StoreDependency,
    collection: CollectionName,
    streaming: SkipValidation[NamedDependency[Streaming]],
    mode: Annotated[
        Mode, QueryParameter(description="`add`: an id that is taken ends the stream; `upsert`: it is replaced.")
    ] = "add",
) -> Streamed:
    """Write documents that come one a line (`application/x-ndjson`), however many they are.

    They are stored in batches, each of them whole or not at all. Each batch is acknowledged by a line of the answer as
    soon as it is stored, while the rest still comes. The last line says that the stream is `done`, or what `failed`.
    All lines up to the `last_line` that was told are stored. What fails before the first batch is stored is answered
    by a problem document with its status.
    """
    check_ndjson(request.headers.get("content-type", ""))
    await store.get_collection(collection)
    return Streamed(DocumentStream(store, collection, mode, streaming, _decode_lines))


def _decode_lines(lines: Sequence[bytes], made_id: Callable[[int], str]) -> Batch:
    return decode_batch(lines, JSON, made_id, subject="line")
