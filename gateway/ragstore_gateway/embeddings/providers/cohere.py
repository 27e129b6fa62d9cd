"""Cohere: docs.cohere.com/reference/embed (version 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.embeddings.providers.provider import (
    Dimensions,
    Embedding,
    KeyedProvider,
    Parameters,
    ProviderDeclaration,
    ProviderRequest,
    joined,
)
from ragstore_gateway.secrets.parameters import SecretReference, Url
from ragstore_gateway.secrets.secret_references import SecretReferences

INPUT_TYPES = {"query": "search_query", "document": "search_document"}


class CohereParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `cohere`."""

    model: str = "embed-english-v3.0"
    api_key: SecretReference
    base_url: Url = "https://api.cohere.com/v2"
    dimensions: Dimensions | None = None


class _Body(Struct, omit_defaults=True):
    model: str
    texts: list[str]
    input_type: str
    embedding_types: list[str]
    truncate: str
    output_dimension: int | UnsetType = UNSET


class _Embeddings(Struct):
    vectors: list[list[float]] = field(name="float")


class _Response(Struct):
    embeddings: _Embeddings


_decoder = msgspec.json.Decoder(_Response)


class CohereProvider(KeyedProvider):
    """`cohere`.

    Args:
        secrets: resolves the key.
    """

    max_texts = 96
    max_bytes = 1_000_000

    def __init__(self, parameters: CohereParameters, secrets: SecretReferences) -> None:
        super().__init__(parameters, secrets, joined(parameters.base_url, "/embed"))

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts. A text that is too long is an error, not truncated."""
        body = _Body(self.model, list(texts), INPUT_TYPES[kind], ["float"], "NONE", self.dimensions or UNSET)
        return self._request(body)

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return _decoder.decode(content).embeddings.vectors


COHERE: Final = ProviderDeclaration("cohere", CohereParameters, CohereProvider)
