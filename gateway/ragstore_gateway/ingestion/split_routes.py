"""The chunks of a document, as they are stored or as another chunking would make them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import InvalidRequest, Overloaded
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import OPERATION, body_of
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import ChunkOverlap, ChunkSize, KnowledgeBase
from ragstore_gateway.errors import (
    ConfigurationNotFound,
    DatabaseUnavailable,
    DocumentNotFound,
    ExtractionUnavailable,
    SplittingFailed,
    SplittingTimeout,
    TooManyChunks,
)
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.names import MAX_NAME
from ragstore_gateway.ingestion.route_parameters import BaseId
from ragstore_gateway.keys import READER
from ragstore_gateway.splitting.chunk import OVERLAP_TOO_LARGE, Chunking, ChunkSpan, ChunkStrategy, ChunkUnit

MAX_CHUNKS: Final = 10_000
"""Maximum number of chunks of a response, which has about 100 bytes for each, and the heading."""

_ERRORS: Final = (
    ConfigurationNotFound,
    DatabaseUnavailable,
    DocumentNotFound,
    ExtractionUnavailable,
    Overloaded,
    SplittingFailed,
    SplittingTimeout,
    TooManyChunks,
)


class TrialSplit(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A text to split: of a document, or given. Fields that are absent have the values of the knowledge base."""

    document_name: (
        Annotated[str, Meta(max_length=MAX_NAME, description="Name of a document, whose kept text is split.")]
        | UnsetType
    ) = UNSET
    text: (
        Annotated[str, Meta(min_length=1, description="A text, which has neither pages nor headings.")] | UnsetType
    ) = UNSET
    chunk_strategy: ChunkStrategy | UnsetType = UNSET
    chunk_size: ChunkSize | UnsetType = UNSET
    chunk_overlap: ChunkOverlap | UnsetType = UNSET
    chunk_unit: ChunkUnit | UnsetType = UNSET
    index: Annotated[int, Meta(ge=0, le=1_000_000, description="Number of the page of chunks, from 0.")] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_CHUNKS, description="Maximum number of chunks on the page.")] = 1000


class TrialChunk(Struct, frozen=True, omit_defaults=True):
    """A chunk. Its span counts Unicode code points."""

    index: Annotated[int, Meta(ge=0, description="Its index among the chunks of the text.")]
    start: Annotated[int, Meta(ge=0, description="Index of its first character in the text.")]
    end: Annotated[int, Meta(ge=0, description="Index after its last character.")]
    tokens: Annotated[int, Meta(ge=0, description="Number of its tokens, o200k_base.")]
    page: Annotated[int | UnsetType, Meta(description="Number of its page, for texts with pages.")] = UNSET
    heading: Annotated[str | UnsetType, Meta(description="The nearest heading above it.")] = UNSET
    layer: Annotated[str | UnsetType, Meta(description="Its layer, with the strategy `layers`.")] = UNSET


class TrialChunks(Struct, frozen=True):
    """A page of the chunks of a text, in order."""

    chunks: list[TrialChunk]
    total: Annotated[int, Meta(ge=0, description="Number of all chunks of the text.")]


def _name_or_text() -> dict[str, Any]:
    """The body in the OpenAPI document: it has either the name of a document or a text."""
    option = body_of(TrialSplit)
    schema = option[OPERATION]["requestBody"]["content"]["application/json"]["schema"]
    schema["oneOf"] = [{"required": ["documentName"]}, {"required": ["text"]}]
    return option


@post(
    "/ragstore/rags/{id:str}/split",
    status_code=200,
    opt={**READER, ERRORS: _ERRORS, **_name_or_text()},
    operation_id="splitDocument",
    summary="Split a document",
    tags=["knowledge bases"],
)
async def split_document(
    request: Request[Any, Any, Any],
    id: BaseId,
    ingestion: SkipValidation[NamedDependency[Ingestion]],
    knowledge_bases: SkipValidation[NamedDependency[Configurations[KnowledgeBase]]],
) -> TrialChunks:
    """The chunks of a document's kept text, or of a given text. Nothing is embedded or stored.

    Without fields for another chunking, these are the chunks that searches find, unless the knowledge base is being
    re-indexed: its `chunks` in the list of documents is another number then.
    """
    body = decode_configuration(TrialSplit, await request.body())
    base = await knowledge_bases.read(id)
    chunking = _chunking(base.body, body)
    if isinstance(body.document_name, str) == isinstance(body.text, str):
        raise InvalidRequest.at("$", "Must have either documentName or text")
    if isinstance(body.document_name, str):
        extracted = await ingestion.documents.kept_text(id, body.document_name)
    else:
        extracted = msgspec.msgpack.encode(Extracted(str(body.text), "text/plain"))
    async with CallerWatch(request.receive):
        spans = await ingestion.trial_splits.split(extracted, chunking)
    first = body.index * body.limit
    page = spans[first : first + body.limit]
    return TrialChunks([_chunk_of(index, span) for index, span in enumerate(page, first)], len(spans))


def _chunking(base: KnowledgeBase, body: TrialSplit) -> Chunking:
    """The chunking of a base, with the fields of a request in place of its own.

    Raises:
        InvalidRequest: the overlap is not smaller than a chunk.
    """
    own = base.chunking
    given = {
        "strategy": body.chunk_strategy,
        "size": body.chunk_size,
        "overlap": body.chunk_overlap,
        "unit": body.chunk_unit,
    }
    chunking = msgspec.structs.replace(own, **{name: value for name, value in given.items() if value is not UNSET})
    if chunking.overlap >= chunking.size:
        raise InvalidRequest.at("$.chunkOverlap", OVERLAP_TOO_LARGE)
    return chunking


def _chunk_of(index: int, span: ChunkSpan) -> TrialChunk:
    layer = span.metadata.get("layer")
    return TrialChunk(
        index,
        span.start,
        span.end,
        span.token_count,
        UNSET if span.page is None else span.page,
        span.heading or UNSET,
        str(layer) if layer else UNSET,
    )
