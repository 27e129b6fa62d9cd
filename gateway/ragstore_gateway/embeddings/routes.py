"""`POST /embed` and `POST /v1/embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from msgspec import Struct

from ragstore.kit.auth.roles import READS
from ragstore.kit.byte_budget import give_back
from ragstore.kit.decoding import JSON, decoded
from ragstore.kit.disconnect import CallerWatch
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS, without_marks
from ragstore_gateway.api.names import MAX_NAME_CHARACTERS
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.embeddings.admission import checked, reserve_response, scanned
from ragstore_gateway.embeddings.embedder import Embedder, Kind
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.embeddings.response_bodies import embed_body, embeddings_body
from ragstore_gateway.embeddings.schemas import EmbeddingsRequest, EmbeddingsResponse, EmbedRequest, EmbedResponse
from ragstore_gateway.errors import (
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    ModelNotFound,
    ModelUnavailable,
    SecretUnavailable,
    TooManyEmbeddings,
)
from ragstore_gateway.keys import READER
from ragstore_gateway.settings import Settings

TOKENS_REJECTED: Final = (
    "Arrays of tokens are not supported, because they depend on a tokenizer: send texts "
    "(check_embedding_ctx_length=False in LangChain's OpenAIEmbeddings)"
)
MAX_SHOWN_NAME: Final = 100
SENT_COPIES: Final = 2
"""Copies of a body that is sent: the response's, and the connection's."""
EMBEDDING_ERRORS: Final = (
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    ModelUnavailable,
    SecretUnavailable,
    TooManyEmbeddings,
)


class EmbeddingsUpstream(Protocol):
    """Forwards requests for models that the gateway does not have itself."""

    def forward(self, request: Request[Any, Any, Any], body: bytes) -> Response[Any]:
        """Forward a request.

        Returns:
            The upstream's response.
        """


EmbeddingsDependency = SkipValidation[NamedDependency[Embeddings]]
UpstreamDependency = SkipValidation[NamedDependency[EmbeddingsUpstream | None]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]


class _Named(Struct):
    model: str = ""


_named: Final = msgspec.json.Decoder(_Named)
_embed: Final = msgspec.json.Decoder(EmbedRequest)
_embeddings: Final = msgspec.json.Decoder(EmbeddingsRequest)


def _operation(kind: type[Struct]) -> dict[str, Any]:
    """The part of an operation that the handler's signature does not express: its body is read by hand."""
    schema = msgspec.json.schema(kind)
    inline = without_marks(schema["$defs"][kind.__name__])
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": inline}}}}


@post(
    "/embed",
    status_code=200,
    opt={**READER, **READS, **LARGE_BODY, ERRORS: EMBEDDING_ERRORS, OPERATION: _operation(EmbedRequest)},
    operation_id="embed",
    summary="Embed texts",
    tags=["embeddings"],
)
async def embed(
    request: Request[Any, Any, Any], embeddings: EmbeddingsDependency, settings: SettingsDependency
) -> Response[EmbedResponse]:
    """Embed texts with the gateway's model."""
    content = await request.body()
    longest = settings.max_embedding_text_bytes
    await embeddings.slices.run(scanned(content, "$.inputs", longest))
    body = decoded(_embed, content, JSON)
    await embeddings.slices.run(checked(body.inputs, "$.inputs", settings.max_embedding_texts, longest))
    embedder = embeddings.default
    async with CallerWatch(request.receive):
        estimate = await reserve_response(len(body.inputs), embedder.dimension, "float")
        vectors = await embedder.embed(body.inputs, body.kind, normalize=body.normalize)
    return _json(await embeddings.slices.run(embed_body(vectors, normalize=body.normalize)), estimate)


@post(
    "/v1/embeddings",
    status_code=200,
    opt={
        **READER,
        **READS,
        **LARGE_BODY,
        ERRORS: (*EMBEDDING_ERRORS, ModelNotFound),
        OPERATION: _operation(EmbeddingsRequest),
    },
    operation_id="createEmbeddings",
    summary="Embed texts, as OpenAI's API does",
    tags=["embeddings"],
)
async def create_embeddings(
    request: Request[Any, Any, Any],
    embeddings: EmbeddingsDependency,
    embeddings_upstream: UpstreamDependency,
    settings: SettingsDependency,
) -> Response[EmbeddingsResponse]:
    """Embed texts with the gateway's model, or with one of the upstream."""
    content = await request.body()
    model = decoded(_named, content, JSON).model
    if len(model) > MAX_NAME_CHARACTERS:
        raise InvalidRequest.at("$.model", f"Must have at most {MAX_NAME_CHARACTERS} characters")
    embedder = embeddings.named(model)
    if embedder is None:
        if embeddings_upstream is not None:
            return embeddings_upstream.forward(request, content)
        raise ModelNotFound(_unknown_model(model, embeddings.default))
    longest = settings.max_embedding_text_bytes
    await embeddings.slices.run(scanned(content, "$.input", longest, f". {TOKENS_REJECTED}"))
    body = decoded(_embeddings, content, JSON)
    texts = _texts(body.input)
    await embeddings.slices.run(checked(texts, "$.input", settings.max_embedding_texts, longest))
    if body.dimensions is not None:
        embedder = embeddings.named(model, body.dimensions) or embedder
    kind: Kind = "query" if body.input_type == "query" else "document"
    async with CallerWatch(request.receive):
        estimate = await reserve_response(len(texts), embedder.dimension, body.encoding_format)
        vectors = await embedder.embed(texts, kind)
    name = model or embedder.name
    steps = embeddings_body(vectors, texts, model=name, encoding_format=body.encoding_format)
    return _json(await embeddings.slices.run(steps), estimate)


def _json(body: bytes, estimate: int) -> Response[Any]:
    """The response, whose copies replace what was reserved for making it."""
    give_back(estimate - SENT_COPIES * len(body))
    return Response(body, media_type="application/json")


def _unknown_model(model: str, default: Embedder) -> str:
    return (
        f"There is no embedding model {model[:MAX_SHOWN_NAME]!r}. This gateway has {default.name!r}; models of an "
        "upstream need RAGSTORE_GATEWAY_UPSTREAM_URL"
    )


def _texts(given: str | Sequence[str | int | Sequence[int]]) -> list[str]:
    """The texts of `input`.

    Raises:
        InvalidRequest: it has tokens.
    """
    if isinstance(given, str):
        return [given]
    texts = [each for each in given if isinstance(each, str)]
    if len(texts) != len(given):
        raise InvalidRequest.at("$.input", TOKENS_REJECTED)
    return texts
