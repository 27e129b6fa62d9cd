"""Google's Gemini API and Vertex AI.

ai.google.dev/api/embeddings, cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api
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
from ragstore_gateway.embeddings.prefixes import prefixes_of
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
from ragstore_gateway.secrets.parameters import SecretReference, Token, Url
from ragstore_gateway.secrets.secret_references import SecretReferences

TASK_TYPES: Final = {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"}
SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


class GeminiParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `gemini`. `taskType` is the task type of documents; queries have `RETRIEVAL_QUERY`."""

    model: str = "gemini-embedding-2"
    api_key: SecretReference
    task_type: Token = "RETRIEVAL_DOCUMENT"
    output_dimensionality: Dimensions = 3072
    base_url: Url = "https://generativelanguage.googleapis.com/v1beta"


class VertexParameters(Parameters, frozen=True, kw_only=True):
    """Parameters of `vertex`. Its credentials are Google's application default credentials."""

    model: str = "text-embedding-005"
    project: Token
    location: Token = "us-central1"
    output_dimensionality: Dimensions | None = None
    base_url: Url | None = None


class _Part(Struct):
    text: str


class _Content(Struct):
    parts: list[_Part]


class _EmbedRequest(Struct, omit_defaults=True, rename="camel"):
    model: str
    content: _Content
    task_type: str | UnsetType = UNSET
    output_dimensionality: int | UnsetType = UNSET


class _Requests(Struct):
    requests: list[_EmbedRequest]


class _Values(Struct):
    values: list[float]


class _GeminiResponse(Struct):
    embeddings: list[_Values]


class _Prediction(Struct):
    embeddings: _Values


class _VertexResponse(Struct):
    predictions: list[_Prediction]


class _Instance(Struct):
    content: str
    task_type: str


class _VertexParameters(Struct, omit_defaults=True, rename="camel"):
    auto_truncate: bool
    output_dimensionality: int | UnsetType = UNSET


class _VertexBody(Struct):
    instances: list[_Instance]
    parameters: _VertexParameters


_gemini_decoder = msgspec.json.Decoder(_GeminiResponse)
_vertex_decoder = msgspec.json.Decoder(_VertexResponse)


class GeminiProvider:
    """`gemini`. Its second generation has no task types; queries and documents have prefixes there.

    Args:
        secrets: resolves the key.
    """

    max_texts = 100
    max_bytes = 250_000

    def __init__(self, parameters: GeminiParameters, secrets: SecretReferences) -> None:
        self.model = parameters.model.removeprefix("models/")
        self.dimensions: int | None = parameters.output_dimensionality
        self._url = joined(parameters.base_url, f"/models/{segment(self.model)}:batchEmbedContents")
        self._key = parameters.api_key
        self._secrets = secrets
        self._prefixes = prefixes_of(self.model)
        self._task_types = {"query": TASK_TYPES["query"], "document": parameters.task_type}

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts."""
        task = UNSET if any(self._prefixes) else self._task_types[kind]
        requests = [
            _EmbedRequest(f"models/{self.model}", _Content([_Part(text)]), task, self.dimensions or UNSET)
            for text in self._prefixes.applied(list(texts), kind)
        ]
        return ProviderRequest(self._url, msgspec.json.encode(_Requests(requests)))

    async def authorization(self, request: ProviderRequest) -> Mapping[str, str]:
        """The key in a header, never in the URL, which proxies log."""
        return {"x-goog-api-key": await self._secrets.header(self._key)}

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return [each.values for each in _gemini_decoder.decode(content).embeddings]


GEMINI: Final = ProviderDeclaration("gemini", GeminiParameters, GeminiProvider)


class VertexProvider:
    """`vertex`.

    Args:
        secrets: not used: the credentials are Google's.
    """

    def __init__(self, parameters: VertexParameters, secrets: SecretReferences) -> None:
        self.model = parameters.model
        self.dimensions = parameters.output_dimensionality
        # gemini-embedding-001 takes one text a request; the others take 250, and 20,000 tokens.
        self.max_texts = 1 if parameters.model.startswith("gemini-") else 250
        self.max_bytes = 60_000
        location = parameters.location
        host = "aiplatform.googleapis.com" if location == "global" else f"{location}-aiplatform.googleapis.com"
        path = f"/projects/{parameters.project}/locations/{location}/publishers/google/models/{segment(self.model)}"
        self._url = joined(parameters.base_url or f"https://{host}/v1", f"{path}:predict")
        self._credentials: Any = None
        self._lock = threading.Lock()

    def request(self, texts: Sequence[str], kind: Kind) -> ProviderRequest:
        """The request for a batch of texts. A text that is too long is an error, not truncated."""
        instances = [_Instance(text, TASK_TYPES[kind]) for text in texts]
        parameters = _VertexParameters(False, self.dimensions or UNSET)
        return ProviderRequest(self._url, msgspec.json.encode(_VertexBody(instances, parameters)))

    async def authorization(self, request: ProviderRequest) -> Mapping[str, str]:
        """A token of Google's, which is renewed when it expires."""
        return {"Authorization": "Bearer " + await asyncio.to_thread(self._token)}

    def _token(self) -> str:
        try:
            VERTEX.require_extra()
        except MissingExtra as error:
            raise ModelUnavailable(str(error)) from None
        # google-auth has no types, and is loaded only where this provider is used.
        from google.auth import default, exceptions
        from google.auth.transport.requests import Request

        with self._lock:
            try:
                if self._credentials is None:
                    self._credentials, _ = default(scopes=[SCOPE])
                if not self._credentials.valid:
                    self._credentials.refresh(Request())
                return str(self._credentials.token)
            except exceptions.GoogleAuthError as error:
                # Google's server of tokens is as far away as that of the model.
                is_away = error.retryable or isinstance(error, exceptions.TransportError)
                kind = EmbeddingUnavailable if is_away else ModelUnavailable
                raise kind(f"Google's application default credentials cannot be used: {type(error).__name__}") from None

    def decode(self, content: bytes) -> Sequence[Embedding]:
        """The vectors of a response."""
        return [each.embeddings.values for each in _vertex_decoder.decode(content).predictions]


VERTEX: Final = ProviderDeclaration("vertex", VertexParameters, VertexProvider, "vertex", ("google.auth", "requests"))
