"""Amazon Bedrock's InvokeModel, for the Titan and the Cohere models.

docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html and model-parameters-embed.html
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ragstore.kit.extras import MissingExtra
from ragstore_gateway.embeddings.embedder import Kind
from ragstore_gateway.embeddings.providers.cohere import INPUT_TYPES
from ragstore_gateway.embeddings.providers.provider import (
    Dimensions,
    Embedding,
    Parameters,
    ProviderDeclaration,
    ProviderRequest,
    joined,
    segment,
)
from ragstore_gateway.errors import EmbeddingUnavailable, ModelUnavailable
from ragstore_gateway.secrets.parameters import Token, Url
from ragstore_gateway.secrets.secret_references import SecretReferences


class BedrockParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `bedrock`. Its credentials come from AWS's chain: variables, profile, role."""

    model: str = "amazon.titan-embed-text-v2:0"
    region: Token = "us-east-1"
    dimensions: Dimensions | None = None
    base_url: Url | None = None


class _TitanBody(Struct, omit_defaults=True, rename="camel"):
    input_text: str
    dimensions: int | UnsetType = UNSET


class _TitanResponse(Struct):
    embedding: list[float]


class _CohereBody(Struct):
    texts: list[str]
    input_type: str
    truncate: str


class _CohereResponse(Struct):
    embeddings: list[list[float]]


_titan_decoder = msgspec.json.Decoder(_TitanResponse)
_cohere_decoder = msgspec.json.Decoder(_CohereResponse)


class BedrockProvider:
    """`bedrock`.

    Args:
        secrets: not used: the credentials are AWS's.
    """

    def __init__(self, parameters: BedrockParameters, secrets: SecretReferences) -> None:
        self.model = parameters.model
        self.dimensions = parameters.dimensions
        # An inference profile puts a region before the model: us.cohere.embed-v4:0.
        self._is_cohere = "cohere.embed" in parameters.model
        self.max_texts = 96 if self._is_cohere else 1
        self.max_bytes = 190_000
        self._region = parameters.region
        base = parameters.base_url or f"https://bedrock-runtime.{parameters.region}.amazonaws.com"
        self._url = joined(base, f"/model/{segment(parameters.model)}/invoke")
        self._session: Any = None
        self._lock = threading.Lock()

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts, which is one text for Titan."""
        body: _CohereBody | _TitanBody
        if self._is_cohere:
            body = _CohereBody(list(texts), INPUT_TYPES[kind], "NONE")
        else:
            body = _TitanBody(texts[0], self.dimensions or UNSET)
        return ProviderRequest(self._url, msgspec.json.encode(body), {"Accept": "application/json"})

    async def authorization(self, request: ProviderRequest) -> Mapping[str, str]:
        """A signature, version 4."""
        return await asyncio.to_thread(self._signature, request)

    def _signature(self, request: ProviderRequest) -> Mapping[str, str]:
        try:
            BEDROCK.require_extra()
        except MissingExtra as error:
            raise ModelUnavailable(str(error)) from None
        # botocore has no types, and is loaded only where this provider is used.
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ConnectionError, HTTPClientError, MetadataRetrievalError
        from botocore.session import Session

        with self._lock:
            try:
                self._session = self._session or Session()
                credentials = self._session.get_credentials()
                frozen = credentials and credentials.get_frozen_credentials()
            except BotoCoreError as error:
                is_away = isinstance(error, (ConnectionError, HTTPClientError, MetadataRetrievalError))
                kind = EmbeddingUnavailable if is_away else ModelUnavailable
                raise kind(f"AWS credentials cannot be used: {type(error).__name__}") from None
        if not frozen or not frozen.access_key:
            raise ModelUnavailable("There are no AWS credentials: neither variables, nor a profile, nor a role")
        signed = AWSRequest("POST", request.url, data=request.body, headers={"Content-Type": "application/json"})
        SigV4Auth(frozen, "bedrock", self._region).add_auth(signed)
        return {name: str(value) for name, value in signed.headers.items() if name.lower() != "content-type"}

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        if self._is_cohere:
            return _cohere_decoder.decode(content).embeddings
        return [_titan_decoder.decode(content).embedding]


BEDROCK: Final = ProviderDeclaration("bedrock", BedrockParameters, BedrockProvider, "bedrock", ("botocore",))
